/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stay_step, _next with any list of events: a byte says which, some follow as its numbers; a frame is a type, a length
 * and its payload, as peers_wire_get takes it. Whatever comes, the invariants hold after each event, an event that is
 * refused has changed nothing, and what is sent is well-formed.
 */
#include "overlay/peers_wire.h"
#include "overlay/stay_internal.h"
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

static void step(struct stay *s, size_t size, const struct stay_event *ev) {
    static uint8_t before[131072], out[PEERS_WIRE_MAX];
    struct stay_effect fx;
    struct moyai_error why;
    FUZZ_CHECK(size <= sizeof before);
    memcpy(before, s, size);
    const int rc = stay_step(s, ev);
    FUZZ_CHECK(rc == 0 || rc == MOYAI_EPROTO || rc == MOYAI_EINVAL);
    FUZZ_CHECK(rc == 0 || memcmp(before, s, size) == 0);
    while (stay_next(s, &fx)) {
        struct peers_frame f;
        if (fx.kind != STAY_FX_SEND) continue;
        peers_wire_put(out, &fx.frame);
        FUZZ_CHECK(peers_wire_get((uint8_t)(FRAME_PEERS + fx.frame.kind), out, peers_wire_size(&fx.frame), &f, NULL) ==
                   0);
    }
    (void)stay_may_go(s, ev->now);
    if (stay_check(s, &why)) return;
    fprintf(stderr, "%s\n", why.text);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    static const uint8_t text[] = {3, 'a', ':', '1'};
    const struct stay_cfg cfg = {.self = node(9), .site = 1, .accepts = byte(&in) & 1, .links = 8, .text = 16};
    const size_t n = stay_size(&cfg);
    struct stay *s = aligned_alloc(16, n);
    FUZZ_CHECK(s);
    memset(s, 0, n);
    FUZZ_CHECK(stay_init(s, &cfg) == 0);
    moyai_ns now = 1;
    while (in.p < in.end) {
        const uint8_t what = byte(&in);
        struct peers_frame f = {.kind = PEERS_KEEP};
        struct stay_event ev = {.kind = (enum stay_event_kind)(what % (STAY_EV_TIMEOUT + 1)), .now = now, .frame = &f};
        ev.id = node(byte(&in) % 16);
        ev.link = ev.id.b[0];
        ev.yes = what & 0x10;
        const struct peers_endpoint e = {.id = ev.id,
                                         .site = what >> 6,
                                         .accepts = what & 0x10,
                                         .reached = (what & 0x30) == 0x30,
                                         .n_text = sizeof text,
                                         .text = text};
        ev.endpoint = &e;
        if (ev.kind == STAY_EV_FRAME) {
            const uint8_t type = (uint8_t)(FRAME_PEERS + PEERS_OWN + byte(&in) % 5);
            size_t len = byte(&in);
            if (len > (size_t)(in.end - in.p)) len = (size_t)(in.end - in.p);
            if (peers_wire_get(type, in.p, len, &f, NULL) == 0) step(s, n, &ev);
            in.p += len;
        } else {
            step(s, n, &ev);
        }
        now += what & 0x80 ? (moyai_ns)MOYAI_SEC : (moyai_ns)MOYAI_MS;
    }
    free(s);
    return 0;
}
