/* SPDX-License-Identifier: Apache-2.0 */
/*
 * death_wire_get and death_step, _next with any list of events: a byte says which, some follow as its numbers; a frame
 * is a type, a length and its payload. What the codec accepts is written again byte for byte. Whatever comes, the
 * invariants hold after each event, and an event that is refused has changed nothing.
 */
#include "overlay/death.h"
#include "overlay/death_wire.h"
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

static void step(struct death *d, size_t size, const struct death_event *ev) {
    static uint8_t before[16384], out[DEATH_WIRE_MAX];
    static struct death_effect fx;
    static struct death_frame f;
    struct moyai_error why;
    FUZZ_CHECK(size <= sizeof before);
    memcpy(before, d, size);
    int rc = death_step(d, ev);
    FUZZ_CHECK(rc == 0 || rc == MOYAI_EPROTO || rc == MOYAI_EINVAL || rc == MOYAI_EAGAIN);
    FUZZ_CHECK(rc == 0 || memcmp(before, d, size) == 0);
    for (int n = 0; death_next(d, &fx); n++) {
        FUZZ_CHECK(n < 200);
        if (fx.kind != DEATH_FX_SEND) continue;
        death_wire_put(out, &fx.frame);
        FUZZ_CHECK(death_wire_get((uint8_t)(FRAME_DEATH + fx.frame.kind), out, death_wire_size(&fx.frame), &f, NULL) ==
                   0);
    }
    if (death_check(d, &why)) return;
    fprintf(stderr, "%s\n", why.text);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    static uint8_t again[65536];
    static struct death_frame f;
    const struct death_cfg cfg = {.self = node(9), .host = 1, .links = 5, .cases = 3, .members = 4, .dead = 3};
    size_t n = death_size(&cfg);
    struct death *d = aligned_alloc(16, n);
    FUZZ_CHECK(d);
    memset(d, 0, n);
    FUZZ_CHECK(death_init(d, &cfg) == 0);
    moyai_ns now = 1;
    while (in.p < in.end) {
        uint8_t what = byte(&in), more;
        struct death_member m[4];
        struct death_event ev = {.kind = (enum death_event_kind)(what % 8), .now = now, .members = m};
        ev.id = node(byte(&in) % 12);
        more = byte(&in);
        ev.host = more % 4;
        ev.how = (enum death_how)(what >> 6);
        ev.cause = (enum death_cause)(more >> 4);
        ev.number = ev.cause == DEATH_SIGNAL ? 9 : 0;
        if (ev.kind == DEATH_EV_END || ev.kind == DEATH_EV_WITNESSED) ev.n = more >> 2 & 3;
        for (uint32_t i = 0; i < ev.n; i++) m[i] = (struct death_member){node(byte(&in) % 12), byte(&in) % 4};
        if (ev.kind == DEATH_EV_FRAME) {
            uint8_t type = (uint8_t)(FRAME_DEATH + more % 6);
            size_t len = byte(&in);
            if (len > (size_t)(in.end - in.p)) len = (size_t)(in.end - in.p);
            struct moyai_error why = {0};
            int rc = death_wire_get(type, in.p, len, &f, &why);
            FUZZ_CHECK(rc == 0 || (rc == MOYAI_EPROTO && why.text[0]));
            if (rc == 0) {
                FUZZ_CHECK(death_wire_size(&f) == len);
                death_wire_put(again, &f);
                FUZZ_CHECK(memcmp(again, in.p, len) == 0);
                ev.frame = &f;
                step(d, n, &ev);
            }
            in.p += len;
        } else {
            step(d, n, &ev);
        }
        now += what & 8 ? 120 * (moyai_ns)MOYAI_MS : (moyai_ns)MOYAI_MS;
    }
    free(d);
    return 0;
}
