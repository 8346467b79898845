/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay_wire_get and relay_step, _next, _pull with any list of events: a byte says which, some follow as its numbers; a
 * frame is a type, a label, hops, a length and its payload. What the codec accepts is written again byte for byte.
 * Whatever comes, the invariants hold after each event, an event that is refused has changed nothing, and each token
 * comes back once.
 */
#include "overlay/relay.h"
#include "overlay/relay_internal.h"
#include "overlay/relay_wire.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

struct input {
    const uint8_t *p, *end;
};

struct tokens {
    uint64_t given, back;
    uint8_t out[4096]; /* 1: the machine has it */
};

static uint8_t byte(struct input *in) {
    return in->p < in->end ? *in->p++ : 0;
}

static struct moyai_node_id node(uint8_t n) {
    return (struct moyai_node_id){{n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

static void came_back(struct tokens *t, uint64_t token) {
    FUZZ_CHECK(token < sizeof t->out && t->out[token] == 1);
    t->out[token] = 2;
    t->back++;
}

static void drain(struct relay *r, struct tokens *t) {
    struct relay_effect fx;
    while (relay_next(r, &fx))
        if (fx.kind == RELAY_FX_FREE || fx.kind == RELAY_FX_DELIVER) came_back(t, fx.token);
    struct moyai_error why;
    if (relay_check(r, &why)) return;
    fprintf(stderr, "%s\n", why.text);
    abort();
}

static void step(struct relay *r, size_t size, const struct relay_event *ev, struct tokens *t) {
    static uint8_t before[65536];
    FUZZ_CHECK(size <= sizeof before);
    memcpy(before, r, size);
    bool token = ev->kind == RELAY_EV_RECEIVE || ev->kind == RELAY_EV_SEND;
    if (token) t->out[ev->token] = 1;
    int rc = relay_step(r, ev);
    FUZZ_CHECK(rc == 0 || rc == MOYAI_EPROTO || rc == MOYAI_EINVAL || rc == MOYAI_EBUSY || rc == MOYAI_ENOMEM);
    FUZZ_CHECK(rc == 0 || memcmp(before, r, size) == 0);
    if (token && rc == 0) t->given++;
    if (token && rc) t->out[ev->token] = 0;
    drain(r, t);
}

static void pull(struct relay *r, uint64_t link, struct tokens *t) {
    struct relay_out out;
    for (int i = 0; i < 4 && relay_pull(r, link, &out); i++) {
        struct frame_head h;
        uint8_t p[RELAY_WIRE_MAX];
        struct relay_frame f;
        if (out.control) {
            relay_wire_put(&h, p, &out.frame);
            FUZZ_CHECK(relay_wire_get(&h, p, &f, NULL) == 0);
        } else {
            came_back(t, out.token);
        }
        drain(r, t);
    }
}

static bool decoded(struct input *in, struct relay_frame *f) {
    struct frame_head h = {.type = (uint8_t)(FRAME_RELAY + byte(in) % 8), .label = byte(in), .hops = byte(in)}, again;
    uint8_t p[RELAY_WIRE_MAX] = {0}, out[RELAY_WIRE_MAX];
    h.length = h.type > FRAME_RELAY_LAST ? 1 : (uint32_t)relay_wire_size((enum relay_kind)(h.type - FRAME_RELAY));
    if (byte(in) == 255) h.length++;
    for (uint32_t i = 0; i < h.length && i < sizeof p; i++) p[i] = byte(in);
    struct moyai_error why = {0};
    int rc = relay_wire_get(&h, p, f, &why);
    FUZZ_CHECK(rc == 0 || (rc == MOYAI_EPROTO && why.text[0]));
    if (rc) return false;
    relay_wire_put(&again, out, f);
    FUZZ_CHECK(again.type == h.type && again.label == h.label && again.length == h.length);
    FUZZ_CHECK(memcmp(out, p, h.length) == 0);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    static struct tokens t;
    memset(&t, 0, sizeof t);
    const struct relay_cfg cfg = {
        .self = node(9), .links = 3, .pointers = 4, .spare = 2, .own = 100, .frame = 300, .most = 800, .memory = 900};
    size_t n = relay_size(&cfg);
    struct relay *r = aligned_alloc(16, n);
    FUZZ_CHECK(r);
    memset(r, 0, n);
    FUZZ_CHECK(relay_init(r, &cfg) == 0);
    for (uint8_t k = 1; k <= 2; k++) step(r, n, &(struct relay_event){.link = k, .id = node((uint8_t)(k * 7))}, &t);
    moyai_ns now = 1;
    while (in.p < in.end && t.given < sizeof t.out - 1) {
        uint8_t what = byte(&in), x = byte(&in);
        struct relay_frame f = {.kind = RELAY_CLOSE};
        struct relay_event ev = {.kind = (enum relay_event_kind)(what % 13), .now = now, .frame = &f};
        ev.link = x % 4;
        ev.id = node(x % 16);
        ev.label = x / 4;
        ev.path = (uint64_t)(1 + x / 32) << 32 | (1 + x % 8);
        ev.code = (enum relay_code)(x % 12);
        ev.token = t.given + 1;
        ev.bytes = x / 2;
        ev.class_ = what >= 128 ? 2 : 1;
        now += what & 64 ? 2 * (moyai_ns)MOYAI_SEC : 1;
        if (what % 13 == 12) {
            pull(r, x % 4, &t);
            continue;
        }
        if (ev.kind == RELAY_EV_FRAME) {
            if (!decoded(&in, &f)) continue;
            if (x & 128) f.amount %= 1024;
            if (x & 64 && f.amount < 100) f.amount = 100;
        }
        step(r, n, &ev, &t);
    }
    for (uint8_t k = 1; k <= 3; k++) step(r, n, &(struct relay_event){.kind = RELAY_EV_LINK_DOWN, .link = k}, &t);
    FUZZ_CHECK(t.given == t.back);
    free(r);
    return 0;
}
