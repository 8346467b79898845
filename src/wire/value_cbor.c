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

/* A list or map that is being read. */
struct level {
    moyai_value *v;
    size_t cap;    /* parts or pairs there is room for */
    uint64_t left; /* parts or pairs to come, if the length is definite */
    bool indefinite;
    char *key; /* of the part that is due; owned */
};

struct decoder {
    const uint8_t *p;
    size_t n, at;
    const struct codec_refs *refs;
    const char *why;
    size_t promised; /* items to come in all open lists and maps of definite length */
    uint32_t parts;
    size_t depth;
    struct level open[VALUE_DEPTH]; /* no recursion: a fiber's stack is small, and a peer chooses the depth */
};

static int fail(struct decoder *d, int code, const char *why) {
    d->why = why;
    return code;
}

static int out_of_memory(struct decoder *d) {
    return fail(d, MOYAI_ENOMEM, NULL);
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
    switch (x.kind) {
    case NUMBER_BOOL:
        *ret = moyai_value_new(moyai_arg_bool_(x.u != 0));
        break;
    case NUMBER_UINT:
        *ret = moyai_value_new(moyai_arg_ullong_(x.u));
        break;
    case NUMBER_NEG:
        if (x.u > INT64_MAX) return fail(d, MOYAI_ERANGE, "an integer below -2^63");
        *ret = moyai_value_new(moyai_arg_llong_(-1 - (long long)x.u));
        break;
    case NUMBER_FLOAT:
        *ret = moyai_value_new(moyai_arg_double_(x.d));
        break;
    case NUMBER_NONE:
        return fail(d, MOYAI_EINTERNAL, NULL);
    }
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

static int open_level(struct decoder *d, const struct item *it) {
    bool map = it->kind == ITEM_MAP;
    if (d->depth == VALUE_DEPTH) return fail(d, MOYAI_EDEPTH, NULL);
    if (!it->indefinite) {
        size_t claim = (size_t)it->count * (map ? 2 : 1); /* item_get: within the bytes left */
        if (claim > d->n - d->at - d->promised) return fail(d, MOYAI_EDATA, "a list or map that is cut off");
        if (it->count > VALUE_PARTS - d->parts) return fail(d, MOYAI_ETOOBIG, "more parts than a value may have");
        d->promised += claim;
    }
    size_t cap = it->indefinite ? 0 : (size_t)it->count;
    moyai_value *v =
        map ? value_alloc(MOYAI_K_MAP, value_map_bytes(cap)) : value_alloc(MOYAI_K_LIST, cap * sizeof(moyai_value *));
    if (!v) return out_of_memory(d);
    v->n = 0;
    v->depth = 1;
    d->open[d->depth++] = (struct level){v, cap, cap, it->indefinite, NULL};
    return 0;
}

/* Either *part is a value, or it is NULL and a list or map is open. */
static int decode_item(struct decoder *d, moyai_value **part) {
    struct item it;
    *part = NULL;
    int rc = item_get(d->p + d->at, d->n - d->at, &it, &d->why);
    if (rc < 0) return rc;
    d->at += it.used;
    if (d->promised > d->n - d->at) return fail(d, MOYAI_EDATA, "a list or map that is cut off");
    switch (it.kind) {
    case ITEM_NULL:
        *part = value_alloc(MOYAI_K_NULL, 0);
        return *part ? 0 : out_of_memory(d);
    case ITEM_NUMBER:
        return decode_number(d, it.num, part);
    case ITEM_TEXT:
        return decode_data(d, &it, MOYAI_K_TEXT, part);
    case ITEM_BYTES:
        return decode_data(d, &it, MOYAI_K_BYTES, part);
    case ITEM_ARRAY:
        return decode_data(d, &it, MOYAI_K_ARRAY, part);
    case ITEM_REF:
        return decode_ref(d, &it, part);
    case ITEM_LIST:
    case ITEM_MAP:
        return open_level(d, &it);
    case ITEM_BREAK:
        return fail(d, MOYAI_EDATA, "a break where a value is due");
    }
    return fail(d, MOYAI_EINTERNAL, NULL);
}

/* A key: text without NUL. */
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

/* Prepare the innermost level for its next part, with its key; *more false: there is none. */
static int next_part(struct decoder *d, bool *more) {
    struct level *top = &d->open[d->depth - 1];
    bool map = top->v->kind == MOYAI_K_MAP;
    *more = top->indefinite ? d->at >= d->n || d->p[d->at] != HEAD_BREAK : top->left > 0;
    if (!*more) {
        if (top->indefinite) d->at++;
        return 0;
    }
    if (d->parts == VALUE_PARTS) return fail(d, MOYAI_ETOOBIG, "more parts than a value may have");
    d->parts++;
    if (!top->indefinite) {
        top->left--;
        d->promised -= map ? 2 : 1;
    }
    if (top->v->n == top->cap) { /* of indefinite length: it grows */
        size_t cap = top->cap < 8 ? 8 : 2 * top->cap;
        moyai_value *v = realloc(top->v, sizeof *v + (map ? value_map_bytes(cap) : cap * sizeof(moyai_value *)));
        if (!v) return out_of_memory(d);
        top->v = v;
        top->cap = cap;
    }
    return map ? decode_key(d, &top->key) : 0;
}

static void add_part(struct level *top, moyai_value *part) {
    if (part->depth >= top->v->depth) top->v->depth = (uint8_t)(part->depth + 1);
    if (top->v->kind == MOYAI_K_MAP) {
        value_pairs(top->v)[top->v->n++] = (struct value_pair){top->key, part};
        top->key = NULL;
    } else {
        value_items(top->v)[top->v->n++] = part;
    }
}

static int decode(struct decoder *d, moyai_value **ret) {
    for (;;) {
        moyai_value *part;
        int rc = decode_item(d, &part);
        if (rc < 0) return rc;
        for (;;) { /* a part may complete its list, and that another */
            bool more;
            if (part && d->depth == 0) {
                *ret = part;
                return 0;
            }
            if (part) add_part(&d->open[d->depth - 1], part);
            if ((rc = next_part(d, &more)) < 0) return rc;
            if (more) break;
            part = d->open[d->depth - 1].v;
            if (part->kind == MOYAI_K_MAP && !value_sort(part)) return fail(d, MOYAI_EDATA, "a map with a key twice");
            d->depth--;
        }
    }
}

int value_decode(const uint8_t *p, size_t n, const struct codec_refs *refs, moyai_value **ret, size_t *used,
                 struct moyai_error *reterr) {
    struct decoder d;
    d.p = p;
    d.n = n;
    d.refs = refs;
    d.why = NULL;
    d.at = d.promised = d.depth = 0;
    d.parts = 0;
    moyai_value *v;
    int rc = decode(&d, &v);
    if (rc < 0) {
        while (d.depth > 0) {
            struct level *top = &d.open[--d.depth];
            free(top->key);
            moyai_value_free(top->v);
        }
        return err_set(reterr, rc, "%s", d.why ? d.why : moyai_strerror(rc));
    }
    if (used) *used = d.at;
    *ret = v;
    return 0;
}
