/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CBOR to destinations. First everything is decoded into slots, then everything is stored: a value that does not fit
 * leaves no trace in the caller's variables.
 *
 * Text must end with a NUL, and CBOR has none. The text that ends the body gets it in place, in the byte behind the
 * body. Behind any other text stands the head of the next value; overwriting it would make a second reading (another
 * attempt with other types, another get of the future) impossible, so such text is copied to the arena, once.
 * The arena is searched by where the content lies, so reading again and again does not make it grow.
 */
#include "base/err.h"
#include "wire/item.h"
#include "wire/value.h"

#include <stdlib.h>

struct codec_arena {
    struct codec_arena *next;
    const uint8_t *from; /* where the content lies, in the body or lent */
    size_t n;
    _Alignas(16) uint8_t data[];
};

void codec_arena_free(struct codec_arena *a) {
    while (a) {
        struct codec_arena *next = a->next;
        free(a);
        a = next;
    }
}

struct slot {
    union number_slot num;
    const void *p;
    size_t n;
};
#define SLOTS 16u /* as many as MOYAI_INTO takes; more are malloc'ed */

struct reader {
    uint8_t *p;
    size_t n, at;
    struct codec_lent lent; /* what is left of it */
    const struct codec_refs *refs;
    struct codec_arena **arena;
    const char *why;
    const char *found;          /* for a wrong type: what there is */
    struct number found_number; /* and which, if it is one */
};

static int not_this(struct reader *r, int rc, const struct item *it) {
    if (rc != MOYAI_ETYPE && rc != MOYAI_ERANGE) return rc;
    r->found = item_name(it);
    r->found_number = it->kind == ITEM_NUMBER ? it->num : (struct number){0};
    return rc;
}

/* A copy of the content, with a NUL behind it, that lives as long as the body. */
static const uint8_t *keep(struct reader *r, const struct item *it) {
    for (struct codec_arena *a = *r->arena; a; a = a->next) {
        if (a->from == it->data && a->n == it->n) return a->data;
    }
    struct codec_arena *a = malloc(sizeof *a + it->n + 1);
    if (!a) return NULL;
    a->from = it->data;
    a->n = it->n;
    item_copy(it, a->data);
    a->data[it->n] = 0;
    a->next = *r->arena;
    *r->arena = a;
    return a->data;
}

static int get_text(struct reader *r, const struct item *it, struct slot *s) {
    s->n = it->n;
    if (!it->chunked && it->data + it->n == r->p + r->n) {
        r->p[r->n] = 0;
        s->p = it->data;
        return 0;
    }
    s->p = keep(r, it);
    return s->p ? 0 : MOYAI_ENOMEM;
}

/* Bytes or elements where they lie if that is possible. Elements of the other byte order are turned where they lie,
 * and the tag with them. */
static int get_array(struct reader *r, const struct item *it, size_t size, struct slot *s) {
    s->n = it->n / size;
    if (it->chunked || (uintptr_t)it->data % size) {
        s->p = keep(r, it);
        return s->p ? 0 : MOYAI_ENOMEM;
    }
    if (it->kind == ITEM_ARRAY && it->swap) {
        uint8_t *data = r->p + (it->data - r->p), *tag = r->p + (it->tag - r->p);
        typed_swap(data, data, it->n, size);
        *tag ^= TYPED_ORDER_BIT;
    }
    s->p = it->data;
    return 0;
}

/* A byte string and an array of uint8 are the same to a reader. */
static bool is_bytes(const struct item *it) {
    return it->kind == ITEM_BYTES || (it->kind == ITEM_ARRAY && it->elem == MOYAI_ELEM_U8);
}

static int get_item(struct reader *r, const struct moyai_into_arg *to, const struct item *it, struct slot *s) {
    int rc;
    switch ((enum moyai_tag)to->tag) {
    case MOYAI_T_NULL:
        if (it->kind != ITEM_NULL) return MOYAI_ETYPE;
        return 0;
    case MOYAI_T_TEXT:
        if (it->kind != ITEM_TEXT) return MOYAI_ETYPE;
        if ((rc = get_text(r, it, s)) < 0) return rc;
        return to->n || !memchr(s->p, 0, s->n) ? 0 : MOYAI_ETYPE; /* item_name says it */
    case MOYAI_T_BYTES:
        return is_bytes(it) ? get_array(r, it, 1, s) : MOYAI_ETYPE;
    case MOYAI_T_ARRAY:
        if (to->elem == MOYAI_ELEM_U8 ? !is_bytes(it) : it->kind != ITEM_ARRAY || it->elem != to->elem) break;
        return get_array(r, it, typed_size((enum moyai_elem)to->elem), s);
    case MOYAI_T_REF:
        if (it->kind != ITEM_REF || !r->refs) break;
        s->p = r->refs->make(r->refs->ctx, it->ref);
        return s->p ? 0 : MOYAI_ENOMEM;
    case MOYAI_T_BOOL:
    case MOYAI_T_INT:
    case MOYAI_T_UINT:
    case MOYAI_T_FLOAT:
    case MOYAI_T_DOUBLE:
    case MOYAI_T_INT8:
    case MOYAI_T_INT16:
    case MOYAI_T_INT32:
    case MOYAI_T_UINT8:
    case MOYAI_T_UINT16:
    case MOYAI_T_UINT32:
        return it->kind == ITEM_NUMBER ? number_convert(it->num, to->tag, &s->num) : MOYAI_ETYPE;
    case MOYAI_T_VALUE:
    case MOYAI_T_SKIP:
        break; /* not through here */
    }
    return MOYAI_ETYPE;
}

/* An integer for a number: what most calls carry, without the detour over struct item. false: not one, or it does not
 * fit, and the long way says why. */
static bool get_integer(struct reader *r, const struct moyai_into_arg *to, struct slot *s) {
    struct head h;
    if (r->p[r->at] >> 5 > HEAD_NEG || head_get(r->p + r->at, r->n - r->at, &h) < 0) return false;
    struct number x = {h.major == HEAD_UINT ? NUMBER_UINT : NUMBER_NEG, {h.arg}};
    if (number_convert(x, to->tag, &s->num) < 0) return false;
    r->at += h.len;
    return true;
}

/* The same for bytes in one piece. */
static bool get_bytes(struct reader *r, struct slot *s) {
    struct head h;
    const uint8_t *p = r->p + r->at;
    if (p[0] >> 5 != HEAD_BYTES || head_get(p, r->n - r->at, &h) < 0 || h.info == HEAD_INDEFINITE) return false;
    if (h.arg > r->n - r->at - h.len) return false;
    s->p = p + h.len;
    s->n = (size_t)h.arg;
    r->at += h.len + s->n;
    return true;
}

/* Is the value at *at one whose content is lent? Then its heads end where the piece belongs, and *at is there. */
static bool next_lent(const struct reader *r, struct codec_lent *lent, size_t *at, struct item *it) {
    if (lent->n == 0) return false;
    const struct codec_piece *piece = lent->pieces;
    size_t end = piece->at - lent->from;
    if (end <= *at || item_get_lent(r->p + *at, end - *at, piece->p, piece->n, it) < 0) return false;
    lent->pieces++;
    lent->n--;
    *at = end;
    return true;
}

/* A structured value has its own copy of everything: heads and content are put together for its decoder. */
static int get_lent_value(struct reader *r, size_t at, const struct item *it, struct slot *s,
                          struct moyai_error *reterr) {
    size_t used;
    uint8_t *whole = malloc(it->used + it->n);
    if (!whole) return MOYAI_ENOMEM;
    memcpy(whole, r->p + at, it->used);
    memcpy(whole + it->used, it->data, it->n);
    moyai_value *v = NULL;
    int rc = value_decode(whole, it->used + it->n, r->refs, &v, &used, reterr);
    free(whole);
    s->p = v;
    return rc;
}

static int get_lent(struct reader *r, const struct moyai_into_arg *to, size_t at, const struct item *it, struct slot *s,
                    struct moyai_error *reterr) {
    if (to->tag == MOYAI_T_SKIP) return 0;
    return not_this(r, to->tag == MOYAI_T_VALUE ? get_lent_value(r, at, it, s, reterr) : get_item(r, to, it, s), it);
}

static int get_one(struct reader *r, const struct moyai_into_arg *to, struct slot *s, struct moyai_error *reterr) {
    size_t used, at = r->at;
    int rc;
    struct item it;
    if (next_lent(r, &r->lent, &r->at, &it)) return get_lent(r, to, at, &it, s, reterr);
    if (number_is_tag(to->tag) && get_integer(r, to, s)) return 0;
    if (to->tag == MOYAI_T_BYTES && get_bytes(r, s)) return 0;
    if (to->tag == MOYAI_T_SKIP) {
        rc = codec_skip(r->p + r->at, r->n - r->at, &used);
        if (rc == 0) r->at += used;
        return rc;
    }
    if (to->tag == MOYAI_T_VALUE) {
        moyai_value *v;
        rc = value_decode(r->p + r->at, r->n - r->at, r->refs, &v, &used, reterr);
        if (rc < 0) {
            r->why = reterr ? reterr->text : NULL;
            return rc;
        }
        s->p = v;
        r->at += used;
        return 0;
    }
    rc = item_get(r->p + r->at, r->n - r->at, &it, &r->why);
    if (rc < 0) return rc;
    rc = get_item(r, to, &it, s);
    if (rc == 0) r->at += it.used;
    return not_this(r, rc, &it);
}

static const char *wanted(const struct moyai_into_arg *to) {
    switch ((enum moyai_tag)to->tag) {
    case MOYAI_T_NULL:
        return "null";
    case MOYAI_T_BOOL:
        return "bool";
    case MOYAI_T_INT:
        return "int64";
    case MOYAI_T_UINT:
        return "uint64";
    case MOYAI_T_FLOAT:
        return "float";
    case MOYAI_T_DOUBLE:
        return "double";
    case MOYAI_T_TEXT:
        return "text";
    case MOYAI_T_BYTES:
        return "bytes";
    case MOYAI_T_ARRAY:
        return to->elem <= MOYAI_ELEM_F64 ? typed_name((enum moyai_elem)to->elem) : "?";
    case MOYAI_T_REF:
        return "reference";
    case MOYAI_T_VALUE:
        return "value";
    case MOYAI_T_INT8:
        return "int8";
    case MOYAI_T_INT16:
        return "int16";
    case MOYAI_T_INT32:
        return "int32";
    case MOYAI_T_UINT8:
        return "uint8";
    case MOYAI_T_UINT16:
        return "uint16";
    case MOYAI_T_UINT32:
        return "uint32";
    case MOYAI_T_SKIP:
        return "anything";
    }
    return "?";
}

/* Why it failed: malformed data first, then a wrong count, then the value at which it failed. */
static int explain(struct reader *r, const struct codec_lent *all, const struct moyai_into *into, size_t i, int rc,
                   struct moyai_error *reterr) {
    if (rc == MOYAI_ENOMEM) return err_set(reterr, rc, "%s", moyai_strerror(rc));
    size_t count = 0, used;
    struct codec_lent lent = *all;
    struct item it;
    for (size_t at = 0; at < r->n; at += used, count++) {
        used = 0;
        if (next_lent(r, &lent, &at, &it)) continue;
        int bad = codec_skip(r->p + at, r->n - at, &used);
        if (bad < 0) {
            return err_set(reterr, bad, "value %zu: %s", count + 1,
                           r->why && count == i ? r->why : moyai_strerror(bad));
        }
    }
    if (count != into->n) {
        return err_set(reterr, MOYAI_EARGS, "%zu value%s, where %zu %s expected", count, count == 1 ? "" : "s", into->n,
                       into->n == 1 ? "is" : "are");
    }
    char number[NUMBER_TEXT];
    number_format(r->found_number, number);
    if (r->found && rc == MOYAI_ERANGE) {
        return err_set(reterr, rc, "value %zu: %s does not fit %s", i + 1, number, wanted(&into->v[i]));
    }
    if (r->found) {
        return err_set(reterr, rc, "value %zu: %s%s%s, where %s%s is expected", i + 1, r->found, number[0] ? " " : "",
                       number, into->v[i].tag == MOYAI_T_ARRAY ? "array of " : "", wanted(&into->v[i]));
    }
    return err_set(reterr, rc, "value %zu: %s", i + 1, r->why ? r->why : moyai_strerror(rc));
}

/* By memcpy: the destination is a pointer to another pointer type. */
static void store(const struct moyai_into_arg *to, const struct slot *s) {
    switch ((enum moyai_tag)to->tag) {
    case MOYAI_T_TEXT:
    case MOYAI_T_BYTES:
    case MOYAI_T_ARRAY:
        if (to->n) *to->n = s->n;
        memcpy(to->p, &s->p, sizeof s->p);
        return;
    case MOYAI_T_REF:
    case MOYAI_T_VALUE:
        memcpy(to->p, &s->p, sizeof s->p);
        return;
    case MOYAI_T_BOOL:
    case MOYAI_T_INT:
    case MOYAI_T_UINT:
    case MOYAI_T_FLOAT:
    case MOYAI_T_DOUBLE:
    case MOYAI_T_INT8:
    case MOYAI_T_INT16:
    case MOYAI_T_INT32:
    case MOYAI_T_UINT8:
    case MOYAI_T_UINT16:
    case MOYAI_T_UINT32:
        number_store(&s->num, to->tag, to->p);
        return;
    case MOYAI_T_NULL:
    case MOYAI_T_SKIP:
        return;
    }
}

static void release(const struct moyai_into_arg *to, const struct slot *s, void (*drop)(moyai_ref *ref)) {
    union {
        const void *p;
        moyai_ref *ref;
        moyai_value *value;
    } x;
    if (to->tag != MOYAI_T_REF && to->tag != MOYAI_T_VALUE) return; /* borrowed, or a number */
    x.p = s->p;
    if (to->tag == MOYAI_T_VALUE) {
        moyai_value_free(x.value);
    } else if (drop) {
        drop(x.ref);
    }
}

static int get_all(struct reader *r, const struct codec_lent *all, const struct moyai_into *into, struct slot *slots,
                   void (*drop)(moyai_ref *ref), struct moyai_error *reterr) {
    struct moyai_error inner;
    int rc = 0;
    size_t i = 0;
    inner.text[0] = 0;
    for (; i < into->n && rc == 0; i++) {
        rc = r->at < r->n ? get_one(r, &into->v[i], &slots[i], reterr ? &inner : NULL) : MOYAI_EARGS;
        if (rc < 0) break;
    }
    if (rc == 0 && r->at < r->n) rc = MOYAI_EARGS;
    size_t nowhere = 0; /* the number of a destination that is NULL */
    for (size_t j = 0; rc == 0 && j < into->n; j++)
        if (!into->v[j].p && into->v[j].tag != MOYAI_T_NULL && into->v[j].tag != MOYAI_T_SKIP) {
            nowhere = j + 1;
            rc = MOYAI_EINVAL;
        }
    if (rc < 0) {
        for (size_t j = 0; j < i; j++) release(&into->v[j], &slots[j], drop);
        if (nowhere) return err_set(reterr, rc, "destination %zu is NULL: moyai_skip() passes over a value", nowhere);
        return explain(r, all, into, i, rc, reterr);
    }
    for (i = 0; i < into->n; i++) store(&into->v[i], &slots[i]);
    return 0;
}

int codec_get_into(uint8_t *p, size_t n, const struct moyai_into *into, const struct codec_refs *refs,
                   void (*drop)(moyai_ref *ref), struct codec_arena **arena, struct moyai_error *reterr) {
    static const struct codec_lent none = {NULL, 0, 0};
    return codec_get_lent(p, n, &none, into, refs, drop, arena, reterr);
}

int codec_get_lent(uint8_t *p, size_t n, const struct codec_lent *lent, const struct moyai_into *into,
                   const struct codec_refs *refs, void (*drop)(moyai_ref *ref), struct codec_arena **arena,
                   struct moyai_error *reterr) {
    struct reader r = {.p = p, .n = n, .lent = *lent, .refs = refs, .arena = arena};
    if (!into) {
        for (size_t used; r.at < n; r.at += used) {
            int rc = codec_skip(p + r.at, n - r.at, &used);
            if (rc < 0) return err_set(reterr, rc, "at byte %zu: %s", r.at, moyai_strerror(rc));
        }
        return 0;
    }
    if (into->n <= SLOTS) {
        struct slot slots[SLOTS];
        return get_all(&r, lent, into, slots, drop, reterr);
    }
    struct slot *slots = calloc(into->n, sizeof *slots);
    if (!slots) return err_set(reterr, MOYAI_ENOMEM, "%s", moyai_strerror(MOYAI_ENOMEM));
    int rc = get_all(&r, lent, into, slots, drop, reterr);
    free(slots);
    return rc;
}
