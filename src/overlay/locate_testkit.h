/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the locating machine's tests: one node, what it told, and frames given and taken by hand. */
#ifndef OVERLAY_LOCATE_TESTKIT_H
#define OVERLAY_LOCATE_TESTKIT_H

#include "overlay/locate.h"
#include "overlay/locate_internal.h"
#include "overlay/locate_text.h"
#include "overlay/locate_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SELF 0x10
#define MS   ((moyai_ns)MOYAI_MS)

struct kit {
    struct locate *l;
    struct locate_cfg cfg;
    size_t size;
    moyai_ns now;
    char told[4096]; /* effects since they were last looked at */
    struct locate_frame out;
};

/* Ids, names and objects of one byte. */
static inline struct moyai_node_id id_of(uint8_t b) {
    struct moyai_node_id id = {.b = {b}};
    if (b) id.b[15] = 1;
    return id;
}
static inline void key_put(uint8_t to[16], uint8_t b) {
    memcpy(to, id_of(b).b, 16);
}

static inline struct kit *kit_new(const struct locate_cfg *cfg) {
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->cfg = *cfg;
    k->cfg.self = id_of(SELF);
    k->now = (moyai_ns)MOYAI_SEC;
    k->size = locate_size(&k->cfg);
    assert_true(k->size > 0);
    k->l = aligned_alloc(16, k->size);
    assert_non_null(k->l);
    memset(k->l, 0, k->size);
    assert_int_equal(locate_init(k->l, &k->cfg), 0);
    return k;
}

static inline void kit_free(struct kit *k) {
    free(k->l);
    free(k);
}

static inline void check(const struct kit *k) {
    struct moyai_error why = {0};
    if (!locate_check(k->l, &why)) fail_msg("%s", why.text);
}

/* Step and fetch all effects. A refused event must leave no trace. */
static inline int step(struct kit *k, struct locate_event ev) {
    void *before = malloc(k->size);
    assert_non_null(before);
    memcpy(before, k->l, k->size);
    ev.now = k->now;
    int rc = locate_step(k->l, &ev);
    if (rc) assert_memory_equal(before, k->l, k->size);
    free(before);
    check(k);
    struct locate_effect fx;
    while (locate_next(k->l, &fx)) {
        check(k);
        size_t at = strlen(k->told);
        if (at && at + 1 < sizeof k->told) memcpy(k->told + at, " ", 2);
        locate_effect_text(k->told, sizeof k->told, &fx);
    }
    check(k);
    return rc;
}

#define EV(k, ...) ((struct locate_event){.kind = LOCATE_EV_##k, ##__VA_ARGS__})

static inline void expect_at(const char *file, int line, struct kit *k, const char *text) {
    if (strcmp(k->told, text)) {
        print_error("%s:%d: told \"%s\"\n     expected \"%s\"\n", file, line, k->told, text);
        fail();
    }
    k->told[0] = 0;
}
#define expect(k, text) expect_at(__FILE__, __LINE__, k, text)

static inline int up(struct kit *k, uint32_t link, uint8_t node, uint32_t us) {
    return step(k, EV(LINK_UP, .link = link, .node = id_of(node), .cost = us * MOYAI_US));
}
static inline int down(struct kit *k, uint32_t link) {
    return step(k, EV(LINK_DOWN, .link = link));
}

static inline int look(struct kit *k, uint64_t token, enum locate_key_kind kind, uint8_t key) {
    struct locate_event ev = EV(LOOKUP, .token = token, .key_kind = kind);
    key_put(ev.key, key);
    return step(k, ev);
}
static inline int wait_for(struct kit *k, uint64_t token, uint8_t key, moyai_ns until) {
    struct locate_event ev = EV(WAIT, .token = token, .key_kind = LOCATE_NAME, .until = until);
    key_put(ev.key, key);
    return step(k, ev);
}
static inline int add_name(struct kit *k, uint8_t name, uint8_t object, bool moved) {
    struct locate_event ev = EV(NAME_ADD, .moved = moved);
    key_put(ev.key, name);
    key_put(ev.object.b, object);
    return step(k, ev);
}
static inline int remove_name(struct kit *k, uint8_t name) {
    struct locate_event ev = EV(NAME_REMOVE);
    key_put(ev.key, name);
    return step(k, ev);
}

static inline int receive(struct kit *k, uint32_t link, const struct locate_frame *f) {
    return step(k, EV(RECEIVE, .link = link, .frame = f));
}

struct ask {
    enum locate_key_kind kind;
    uint8_t key;
    uint32_t ttl, flags, wait;
    uint64_t nonce;
    uint8_t owner, object;
};
static inline struct locate_frame request_of(struct ask a) {
    struct locate_frame f = {.kind = LOCATE_REQUEST,
                             .key_kind = a.kind,
                             .ttl = a.ttl,
                             .flags = a.flags,
                             .wait = a.wait ? a.wait : 1000,
                             .nonce = a.nonce};
    key_put(f.key, a.key);
    key_put(f.owner, a.owner);
    key_put(f.object, a.object);
    return f;
}
static inline int ask_frame(struct kit *k, uint32_t link, struct ask a) {
    struct locate_frame f = request_of(a);
    return receive(k, link, &f);
}
#define ask(k, link, ...) ask_frame(k, link, (struct ask){__VA_ARGS__})

struct reply {
    enum locate_key_kind kind;
    uint8_t key, owner, object;
    uint32_t hops, cost, status, age;
};
static inline struct locate_frame reply_of(struct reply r) {
    struct locate_frame f = {.kind = LOCATE_REPLY,
                             .key_kind = r.kind,
                             .status = r.status ? r.status : LOCATE_ST_FOUND,
                             .hops = r.hops,
                             .cost = r.cost,
                             .age = r.age};
    key_put(f.key, r.key);
    key_put(f.owner, r.owner);
    key_put(f.object, r.object);
    return f;
}
static inline int reply_frame(struct kit *k, uint32_t link, struct reply r) {
    struct locate_frame f = reply_of(r);
    return receive(k, link, &f);
}
#define reply(k, link, ...) reply_frame(k, link, (struct reply){__VA_ARGS__})

/* A neighbour tells: slot, then id (names: and object), up to four; slots end with one of 99. */
static inline int tells(struct kit *k, uint32_t link, uint32_t slot, uint8_t node, uint32_t us) {
    struct locate_frame f = {.kind = LOCATE_NEIGHBOURS, .n = 1, .slots = {{.slot = slot, .cost = us}}};
    key_put(f.slots[0].id, node);
    return receive(k, link, &f);
}
static inline int tells_name(struct kit *k, uint32_t link, uint32_t slot, uint8_t name, uint8_t object) {
    struct locate_frame f = {.kind = LOCATE_NAMES, .key_kind = LOCATE_NAME, .n = 1, .slots = {{.slot = slot}}};
    key_put(f.slots[0].id, name);
    key_put(f.slots[0].object, object);
    return receive(k, link, &f);
}

/* Links below 64, as bits. */
static inline locate_set low_links(uint64_t bits) {
    return (locate_set){bits};
}

static inline bool are_links(locate_set set, uint64_t bits) {
    return !set_any(set ^ low_links(bits));
}

static inline bool is_ready(struct kit *k, uint32_t link) {
    locate_set ready = locate_ready(k->l, k->now);
    return set_has(&ready, link);
}

/* Pull all that a link has now; it must read so, frames separated by "; ". Each goes over the wire and back. */
static inline void pull_at(const char *file, int line, struct kit *k, uint32_t link, const char *text) {
    char got[4096] = "";
    uint8_t bytes[LOCATE_WIRE_MAX];
    static struct locate_frame again;
    bool ready = is_ready(k, link), some = false;
    while (locate_pull(k->l, link, k->now, &k->out)) {
        check(k);
        some = true;
        size_t n = locate_wire_put(bytes, &k->out);
        assert_int_equal(locate_wire_get((uint8_t)(FRAME_LOCATE + k->out.kind), bytes, n, &again, NULL), 0);
        if (got[0]) strcat(got, "; ");
        locate_frame_text(got, sizeof got, &again);
    }
    check(k);
    if (some && !ready) fail_msg("%s:%d: pulled from a link that was not ready", file, line);
    if (is_ready(k, link)) fail_msg("%s:%d: pulled all, and still ready", file, line);
    if (strcmp(got, text)) {
        print_error("%s:%d: pulled \"%s\"\n       expected \"%s\"\n", file, line, got, text);
        fail();
    }
}
#define pull(k, link, text) pull_at(__FILE__, __LINE__, k, link, text)

/* Throw away what is to be sent. */
/* All that may be sent now is. */
static inline void send_all(struct kit *k) {
    SET_EACH (i, locate_ready(k->l, k->now))
        while (locate_pull(k->l, i, k->now, &k->out)) check(k);
}

static inline void drain(struct kit *k) {
    for (int turn = 0; turn < 3; turn++) {
        send_all(k);
        k->now += 60 * MS;
    }
}

/* Time passes up to the machine's next deadline. */
static inline void timeout(struct kit *k) {
    moyai_ns at = locate_deadline(k->l, k->now);
    assert_true(at != UINT64_MAX);
    if (at > k->now) k->now = at;
    assert_int_equal(step(k, EV(TIMEOUT)), 0);
}

static inline void route_at(const char *file, int line, struct kit *k, uint8_t node, uint64_t avoid, const char *text) {
    char got[64] = "none";
    struct locate_hop hop;
    struct moyai_node_id id = id_of(node);
    if (locate_route(k->l, &id, low_links(avoid), k->now, &hop))
        (void)snprintf(got, sizeof got, "%u/%u:%lld", hop.link, hop.hops, (long long)(hop.cost / MOYAI_US));
    check(k);
    if (strcmp(got, text)) {
        print_error("%s:%d: route \"%s\"\n      expected \"%s\"\n", file, line, got, text);
        fail();
    }
}
#define route(k, node, avoid, text) route_at(__FILE__, __LINE__, k, node, avoid, text)

#endif
