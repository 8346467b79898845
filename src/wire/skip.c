/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The length of one item, whatever it is, without recursion: a stack of how many parts each open list or map still
 * has. Nothing is allocated, and a count is believed only as far as there are bytes.
 */
#include "wire/codec.h"
#include "wire/head.h"
#include "wire/value.h"

/* The list inside a reference (tag 27) is not a level of its own: a reference is a leaf. */
#define LEVELS (VALUE_DEPTH + 1)

struct level {
    uint64_t left; /* parts to come; of an indefinite one: parts seen */
    bool indefinite;
    bool map;
};

/* Head and content of a string. */
static int skip_string(const uint8_t *p, size_t n, struct head h, size_t *len) {
    size_t at = h.len;
    if (h.info != HEAD_INDEFINITE) {
        if (h.arg > n - at) return MOYAI_EDATA;
        *len = at + (size_t)h.arg;
        return 0;
    }
    for (;;) {
        struct head c;
        if (at >= n) return MOYAI_EDATA;
        if (p[at] == HEAD_BREAK) break;
        if (head_get(p + at, n - at, &c) < 0 || c.major != h.major || c.info == HEAD_INDEFINITE) return MOYAI_EDATA;
        at += c.len;
        if (c.arg > n - at) return MOYAI_EDATA;
        at += (size_t)c.arg;
    }
    *len = at + 1;
    return 0;
}

/* Tags and the head they belong to; *object: tag 27 stands directly before it. */
static int skip_tags(const uint8_t *p, size_t n, struct head *h, size_t *len, bool *object) {
    size_t at = 0;
    *object = false;
    for (unsigned tags = 0;; tags++) {
        if (head_get(p + at, n - at, h) < 0) return MOYAI_EDATA;
        if (h->major != HEAD_TAG) break;
        if (tags == HEAD_TAGS) return MOYAI_EDEPTH;
        *object = h->arg == HEAD_TAG_OBJECT;
        at += h->len;
    }
    *len = at;
    return h->major == HEAD_SIMPLE && h->info == HEAD_INDEFINITE && at > 0 ? MOYAI_EDATA : 0;
}

int codec_skip(const uint8_t *p, size_t n, size_t *len) {
    struct level open[LEVELS];
    size_t depth = 0, at = 0;
    do {
        struct head h;
        size_t used;
        bool object;
        int rc = skip_tags(p + at, n - at, &h, &used, &object);
        if (rc < 0) return rc;
        at += used;
        bool is_break = h.major == HEAD_SIMPLE && h.info == HEAD_INDEFINITE;
        struct level *top = depth > 0 ? &open[depth - 1] : NULL;
        if (is_break) {
            if (!top || !top->indefinite || (top->map && top->left % 2)) return MOYAI_EDATA;
            at += h.len;
            depth--;
        } else {
            if (top && top->indefinite) top->left++;
            if (top && !top->indefinite) top->left--;
            if (h.major == HEAD_BYTES || h.major == HEAD_TEXT) {
                if ((rc = skip_string(p + at, n - at, h, &used)) < 0) return rc;
                at += used;
            } else if (h.major == HEAD_LIST || h.major == HEAD_MAP) {
                bool map = h.major == HEAD_MAP;
                at += h.len;
                if (h.arg > (n - at) / (map ? 2 : 1)) return MOYAI_EDATA;
                if (depth >= (object ? LEVELS : VALUE_DEPTH)) return MOYAI_EDEPTH;
                open[depth++] = (struct level){h.arg * (map ? 2 : 1), h.info == HEAD_INDEFINITE, map};
            } else {
                at += h.len;
            }
        }
        while (depth > 0 && !open[depth - 1].indefinite && open[depth - 1].left == 0) depth--;
    } while (depth > 0);
    *len = at;
    return 0;
}
