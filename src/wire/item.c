/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/item.h"

#include "base/utf8.h"

static const char ref_name[] = "moyai-ref";
#define REF_NAME (sizeof ref_name - 1)

static int bad(const char **why, int code, const char *text) {
    *why = text;
    return code;
}

/* Strings of indefinite length: chunks of the same kind, each with its length, up to a break. */
static int get_chunks(const uint8_t *p, size_t n, struct head h, struct item *it, const char **why) {
    size_t at = h.len;
    it->data = p + at;
    it->n = 0;
    it->chunked = true;
    for (;;) {
        if (at >= n) return bad(why, MOYAI_EDATA, "a string that is cut off");
        if (p[at] == HEAD_BREAK) break;
        struct head c;
        if (head_get(p + at, n - at, &c) < 0) return bad(why, MOYAI_EDATA, "a malformed head in a string");
        if (c.major != h.major || c.info == HEAD_INDEFINITE) {
            return bad(why, MOYAI_EDATA, "a chunk of another kind in a string");
        }
        at += c.len;
        if (c.arg > n - at) return bad(why, MOYAI_EDATA, "a string that is cut off");
        if (c.major == HEAD_TEXT && !utf8_valid(p + at, (size_t)c.arg)) {
            return bad(why, MOYAI_EDATA, "text that is not UTF-8");
        }
        at += (size_t)c.arg;
        it->n += (size_t)c.arg;
    }
    it->used = at + 1;
    return 0;
}

static int get_string(const uint8_t *p, size_t n, struct head h, struct item *it, const char **why) {
    it->kind = h.major == HEAD_TEXT ? ITEM_TEXT : ITEM_BYTES;
    it->swap = false;
    if (h.info == HEAD_INDEFINITE) return get_chunks(p, n, h, it, why);
    if (h.arg > n - h.len) return bad(why, MOYAI_EDATA, "a string that is cut off");
    it->data = p + h.len;
    it->n = (size_t)h.arg;
    it->chunked = false;
    it->used = h.len + (size_t)h.arg;
    if (h.major == HEAD_TEXT && !utf8_valid(it->data, it->n)) return bad(why, MOYAI_EDATA, "text that is not UTF-8");
    return 0;
}

static int get_simple(struct head h, struct item *it, const char **why) {
    it->used = h.len;
    it->kind = ITEM_NUMBER;
    switch (h.info) {
    case HEAD_FALSE:
    case HEAD_TRUE:
        it->num.kind = NUMBER_BOOL;
        it->num.u = h.info == HEAD_TRUE;
        return 0;
    case HEAD_NULL:
    case HEAD_UNDEFINED:
        it->kind = ITEM_NULL;
        return 0;
    case HEAD_HALF:
    case HEAD_FLOAT:
    case HEAD_DOUBLE:
        it->num.kind = NUMBER_FLOAT;
        it->num.d = h.d;
        return 0;
    case HEAD_INDEFINITE:
        it->kind = ITEM_BREAK;
        return 0;
    }
    return bad(why, MOYAI_ETYPE, "a simple value of unknown meaning");
}

static int get_untagged(const uint8_t *p, size_t n, struct item *it, const char **why) {
    struct head h;
    if (head_get(p, n, &h) < 0) return bad(why, MOYAI_EDATA, n ? "a malformed head" : "the end of the data");
    switch ((enum head_major)h.major) {
    case HEAD_UINT:
    case HEAD_NEG:
        it->kind = ITEM_NUMBER;
        it->num.kind = h.major == HEAD_UINT ? NUMBER_UINT : NUMBER_NEG;
        it->num.u = h.arg;
        it->used = h.len;
        return 0;
    case HEAD_BYTES:
    case HEAD_TEXT:
        return get_string(p, n, h, it, why);
    case HEAD_LIST:
    case HEAD_MAP:
        it->kind = h.major == HEAD_LIST ? ITEM_LIST : ITEM_MAP;
        it->count = h.arg;
        it->indefinite = h.info == HEAD_INDEFINITE;
        it->used = h.len;
        if (h.arg > (n - h.len) / (h.major == HEAD_MAP ? 2 : 1)) {
            return bad(why, MOYAI_EDATA, "a list or map that is cut off");
        }
        return 0;
    case HEAD_TAG:
        break; /* the caller has read the tags */
    case HEAD_SIMPLE:
        return get_simple(h, it, why);
    }
    return bad(why, MOYAI_EDATA, "a malformed head");
}

/* Is this what follows tag 27 in a reference? Heads of any length are fine, indefinite ones are not. */
static bool get_ref(const uint8_t *p, size_t n, struct item *it) {
    struct head h;
    if (head_get(p, n, &h) < 0 || h.major != HEAD_LIST || h.info == HEAD_INDEFINITE || h.arg != 2) return false;
    size_t at = h.len;
    if (head_get(p + at, n - at, &h) < 0 || h.major != HEAD_TEXT || h.info == HEAD_INDEFINITE) return false;
    at += h.len;
    if (h.arg != REF_NAME || n - at < REF_NAME || memcmp(p + at, ref_name, REF_NAME) != 0) return false;
    at += REF_NAME;
    if (head_get(p + at, n - at, &h) < 0 || h.major != HEAD_BYTES || h.info == HEAD_INDEFINITE) return false;
    at += h.len;
    if (h.arg != 32 || n - at < 32) return false;
    it->kind = ITEM_REF;
    it->ref = p + at;
    it->used = at + 32;
    return true;
}

static int get_typed(const uint8_t *p, size_t n, uint64_t tag, struct item *it, const char **why) {
    enum moyai_elem elem;
    bool swap;
    if (typed_of_tag(tag, &elem, &swap) < 0) return bad(why, MOYAI_ETYPE, "an array of an element type C has not");
    int rc = get_untagged(p, n, it, why);
    if (rc < 0) return rc;
    if (it->kind != ITEM_BYTES) return bad(why, MOYAI_EDATA, "the tag of an array before something else");
    if (it->n % typed_size(elem)) return bad(why, MOYAI_EDATA, "an array with a part of an element");
    it->kind = ITEM_ARRAY;
    it->elem = (uint8_t)elem;
    it->swap = swap;
    it->tag = p - 1;
    return 0;
}

int item_get(const uint8_t *p, size_t n, struct item *it, const char **why) {
    size_t at = 0;
    for (unsigned tags = 0; at < n && p[at] >> 5 == HEAD_TAG; tags++) {
        struct head h;
        if (tags == HEAD_TAGS) return bad(why, MOYAI_EDEPTH, "too many tags before one value");
        if (head_get(p + at, n - at, &h) < 0) return bad(why, MOYAI_EDATA, "a malformed head");
        at += h.len;
        if (h.arg == HEAD_TAG_OBJECT && get_ref(p + at, n - at, it)) {
            it->used += at;
            return 0;
        }
        if (typed_is_tag(h.arg)) {
            int rc = get_typed(p + at, n - at, h.arg, it, why);
            if (rc == 0) it->used += at;
            return rc;
        }
        /* Any other tag adds a meaning we do not know; its content is taken as it stands. */
    }
    int rc = get_untagged(p + at, n - at, it, why);
    if (rc < 0) return rc;
    if (it->kind == ITEM_BREAK && at > 0) return bad(why, MOYAI_EDATA, "a tag without a value");
    it->used += at;
    return 0;
}

int item_get_lent(const uint8_t *p, size_t n, const uint8_t *content, size_t c, struct item *it) {
    struct head h;
    size_t at = 0;
    *it = (struct item){.kind = ITEM_BYTES, .used = n, .data = content, .n = c};
    for (;; at += h.len) {
        if (head_get(p + at, n - at, &h) < 0) return MOYAI_EDATA;
        if (h.major != HEAD_TAG) break;
        if (!typed_is_tag(h.arg)) continue; /* 55799, for the alignment */
        enum moyai_elem elem;
        if (typed_of_tag(h.arg, &elem, &it->swap) < 0 || it->swap) return MOYAI_EDATA; /* our own order: not sent */
        it->kind = ITEM_ARRAY;
        it->elem = (uint8_t)elem;
    }
    bool whole = h.major == HEAD_BYTES && h.info != HEAD_INDEFINITE && at + h.len == n && h.arg == c;
    return whole ? 0 : MOYAI_EDATA;
}

void item_copy(const struct item *it, void *to_) {
    uint8_t *to = to_;
    if (it->n == 0) return;
    if (!it->chunked) {
        memcpy(to, it->data, it->n);
    } else {
        const uint8_t *p = it->data;
        for (size_t done = 0; done < it->n;) { /* item_get has checked every head */
            struct head h;
            if (head_get(p, HEAD_MAX + it->n - done, &h) < 0) return;
            memcpy(to + done, p + h.len, (size_t)h.arg);
            p += h.len + h.arg;
            done += (size_t)h.arg;
        }
    }
    if (it->kind == ITEM_ARRAY && it->swap) typed_swap(to, to, it->n, typed_size((enum moyai_elem)it->elem));
}

const char *item_name(const struct item *it) {
    static const char arrays[][16] = {"array of uint8", "array of uint16", "array of uint32", "array of uint64",
                                      "array of int8",  "array of int16",  "array of int32",  "array of int64",
                                      "array of float", "array of double"};
    switch (it->kind) {
    case ITEM_NULL:
        return "null";
    case ITEM_NUMBER:
        return it->num.kind == NUMBER_BOOL ? "bool" : it->num.kind == NUMBER_FLOAT ? "float" : "integer";
    case ITEM_TEXT:
        return !it->chunked && memchr(it->data, 0, it->n) ? "text with a NUL byte (see moyai_into_text)" : "text";
    case ITEM_BYTES:
        return "bytes";
    case ITEM_ARRAY:
        return arrays[it->elem];
    case ITEM_REF:
        return "reference";
    case ITEM_LIST:
        return "list";
    case ITEM_MAP:
        return "map";
    case ITEM_BREAK:
        return "break";
    }
    return "?";
}

void item_put_ref(uint8_t to[ITEM_REF_SIZE], const uint8_t ids[32]) {
    head_put_sized(to, HEAD_TAG, HEAD_TAG_OBJECT, 2);
    head_put(to + 2, HEAD_LIST, 2);
    head_put(to + 3, HEAD_TEXT, REF_NAME);
    memcpy(to + 4, ref_name, REF_NAME);
    head_put(to + 4 + REF_NAME, HEAD_BYTES, 32);
    memcpy(to + 6 + REF_NAME, ids, 32);
}
