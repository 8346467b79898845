/* SPDX-License-Identifier: Apache-2.0 */
/*
 * value_decode, value_encode, codec_skip: decode, encode, decode is a fixed point, and codec_skip agrees about the
 * length of everything that value_decode takes.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/refs.h"
#include "wire/value.h"

#include <string.h>

static const int codes[] = {MOYAI_EDATA, MOYAI_ETYPE, MOYAI_ERANGE, MOYAI_EDEPTH, MOYAI_ETOOBIG, MOYAI_ENOMEM};

static void walk(const moyai_value *v) {
    const char *text;
    const double *d;
    const void *bytes;
    size_t n;
    int64_t i;
    float f;
    (void)!moyai_value_get(v, MOYAI_DEST(&i));
    (void)!moyai_value_get(v, MOYAI_DEST(&f));
    (void)!moyai_value_get(v, moyai_into_doubles(&d, &n));
    (void)!moyai_value_get(v, moyai_into_bytes(&bytes, &n));
    const struct moyai_into_arg to_text = {MOYAI_T_TEXT, 0, &text, &n};
    if (moyai_value_get(v, to_text) == 0) FUZZ_CHECK(text[n] == 0);
    for (size_t k = 0; k < moyai_value_count(v); k++) {
        const char *key = moyai_value_key(v, k);
        FUZZ_CHECK((key != NULL) == (moyai_value_kind(v) == MOYAI_K_MAP));
        if (key) FUZZ_CHECK(moyai_value_find(v, key) == moyai_value_at(v, k));
        walk(moyai_value_at(v, k));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_refs refs;
    struct moyai_error e;
    moyai_value *v, *again;
    size_t used, skipped;
    fuzz_refs_init(&refs);
    int rc = value_decode(data, size, &refs.refs, &v, &used, &e);
    int skip_rc = codec_skip(data, size, &skipped);
    FUZZ_CHECK(skip_rc == 0 ? skipped > 0 && skipped <= size : skip_rc == MOYAI_EDATA || skip_rc == MOYAI_EDEPTH);
    if (rc < 0) {
        bool known = false;
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) known = known || rc == codes[i];
        FUZZ_CHECK(known && e.code == rc && e.text[0]);
        FUZZ_CHECK(refs.alive == 0);
        return 0;
    }
    FUZZ_CHECK(skip_rc == 0 && skipped == used);
    walk(v);
    struct codec_out a, b;
    codec_out_init(&a, NULL, 0, SIZE_MAX, SIZE_MAX);
    codec_out_init(&b, NULL, 0, SIZE_MAX, SIZE_MAX);
    FUZZ_CHECK(value_encode(&a, v, NULL) == 0);
    FUZZ_CHECK(value_decode(a.p, a.n, &refs.refs, &again, &used, NULL) == 0 && used == a.n);
    FUZZ_CHECK(moyai_value_equal(v, again));
    FUZZ_CHECK(value_encode(&b, again, NULL) == 0);
    FUZZ_CHECK(a.n == b.n && memcmp(a.p, b.p, a.n) == 0);
    codec_out_done(&a);
    codec_out_done(&b);
    moyai_value_free(v);
    moyai_value_free(again);
    FUZZ_CHECK(refs.alive == 0);
    return 0;
}
