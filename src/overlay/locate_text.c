/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/locate_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(char *text, size_t n, const char *fmt, ...) MOYAI_PRINTF(3, 4);
static void add(char *text, size_t n, const char *fmt, ...) {
    size_t at = strlen(text);
    if (at + 1 >= n) return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text + at, n - at, fmt, args);
    va_end(args);
}

static const char *status_text(uint32_t status) {
    switch (status) {
    case LOCATE_ST_FOUND:
        return "found";
    case LOCATE_ST_DEAD:
        return "dead";
    case LOCATE_ST_LEFT:
        return "left";
    case LOCATE_ST_CLAIMED:
        return "claimed";
    case LOCATE_ST_CLEARED:
        return "cleared";
    default:
        return "?";
    }
}

static char kind_text(uint32_t kind) {
    return kind < 3 ? "nNc"[kind] : '?';
}

void locate_frame_text(char *text, size_t n, const struct locate_frame *f) {
    uint8_t key = f->key[0];
    switch (f->kind) {
    case LOCATE_NEIGHBOURS:
        add(text, n, "NEIGHBOURS");
        for (uint32_t i = 0; i < f->n; i++) add(text, n, " %u:%02x", f->slots[i].slot, f->slots[i].id[0]);
        return;
    case LOCATE_NAMES:
        add(text, n, "NAMES");
        for (uint32_t i = 0; i < f->n; i++)
            add(text, n, " %u:%02x=%02x", f->slots[i].slot, f->slots[i].id[0], f->slots[i].object[0]);
        return;
    case LOCATE_REQUEST:
        add(text, n, "REQUEST %c%02x/%u%s%s%s%s", kind_text(f->key_kind), key, f->ttl,
            f->flags & LOCATE_DIRECT ? " direct" : "", f->flags & LOCATE_FLOOD ? " flood" : "",
            f->flags & LOCATE_HINTED ? " hinted"
            : f->flags & LOCATE_FEW  ? " few"
                                     : "",
            f->nonce ? "" : " several");
        if (f->key_kind == LOCATE_CLAIM) add(text, n, " %02x=%02x", f->owner[0], f->object[0]);
        return;
    case LOCATE_REPLY:
        add(text, n, "REPLY %c%02x %s %02x", kind_text(f->key_kind), key, status_text(f->status), f->owner[0]);
        if (f->key_kind != LOCATE_NODE) add(text, n, "=%02x", f->object[0]);
        add(text, n, " %u:%u", f->hops, f->cost);
        if (f->age) add(text, n, "+%u", f->age);
        return;
    case LOCATE_BUSY:
        add(text, n, "BUSY %c%02x", kind_text(f->key_kind), key);
        return;
    case LOCATE_EVIDENCE:
        add(text, n, "EVIDENCE %02x %s/%u", key, status_text(locate_status_of(f->how)), f->ttl);
        return;
    case LOCATE_LOST:
        add(text, n, "LOST %02x of %02x to %02x=%02x/%u", key, f->dest[0], f->owner[0], f->object[0], f->ttl);
        return;
    case LOCATE_DIGESTED:
        add(text, n, "DIGEST");
        return;
    }
    add(text, n, "?");
}

void locate_effect_text(char *text, size_t n, const struct locate_effect *fx) {
    unsigned long long token = fx->token;
    switch (fx->kind) {
    case LOCATE_FX_FOUND:
        add(text, n, "found%llu:%02x/%u", token, fx->node.b[0], fx->hops);
        if (fx->object.b[0]) add(text, n, "=%02x", fx->object.b[0]);
        return;
    case LOCATE_FX_NOT_FOUND:
        add(text, n, "not-found%llu%s", token, fx->unsure ? "?" : "");
        return;
    case LOCATE_FX_DEAD:
        add(text, n, "%s%llu:%02x", status_text(locate_status_of(fx->how)), token, fx->node.b[0]);
        return;
    case LOCATE_FX_EVIDENCE:
        add(text, n, "evidence:%02x:%s", fx->node.b[0], status_text(locate_status_of(fx->how)));
        return;
    case LOCATE_FX_NAME_HELD:
        add(text, n, "held:%02x", fx->key[0]);
        return;
    case LOCATE_FX_NAME_LOST:
        add(text, n, "lost:%02x to %02x=%02x", fx->key[0], fx->node.b[0], fx->object.b[0]);
        return;
    }
}
