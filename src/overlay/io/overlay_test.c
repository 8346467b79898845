/* SPDX-License-Identifier: Apache-2.0 */
/* What the overlay keeps of nodes that came and went, or that somebody asked for once. */
#include "overlay/io/beat.h"
#include "overlay/io/internal.h"

#include "base/err.h"
#include "link/key.h"
#include "overlay/io/rendezvous_testkit.h"
#include "overlay/session_wire.h"

#include <dirent.h>

#define LIMIT (60 * MOYAI_SEC) /* hang guard */

/* A message of this node, and what it has heard of it. */
struct given {
    struct msg msg;
    unsigned told;
    int code;
    enum moyai_executed executed;
    bool give_up, gone; /* when the inbound message is aborted; it is not told then */
};

enum { SMALL = 3, GIVEN = 6 }; /* the rest are large */

struct world {
    struct fix *fix;
    struct exec *x;
    struct overlay *o;
    struct rundir *dir;
    struct moyai_node_id self;
    bool busy;
    unsigned failed, aborted;
    struct inbound in; /* body: one inbound message is taken */
    struct given given[GIVEN];
};

static int on_message(void *ctx, struct peer *p, uint8_t *bytes, size_t n) {
    (void)ctx, (void)p, (void)bytes, (void)n;
    return 0;
}
static struct inbound *on_begin(void *ctx, struct peer *p, const uint8_t *bytes, size_t n, uint64_t total) {
    struct world *w = ctx;
    (void)p, (void)bytes, (void)n, (void)total;
    return w->in.body && !w->in.peer ? &w->in : NULL;
}
static int on_complete(void *ctx, struct inbound *in) {
    (void)ctx, (void)in;
    return 0;
}
static void on_aborted(void *ctx, struct inbound *in) {
    struct world *w = ctx;
    (void)in;
    w->aborted++;
    for (unsigned i = GIVEN; i-- > 0;)
        if (w->given[i].give_up) w->given[i].gone = overlay_drop(&w->given[i].msg);
}
static void on_failed(void *ctx, struct peer *p, const struct moyai_error *why) {
    (void)p, (void)why;
    ((struct world *)ctx)->failed++;
}
static void on_room(void *ctx, struct peer *p) {
    (void)ctx, (void)p;
}
static bool on_busy(void *ctx, struct peer *p) {
    (void)p;
    return ((struct world *)ctx)->busy;
}
static const struct overlay_ops ops = {.message = on_message,
                                       .begin = on_begin,
                                       .complete = on_complete,
                                       .aborted = on_aborted,
                                       .failed = on_failed,
                                       .room = on_room,
                                       .owes_less = on_room,
                                       .busy = on_busy};

static int open_world(void **state) {
    struct world *w = calloc(1, sizeof *w);
    if (!w || set_up((void **)&w->fix) < 0) return -1;
    *state = w;
    rdv_close(w->fix->r);
    w->fix->r = NULL;
    w->self = node_id(9999);
    assert_int_equal(rundir_open(&w->dir, w->fix->dir, NULL), 0);
    assert_int_equal(exec_new(&w->x, NULL, NULL), 0);
    exec_lock(w->x); /* the test runs under it, and gives it away where it waits */
    struct overlay_cfg cfg = {.grid = w->fix->url,
                              .run_dir = w->fix->dir,
                              .title = "test",
                              .self = w->self,
                              .queue_calls = 1000,
                              .queue_bytes = 1000000,
                              .open_calls = 100,
                              .max_message = 1000000,
                              .reattach = MOYAI_SEC,
                              .idle = 60 * MOYAI_SEC};
    struct moyai_error e = {0};
    if (overlay_new(&w->o, w->x, &cfg, &ops, w, &e) < 0) fail_msg("overlay_new: %s", e.text);
    return 0;
}

static int close_world(void **state) {
    struct world *w = *state;
    overlay_close(w->o);
    overlay_free(w->o);
    exec_unlock(w->x);
    exec_free(w->x);
    rundir_close(w->dir);
    void *fix = w->fix;
    tear_down(&fix);
    free(w);
    return 0;
}

static size_t peers(const struct world *w) {
    return HASH_COUNT(w->o->peers);
}

static void turn(struct world *w) {
    atomic_bool stop = false;
    (void)exec_serve(w->x, &stop, moyai_now() + (moyai_ns)MOYAI_MS);
}

#define UNTIL(w, cond)                                                                                                 \
    do {                                                                                                               \
        moyai_ns limit_ = moyai_now() + (moyai_ns)LIMIT;                                                               \
        while (!(cond)) {                                                                                              \
            if (moyai_now() > limit_) fail_msg("has not come true: %s", #cond);                                        \
            turn(w);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define PUT_MOST 5000

static void put(int fd, const struct frame_head *h, const void *payload) {
    uint8_t bytes[FRAME_HEAD + PUT_MOST];
    assert_true(h->length <= PUT_MOST);
    frame_put_head(bytes, h);
    if (payload) memcpy(bytes + FRAME_HEAD, payload, h->length);
    assert_int_equal(write(fd, bytes, FRAME_HEAD + h->length), FRAME_HEAD + h->length);
}

/* A node that says hello, and nothing more; so many links there are then. */
static int stranger_again(struct world *w, unsigned k, size_t links) {
    int fd;
    assert_int_equal(rundir_connect(w->dir, &w->self, &fd, NULL, NULL), 0);
    struct moyai_node_id id = node_id(k);
    struct link_hello h;
    hello_fill(&h, &id, rundir_host(w->dir), "stranger", FRAME_MAX, 1000000);
    uint8_t bytes[HELLO_MAX];
    int n = hello_encode(&h, bytes, NULL);
    assert_true(n > 0);
    struct frame_head head = {.type = FRAME_HELLO, .class_ = FRAME_CONTROL, .hops = 1, .length = (uint32_t)n};
    put(fd, &head, bytes);
    UNTIL(w, overlay_links(w->o) == links);
    return fd;
}

static int stranger(struct world *w, unsigned k) {
    return stranger_again(w, k, 1);
}

static void strangers_are_forgotten(void **state) {
    struct world *w = *state;
    for (unsigned k = 0; k < 300; k++) {
        int fd = stranger(w, k);
        assert_int_equal(peers(w), 1);
        close(fd);
        UNTIL(w, w->o->n_links == 0);
        UNTIL(w, peers(w) == 0);
    }
    assert_int_equal(w->failed, 0); /* there was nothing to fail */
}

/* Else who has just connected would take the end for a death: its connection is broken, and the next one refused. */
static void who_was_not_let_in_yet_hears_the_farewell(void **state) {
    struct world *w = *state;
    int fds[3];
    for (unsigned k = 0; k < 3; k++) assert_int_equal(rundir_connect(w->dir, &w->self, &fds[k], NULL, NULL), 0);
    overlay_farewell(w->o);
    int fd;
    assert_int_equal(rundir_connect(w->dir, &w->self, &fd, NULL, NULL), MOYAI_EDEAD);
    assert_false(rundir_has(w->dir, &w->self));
    for (unsigned k = 0; k < 3; k++) {
        uint8_t bytes[2 * (FRAME_HEAD + HELLO_MAX)];
        size_t n = 0;
        ssize_t got;
        while ((got = read(fds[k], bytes + n, sizeof bytes - n)) != 0) {
            if (got > 0)
                n += (size_t)got;
            else
                turn(w);
        }
        unsigned seen[2] = {0}, frames = 0;
        for (size_t at = 0; at < n; frames++) {
            struct frame_head head;
            assert_true(n - at >= FRAME_HEAD);
            assert_int_equal(frame_get_head(bytes + at, &head, NULL), 0);
            if (frames < 2) seen[frames] = head.type;
            at += FRAME_HEAD + head.length;
        }
        assert_int_equal(frames, 2);
        assert_int_equal(seen[0], FRAME_HELLO);
        assert_int_equal(seen[1], FRAME_FAREWELL);
        close(fds[k]);
    }
}

/* Who has left is remembered, so that it stays so: but nothing that belonged to it. */
static void of_the_departed_only_that_is_kept(void **state) {
    struct world *w = *state;
    for (unsigned k = 0; k < 20; k++) {
        int fd = stranger(w, k);
        struct moyai_node_id id = node_id(k);
        void **data = peer_data(overlay_find(w->o, id.b));
        *data = malloc(8000);
        struct frame_head head = {.type = FRAME_FAREWELL, .class_ = FRAME_CONTROL, .hops = 1};
        put(fd, &head, NULL);
        close(fd);
        UNTIL(w, w->o->n_links == 0);
        const struct peer *p = overlay_find(w->o, id.b);
        assert_non_null(p);
        assert_true(peer_dead(p, NULL));
        UNTIL(w, !p->data);
    }
    assert_int_equal(peers(w), 20);
}

struct test_ping {
    struct ping ping;
    unsigned done;
    int code;
};

static void on_ping(struct ping *g, int code) {
    struct test_ping *t = (struct test_ping *)g;
    t->done++;
    t->code = code;
}

static void who_was_asked_for_once_is_forgotten(void **state) {
    struct world *w = *state;
    struct test_ping g = {.ping = {.fn = on_ping}};
    for (unsigned k = 0; k < 1000; k++) {
        struct moyai_node_id id = node_id(k);
        assert_non_null(overlay_peer(w->o, id.b));
        assert_int_equal(overlay_ping(w->o, id.b, &g.ping), MOYAI_EDEAD);
    }
    assert_int_equal(peers(w), 1000);
    UNTIL(w, peers(w) == 0);
    assert_int_equal(g.done, 0);
}

static unsigned entries(const struct world *w, const char *sub) {
    char path[100];
    unsigned n = 0;
    snprintf(path, sizeof path, "%s/%s", w->fix->dir, sub);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* What the dead had is removed, by one of those who know it, and not at one go if it is much. */
static void the_dead_are_forgotten_in_parts(void **state) {
    enum { NAMES = 4000, DEAD = 3 };
    struct world *w = *state;
    char name[40];
    for (unsigned k = 1; k <= DEAD; k++) {
        struct rdv *other = open_ok(w->fix->url);
        struct rdv_node entry = node_entry(k);
        struct moyai_object_id object = {{0x70, (uint8_t)k}};
        assert_int_equal(rdv_put_node(other, &entry, NULL), 0);
        for (unsigned i = 0; i < NAMES / DEAD; i++) {
            snprintf(name, sizeof name, "of-%u-%u", k, i);
            assert_int_equal(rdv_put_name(other, name, &object, &entry.id, NULL, NULL, NULL), 0);
        }
        rdv_abandon(other);
    }
    assert_int_equal(entries(w, "n"), 1 + DEAD);
    struct rdv_forget *elsewhere = NULL; /* another one who is at the third */
    struct rdv *other = open_ok(w->fix->url);
    struct moyai_node_id id = node_id(3);
    assert_int_equal(rdv_forget_begin(other, &id, &elsewhere, NULL), 1);
    for (unsigned k = 1; k <= DEAD; k++) {
        id = node_id(k);
        overlay_declare_dead(w->o, id.b, "its process has ended");
    }
    assert_true(entries(w, "m") > NAMES / DEAD); /* it would take longer than a millisecond */
    UNTIL(w, !w->o->forgets);
    assert_int_equal(entries(w, "m"), NAMES / DEAD);
    assert_int_equal(entries(w, "n"), 2);
    assert_int_equal(rdv_forget_some(elsewhere, MOYAI_FOREVER, NULL), 0);
    rdv_forget_end(elsewhere);
    rdv_abandon(other);
    assert_int_equal(entries(w, "m"), 0);
    assert_int_equal(entries(w, "n"), 1);
}

/* The next frame of that type that the node has sent. */
static void get(struct world *w, int fd, uint8_t type, uint8_t *payload, size_t n) {
    for (;;) {
        uint8_t bytes[FRAME_HEAD];
        struct frame_head h;
        UNTIL(w, recv(fd, bytes, FRAME_HEAD, MSG_PEEK | MSG_DONTWAIT) == FRAME_HEAD);
        assert_int_equal(read(fd, bytes, FRAME_HEAD), FRAME_HEAD);
        assert_int_equal(frame_get_head(bytes, &h, NULL), 0);
        uint8_t *p = malloc(h.length + 1);
        if (h.length) {
            UNTIL(w, recv(fd, p, h.length, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)h.length);
            assert_int_equal(read(fd, p, h.length), h.length);
        }
        bool found = h.type == type;
        if (found) {
            assert_int_equal(h.length, n);
            memcpy(payload, p, n);
        }
        free(p);
        if (found) return;
    }
}

static void pong(int fd, const uint8_t token[8]) {
    struct frame_head head = {.type = FRAME_PONG, .class_ = FRAME_CONTROL, .hops = 1, .length = 8};
    put(fd, &head, token);
}

/* However many pings a peer leaves unanswered, nothing of them is kept, little is sent, and a later one gets through;
 * what comes late is no answer to it. */
static void pings_given_up_cost_nothing(void **state) {
    struct world *w = *state;
    int fd = stranger(w, 1);
    struct moyai_node_id id = node_id(1);
    const struct peer *p = overlay_find(w->o, id.b);
    for (int i = 0; i < 100000; i++) {
        struct test_ping g = {.ping = {.fn = on_ping}};
        assert_int_equal(overlay_ping(w->o, id.b, &g.ping), 0);
        overlay_ping_drop(&g.ping);
        assert_int_equal(g.done, 0);
    }
    struct olink *k = olink_ready(p);
    assert_null(p->pings.first);
    assert_null(k->pings.first);
    assert_int_equal(k->pongs_due, PINGS_MOST);
    assert_int_equal(link_queued(k->link), 0);

    struct test_ping last = {.ping = {.fn = on_ping}};
    assert_int_equal(overlay_ping(w->o, id.b, &last.ping), 0);
    uint8_t token[8];
    for (unsigned i = 0; i < PINGS_MOST; i++) {
        get(w, fd, FRAME_PING, token, 8);
        pong(fd, token);
        assert_int_equal(last.done, 0);
    }
    get(w, fd, FRAME_PING, token, 8);
    pong(fd, token);
    UNTIL(w, last.done == 1);
    assert_int_equal(last.code, 0);
    pong(fd, token); /* once more, and one that nobody asked for */
    memset(token, 0x55, sizeof token);
    pong(fd, token);
    struct frame_head head = {.type = FRAME_PING, .class_ = FRAME_CONTROL, .hops = 1, .length = 8};
    put(fd, &head, token);
    get(w, fd, FRAME_PONG, token, 8);
    assert_int_equal(overlay_links(w->o), 1);
    assert_int_equal(k->pongs_due, 0);
    close(fd);
    UNTIL(w, peers(w) == 0);
}

/* Whoever asks again whether a silent link is there gives it no more time; a shorter limit counts. */
static void probes_do_not_put_off_the_end(void **state) {
    struct world *w = *state;
    int fd = stranger(w, 1);
    struct moyai_node_id id = node_id(1);
    struct olink *k = olink_ready(overlay_find(w->o, id.b));
    assert_non_null(k);
    k->heard = exec_now(w->o->x) - 1;
    olink_probe(k);
    moyai_ns end = k->probe_timer.when;
    for (int i = 0; i < 3; i++) {
        uint8_t token[8];
        moyai_ns before = exec_now(w->o->x);
        UNTIL(w, exec_now(w->o->x) > before);
        olink_probe(k);
        assert_int_equal(k->probe_timer.when, end);
        assert_int_equal(k->pongs_due, 1);
        if (i == 0) get(w, fd, FRAME_PING, token, 8);
    }
    close(fd);
    UNTIL(w, peers(w) == 0);
}

/* Where things are late silence counts later; what was late once is forgotten. */
static void who_is_late_is_waited_for(void **state) {
    struct world *w = *state;
    struct overlay *o = w->o;
    int fd = stranger(w, 1);
    struct moyai_node_id id = node_id(1);
    struct olink *k = olink_ready(overlay_find(o, id.b));
    o->late = 0;
    beat_late_by(o, 150 * MOYAI_MS); /* it happens */
    assert_int_equal(beat_patience(o), 0);
    beat_late_by(o, 500 * MOYAI_MS);
    beat_late_by(o, 400 * MOYAI_MS);
    assert_int_equal(beat_patience(o), 2 * MOYAI_SEC);
    o->late_at -= 5 * (moyai_ns)MOYAI_SEC;
    assert_int_equal(beat_patience(o), MOYAI_SEC);
    o->late_at -= 5 * (moyai_ns)MOYAI_SEC;
    assert_int_equal(beat_patience(o), 0);
    beat_late_by(o, 3600 * MOYAI_SEC);
    assert_int_equal(beat_patience(o), PATIENCE_MOST);

    moyai_ns now = exec_now(o->x);
    olink_probe(k);
    k->probed = k->heard = k->probe_timer.when = now - (moyai_ns)(BEAT + MOYAI_SEC);
    k->probe_timer.when = now;
    beat_late(o->x, &k->probe_timer);
    assert_false(k->silent);
    assert_int_equal(k->probe_timer.when, k->probed + (moyai_ns)(BEAT + PATIENCE_MOST));
    o->late = 0;
    exec_timer_clear(o->x, &k->probe_timer);
    k->probe_timer.when = now;
    beat_late(o->x, &k->probe_timer);
    assert_true(k->silent);
    close(fd);
    UNTIL(w, peers(w) == 0);
}

/* Whose node has offered another as if there were none has less time to answer, unless it is far; what comes by it ends
 * that. */
static void who_is_doubted_has_little_time(void **state) {
    struct world *w = *state;
    struct overlay *o = w->o;
    int fd = stranger(w, 1);
    struct moyai_node_id id = node_id(1);
    struct olink *k = olink_ready(overlay_find(o, id.b));
    moyai_ns now = exec_now(o->x), before = now - (moyai_ns)DOUBT;
    o->late = 0;
    olink_probe(k); /* it is asked already, and may take longer */
    assert_true(k->probe_timer.when > now + (moyai_ns)DOUBT);
    for (int heard = 1; heard >= 0; heard--) {
        beat_doubt(k);
        assert_true(k->probe_timer.when <= exec_now(o->x) + (moyai_ns)DOUBT);
        exec_timer_clear(o->x, &k->probe_timer);
        k->probed = k->heard = before;
        k->heard += (moyai_ns)heard;
        k->probe_timer.when = now;
        beat_late(o->x, &k->probe_timer);
        assert_int_equal(k->silent, !heard);
        assert_int_equal(k->doubted, !heard);
    }
    k->silent = false;
    k->trip = 400 * MOYAI_MS;
    beat_late(o->x, &k->probe_timer);
    assert_false(k->silent);
    assert_int_equal(k->probe_timer.when, before + 1600 * (moyai_ns)MOYAI_MS);
    k->trip = 3600 * MOYAI_SEC;
    beat_late(o->x, &k->probe_timer);
    assert_int_equal(k->probe_timer.when, before + (moyai_ns)BEAT);
    close(fd);
    UNTIL(w, peers(w) == 0);
}

/* A way that seemed long when everything was late is measured again, some times; the lesser of two counts. */
static void long_ways_are_measured_again(void **state) {
    struct world *w = *state;
    struct overlay *o = w->o;
    int fd = stranger(w, 1);
    struct moyai_node_id id = node_id(1);
    struct olink *k = olink_ready(overlay_find(o, id.b));
    moyai_ns now = exec_now(o->x), wait = 5 * (moyai_ns)MOYAI_SEC;
    k->mesh = true;
    k->slot = -1; /* it is in no routes */
    o->late = 0;
    for (unsigned i = 1; i <= 4; i++, wait *= 4) {
        k->trip = 0;
        k->probed = now - 300 * (moyai_ns)MOYAI_MS;
        beat_measured(k);
        assert_int_equal(k->probed, 0);
        assert_int_equal(k->measured, i < 4 ? i : 3);
        assert_int_equal(k->measure_at, i < 4 ? now + wait : 0);
        k->probed = now - 400 * (moyai_ns)MOYAI_MS; /* in between, for another reason */
        beat_measured(k);
        assert_int_equal(k->measure_at, i < 4 ? now + wait : 0);
        if (i < 4) k->measure_at = now;
    }
    assert_int_equal(beat_patience(o), 4 * 400 * MOYAI_MS);
    k->measured = 0;
    k->probed = now - 1 * (moyai_ns)MOYAI_MS;
    beat_measured(k);
    assert_int_equal(k->measure_at, 0); /* near */
    k->mesh = false;
    close(fd);
    UNTIL(w, peers(w) == 0);
}

/* A ping whose link goes is sent again over another one, and one whose peer goes is told so. */
static void pings_outlive_their_link(void **state) {
    struct world *w = *state;
    struct moyai_node_id id = node_id(1);
    struct test_ping g[2] = {{.ping = {.fn = on_ping}}, {.ping = {.fn = on_ping}}};
    int fd[2];
    uint8_t token[2][8];
    fd[0] = stranger(w, 1);
    for (int i = 0; i < 2; i++) assert_int_equal(overlay_ping(w->o, id.b, &g[i].ping), 0);
    for (int i = 0; i < 2; i++) get(w, fd[0], FRAME_PING, token[i], 8);
    fd[1] = stranger_again(w, 1, 2);
    close(fd[0]);
    UNTIL(w, w->o->n_links == 1);
    for (int i = 0; i < 2; i++) {
        uint8_t again[8];
        get(w, fd[1], FRAME_PING, again, 8);
        assert_memory_equal(again, token[i], 8);
    }
    pong(fd[1], token[0]);
    UNTIL(w, g[0].done == 1);
    assert_int_equal(g[0].code, 0);
    close(fd[1]);
    UNTIL(w, g[1].done == 1);
    assert_int_equal(g[1].code, MOYAI_EDEAD);
    UNTIL(w, peers(w) == 0);
}

/* A node that does not take connections just now: the ping waits, too, and finds out how that ends. */
static void pings_wait_for_a_crowded_socket(void **state) {
    struct world *w = *state;
    struct moyai_node_id id = node_id(1);
    int l, fd[8], n = 0, rc;
    assert_int_equal(rundir_listen(w->dir, &id, &l, NULL), 0);
    assert_int_equal(listen(l, 1), 0);
    while (n < 8 && (rc = rundir_connect(w->dir, &id, &fd[n], NULL, NULL)) == 0) n++;
    assert_int_equal(rc, MOYAI_EAGAIN);
    struct test_ping g[2] = {{.ping = {.fn = on_ping}}, {.ping = {.fn = on_ping}}};
    for (int i = 0; i < 2; i++) assert_int_equal(overlay_ping(w->o, id.b, &g[i].ping), 0);
    const struct peer *p = overlay_find(w->o, id.b);
    overlay_ping_drop(&g[1].ping);
    for (int i = 0; i < 30; i++) turn(w);
    assert_int_equal(g[0].done, 0);
    assert_false(olink_coming(p));
    for (int i = 0; i < n; i++) {
        int s;
        assert_int_equal(rundir_accept(l, &s, NULL, NULL, NULL), 0);
        close(s);
        close(fd[i]);
    }
    UNTIL(w, olink_coming(p));
    rundir_unlink(w->dir, &id);
    close(l);
    UNTIL(w, g[0].done == 1);
    assert_int_equal(g[0].code, MOYAI_EDEAD);
    assert_int_equal(g[1].done, 0);
    UNTIL(w, peers(w) == 0);
}

/* While the layer above has something to do with it, or a link is there, it stays. */
static void who_is_needed_stays(void **state) {
    struct world *w = *state;
    w->busy = true;
    int fd = stranger(w, 1);
    const struct moyai_node_id id = node_id(1);
    const struct peer *p = overlay_find(w->o, id.b);
    close(fd);
    UNTIL(w, w->o->n_links == 0);
    for (int i = 0; i < 3; i++) turn(w);
    assert_ptr_equal(overlay_find(w->o, id.b), p);
    w->busy = false;
    fd = stranger(w, 1);
    overlay_release(overlay_find(w->o, id.b)); /* but there is a link */
    for (int i = 0; i < 3; i++) turn(w);
    assert_ptr_equal(overlay_find(w->o, id.b), p);
    close(fd);
    UNTIL(w, peers(w) == 0);
}

/* A death is told with who it was and of what, by a witness or by a refused connection. */
static void the_dead_are_named(void **state) {
    struct world *w = *state;
    char want[100];
    int fd = stranger(w, 1);
    struct moyai_node_id id = node_id(1);
    overlay_declare_dead(w->o, id.b, "killed by signal 9 (Killed)");
    struct moyai_error e = {0};
    assert_true(peer_dead(overlay_find(w->o, id.b), &e));
    snprintf(want, sizeof want, "node 40000100 (stranger, pid %d) has died: killed by signal 9 (Killed)", getpid());
    assert_string_equal(e.text, want);
    close(fd);

    id = node_id(2); /* nobody knows it */
    overlay_declare_dead(w->o, id.b, "its process has ended");
    assert_true(peer_dead(overlay_find(w->o, id.b), &e));
    assert_string_equal(e.text, "node 40000200 has died: its process has ended");

    struct rdv_node entry = node_entry(3); /* it is known to the grid only */
    struct rdv *other = open_ok(w->fix->url);
    assert_int_equal(rdv_put_node(other, &entry, NULL), 0);
    rdv_abandon(other);
    id = node_id(3);
    overlay_declare_dead(w->o, id.b, "its process has ended");
    assert_true(peer_dead(overlay_find(w->o, id.b), &e));
    snprintf(want, sizeof want, "node 40000300 (test, pid %d) has died: its process has ended", getpid());
    assert_string_equal(e.text, want);
}

/* Names are in the directory where there is one, also where a grid file names lines to other hosts. */
static void a_directory_has_room_for_any_names(void **state) {
    struct world *w = *state;
    char file[128], key[128];
    struct keyring r = {.n = 1};
    snprintf(file, sizeof file, "%s/lines", w->fix->dir);
    snprintf(key, sizeof key, "%s/moyai/key", w->fix->dir);
    assert_int_equal(setenv("XDG_CONFIG_HOME", w->fix->dir, 1), 0);
    fclose(fopen(file, "w"));
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, key, false, NULL), 0);
    assert_int_equal(overlay_name_room(w->o), SIZE_MAX);
    struct overlay_cfg cfg = w->o->cfg;
    struct moyai_error e = {0};
    struct overlay *o;
    cfg.grid = w->fix->url;
    cfg.run_dir = w->fix->dir;
    cfg.title = "lines";
    cfg.self = node_id(9998);
    cfg.grid_file = file;
    if (overlay_new(&o, w->x, &cfg, &ops, w, &e) < 0) fail_msg("overlay_new: %s", e.text);
    assert_non_null(o->route);
    assert_false(overlay_locates(o));
    assert_int_equal(overlay_name_room(o), SIZE_MAX);
    overlay_close(o);
    overlay_free(o);
}

/* ---- messages that a session gives back -------------------------------------------------------- */

static void on_done(struct msg *m, int code, enum moyai_executed executed) {
    struct given *g = (struct given *)m;
    assert_false(g->gone);
    assert_int_equal(g->told++, 0);
    g->code = code;
    g->executed = executed;
}

static void put_session(int fd, const struct session_frame *f, const void *bytes, size_t n) {
    uint8_t payload[PUT_MOST];
    const size_t head = session_wire_head_size(f);
    assert_true(head + n <= sizeof payload);
    session_wire_put_head(payload, f);
    if (n) memcpy(payload + head, bytes, n);
    struct frame_head h = {.type = (uint8_t)(FRAME_SESSION + f->kind),
                           .class_ = f->kind == SESSION_DATA ? FRAME_SMALL : FRAME_CONTROL,
                           .hops = 1,
                           .length = (uint32_t)(head + n)};
    put(fd, &h, payload);
}

/* The session that the node opens, which is accepted. */
static struct session_frame take_session(struct world *w, int fd) {
    uint8_t payload[16];
    size_t head;
    struct session_frame f = {0};
    get(w, fd, FRAME_SESSION + SESSION_OPEN, payload, sizeof payload);
    assert_int_equal(session_wire_get(FRAME_SESSION + SESSION_OPEN, payload, sizeof payload, &f, &head, NULL), 0);
    f.kind = SESSION_ACCEPT;
    put_session(fd, &f, NULL, 0);
    return f;
}

/* A stranger's session: small messages that it was sent whole, large ones of which it has the beginning; and it has
 * begun one of its own. */
static int give_all(struct world *w, struct session_frame *session, uint8_t *bytes) {
    const int fd = stranger(w, 1);
    const struct moyai_node_id id = node_id(1);
    struct peer *p = overlay_find(w->o, id.b);
    w->busy = true;
    for (unsigned i = 0; i < GIVEN; i++) {
        const uint32_t n = i < SMALL ? 100 : 5000;
        w->given[i].msg = (struct msg){
            .head = bytes, .head_len = n, .length = n, .request = true, .limited = true, .lane = i, .done = on_done};
        assert_int_equal(overlay_send(p, &w->given[i].msg), 0);
    }
    *session = take_session(w, fd);
    w->in.body = bytes;
    struct session_chunk chunk = {.stream = 1, .flags = SESSION_BEGIN, .len = 4096, .total = 5000};
    struct session_frame data = {
        .kind = SESSION_DATA, .id = session->id, .path = session->path, .n_chunks = 1, .chunks = &chunk};
    put_session(fd, &data, bytes, 4096);
    UNTIL(w, w->in.have == 4096 && !p->waiting_calls && !session_pending(p->session));
    assert_int_equal(p->open, GIVEN);
    return fd;
}

/* While a session that fails tells what it gives back, some of that is given up. */
static void what_fails_can_be_given_up_meanwhile(void **state) {
    struct world *w = *state;
    struct session_frame session;
    uint8_t bytes[5000] = {0};
    const int fd = give_all(w, &session, bytes);
    const struct moyai_node_id id = node_id(1);
    const struct peer *p = overlay_find(w->o, id.b);
    for (unsigned i = 1; i < GIVEN; i++) w->given[i].give_up = i % SMALL > 0;
    overlay_declare_dead(w->o, id.b, "its process has ended");
    assert_int_equal(w->aborted, 1);
    for (unsigned i = 0; i < GIVEN; i++) {
        const struct given *g = &w->given[i];
        const bool whole = i < SMALL; /* it may have been taken: that is told, whoever wants to know */
        assert_int_equal(g->gone, g->give_up && !whole);
        assert_int_equal(g->told, !g->gone);
        assert_int_equal(g->msg.state, MSG_IDLE);
        if (g->gone) continue;
        assert_int_equal(g->code, MOYAI_EDEAD);
        assert_int_equal(g->executed, whole ? MOYAI_MAY_HAVE_EXECUTED : MOYAI_NEVER_EXECUTED);
    }
    assert_null(p->requests.first);
    assert_null(p->returned.first);
    assert_null(p->drops.first);
    assert_int_equal(p->waiting_calls, 0);
    assert_int_equal(p->waiting_bytes, 0);
    close(fd);
    UNTIL(w, w->o->n_links == 0);
}

/* The same of a session that its peer closes, which has taken nothing: the rest is for the next session. */
static void what_is_put_back_can_be_given_up_meanwhile(void **state) {
    struct world *w = *state;
    struct session_frame session;
    uint8_t bytes[5000] = {0};
    const int fd = give_all(w, &session, bytes);
    const struct moyai_node_id id = node_id(1);
    struct peer *p = overlay_find(w->o, id.b);
    for (unsigned i = 1; i < GIVEN; i++) w->given[i].give_up = i % SMALL > 0;
    session.kind = SESSION_CLOSE;
    put_session(fd, &session, NULL, 0);
    UNTIL(w, w->aborted && p->waiting_calls);
    assert_int_equal(p->waiting_calls, 2);
    assert_int_equal(p->waiting_bytes, 100 + 5000);
    assert_ptr_equal(p->requests.first, &w->given[0].msg);
    assert_ptr_equal(p->requests.last, &w->given[SMALL].msg);
    assert_ptr_equal(p->requests.first->next, p->requests.last);
    for (unsigned i = 0; i < GIVEN; i++) {
        assert_int_equal(w->given[i].told, 0);
        assert_int_equal(w->given[i].gone, w->given[i].give_up);
        assert_int_equal(w->given[i].msg.state, w->given[i].gone ? MSG_IDLE : MSG_WAITING);
    }
    (void)take_session(w, fd);
    UNTIL(w, p->opened && !p->waiting_calls);
    assert_true(overlay_drop(&w->given[SMALL].msg)); /* it is as any other again: withdrawn from the session */
    w->given[SMALL].gone = true;
    overlay_declare_dead(w->o, id.b, "its process has ended");
    assert_int_equal(w->given[0].told, 1);
    assert_int_equal(w->given[0].executed, MOYAI_MAY_HAVE_EXECUTED);
    close(fd);
    UNTIL(w, w->o->n_links == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(strangers_are_forgotten, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_was_not_let_in_yet_hears_the_farewell, open_world, close_world),
        cmocka_unit_test_setup_teardown(of_the_departed_only_that_is_kept, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_was_asked_for_once_is_forgotten, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_is_needed_stays, open_world, close_world),
        cmocka_unit_test_setup_teardown(the_dead_are_named, open_world, close_world),
        cmocka_unit_test_setup_teardown(the_dead_are_forgotten_in_parts, open_world, close_world),
        cmocka_unit_test_setup_teardown(pings_given_up_cost_nothing, open_world, close_world),
        cmocka_unit_test_setup_teardown(probes_do_not_put_off_the_end, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_is_doubted_has_little_time, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_is_late_is_waited_for, open_world, close_world),
        cmocka_unit_test_setup_teardown(long_ways_are_measured_again, open_world, close_world),
        cmocka_unit_test_setup_teardown(pings_outlive_their_link, open_world, close_world),
        cmocka_unit_test_setup_teardown(pings_wait_for_a_crowded_socket, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_directory_has_room_for_any_names, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_fails_can_be_given_up_meanwhile, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_is_put_back_can_be_given_up_meanwhile, open_world, close_world),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
