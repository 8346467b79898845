/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame.h"

#include "base/err.h"
#include "wire/cursor.h"

void frame_put_head(uint8_t out[FRAME_HEAD], const struct frame_head *h) {
    struct cursor_out c = cursor_out(out, FRAME_HEAD);
    cursor_put_u8(&c, FRAME_VERSION);
    cursor_put_u8(&c, h->type);
    cursor_put_u8(&c, h->class_);
    cursor_put_u8(&c, h->hops);
    cursor_put_u32(&c, h->label);
    cursor_put_u32(&c, h->length);
    cursor_put_u32(&c, 0);
}

int frame_get_head(const uint8_t in[FRAME_HEAD], struct frame_head *h, struct moyai_error *reterr) {
    struct cursor_in c = cursor_in(in, FRAME_HEAD);
    uint8_t version = cursor_get_u8(&c);
    struct frame_head got = {0};
    got.type = cursor_get_u8(&c);
    got.class_ = cursor_get_u8(&c);
    got.hops = cursor_get_u8(&c);
    got.label = cursor_get_u32(&c);
    got.length = cursor_get_u32(&c);
    uint32_t zero = cursor_get_u32(&c);
    if (version != FRAME_VERSION) {
        return err_set(reterr, MOYAI_EVERSION, "frame of version %u, this is version %d", version, FRAME_VERSION);
    }
    if (got.length > FRAME_MAX) {
        return err_set(reterr, MOYAI_ETOOBIG, "frame of %u bytes, the limit is %u", got.length, FRAME_MAX);
    }
    if (got.class_ > FRAME_BULK) return err_set(reterr, MOYAI_EPROTO, "frame of unknown class %u", got.class_);
    if (zero != 0) return err_set(reterr, MOYAI_EPROTO, "frame with reserved bytes %#x, not zero", zero);
    *h = got;
    return 0;
}
