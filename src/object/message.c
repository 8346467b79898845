/* SPDX-License-Identifier: Apache-2.0 */
#include "object/message.h"

#include "base/err.h"
#include "object/moved.h"
#include "wire/cursor.h"

#include <stdlib.h>

size_t request_head_size(const struct request_head *h) {
    size_t n = REQUEST_HEAD + (h->flags & MESSAGE_ROOT ? 24u : 0u) + h->n_ancestors * 16u + h->method_len;
    return (n + 7u) & ~(size_t)7u;
}

void request_put_head(uint8_t *out, const struct request_head *h) {
    size_t size = request_head_size(h);
    memset(out + size - 8, 0, 8);
    out[0] = MESSAGE_REQUEST;
    out[1] = h->flags;
    out[2] = h->method_len;
    out[3] = h->n_ancestors;
    store_le16(out + 4, h->depth);
    store_le16(out + REQUEST_ROUND_AT, h->round);
    store_le64(out + 8, h->call);
    memcpy(out + 16, h->object, 16);
    store_le64(out + 32, (uint64_t)h->remaining);
    uint8_t *p = out + REQUEST_HEAD;
    if (h->flags & MESSAGE_ROOT) {
        memcpy(p, h->root_node, 16);
        store_le64(p + 16, h->root_call);
        p += 24;
    }
    if (h->n_ancestors) memcpy(p, h->ancestors, h->n_ancestors * 16u);
    p += h->n_ancestors * 16u;
    memcpy(p, h->method, h->method_len);
}

int request_get_head(const uint8_t *p, size_t n, struct request_head *h) {
    if (n < REQUEST_HEAD) return MOYAI_EPROTO;
    h->flags = p[1];
    h->method_len = p[2];
    h->n_ancestors = p[3];
    h->depth = load_le16(p + 4);
    h->round = load_le16(p + REQUEST_ROUND_AT);
    if (h->flags & ~(MESSAGE_ONEWAY | MESSAGE_ROOT | MESSAGE_ANY | MESSAGE_LEAVER | MESSAGE_RECEIPT))
        return MOYAI_EPROTO;
    if (h->method_len == 0 || h->n_ancestors > CALL_ANCESTORS) return MOYAI_EPROTO;
    h->call = load_le64(p + 8);
    memcpy(h->object, p + 16, 16);
    if (h->round && !object_moves(h->object)) return MOYAI_EPROTO;
    uint64_t remaining = load_le64(p + 32);
    if (remaining > (uint64_t)MOYAI_FOREVER) return MOYAI_EPROTO;
    h->remaining = (moyai_dur)remaining;
    h->size = request_head_size(h);
    if (n < h->size) return MOYAI_EPROTO;
    p += REQUEST_HEAD;
    if (h->flags & MESSAGE_ROOT) {
        memcpy(h->root_node, p, 16);
        h->root_call = load_le64(p + 16);
        p += 24;
    }
    h->ancestors = p;
    h->method = (const char *)p + h->n_ancestors * 16u;
    return 0;
}

/* An error: levels (1), zeros (7), then each: code (4), sys (4), where (1), executed (1), text length (2), origin
 * (16), text. */
#define LEVEL_HEAD 28u

size_t failure_put(uint8_t *out, const struct moyai_error *level, unsigned levels, const uint8_t self[16]) {
    size_t n = 8;
    if (out) {
        memset(out, 0, 8);
        out[0] = (uint8_t)levels;
    }
    for (unsigned i = 0; i < levels; i++) {
        const struct moyai_error *e = &level[i];
        size_t len = strnlen(e->text, MOYAI_ERROR_TEXT - 1);
        if (out) {
            struct cursor_out c = cursor_out(out + n, LEVEL_HEAD + len);
            cursor_put_u32(&c, (uint32_t)e->code);
            cursor_put_u32(&c, (uint32_t)e->sys);
            cursor_put_u8(&c, (uint8_t)e->where);
            cursor_put_u8(&c, (uint8_t)e->executed);
            cursor_put_u16(&c, (uint16_t)len);
            cursor_put_bytes(&c, id_zero(e->origin.b) ? self : e->origin.b, 16);
            cursor_put_bytes(&c, e->text, len);
        }
        n += LEVEL_HEAD + len;
    }
    return n;
}

static bool level_get(struct cursor_in *c, const uint8_t from[16], struct moyai_error *e) {
    int code = (int)cursor_get_u32(c), sys = (int)cursor_get_u32(c);
    uint8_t where = cursor_get_u8(c), executed = cursor_get_u8(c);
    uint16_t len = cursor_get_u16(c);
    const uint8_t *origin = cursor_get_bytes(c, 16);
    const uint8_t *text_at = cursor_get_bytes(c, len);
    if (!origin || !text_at || code >= 0 || code == MOYAI_SIGNALLED || where > MOYAI_AT_PEER ||
        executed > MOYAI_WAS_EXECUTED || len >= MOYAI_ERROR_TEXT)
        return false;
    char text[MOYAI_ERROR_TEXT];
    memcpy(text, text_at, len);
    text[len] = 0;
    err_set(e, code, "%s", text); /* cleans the text: it comes from elsewhere */
    e->sys = sys;
    e->where = (enum moyai_where)where;
    e->executed = (enum moyai_executed)executed;
    memcpy(e->origin.b, id_zero(origin) ? from : origin, 16);
    return true;
}

int failure_get(const uint8_t *p, size_t n, const uint8_t from[16], struct moyai_error *first, struct failure **ret) {
    *ret = NULL;
    if (n < 8 || p[0] == 0 || p[0] > CALL_CAUSES) return MOYAI_EPROTO;
    unsigned levels = p[0];
    struct failure *f = calloc(1, sizeof *f + levels * sizeof f->level[0]);
    struct cursor_in c = cursor_in(p + 8, n - 8);
    bool right = true;
    for (unsigned i = 0; right && i < levels; i++) {
        struct moyai_error e = {0};
        right = level_get(&c, from, &e);
        if (i == 0) *first = e;
        if (f) f->level[i] = e;
    }
    if (!right || !cursor_done(&c)) {
        free(f);
        return MOYAI_EPROTO;
    }
    if (f) {
        f->refs = 1;
        f->n = levels;
    }
    *ret = f;
    return 0;
}
