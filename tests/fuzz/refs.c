/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/refs.h"

#include <stdlib.h>
#include <string.h>

struct moyai_ref {
    struct codec_ref head;
    struct fuzz_refs *of;
    int owners;
    uint8_t ids[32];
};

static void ids(const moyai_ref *ref, uint8_t out[32]) {
    memcpy(out, ref->ids, 32);
}

static moyai_ref *share(moyai_ref *ref) {
    ref->owners++;
    return ref;
}

void fuzz_refs_drop(moyai_ref *ref) {
    if (--ref->owners > 0) return;
    ref->of->alive--;
    free(ref);
}

static const struct codec_ref_ops ops = {ids, share, fuzz_refs_drop};

static moyai_ref *make(void *ctx, const uint8_t in[32]) {
    moyai_ref *ref = malloc(sizeof *ref);
    if (!ref) return NULL;
    *ref = (moyai_ref){{&ops}, ctx, 1, {0}};
    memcpy(ref->ids, in, 32);
    ref->of->alive++;
    return ref;
}

void fuzz_refs_init(struct fuzz_refs *r) {
    *r = (struct fuzz_refs){{ids, make, r}, 0};
}
