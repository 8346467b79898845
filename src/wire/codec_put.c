/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments to CBOR. For a short value room is made first, for the longest head there is, and the limit is looked at
 * after, for what it really takes; what is copied or borrowed in bulk is compared with the limit before.
 */
#include "base/err.h"
#include "base/utf8.h"
#include "wire/item.h"
#include "wire/put.h"
#include "wire/typed.h"
#include "wire/value.h"

#include <stdlib.h>

#define FIRST_CAP    256u
#define FIRST_PIECES 4u

void codec_out_init(struct codec_out *o, void *buf, size_t cap, size_t borrow, size_t limit) {
    *o = (struct codec_out){.p = buf, .cap = buf ? cap : 0, .fixed = buf != NULL, .borrow = borrow, .limit = limit};
}

void codec_out_done(struct codec_out *o) {
    if (!o->fixed) free(o->p);
    free(o->pieces);
    *o = (struct codec_out){.limit = o->limit, .borrow = o->borrow};
}

int put_grow(struct codec_out *o, size_t more) {
    if (more > SIZE_MAX / 4 || o->n > SIZE_MAX / 4) return MOYAI_ENOMEM;
    size_t cap = o->cap < FIRST_CAP / 2 ? FIRST_CAP : 2 * o->cap;
    if (cap < o->n + more) cap = o->n + more;
    uint8_t *p = o->fixed ? malloc(cap) : realloc(o->p, cap);
    if (!p) return MOYAI_ENOMEM;
    if (o->fixed && o->n > 0) memcpy(p, o->p, o->n);
    o->p = p;
    o->cap = cap;
    o->fixed = false;
    return 0;
}

int codec_reserve(struct codec_out *o, size_t more) {
    if (more > o->limit - o->n - o->spliced) return MOYAI_ETOOBIG;
    return put_room(o, more);
}

int put_head(struct codec_out *o, enum head_major major, uint64_t arg) {
    if (put_room(o, HEAD_MAX) < 0) return MOYAI_ENOMEM;
    return put_take(o, head_put(o->p + o->n, major, arg));
}

int put_simple(struct codec_out *o, uint8_t info) {
    if (put_room(o, 1) < 0) return MOYAI_ENOMEM;
    o->p[o->n] = (uint8_t)(HEAD_SIMPLE << 5 | info);
    return put_take(o, 1);
}

int put_number(struct codec_out *o, struct number x) {
    switch (x.kind) {
    case NUMBER_BOOL:
        return put_simple(o, x.u ? HEAD_TRUE : HEAD_FALSE);
    case NUMBER_UINT:
        return put_head(o, HEAD_UINT, x.u);
    case NUMBER_NEG:
        return put_head(o, HEAD_NEG, x.u);
    case NUMBER_FLOAT:
        if (put_room(o, HEAD_MAX) < 0) return MOYAI_ENOMEM;
        return put_take(o, head_put_double(o->p + o->n, x.d));
    case NUMBER_NONE:
        break;
    }
    return MOYAI_EINTERNAL;
}

int put_float(struct codec_out *o, float x) {
    if (put_room(o, HEAD_MAX) < 0) return MOYAI_ENOMEM;
    return put_take(o, head_put_float(o->p + o->n, x));
}

/* Room for heads and, if it is copied, content; the limit has room for the content at least. */
static int content_room(struct codec_out *o, size_t heads, size_t n, bool copy) {
    if (n > o->limit - o->n - o->spliced) return MOYAI_ETOOBIG;
    if (copy && n > SIZE_MAX / 4) return MOYAI_ENOMEM;
    return put_room(o, copy ? heads + n : heads);
}

/* `heads` bytes have been written behind the end; their content follows: copied, or set aside. */
static int put_content(struct codec_out *o, size_t heads, const void *p, size_t n, bool copy) {
    if (heads > o->limit - o->n - o->spliced - n) return MOYAI_ETOOBIG;
    if (copy) {
        if (n > 0) memcpy(o->p + o->n + heads, p, n);
        o->n += heads + n;
        return 0;
    }
    size_t k = o->n_pieces; /* there is room up to the next power of two */
    if (k == 0 || (k >= FIRST_PIECES && (k & (k - 1)) == 0)) {
        size_t cap = k < FIRST_PIECES ? FIRST_PIECES : 2 * k;
        struct codec_piece *v = realloc(o->pieces, cap * sizeof *v);
        if (!v) return MOYAI_ENOMEM;
        o->pieces = v;
    }
    o->n += heads;
    o->pieces[o->n_pieces++] = (struct codec_piece){o->n, p, n};
    o->spliced += n;
    return 0;
}

int put_string(struct codec_out *o, enum head_major major, const void *p, size_t n, size_t borrow) {
    bool copy = n < borrow || n == 0;
    int rc = content_room(o, HEAD_MAX, n, copy);
    return rc < 0 ? rc : put_content(o, head_put(o->p + o->n, major, n), p, n, copy);
}

int put_array(struct codec_out *o, enum moyai_elem elem, const void *p, size_t nbytes, size_t borrow) {
    bool copy = nbytes < borrow || nbytes == 0;
    int rc = content_room(o, TYPED_HEAD_MAX, nbytes, copy);
    if (rc < 0) return rc;
    return put_content(o, typed_put_head(o->p + o->n, o->n + o->spliced, elem, nbytes), p, nbytes, copy);
}

int put_ref(struct codec_out *o, const uint8_t ids[32]) {
    if (put_room(o, ITEM_REF_SIZE) < 0) return MOYAI_ENOMEM;
    item_put_ref(o->p + o->n, ids);
    return put_take(o, ITEM_REF_SIZE);
}

static int put_text_arg(struct codec_out *o, const struct moyai_arg *a, const char **why) {
    if (!a->v.p && a->n != 0) {
        *why = "text that is NULL";
        return MOYAI_EARGS;
    }
    size_t n = a->n == SIZE_MAX ? strlen(a->v.p) : a->n;
    if (!utf8_valid(a->v.p, n)) {
        *why = "text that is not UTF-8";
        return MOYAI_EARGS;
    }
    return put_string(o, HEAD_TEXT, a->v.p, n, SIZE_MAX);
}

static int put_array_arg(struct codec_out *o, const struct moyai_arg *a, const char **why) {
    if (a->elem > MOYAI_ELEM_F64) {
        *why = "an array of unknown element type";
        return MOYAI_EARGS;
    }
    if (!a->v.p && a->n != 0) {
        *why = "an array that is NULL";
        return MOYAI_EARGS;
    }
    size_t size = typed_size((enum moyai_elem)a->elem);
    if (a->n > SIZE_MAX / size) return MOYAI_ETOOBIG;
    return put_array(o, (enum moyai_elem)a->elem, a->v.p, a->n * size, o->borrow);
}

static int put_arg(struct codec_out *o, const struct moyai_arg *a, const struct codec_refs *refs, const char **why) {
    switch ((enum moyai_tag)a->tag) {
    case MOYAI_T_NULL:
        return put_simple(o, HEAD_NULL);
    case MOYAI_T_BOOL:
        return put_simple(o, a->v.b ? HEAD_TRUE : HEAD_FALSE);
    case MOYAI_T_INT:
        return put_number(o, number_of_int(a->v.i));
    case MOYAI_T_UINT:
        return put_head(o, HEAD_UINT, a->v.u);
    case MOYAI_T_FLOAT:
        return put_float(o, a->v.f);
    case MOYAI_T_DOUBLE:
        return put_number(o, (struct number){NUMBER_FLOAT, {.d = a->v.d}});
    case MOYAI_T_TEXT:
        return put_text_arg(o, a, why);
    case MOYAI_T_BYTES:
        if (a->v.p || a->n == 0) return put_string(o, HEAD_BYTES, a->v.p, a->n, o->borrow);
        *why = "bytes that are NULL";
        return MOYAI_EARGS;
    case MOYAI_T_ARRAY:
        return put_array_arg(o, a, why);
    case MOYAI_T_REF: {
        uint8_t ids[32];
        const moyai_ref *ref = a->v.p;
        if (!ref) {
            *why = "a reference that is NULL";
            return MOYAI_EARGS;
        }
        if (refs) {
            refs->get(ref, ids);
        } else {
            ((const struct codec_ref *)a->v.p)->ops->ids(ref, ids);
        }
        return put_ref(o, ids);
    }
    case MOYAI_T_VALUE:
        if (a->v.p) return value_encode(o, a->v.p, NULL);
        *why = "a moyai_value that is NULL";
        return MOYAI_EARGS;
    case MOYAI_T_INT8:
    case MOYAI_T_INT16:
    case MOYAI_T_INT32:
    case MOYAI_T_UINT8:
    case MOYAI_T_UINT16:
    case MOYAI_T_UINT32:
    case MOYAI_T_SKIP:
        break;
    }
    *why = "not an argument: build them with MOYAI_ARGS";
    return MOYAI_EARGS;
}

int codec_put_args(struct codec_out *o, const struct moyai_args *args, const struct codec_refs *refs,
                   struct moyai_error *reterr) {
    if (!args) return 0;
    struct put_mark start = put_mark(o);
    for (size_t i = 0; i < args->n; i++) {
        const char *why = NULL;
        int rc = put_arg(o, &args->v[i], refs, &why);
        if (rc == 0) continue;
        put_back(o, start);
        if (!why && rc == MOYAI_ETOOBIG) {
            return err_set(reterr, rc, "value %zu: with it the message exceeds %zu bytes", i + 1, o->limit);
        }
        return err_set(reterr, rc, "value %zu: %s", i + 1, why ? why : moyai_strerror(rc));
    }
    return 0;
}
