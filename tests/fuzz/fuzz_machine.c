/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_step, _next, _pull with any list of events: one byte says which, four bytes follow as its numbers; a RECEIVE
 * reads a frame's kind and up to three chunks from them and what follows. Whatever comes, the invariants hold after
 * each event, and an event that is refused has changed nothing.
 */
#include "overlay/session.h"
#include "overlay/session_internal.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

struct input {
    const uint8_t *p, *end;
};

static uint8_t byte(struct input *in) {
    return in->p < in->end ? *in->p++ : 0;
}

static void check(const struct session *s) {
    struct moyai_error why;
    if (session_check(s, &why)) return;
    fprintf(stderr, "%s\n", why.text);
    abort();
}

/* Numbers near what the machine expects: the high bit says "exactly that". */
static uint64_t near(struct input *in, uint64_t expected) {
    uint8_t b = byte(in);
    return b & 0x80 ? expected : expected + b - 64;
}

static void frame(struct input *in, const struct session *s, struct session_frame *f, struct session_chunk *c) {
    uint8_t kind = byte(in);
    *f = (struct session_frame){.kind = (enum session_frame_kind)(kind % 11),
                                .id = kind & 0x80 ? 5 : s->id,
                                .path = (uint32_t)near(in, s->path),
                                .seq = near(in, s->rx_next),
                                .ack = near(in, s->tx_acked),
                                .stream = byte(in) % 6u,
                                .allowed = byte(in),
                                .n_chunks = byte(in) % 4u,
                                .chunks = c};
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        uint8_t flags = byte(in);
        c[i] = (struct session_chunk){
            .stream = (flags >> 3) % 6u, .flags = flags & 7, .len = byte(in) % 24u, .total = byte(in)};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    const struct session_cfg cfg = {
        .id = 0xa, .lower = byte(&in) & 1, .entries = 6, .streams = 4, .small = 10, .chunk = 20, .window = 100};
    size_t n = session_size(&cfg);
    struct session *s = aligned_alloc(16, n), *before = aligned_alloc(16, n);
    struct session_chunk chunks[SESSION_CHUNKS], given[4];
    FUZZ_CHECK(s && before);
    memset(s, 0, n);
    FUZZ_CHECK(session_init(s, &cfg) == 0);
    moyai_ns now = 1;
    while (in.p < in.end) {
        struct session_frame f, out = {.chunks = chunks};
        uint8_t what = byte(&in);
        struct session_event ev = {.kind = (enum session_event_kind)(what % 13), .now = now, .request = what & 0x80};
        ev.token = byte(&in);
        ev.length = ev.credit = ev.allowed = byte(&in);
        if (ev.credit == 255) ev.credit = UINT64_MAX;
        ev.stream = ev.token & 3u;
        if (ev.kind == SESSION_EV_RECEIVE) frame(&in, s, &f, given);
        ev.frame = &f;
        memcpy(before, s, n);
        int rc = session_step(s, &ev);
        FUZZ_CHECK(rc == 0 || rc == MOYAI_EAGAIN || rc == MOYAI_EPROTO || rc == MOYAI_EINVAL);
        FUZZ_CHECK(rc == 0 || memcmp(before, s, n) == 0);
        struct session_effect fx;
        while (session_next(s, &fx))
            FUZZ_CHECK(fx.kind != SESSION_FX_DELIVER || fx.skip + fx.len == given[fx.index].len);
        check(s);
        for (int i = 0; i < (what >> 5 & 3) && session_pull(s, now, ev.length, &out); i++) check(s);
        now += what & 0x10 ? (moyai_ns)MOYAI_SEC : 1;
    }
    free(s);
    free(before);
    return 0;
}
