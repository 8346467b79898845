/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the frames of paths. The label stands in the frame's head, in PATH so do the hops.
 *
 *   PATH                 0 to (16)  16 from (16)  32 id (8)  40 credit (4)  44 zero (4)
 *   ERROR                0 who reports it (16)  16 code (1)  17 zero (7)
 *   CREDIT, TAKE, GIVE   0 bytes (4)
 *   CLOSE, BLOCKED       nothing
 */
#include "overlay/relay_wire.h"

#include "base/err.h"

#include <string.h>

static void put(uint8_t *p, uint64_t x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) p[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t get(const uint8_t *p, uint32_t n) {
    uint64_t x = 0;
    for (uint32_t i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

size_t relay_wire_size(enum relay_kind kind) {
    switch (kind) {
    case RELAY_PATH:
        return 48;
    case RELAY_ERROR:
        return 24;
    case RELAY_CREDIT:
    case RELAY_TAKE:
    case RELAY_GIVE:
        return 4;
    case RELAY_CLOSE:
    case RELAY_BLOCKED:
    case RELAY_KINDS:
        break;
    }
    return 0;
}

void relay_wire_put(struct frame_head *head, uint8_t out[RELAY_WIRE_MAX], const struct relay_frame *f) {
    *head = (struct frame_head){.type = (uint8_t)(FRAME_RELAY + f->kind),
                                .class_ = FRAME_CONTROL,
                                .hops = f->kind == RELAY_PATH ? (uint8_t)f->hops : 1,
                                .label = f->label,
                                .length = (uint32_t)relay_wire_size(f->kind)};
    memset(out, 0, RELAY_WIRE_MAX);
    if (f->kind == RELAY_PATH) {
        memcpy(out, f->to.b, 16);
        memcpy(out + 16, f->from.b, 16);
        put(out + 32, f->id, 8);
        put(out + 40, f->amount, 4);
    } else if (f->kind == RELAY_ERROR) {
        memcpy(out, f->node.b, 16);
        out[16] = (uint8_t)f->code;
    } else {
        put(out, f->amount, 4);
    }
}

int relay_wire_get(const struct frame_head *head, const uint8_t *p, struct relay_frame *f, struct moyai_error *reterr) {
    if (head->type < FRAME_RELAY || head->type > FRAME_RELAY_LAST)
        return err_set(reterr, MOYAI_EPROTO, "frame type %u is none of a path's", head->type);
    enum relay_kind kind = (enum relay_kind)(head->type - FRAME_RELAY);
    if (head->length != relay_wire_size(kind))
        return err_set(reterr, MOYAI_EPROTO, "path frame of type %u and %u bytes, expected %zu", head->type,
                       head->length, relay_wire_size(kind));
    if (head->label == 0) return err_set(reterr, MOYAI_EPROTO, "path frame of type %u without a label", head->type);
    *f = (struct relay_frame){.kind = kind, .label = head->label};
    if (kind == RELAY_PATH) {
        f->hops = head->hops;
        memcpy(f->to.b, p, 16);
        memcpy(f->from.b, p + 16, 16);
        f->id = get(p + 32, 8);
        f->amount = (uint32_t)get(p + 40, 4);
        if (get(p + 44, 4)) return err_set(reterr, MOYAI_EPROTO, "path: reserved bytes are not zero");
    } else if (kind == RELAY_ERROR) {
        memcpy(f->node.b, p, 16);
        f->code = (enum relay_code)p[16];
        if (p[16] == RELAY_CLOSED || p[16] >= RELAY_CODES || get(p + 17, 7))
            return err_set(reterr, MOYAI_EPROTO, "path error of code %u, or reserved bytes are not zero", p[16]);
    } else if (head->length) {
        f->amount = (uint32_t)get(p, 4);
    }
    return 0;
}
