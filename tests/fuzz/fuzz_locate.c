/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locate_wire_get and the machine behind it: a list of inputs, each a byte that says what (an event, or a frame of
 * that kind from some link), and what follows. What is read from bytes is written again byte for byte; whatever comes,
 * the invariants hold after each step, and an event that is refused has changed nothing.
 */
#include "overlay/locate_internal.h"
#include "overlay/locate_wire.h"
#include "tests/fuzz/fuzz.h"

struct input {
    const uint8_t *p, *end;
};

static uint8_t byte(struct input *in) {
    return in->p < in->end ? *in->p++ : 0;
}

/* One of a few ids, so that they meet; 0xff: sixteen bytes that follow. */
static void id(struct input *in, uint8_t to[16]) {
    uint8_t b = byte(in);
    memset(to, 0, 16);
    to[0] = b % 16;
    for (int i = 0; b == 0xff && i < 16; i++) to[i] = byte(in);
}

static void check(const struct locate *l) {
    struct moyai_error why;
    if (locate_check(l, &why)) return;
    fprintf(stderr, "%s\n", why.text);
    abort();
}

/* A payload of the right length for its kind as far as the input reaches; ids are short. */
static size_t payload(struct input *in, uint8_t kind, uint8_t *out) {
    size_t n = 0;
    if (kind == LOCATE_DIGESTED) { /* a few bytes, repeated */
        uint8_t some[4] = {byte(in), byte(in), byte(in), byte(in)};
        memset(out, 0, 4);
        out[0] = some[0] & 0x80 ? some[0] : 13;
        for (n = 4; n < 4 + LOCATE_DIGEST; n++) out[n] = some[n % 4];
        return n;
    }
    uint8_t first = byte(in);
    out[n++] = kind <= LOCATE_NAMES ? first % 4 : first;
    for (int i = 0; i < 3; i++)
        out[n++] = first & 0x80                                                ? byte(in)
                   : (kind == LOCATE_REQUEST || kind == LOCATE_REPLY) && i < 2 ? byte(in) % 9
                   : kind == LOCATE_EVIDENCE && i < 1                          ? 1
                                                                               : 0;
    size_t ids[] = {0, 0, out[0] == LOCATE_CLAIM ? 3 : 1, 3, 1, 1, 4};
    if (kind == LOCATE_REQUEST || kind == LOCATE_REPLY || kind == LOCATE_EVIDENCE)
        for (int i = 0; i < 4; i++) out[n++] = i < 2 ? byte(in) : 0;
    if (kind == LOCATE_REQUEST) {
        memset(out + n, 0, 8);
        out[n] = byte(in) % 4;
        n += 8;
    }
    for (size_t i = 0; i < ids[kind]; i++, n += 16) id(in, out + n);
    for (uint8_t i = 0; kind <= LOCATE_NAMES && i < out[0]; i++) {
        memset(out + n, 0, 8);
        out[n] = byte(in) % 8;
        if (kind == LOCATE_NEIGHBOURS) out[n + 4] = byte(in);
        n += kind == LOCATE_NEIGHBOURS ? 8 : 4;
        id(in, out + n);
        n += 16;
        if (kind == LOCATE_NAMES) id(in, out + n);
        if (kind == LOCATE_NAMES) n += 16;
        if (kind == LOCATE_NEIGHBOURS) memset(out + n, 0, 8);
        if (kind == LOCATE_NEIGHBOURS) out[n] = byte(in) % 3;
        if (kind == LOCATE_NEIGHBOURS) n += 8;
    }
    return n;
}

static bool frame(struct input *in, uint8_t kind, struct locate_frame *f) {
    uint8_t bytes[LOCATE_WIRE_MAX], again[LOCATE_WIRE_MAX];
    struct moyai_error e = {0};
    size_t n = payload(in, kind, bytes);
    if (byte(in) == 0x55 && n) n--;
    int rc = locate_wire_get((uint8_t)(FRAME_LOCATE + kind), bytes, n, f, &e);
    FUZZ_CHECK(rc == 0 || (rc == MOYAI_EPROTO && e.code == rc && e.text[0]));
    if (rc) return false;
    FUZZ_CHECK(locate_wire_put(again, f) == n && memcmp(again, bytes, n) == 0);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    struct input in = {data, data + size}, raw = in;
    const struct locate_cfg cfg = {.self = {.b = {3}},
                                   .seed = 1,
                                   .links = 5,
                                   .told = 2,
                                   .names = 2,
                                   .requests = 5,
                                   .lookups = 3,
                                   .routes = 2,
                                   .dead = 2,
                                   .rate = 1000,
                                   .burst = 20,
                                   .linger = data[0] & 1 ? 5 * MOYAI_MS : 0,
                                   .digest_every = data[0] & 2 ? 500 * MOYAI_MS : 0};
    static struct locate_frame f;
    uint8_t type = byte(&raw);
    if (locate_wire_get(type, raw.p, (size_t)(raw.end - raw.p), &f, NULL) == 0) { /* the whole input as one frame */
        uint8_t again[LOCATE_WIRE_MAX];
        FUZZ_CHECK(locate_wire_put(again, &f) == (size_t)(raw.end - raw.p));
        FUZZ_CHECK(memcmp(again, raw.p, (size_t)(raw.end - raw.p)) == 0);
    }
    size_t n = locate_size(&cfg);
    struct locate *l = calloc(1, n), *before = calloc(1, n);
    FUZZ_CHECK(l && before && locate_init(l, &cfg) == 0);
    moyai_ns now = 1;
    while (in.p < in.end) {
        uint8_t what = byte(&in);
        struct locate_event ev = {.kind = LOCATE_EV_RECEIVE, .now = now, .link = (what >> 4) % 6, .frame = &f};
        if ((what & 15) < 7 || (what & 0x2f) == 0x2f) {
            if (!frame(&in, (what & 15) < 7 ? what & 15 : LOCATE_DIGESTED, &f)) continue;
        } else {
            const enum locate_event_kind kinds[] = {LOCATE_EV_LINK_UP,  LOCATE_EV_LINK_DOWN, LOCATE_EV_COST,
                                                    LOCATE_EV_LOOKUP,   LOCATE_EV_WAIT,      LOCATE_EV_NAME_ADD,
                                                    LOCATE_EV_EVIDENCE, LOCATE_EV_TIMEOUT,   LOCATE_EV_NAME_REMOVE};
            uint8_t b = byte(&in);
            ev.kind = kinds[what & 15 ? (what & 15) - 7 : 8];
            if (ev.kind == LOCATE_EV_TIMEOUT && b & 1) ev.kind = b & 2 ? LOCATE_EV_CANCEL : LOCATE_EV_NAME_REMOVE;
            id(&in, ev.node.b);
            memcpy(ev.key, ev.node.b, 16);
            ev.cost = b * MOYAI_MS;
            ev.how = (enum locate_how)(b % 4);
            ev.key_kind = (enum locate_key_kind)(b % 3);
            ev.token = b % 5;
            ev.until = now + b * (moyai_ns)MOYAI_MS;
            ev.moved = b & 4;
            ev.lost = b & 8;
            ev.object.b[0] = b >> 3;
        }
        memcpy(before, l, n);
        int rc = locate_step(l, &ev);
        FUZZ_CHECK(rc == 0 || memcmp(before, l, n) == 0);
        check(l);
        struct locate_effect fx;
        while (locate_next(l, &fx)) {
        }
        check(l);
        for (uint32_t i = 0; i < 5 && what & 0x40; i++)
            while (locate_pull(l, i, now, &f)) check(l);
        now += what & 0x80 ? 30 * (moyai_ns)MOYAI_MS : 1;
    }
    free(l);
    free(before);
    return 0;
}
