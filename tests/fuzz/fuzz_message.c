/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_get_head, failure_get: the first byte chooses which. What is accepted is written and read again and is the
 * same.
 */
#include "object/message.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void request(const uint8_t *p, size_t n) {
    struct request_head h, again;
    uint8_t out[REQUEST_MOST];
    int rc = request_get_head(p, n, &h);
    if (rc < 0) {
        FUZZ_CHECK(rc == MOYAI_EPROTO);
        return;
    }
    FUZZ_CHECK(h.size <= n && h.size <= sizeof out && h.size % 8 == 0 && h.size == request_head_size(&h));
    FUZZ_CHECK(h.method >= (const char *)p && h.method + h.method_len <= (const char *)p + n);
    request_put_head(out, &h);
    FUZZ_CHECK(request_get_head(out, h.size, &again) == 0);
    FUZZ_CHECK(again.call == h.call && again.depth == h.depth && again.remaining == h.remaining);
    FUZZ_CHECK(again.n_ancestors == h.n_ancestors && memcmp(again.ancestors, h.ancestors, h.n_ancestors * 16u) == 0);
    FUZZ_CHECK(again.method_len == h.method_len && memcmp(again.method, h.method, h.method_len) == 0);
}

static void failure(const uint8_t *p, size_t n) {
    static const uint8_t from[16] = {1}, self[16] = {2};
    struct moyai_error first;
    struct failure *f, *g;
    if (failure_get(p, n, from, &first, &f) < 0) return;
    if (!f) abort(); /* out of memory */
    FUZZ_CHECK(f->n > 0 && first.code == f->level[0].code && first.executed == f->level[0].executed);
    size_t size = failure_put(NULL, f->level, f->n, self);
    uint8_t *out = malloc(size);
    if (!out) abort();
    FUZZ_CHECK(failure_put(out, f->level, f->n, self) == size);
    FUZZ_CHECK(failure_get(out, size, from, &first, &g) == 0 && g && g->n == f->n);
    for (unsigned i = 0; i < f->n; i++) {
        FUZZ_CHECK(g->level[i].code == f->level[i].code && strcmp(g->level[i].text, f->level[i].text) == 0);
    }
    free(out);
    failure_unref(f);
    failure_unref(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (data[0] == 0) request(data + 1, size - 1);
    if (data[0] == 1) failure(data + 1, size - 1);
    return 0;
}
