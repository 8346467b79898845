/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers_wire_get and peers_step, _next with any list of events: a byte says which, some follow as its numbers; a frame
 * is a type, a length and its payload. What the codec accepts is written again byte for byte. Whatever comes, the
 * invariants hold after each event, and an event that is refused has changed nothing.
 */
#include "overlay/peers.h"
#include "overlay/peers_internal.h"
#include "overlay/peers_wire.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

struct input {
    const uint8_t *p, *end;
};

static uint8_t byte(struct input *in) {
    return in->p < in->end ? *in->p++ : 0;
}

static struct moyai_node_id node(uint8_t n) {
    return (struct moyai_node_id){{n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

static void step(struct peers *p, size_t size, const struct peers_event *ev) {
    static uint8_t before[65536], out[PEERS_WIRE_MAX];
    struct peers_effect fx;
    struct moyai_error why;
    FUZZ_CHECK(size <= sizeof before);
    memcpy(before, p, size);
    int rc = peers_step(p, ev);
    FUZZ_CHECK(rc == 0 || rc == MOYAI_EPROTO || rc == MOYAI_EINVAL);
    FUZZ_CHECK(rc == 0 || memcmp(before, p, size) == 0);
    while (peers_next(p, &fx)) {
        struct peers_frame f;
        if (fx.kind != PEERS_FX_SEND) continue;
        peers_wire_put(out, &fx.frame);
        FUZZ_CHECK(peers_wire_get((uint8_t)(FRAME_PEERS + fx.frame.kind), out, peers_wire_size(&fx.frame), &f, NULL) ==
                   0);
    }
    if (peers_check(p, &why)) return;
    fprintf(stderr, "%s\n", why.text);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    static uint8_t again[65536 + 64];
    static const uint8_t text[] = {3, 'a', ':', '1'};
    struct peers_cfg cfg = {.degree = 3, .most = 4, .rescue = 2, .known = 8, .attempts = 2, .text = 16};
    cfg.self = (struct peers_endpoint){.id = node(9), .site = 1, .accepts = byte(&in) & 1, .n_text = 4, .text = text};
    size_t n = peers_size(&cfg);
    struct peers *p = aligned_alloc(16, n);
    FUZZ_CHECK(p);
    memset(p, 0, n);
    FUZZ_CHECK(peers_init(p, &cfg) == 0);
    moyai_ns now = 1;
    while (in.p < in.end) {
        uint8_t what = byte(&in);
        struct peers_frame f = {.kind = PEERS_KEEP};
        struct peers_event ev = {
            .kind = (enum peers_event_kind)(what % (PEERS_EV_TIMEOUT + 1)), .now = now, .frame = &f};
        ev.id = node(byte(&in) % 16);
        ev.link = ev.id.b[0] + (what & 0x20 ? 16u : 0u);
        struct peers_endpoint e = {
            .id = ev.id, .site = what >> 6, .accepts = what & 0x10, .lifetime = 100, .n_text = 4};
        e.text = text;
        ev.endpoint = &e;
        ev.entries = ev.what = byte(&in) % 4;
        if (ev.kind == PEERS_EV_FOUND) ev.id = ev.what ? node((uint8_t)ev.what) : (struct moyai_node_id){{0}};
        if (ev.kind == PEERS_EV_FRAME) {
            uint8_t type = (uint8_t)(FRAME_PEERS + byte(&in) % 9);
            size_t len = byte(&in);
            if (len > (size_t)(in.end - in.p)) len = (size_t)(in.end - in.p);
            struct moyai_error why = {0};
            int rc = peers_wire_get(type, in.p, len, &f, &why);
            FUZZ_CHECK(rc == 0 || (rc == MOYAI_EPROTO && why.text[0]));
            if (rc == 0) {
                FUZZ_CHECK(peers_wire_size(&f) == len);
                peers_wire_put(again, &f);
                FUZZ_CHECK(memcmp(again, in.p, len) == 0);
                step(p, n, &ev);
            }
            in.p += len;
        } else {
            step(p, n, &ev);
        }
        now += what & 0x80 ? 20 * (moyai_ns)MOYAI_SEC : (moyai_ns)MOYAI_MS;
    }
    free(p);
    return 0;
}
