/* SPDX-License-Identifier: Apache-2.0 */
/* Two links, or a link and a bare socket, over a socket pair in one loop; with the argument "tls" over TLS. */
#include "link/link.h"

#include "base/rng.h"
#include "link/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (30 * MOYAI_SEC) /* hang guard */

/* One end: counts and checks what arrives. Payloads are the bytes of a random stream that starts at `label`. */
struct end {
    struct exec *x;
    struct link *link;
    atomic_bool stop;
    uint64_t frames, bytes, expect; /* frames to wait for */
    bool down, place, roomed;
    struct moyai_error why;
    uint8_t *dest;
    size_t dest_size;
    uint64_t placed;
    int refuse;
};

static void fill(uint8_t *p, size_t n, uint32_t seed) {
    struct moyai_rng r;
    rng_seed(&r, seed);
    rng_bytes(&r, p, n);
}

static void check_payload(const uint8_t *p, size_t n, uint32_t seed) {
    uint8_t *want = malloc(n + 1);
    fill(want, n, seed);
    if (memcmp(p, want, n) != 0) {
        fprintf(stderr, "payload of frame %u differs\n", seed);
        _exit(1); /* a longjmp must not leave a callback of the loop */
    }
    free(want);
}

static void took(struct end *e, size_t n) {
    e->frames++;
    e->bytes += n;
    if (e->frames == e->expect) {
        atomic_store(&e->stop, true);
        exec_kick(e->x);
    }
}

static int on_frame(struct link *l, const struct frame_head *h, uint8_t *payload, struct moyai_error *why) {
    struct end *e = link_owner(l);
    (void)why;
    if (e->refuse) return e->refuse;
    check_payload(payload, h->length, h->label);
    took(e, h->length);
    return 0;
}

static size_t on_place(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest) {
    struct end *e = link_owner(l);
    (void)prefix;
    if (!e->place) return 0;
    if (e->dest_size < h->length) {
        fprintf(stderr, "frame of %u bytes\n", h->length);
        _exit(1);
    }
    *dest = e->dest + 40; /* as if the first 40 bytes were the layer's own head */
    return 40;
}

static int on_placed(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t *dest,
                     struct moyai_error *why) {
    struct end *e = link_owner(l);
    (void)why;
    if (dest) {
        memcpy(e->dest, prefix, 40);
        check_payload(e->dest, h->length, h->label);
        e->placed++;
    }
    took(e, h->length);
    return 0;
}

static void on_room(struct link *l) {
    struct end *e = link_owner(l);
    e->roomed = true;
}

static void on_down(struct link *l, const struct moyai_error *why) {
    struct end *e = link_owner(l);
    assert_false(e->down);
    e->down = true;
    e->why = *why;
    atomic_store(&e->stop, true);
    exec_kick(e->x);
}

static const struct link_ops ops = {
    .frame = on_frame, .place = on_place, .placed = on_placed, .room = on_room, .down = on_down};

static bool secure; /* over TLS */
static char dir[] = "/tmp/moyai-link-XXXXXX";
static struct keyfile *keys[2]; /* of the two ends; the same unless a test says otherwise */

struct fixture {
    struct exec *x;
    struct tls_ctx *ctx[2];
    struct end a, b;
    int peer; /* a bare socket instead of b; -1: none */
};

static struct tls *end_tls(struct fixture *t, int i, int fd) {
    if (!secure) return NULL;
    assert_int_equal(tls_ctx_new(&t->ctx[i], keys[i], NULL), 0);
    struct tls *tls = tls_new(t->ctx[i], fd, i == 1, 0);
    assert_non_null(tls);
    return tls;
}

static void open_pair(struct fixture *t, bool bare) {
    int fd[2];
    memset(t, 0, sizeof *t);
    assert_int_equal(exec_new(&t->x, NULL, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    exec_lock(t->x);
    t->a.x = t->b.x = t->x;
    t->a.link = link_new(t->x, fd[0], bare ? NULL : end_tls(t, 0, fd[0]), &ops, &t->a);
    assert_non_null(t->a.link);
    t->peer = -1;
    if (bare) {
        t->peer = fd[1];
    } else {
        t->b.link = link_new(t->x, fd[1], end_tls(t, 1, fd[1]), &ops, &t->b);
        assert_non_null(t->b.link);
    }
}

static void close_pair(struct fixture *t) {
    link_free(t->a.link);
    link_free(t->b.link);
    if (t->peer >= 0) close(t->peer);
    exec_unlock(t->x);
    exec_free(t->x);
    tls_ctx_free(t->ctx[0]);
    tls_ctx_free(t->ctx[1]);
    free(t->a.dest);
    free(t->b.dest);
}

static void until(struct fixture *t, struct end *e, uint64_t frames) {
    e->expect = frames;
    atomic_store(&e->stop, e->frames >= frames || e->down);
    assert_int_equal(exec_serve(t->x, &e->stop, moyai_now() + (moyai_ns)LIMIT), 0);
}

static void send_frame(struct end *e, uint32_t label, const uint8_t *p, size_t n) {
    struct frame_head h = {
        .type = FRAME_SESSION, .class_ = FRAME_SMALL, .hops = 1, .label = label, .length = (uint32_t)n};
    /* Cut into pieces of uneven sizes, some of them borrowed. */
    struct link_piece pieces[3] = {{p, n / 3}, {p + n / 3, n / 2}, {p + n / 3 + n / 2, n - n / 3 - n / 2}};
    assert_int_equal(link_send(e->link, &h, pieces, 3), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void small_frames_in_order(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    uint8_t bytes[512];
    for (uint32_t i = 0; i < 5000; i++) {
        fill(bytes, i % sizeof bytes, i);
        send_frame(&t.a, i, bytes, i % sizeof bytes);
    }
    link_flush(t.a.link);
    until(&t, &t.b, 5000);
    assert_int_equal(t.b.frames, 5000);
    assert_int_equal(link_queued(t.a.link), 0);
    close_pair(&t);
}

static void large_frames(void **state) {
    bool place = *(bool *)*state;
    struct fixture t;
    open_pair(&t, false);
    t.b.place = place;
    t.b.dest_size = FRAME_MAX;
    t.b.dest = malloc(t.b.dest_size);
    static const size_t sizes[] = {LINK_LARGE - 1, LINK_LARGE, LINK_LARGE + 1, 65536, 100000, FRAME_MAX, 1, 0,
                                   FRAME_MAX};
    size_t count = sizeof sizes / sizeof sizes[0];
    uint8_t *p[sizeof sizes / sizeof sizes[0]];
    for (uint32_t i = 0; i < count; i++) {
        p[i] = malloc(sizes[i] + 1);
        fill(p[i], sizes[i], i);
        send_frame(&t.a, i, p[i], sizes[i]);
    }
    assert_int_equal(link_room(t.a.link), 0); /* far above the mark */
    link_flush(t.a.link);
    until(&t, &t.b, count);
    for (uint32_t i = 0; i < count; i++) free(p[i]);
    assert_true(t.a.roomed); /* it was told when the queue had drained */
    assert_true(link_room(t.a.link) > 0);
    if (place) assert_true(t.b.placed >= 4);
    close_pair(&t);
}

static void reserved_space(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    for (uint32_t i = 0; i < 100; i++) {
        struct frame_head h = {.type = FRAME_SESSION, .class_ = FRAME_SMALL, .label = i, .length = i * 7};
        uint8_t *p = link_reserve(t.a.link, &h);
        assert_non_null(p);
        fill(p, h.length, i);
    }
    link_flush(t.a.link);
    until(&t, &t.b, 100);
    close_pair(&t);
}

/* What was queued before the last word leaves; what is sent after it does not, and what comes is read. */
static void nothing_follows_the_last(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    uint8_t *p = malloc(600000);
    fill(p, 600000, 0);
    for (int i = 0; i < 8; i++) send_frame(&t.a, 0, p, 600000);
    link_flush(t.a.link);
    assert_true(link_queued(t.a.link) > 0);
    link_last(t.a.link);
    const size_t queued = link_queued(t.a.link);
    const struct frame_head h = {.type = FRAME_SESSION, .class_ = FRAME_SMALL, .length = FRAME_MAX};
    static const uint8_t wrong[100];
    send_frame(&t.a, 0, wrong, sizeof wrong);
    uint8_t *out = link_reserve(t.a.link, &h);
    assert_non_null(out);
    memset(out, 0xee, FRAME_MAX);
    assert_int_equal(link_queued(t.a.link), queued);
    link_flush(t.a.link);
    until(&t, &t.b, 8);
    send_frame(&t.b, 0, p, 0);
    link_flush(t.b.link);
    until(&t, &t.a, 1);
    assert_int_equal(link_queued(t.a.link), 0);
    assert_int_equal(t.b.frames, 8);
    free(p);
    close_pair(&t);
}

/* Bytes that were borrowed may be overwritten after link_unborrow, whatever has been written of them. */
static void unborrow(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    size_t n = 600000;
    uint8_t *p = malloc(n), *q = malloc(n);
    fill(p, n, 0);
    fill(q, n, 1);
    for (int i = 0; i < 8; i++) send_frame(&t.a, 0, p, n); /* more than any send buffer of ours */
    send_frame(&t.a, 1, q, n);
    send_frame(&t.a, 0, p, n);
    link_flush(t.a.link); /* the socket takes a part */
    assert_true(link_queued(t.a.link) > 0);
    assert_int_equal(link_unborrow(t.a.link, q, n), 0);
    memset(q, 0xee, n);
    free(q);
    until(&t, &t.b, 10);
    free(p);
    close_pair(&t);
}

/* The destination of a placed frame vanishes in the middle: the rest is read and forgotten, the next frame is whole. */
static void unplace(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, true);
    t.a.place = true;
    t.a.dest_size = FRAME_MAX;
    t.a.dest = malloc(t.a.dest_size);
    size_t n = 100000;
    uint8_t *p = malloc(FRAME_HEAD + n);
    struct frame_head h = {.type = FRAME_SESSION, .class_ = FRAME_BULK, .label = 1, .length = (uint32_t)n};
    frame_put_head(p, &h);
    fill(p + FRAME_HEAD, n, 1);
    assert_int_equal(write(t.peer, p, FRAME_HEAD + 5000), FRAME_HEAD + 5000);
    atomic_bool never = false;
    assert_int_equal(exec_serve(t.x, &never, moyai_now() + 50 * MOYAI_MS), MOYAI_ETIMEDOUT); /* reads what is there */
    link_unplace(t.a.link, t.a.dest, t.a.dest_size);
    free(t.a.dest);
    t.a.dest = NULL;
    t.a.dest_size = 0;
    t.a.place = false;
    assert_int_equal(write(t.peer, p + FRAME_HEAD + 5000, n - 5000), (ssize_t)(n - 5000));
    h.label = 2;
    h.length = 100;
    frame_put_head(p, &h);
    fill(p + FRAME_HEAD, 100, 2);
    assert_int_equal(write(t.peer, p, FRAME_HEAD + 100), FRAME_HEAD + 100);
    free(p);
    until(&t, &t.a, 2);
    assert_int_equal(t.a.placed, 0);
    close_pair(&t);
}

static void garbage_ends_the_link(void **state) {
    (void)state;
    static const uint8_t bad[][FRAME_HEAD] = {
        {2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},             /* version */
        {1, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},             /* class */
        {1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0x10, 0, 0, 0, 0, 0},          /* a byte over FRAME_MAX */
        {1, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, /* length */
        {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},             /* zeros */
    };
    static const int codes[] = {MOYAI_EVERSION, MOYAI_EPROTO, MOYAI_ETOOBIG, MOYAI_ETOOBIG, MOYAI_EPROTO};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fixture t;
        open_pair(&t, true);
        assert_int_equal(write(t.peer, bad[i], FRAME_HEAD), FRAME_HEAD);
        until(&t, &t.a, 1);
        assert_true(t.a.down);
        assert_int_equal(t.a.why.code, codes[i]);
        assert_true(t.a.why.text[0] != 0);
        close_pair(&t);
    }
}

static void refused_frame_ends_the_link(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    t.b.refuse = MOYAI_EPROTO;
    send_frame(&t.a, 1, NULL, 0);
    link_flush(t.a.link);
    until(&t, &t.b, 1);
    assert_true(t.b.down);
    assert_int_equal(t.b.why.code, MOYAI_EPROTO);
    close_pair(&t);
}

/* What was sent before the close is still taken, also when our own writes fail by then. */
static void end_of_file(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, true);
    uint8_t p[FRAME_HEAD + 10];
    struct frame_head h = {.type = FRAME_FAREWELL, .class_ = FRAME_CONTROL, .label = 3, .length = 10};
    frame_put_head(p, &h);
    fill(p + FRAME_HEAD, 10, 3);
    assert_int_equal(write(t.peer, p, sizeof p), sizeof p);
    close(t.peer);
    t.peer = -1;
    uint8_t bytes[100];
    fill(bytes, sizeof bytes, 9);
    send_frame(&t.a, 9, bytes, sizeof bytes);
    link_flush(t.a.link); /* EPIPE */
    until(&t, &t.a, 2);
    assert_true(t.a.down);
    assert_int_equal(t.a.frames, 1);
    assert_int_equal(t.a.why.code, 0);
    close_pair(&t);
}

static void reset(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    link_reset(t.a.link, MOYAI_ECANCELED, "given up");
    assert_false(t.a.down); /* not from within the call */
    until(&t, &t.a, 1);
    assert_true(t.a.down);
    assert_int_equal(t.a.why.code, MOYAI_ECANCELED);
    until(&t, &t.b, 1);
    assert_true(t.b.down); /* the other end sees end of file, or that of a handshake */
    assert_int_equal(t.b.why.code, secure ? MOYAI_ECLOSED : 0);
    close_pair(&t);
}

/* A peer that does not read: the queue grows to the mark, nothing blocks, and it drains when the peer reads again. */
static void peer_stops_reading(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, true);
    uint8_t bytes[4000];
    uint64_t sent = 0;
    while (link_room(t.a.link) > 0) {
        fill(bytes, sizeof bytes, 5);
        send_frame(&t.a, 5, bytes, sizeof bytes);
        link_flush(t.a.link);
        sent += FRAME_HEAD + sizeof bytes;
        assert_true(sent < 64u << 20);
    }
    uint64_t got = 0;
    while (got < sent) {
        uint8_t sink[65536];
        ssize_t r = read(t.peer, sink, sizeof sink);
        if (r > 0) got += (uint64_t)r;
        atomic_bool never = false;
        if (r < 0) (void)exec_serve(t.x, &never, moyai_now() + 5 * MOYAI_MS);
    }
    assert_true(t.a.roomed);
    assert_int_equal(link_queued(t.a.link), 0);
    close_pair(&t);
}

/* A shaped link keeps order and content, and takes at least the time its delay and rate say. */
static void shaped(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    link_shape(t.a.link, 20 * MOYAI_MS, 10u << 20);
    uint8_t *bytes = malloc(20000);
    moyai_ns begin = moyai_now();
    for (uint32_t i = 0; i < 50; i++) {
        fill(bytes, 20000, i);
        struct frame_head h = {.type = FRAME_SESSION, .class_ = FRAME_SMALL, .label = i, .length = 20000};
        memcpy(link_reserve(t.a.link, &h), bytes, 20000);
        link_flush(t.a.link);
    }
    free(bytes);
    until(&t, &t.b, 50);
    /* 50 frames of 20,016 bytes at 10 MiB/s, and the delay: no sooner (later is the machine's affair). */
    assert_true(moyai_now() - begin >= (moyai_ns)(20 * MOYAI_MS + 50 * 20016 * MOYAI_SEC / (10 << 20)));
    close_pair(&t);
}

/* Links that share a line wait for what the others send. */
static void shared_line(void **state) {
    (void)state;
    struct fixture t;
    struct link_line line = {0};
    uint8_t *bytes = malloc(20000);
    open_pair(&t, false);
    struct link *both[] = {t.a.link, t.b.link};
    for (int i = 0; i < 2; i++) {
        link_shape(both[i], 0, 10u << 20);
        link_share(both[i], &line);
    }
    moyai_ns begin = moyai_now();
    for (uint32_t i = 0; i < 50; i++) {
        struct frame_head h = {.type = FRAME_SESSION, .class_ = FRAME_SMALL, .label = i, .length = 20000};
        fill(bytes, 20000, i);
        memcpy(link_reserve(both[i % 2], &h), bytes, 20000);
        link_flush(both[i % 2]);
    }
    free(bytes);
    until(&t, &t.a, 25);
    until(&t, &t.b, 25);
    assert_true(moyai_now() - begin >= (moyai_ns)(50 * 20016 * MOYAI_SEC / (10 << 20)));
    close_pair(&t);
}

/* ---- over TLS -------------------------------------------------------------------------------- */

static int make_keys(void **state) {
    (void)state;
    char path[64];
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof path, "%s/key", dir);
    for (int i = 0; i < 2; i++) {
        struct keyring r = {.n = 1};
        if (i == 0 && (key_new(&r.key[0], NULL) < 0 || keyfile_write(&r, path, true, NULL) < 0)) return -1;
        if (keyfile_open(&keys[i], path, NULL) < 0) return -1;
    }
    return 0;
}

static int remove_keys(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/key", dir);
    keyfile_close(keys[0]);
    keyfile_close(keys[1]);
    (void)unlink(path);
    return rmdir(dir);
}

/* What both have queued stays unsaid when there is no key both have. */
static void strangers_hear_nothing(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/other", dir);
    struct keyring r = {.n = 1};
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, path, true, NULL), 0);
    struct keyfile *mine = keys[0];
    assert_int_equal(keyfile_open(&keys[0], path, NULL), 0);
    struct fixture t;
    open_pair(&t, false);
    uint8_t bytes[100];
    fill(bytes, sizeof bytes, 1);
    send_frame(&t.a, 1, bytes, sizeof bytes);
    send_frame(&t.b, 1, bytes, sizeof bytes);
    link_flush(t.a.link);
    link_flush(t.b.link);
    until(&t, &t.a, 1);
    until(&t, &t.b, 1);
    assert_true(t.a.down && t.b.down);
    assert_int_equal(t.a.why.code, MOYAI_EPERM);
    assert_int_equal(t.b.why.code, MOYAI_EPERM);
    assert_int_equal(t.a.frames + t.b.frames, 0);
    close_pair(&t);
    keyfile_close(keys[0]);
    keys[0] = mine;
    unlink(path);
}

/* An end that only writes and one that only reads, both at once in both directions, with every size of record. */
static void both_ways_at_once(void **state) {
    (void)state;
    struct fixture t;
    open_pair(&t, false);
    enum { N = 200, MOST = 70000 };
    uint8_t *bytes = malloc(MOST);
    for (uint32_t i = 0; i < N; i++) {
        size_t n = (size_t)i * i * 7 % MOST;
        fill(bytes, n, i);
        for (int k = 0; k < 2; k++) {
            struct end *e = k ? &t.b : &t.a;
            struct frame_head h = {.type = FRAME_SESSION, .class_ = FRAME_SMALL, .label = i, .length = (uint32_t)n};
            memcpy(link_reserve(e->link, &h), bytes, n);
            link_flush(e->link);
        }
    }
    free(bytes);
    until(&t, &t.a, N);
    until(&t, &t.b, N);
    assert_int_equal(link_queued(t.a.link) + link_queued(t.b.link), 0);
    assert_string_equal(tls_key_id(link_tls(t.a.link)), tls_key_id(link_tls(t.b.link)));
    close_pair(&t);
}

/* Freed before the handshake is done, at each end; a peer that says nothing holds nobody up. */
static void freed_early(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct fixture t;
        open_pair(&t, false);
        uint8_t bytes[100];
        fill(bytes, sizeof bytes, 1);
        send_frame(&t.a, 1, bytes, sizeof bytes);
        link_flush(t.a.link);
        if (k < 2) {
            struct end *gone = k ? &t.b : &t.a, *other = k ? &t.a : &t.b;
            link_free(gone->link);
            gone->link = NULL;
            until(&t, other, 1);
            assert_true(other->down);
            assert_int_equal(other->frames, 0);
        }
        close_pair(&t);
    }
}

int main(int argc, char **argv) {
    static bool no = false, yes = true;
    secure = argc > 1 && strcmp(argv[1], "tls") == 0;
    const struct CMUnitTest over_tls[] = {
        cmocka_unit_test(small_frames_in_order),
        cmocka_unit_test_prestate(large_frames, &no),
        {"large_frames in place", large_frames, NULL, NULL, &yes},
        cmocka_unit_test(reserved_space),
        cmocka_unit_test(unborrow),
        cmocka_unit_test(refused_frame_ends_the_link),
        cmocka_unit_test(reset),
        cmocka_unit_test(shaped),
        cmocka_unit_test(strangers_hear_nothing),
        cmocka_unit_test(both_ways_at_once),
        cmocka_unit_test(freed_early),
    };
    if (secure) return cmocka_run_group_tests(over_tls, make_keys, remove_keys);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_frames_in_order),
        cmocka_unit_test_prestate(large_frames, &no),
        {"large_frames in place", large_frames, NULL, NULL, &yes},
        cmocka_unit_test(reserved_space),
        cmocka_unit_test(unborrow),
        cmocka_unit_test(unplace),
        cmocka_unit_test(nothing_follows_the_last),
        cmocka_unit_test(garbage_ends_the_link),
        cmocka_unit_test(refused_frame_ends_the_link),
        cmocka_unit_test(end_of_file),
        cmocka_unit_test(reset),
        cmocka_unit_test(peer_stops_reading),
        cmocka_unit_test(shaped),
        cmocka_unit_test(shared_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
