/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured values to CBOR and back.
 *
 * A count is a claim: ten bytes can promise a list of a million parts, in each of whose parts another such list is
 * promised. The decoder therefore adds up what is promised and not yet delivered in all open lists and maps, and as
 * each part takes a byte at least, refuses when that exceeds the bytes that are left. Memory taken in advance is thus
 * bounded by the size of the message.
 */
#include "wire/value_body.h"

#include "base/err.h"
#include "wire/item.h"
#include "wire/put.h"

#include <stdlib.h>

/* ---- encoding ------------------------------------------------------------------------------- */

static int encode(struct codec_out *o, const moyai_value *v, uint32_t *parts);

static int encode_part(struct codec_out *o, const moyai_value *v, uint32_t *parts) {
    return ++*parts > VALUE_PARTS ? MOYAI_ETOOBIG : encode(o, v, parts);
}

static int encode_list(struct codec_out *o, const moyai_value *v, uint32_t *parts) {
    int rc = put_head(o, HEAD_LIST, v->n);
    for (size_t i = 0; i < v->n && rc == 0; i++) rc = encode_part(o, value_items(v)[i], parts);
    return rc;
}

static int encode_map(struct codec_out *o, const moyai_value *v, uint32_t *parts) {
    int rc = put_head(o, HEAD_MAP, v->n);
    for (size_t i = 0; i < v->n && rc == 0; i++) {
        const struct value_pair *pair = &value_pairs(v)[i];
        rc = put_string(o, HEAD_TEXT, pair->key, strlen(pair->key), SIZE_MAX);
        if (rc == 0) rc = encode_part(o, pair->item, parts);
    }
    return rc;
}

static int encode(struct codec_out *o, const moyai_value *v, uint32_t *parts) {
    switch ((enum moyai_kind)v->kind) {
    case MOYAI_K_NULL:
        return put_simple(o, HEAD_NULL);
    case MOYAI_K_BOOL:
        return put_simple(o, v->b ? HEAD_TRUE : HEAD_FALSE);
    case MOYAI_K_INT:
        return put_number(o, number_of_int(v->i));
    case MOYAI_K_UINT:
        return put_head(o, HEAD_UINT, v->u);
    case MOYAI_K_DOUBLE:
        return put_number(o, (struct number){NUMBER_FLOAT, {.d = v->d}});
    case MOYAI_K_TEXT:
        return put_string(o, HEAD_TEXT, v->data, v->n, SIZE_MAX);
    case MOYAI_K_BYTES:
        return put_string(o, HEAD_BYTES, v->data, v->n, SIZE_MAX);
    case MOYAI_K_ARRAY:
        return put_array(o, (enum moyai_elem)v->elem, v->data, v->n, SIZE_MAX);
    case MOYAI_K_REF: {
        uint8_t ids[32];
        ((const struct codec_ref *)(const void *)v->ref)->ops->ids(v->ref, ids);
        return put_ref(o, ids);
    }
    case MOYAI_K_LIST:
        return encode_list(o, v, parts);
    case MOYAI_K_MAP:
        return encode_map(o, v, parts);
    }
    return MOYAI_EINTERNAL;
}

int value_encode(struct codec_out *o, const moyai_value *v, struct moyai_error *reterr) {
    if (!v) return err_set(reterr, MOYAI_EARGS, "a moyai_value that is NULL");
    struct put_mark start = put_mark(o);
    uint32_t parts = 0;
    int rc = encode(o, v, &parts);
    if (rc == 0) return 0;
    put_back(o, start);
    return err_set(reterr, rc, "%s", moyai_strerror(rc));
}

/* ---- decoding ------------------------------------------------------------------------------- */

struct decoder {
    const uint8_t *p;
    size_t n, at;
    const struct codec_refs *refs;
    const char *why;
    size_t promised; /* parts to come in all open lists and maps of definite length */
    uint32_t parts;
};

static int decode(struct decoder *d, unsigned depth, moyai_value **ret);

static int fail(struct decoder *d, int code, const char *why) {
    d->why = why;
    return code;
}

static int out_of_memory(struct decoder *d) {
    return fail(d, MOYAI_ENOMEM, NULL);
}

/* Is there another part in a list or map with `left` to come? */
static int another(struct decoder *d, bool indefinite, uint64_t left, bool *more) {
    *more = indefinite ? d->at >= d->n || d->p[d->at] != HEAD_BREAK : left > 0;
    if (!*more) return 0;
    if (++d->parts > VALUE_PARTS) return fail(d, MOYAI_ETOOBIG, "more parts than a value may have");
    return 0;
}

/* Room in a list or map under construction: its claimed count is there from the start, else it grows. */
static moyai_value *room(moyai_value *v, size_t *cap, size_t each) {
    if (v->n < *cap) return v;
    size_t more = *cap < 8 ? 8 : 2 * *cap;
    v = realloc(v, sizeof *v + more * each);
    if (v) *cap = more;
    return v;
}

static int decode_list(struct decoder *d, const struct item *it, unsigned depth, moyai_value **ret) {
    uint64_t left = it->indefinite ? 0 : it->count;
    bool indefinite = it->indefinite, more;
    size_t cap = (size_t)left;
    moyai_value *v = value_alloc(MOYAI_K_LIST, cap * sizeof(moyai_value *));
    if (!v) return out_of_memory(d);
    int rc;
    v->n = 0;
    v->depth = 1;
    while ((rc = another(d, indefinite, left, &more)) == 0 && more) {
        moyai_value *part, *bigger = room(v, &cap, sizeof part);
        if (!bigger) {
            rc = out_of_memory(d);
            break;
        }
        v = bigger;
        if (!indefinite) {
            left--;
            d->promised--;
        }
        if ((rc = decode(d, depth + 1, &part)) < 0) break;
        value_items(v)[v->n++] = part;
        if (part->depth >= v->depth) v->depth = (uint8_t)(part->depth + 1);
    }
    if (rc < 0) {
        moyai_value_free(v);
        return rc;
    }
    if (indefinite) d->at++; /* the break */
    *ret = v;
    return 0;
}

/* A key: text without NUL, malloc'ed. */
static int decode_key(struct decoder *d, char **ret) {
    struct item it;
    int rc = item_get(d->p + d->at, d->n - d->at, &it, &d->why);
    if (rc < 0) return rc;
    if (it.kind == ITEM_BREAK) return fail(d, MOYAI_EDATA, "a break where a value is due");
    if (it.kind != ITEM_TEXT) return fail(d, MOYAI_ETYPE, "a map with a key that is not text");
    char *key = malloc(it.n + 1);
    if (!key) return out_of_memory(d);
    item_copy(&it, key);
    key[it.n] = 0;
    if (strlen(key) != it.n) {
        free(key);
        return fail(d, MOYAI_EDATA, "a map with a NUL in a key");
    }
    d->at += it.used;
    *ret = key;
    return 0;
}

static int decode_pairs(struct decoder *d, const struct item *it, unsigned depth, moyai_value **map, size_t *cap) {
    uint64_t left = it->indefinite ? 0 : it->count;
    bool indefinite = it->indefinite, more;
    int rc;
    while ((rc = another(d, indefinite, left, &more)) == 0 && more) {
        moyai_value *part, *bigger = room(*map, cap, value_map_bytes(1));
        if (!bigger) return out_of_memory(d);
        *map = bigger;
        char *key;
        if (!indefinite) {
            left--;
            d->promised -= 2;
        }
        if ((rc = decode_key(d, &key)) < 0) return rc;
        if ((rc = decode(d, depth + 1, &part)) < 0) {
            free(key);
            return rc;
        }
        value_pairs(*map)[(*map)->n++] = (struct value_pair){key, part};
        if (part->depth >= (*map)->depth) (*map)->depth = (uint8_t)(part->depth + 1);
    }
    if (rc == 0 && indefinite) d->at++; /* the break */
    return rc;
}

static int decode_map(struct decoder *d, const struct item *it, unsigned depth, moyai_value **ret) {
    size_t cap = it->indefinite ? 0 : (size_t)it->count;
    moyai_value *v = value_alloc(MOYAI_K_MAP, value_map_bytes(cap));
    if (!v) return out_of_memory(d);
    v->n = 0;
    v->depth = 1;
    int rc = decode_pairs(d, it, depth, &v, &cap);
    if (rc == 0 && !value_sort(v)) rc = fail(d, MOYAI_EDATA, "a map with a key twice");
    if (rc < 0) {
        moyai_value_free(v);
        return rc;
    }
    *ret = v;
    return 0;
}

static int decode_parts(struct decoder *d, const struct item *it, unsigned depth, moyai_value **ret) {
    if (depth == VALUE_DEPTH) return fail(d, MOYAI_EDEPTH, NULL);
    if (!it->indefinite) {
        size_t claim = (size_t)it->count * (it->kind == ITEM_MAP ? 2 : 1); /* item_get: within the bytes left */
        if (claim > d->n - d->at - d->promised) return fail(d, MOYAI_EDATA, "a list or map that is cut off");
        if (it->count > VALUE_PARTS) return fail(d, MOYAI_ETOOBIG, "more parts than a value may have");
        d->promised += claim;
    }
    return it->kind == ITEM_LIST ? decode_list(d, it, depth, ret) : decode_map(d, it, depth, ret);
}

static int decode_data(struct decoder *d, const struct item *it, enum moyai_kind kind, moyai_value **ret) {
    moyai_value *v = value_alloc(kind, it->n + 1);
    if (!v) return out_of_memory(d);
    v->n = it->n;
    if (kind == MOYAI_K_ARRAY) v->elem = it->elem;
    item_copy(it, v->data);
    v->data[it->n] = 0;
    *ret = v;
    return 0;
}

static int decode_number(struct decoder *d, struct number x, moyai_value **ret) {
    struct moyai_arg a = moyai_null();
    switch (x.kind) {
    case NUMBER_BOOL:
        a = moyai_arg_bool_(x.u != 0);
        break;
    case NUMBER_UINT:
        a.tag = MOYAI_T_UINT;
        a.v.u = x.u;
        break;
    case NUMBER_NEG:
        if (x.u > INT64_MAX) return fail(d, MOYAI_ERANGE, "an integer below -2^63");
        a.tag = MOYAI_T_INT;
        a.v.i = -1 - (int64_t)x.u;
        break;
    case NUMBER_FLOAT:
        a = moyai_arg_double_(x.d);
        break;
    case NUMBER_NONE:
        return fail(d, MOYAI_EINTERNAL, NULL);
    }
    *ret = moyai_value_new(a);
    return *ret ? 0 : out_of_memory(d);
}

static int decode_ref(struct decoder *d, const struct item *it, moyai_value **ret) {
    if (!d->refs) return fail(d, MOYAI_ETYPE, "a reference, which cannot be here");
    moyai_value *v = value_alloc(MOYAI_K_REF, 0);
    if (!v) return out_of_memory(d);
    moyai_ref *ref = d->refs->make(d->refs->ctx, it->ref);
    if (!ref) {
        free(v);
        return out_of_memory(d);
    }
    v->ref = ref;
    *ret = v;
    return 0;
}

static int decode(struct decoder *d, unsigned depth, moyai_value **ret) {
    struct item it;
    int rc = item_get(d->p + d->at, d->n - d->at, &it, &d->why);
    if (rc < 0) return rc;
    d->at += it.used;
    if (d->promised > d->n - d->at) return fail(d, MOYAI_EDATA, "a list or map that is cut off");
    switch (it.kind) {
    case ITEM_NULL:
        *ret = value_alloc(MOYAI_K_NULL, 0);
        return *ret ? 0 : out_of_memory(d);
    case ITEM_NUMBER:
        return decode_number(d, it.num, ret);
    case ITEM_TEXT:
        return decode_data(d, &it, MOYAI_K_TEXT, ret);
    case ITEM_BYTES:
        return decode_data(d, &it, MOYAI_K_BYTES, ret);
    case ITEM_ARRAY:
        return decode_data(d, &it, MOYAI_K_ARRAY, ret);
    case ITEM_REF:
        return decode_ref(d, &it, ret);
    case ITEM_LIST:
    case ITEM_MAP:
        return decode_parts(d, &it, depth, ret);
    case ITEM_BREAK:
        return fail(d, MOYAI_EDATA, "a break where a value is due");
    }
    return fail(d, MOYAI_EINTERNAL, NULL);
}

int value_decode(const uint8_t *p, size_t n, const struct codec_refs *refs, moyai_value **ret, size_t *used,
                 struct moyai_error *reterr) {
    struct decoder d = {.p = p, .n = n, .refs = refs};
    moyai_value *v;
    int rc = decode(&d, 0, &v);
    if (rc < 0) return err_set(reterr, rc, "%s", d.why ? d.why : moyai_strerror(rc));
    if (used) *used = d.at;
    *ret = v;
    return 0;
}
