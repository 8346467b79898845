/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node, and another that is bytes on a link, written by the test: it listens at an address where the grid is met. The
 * rendezvous is the test's, too.
 */
#include "overlay/io/wide.h"

#include "link/key.h"
#include "link/rundir.h"
#include "link/tls.h"
#include "member/leave.h"
#include "overlay/death.h"
#include "overlay/io/depart.h"
#include "overlay/io/dial.h"
#include "overlay/io/leaving.h"
#include "overlay/peers_internal.h"
#include "overlay/peers_wire.h"
#include "overlay/session_wire.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

/* ---- the world ------------------------------------------------------------------------------- */

static struct world {
    struct exec *x;
    struct overlay *o;
    struct moyai_log log;
    char dir[32], said[4096];
    struct moyai_node_id other, caller; /* the one that calls is another, perhaps */
    char at[TCP_TEXT];
    uint8_t text[PEERS_TEXT];
    uint32_t n_text;
    struct keyfile *keys;
    struct tls_ctx *tls;
    int listener;
    struct exec_fd *listening;
    int n_links;
    struct link *offered; /* the link by which the node's offer came, until it is down */
    bool was_offered, farewell;
    sem_t heard;               /* an answer has come by that link, or its end */
    struct link *called;       /* by the other one */
    bool answered;             /* it has read what came by that */
    bool up, read;             /* the offer was accepted; and what came after that was read */
    bool was_refused;          /* an offer was */
    bool kept, given_up;       /* the link, as the node has said by one of these */
    bool refused, told;        /* a session was; of one that has left */
    uint32_t leaves;           /* the leave protocol that it speaks */
    uint32_t last;             /* PEERS_LAST: what it offers it offers as the last resort */
    uint32_t ends;             /* so often the node was asked what it leaves in doubt: it ends */
    char left[16];             /* frames by which the node leaves, in order: F(arewell), S(eek), R(oot), A(ck) */
    uint32_t number;           /* of the last of these that had one */
    bool withdrawn;            /* the node may end */
    struct moyai_error failed; /* why all with the other has */
    int rendezvous;
    uint16_t port;
    pthread_t thread;
} w;

static void sink(const struct log_event *ev, void *arg) {
    (void)arg;
    size_t n = strlen(w.said);
    snprintf(w.said + n, sizeof w.said - n, "%s %s\n", ev->id, ev->text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void listen_on_loopback(int *fd, struct tcp_addr *at) {
    struct tcp_addr a;
    assert_int_equal(tcp_parse("127.0.0.1:0", &a, NULL), 0);
    assert_int_equal(tcp_listen(fd, &a, 0, 0, at, NULL), 0);
}

#define UNTIL(cond)                                                                                                    \
    do {                                                                                                               \
        moyai_ns limit_ = moyai_now() + (moyai_ns)LIMIT;                                                               \
        while (!(cond)) {                                                                                              \
            static const atomic_bool never;                                                                            \
            if (moyai_now() > limit_) fail_msg("has not come true: %s; log: %s", #cond, w.said);                       \
            (void)exec_serve(w.x, &never, moyai_now() + 2 * MOYAI_MS);                                                 \
        }                                                                                                              \
    } while (0)

/* ---- the other one --------------------------------------------------------------------------- */

static void say(struct link *l, uint8_t type, const void *bytes, size_t n) {
    const struct frame_head h = {.type = type, .class_ = FRAME_CONTROL, .hops = 1, .length = (uint32_t)n};
    const struct link_piece piece = {bytes, n};
    assert_int_equal(link_send(l, &h, &piece, 1), 0);
}

static void left(char how) {
    const size_t n = strlen(w.left);
    assert_true(n + 1 < sizeof w.left);
    w.left[n] = how;
}

static int on_frame(struct link *l, const struct frame_head *h, uint8_t *payload, struct moyai_error *why) {
    (void)why;
    if (h->type == FRAME_PEERS + PEERS_OFFER && !w.was_offered) {
        w.offered = l;
        w.was_offered = true;
    }
    w.answered |= l == w.called && h->type == FRAME_PONG;
    w.was_refused |= l == w.called && h->type == FRAME_PEERS + PEERS_REFUSE;
    w.kept |= l == w.called && h->type == FRAME_PEERS + PEERS_KEEP;
    w.given_up |= l == w.called && h->type == FRAME_PEERS + PEERS_BYE;
    if (l != w.offered) return 0;
    w.farewell |= h->type == FRAME_FAREWELL;
    if (h->type == FRAME_FAREWELL) left('F');
    if (h->type >= FRAME_LEAVE && h->type <= FRAME_LEAVE_LAST) left("SRA"[h->type - FRAME_LEAVE]);
    if (h->type >= FRAME_LEAVE && h->type < FRAME_LEAVE_LAST) {
        assert_int_equal(h->length, 4);
        memcpy(&w.number, payload, 4);
    }
    w.refused |= h->type == FRAME_SESSION + SESSION_REFUSE;
    w.told |= h->type == FRAME_FORWARD && payload[32] == FRAME_DEATH + DEATH_LEFT;
    w.read |= h->type == FRAME_PONG;
    if (h->type == FRAME_PONG) sem_post(&w.heard);
    return 0;
}

static size_t on_place(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest) {
    (void)l, (void)h, (void)prefix, (void)dest;
    return 0;
}

static void on_room(struct link *l) {
    (void)l;
}

static void on_down(struct link *l, const struct moyai_error *why) {
    (void)why;
    if (l == w.called) w.called = NULL;
    if (l == w.offered) {
        w.offered = NULL;
        sem_post(&w.heard);
    }
    w.n_links--;
    link_free(l);
}

static const struct link_ops other_ops = {.frame = on_frame, .place = on_place, .room = on_room, .down = on_down};

static const uint8_t nowhere[16];

static struct link *greet(int fd, struct tls *tls, const struct moyai_node_id *id, const uint8_t host[16]) {
    struct link_hello h;
    uint8_t bytes[HELLO_MAX];
    struct link *l = link_new(w.x, fd, tls, &other_ops, NULL);
    assert_non_null(l);
    w.n_links++;
    hello_fill(&h, id, host, "other", FRAME_MAX, 1000000);
    h.n_endpoints = 1;
    h.leave = w.leaves;
    snprintf(h.endpoints[0], sizeof h.endpoints[0], "%s", w.at);
    int n = hello_encode(&h, bytes, NULL);
    assert_true(n > 0);
    say(l, FRAME_HELLO, bytes, (size_t)n);
    link_flush(l);
    return l;
}

static void on_accept(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events, (void)arg;
    struct tcp_addr from;
    int fd;
    while (tcp_accept(w.listener, &fd, &from, NULL) == 0)
        (void)greet(fd, tls_new(w.tls, fd, true, 0), &w.other, nowhere);
}

static void on_dialled(void *arg, const struct dialled *got, const struct moyai_error *why) {
    (void)arg;
    if (!got) fail_msg("the node does not take a connection: %s", why->text);
    w.called = greet(got->fd, got->tls, &w.caller, nowhere);
    say(w.called, FRAME_PING, "all read", 8);
    link_flush(w.called);
}

/* ids: of nodes that it says there are besides, at an address where nobody is. */
static void say_peers(struct link *l, const struct moyai_node_id *self, enum peers_frame_kind kind,
                      const struct moyai_node_id *ids, uint32_t n) {
    uint8_t bytes[2000], text[PEERS_TEXT];
    uint32_t n_text = 0;
    struct peers_frame f = {.kind = kind,
                            .flags = (kind <= PEERS_ACCEPT && w.n_text ? PEERS_ACCEPTS : 0) | w.last,
                            .n = n + 1,
                            .count = kind == PEERS_OFFER};
    assert_true(peers_address_put(text, sizeof text, &n_text, "127.0.0.1:1"));
    f.e[0] = (struct peers_endpoint){
        .id = *self, .accepts = w.n_text > 0, .lifetime = 600, .n_text = w.n_text, .text = w.text};
    for (uint32_t i = 0; i < n; i++)
        f.e[i + 1] =
            (struct peers_endpoint){.id = ids[i], .accepts = true, .lifetime = 600, .n_text = n_text, .text = text};
    assert_true(peers_wire_size(&f) <= sizeof bytes);
    peers_wire_put(bytes, &f);
    say(l, (uint8_t)(FRAME_PEERS + kind), bytes, peers_wire_size(&f));
}

/* It agrees to the link, if it has not, and uses it: a session begins. The ping is answered when all that has been
 * read: the node does read until the rendezvous has answered. */
static void agree(void) {
    exec_lock(w.x);
    if (w.offered) {
        uint8_t head[64];
        if (!w.up) say_peers(w.offered, &w.other, PEERS_ACCEPT, NULL, 0);
        const struct session_frame open = {.kind = SESSION_OPEN, .id = 12345, .path = 1};
        session_wire_put_head(head, &open);
        say(w.offered, FRAME_SESSION + SESSION_OPEN, head, session_wire_head_size(&open));
        say(w.offered, FRAME_PING, "all read", 8);
        link_flush(w.offered);
    }
    exec_unlock(w.x);
    while (sem_wait(&w.heard) < 0) assert_int_equal(errno, EINTR);
}

/* ---- the rendezvous -------------------------------------------------------------------------- */

/* Reads a request with its body; false: there is none. It names no entries. */
static bool serve(int fd, char *bytes, size_t cap) {
    size_t have = 0, body = 0;
    const char *end = NULL;
    while (!end || have < (size_t)(end - bytes) + 4 + body) {
        ssize_t n = have < cap - 1 ? read(fd, bytes + have, cap - 1 - have) : 0;
        if (n <= 0) return false;
        bytes[have += (size_t)n] = 0;
        if (end || !(end = strstr(bytes, "\r\n\r\n"))) continue;
        const char *length = strstr(bytes, "Content-Length: ");
        if (length && length < end) body = strtoul(length + strlen("Content-Length: "), NULL, 10);
    }
    return true;
}

static void *run_rendezvous(void *arg) {
    (void)arg;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    int fd;
    while ((fd = accept(w.rendezvous, NULL, NULL)) >= 0) {
        static char bytes[65536];
        if (serve(fd, bytes, sizeof bytes)) {
            if (strncmp(bytes, "DELETE ", 7) == 0) agree();
            (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        }
        close(fd);
    }
    return NULL;
}

/* ---- the node -------------------------------------------------------------------------------- */

static int node_message(void *ctx, struct peer *p, uint8_t *bytes, size_t n) {
    (void)ctx, (void)p, (void)bytes, (void)n;
    return 0;
}
static struct inbound *node_begin(void *ctx, struct peer *p, const uint8_t *bytes, size_t n, uint64_t total) {
    (void)ctx, (void)p, (void)bytes, (void)n, (void)total;
    return NULL;
}
static int node_complete(void *ctx, struct inbound *in) {
    (void)ctx, (void)in;
    return 0;
}
static void node_aborted(void *ctx, struct inbound *in) {
    (void)ctx, (void)in;
}
static void node_failed(void *ctx, struct peer *p, const struct moyai_error *why) {
    (void)ctx, (void)p;
    w.failed = *why;
}
static void node_room(void *ctx, struct peer *p) {
    (void)ctx, (void)p;
}
static bool node_busy(void *ctx, struct peer *p) {
    (void)ctx, (void)p;
    return false;
}
static bool node_cleared(void *ctx) {
    (void)ctx;
    w.ends++;
    return true;
}

static const struct overlay_ops node_ops = {.cleared = node_cleared,
                                            .message = node_message,
                                            .begin = node_begin,
                                            .complete = node_complete,
                                            .aborted = node_aborted,
                                            .failed = node_failed,
                                            .room = node_room,
                                            .owes_less = node_room,
                                            .busy = node_busy};

static void open_node(void) {
    char path[64], grid[128];
    snprintf(path, sizeof path, "%s/key", w.dir);
    snprintf(grid, sizeof grid, "http://127.0.0.1:%u/lab %s", w.port, w.at);
    const struct overlay_cfg cfg = {.grid = grid,
                                    .run_dir = w.dir,
                                    .title = "node",
                                    .self = {{1, 2, 3}},
                                    .queue_calls = 1000,
                                    .queue_bytes = 1000000,
                                    .open_calls = 100,
                                    .max_message = 1000000,
                                    .reattach = MOYAI_SEC,
                                    .idle = 60 * MOYAI_SEC,
                                    .key_file = path,
                                    .listen = "127.0.0.1",
                                    .log = &w.log};
    struct moyai_error e = {0};
    if (overlay_new(&w.o, w.x, &cfg, &node_ops, NULL, &e) < 0) fail_msg("overlay_new: %s", e.text);
}

/* Then all links have ended, too. */
static void close_node(void) {
    overlay_close(w.o);
    overlay_free(w.o);
    w.o = NULL;
    UNTIL(w.n_links == 0);
}

static int open_world(void **state) {
    (void)state;
    char path[64];
    struct tcp_addr at;
    memset(&w, 0, sizeof w);
    strcpy(w.dir, "/tmp/moyai-wide-XXXXXX");
    if (!mkdtemp(w.dir)) return -1;
    snprintf(path, sizeof path, "%s/key", w.dir);
    struct keyring r = {.n = 1};
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, path, false, NULL), 0);
    assert_int_equal(keyfile_open(&w.keys, path, NULL), 0);
    assert_int_equal(tls_ctx_new(&w.tls, w.keys, NULL), 0);
    assert_int_equal(log_init(&w.log, "warning", NULL), 0);
    log_set_sink(&w.log, sink, NULL);
    assert_int_equal(sem_init(&w.heard, 0, 0), 0);

    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    w.rendezvous = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(w.rendezvous, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(w.rendezvous, 16), 0);
    assert_int_equal(getsockname(w.rendezvous, (struct sockaddr *)&a, &len), 0);
    w.port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&w.thread, NULL, run_rendezvous, NULL), 0);

    assert_int_equal(exec_new(&w.x, NULL, NULL), 0);
    exec_lock(w.x); /* the test runs under it, and gives it away where it waits */
    memset(w.other.b, 0x77, sizeof w.other.b);
    w.caller = w.other;
    listen_on_loopback(&w.listener, &at);
    tcp_format(&at, w.at);
    assert_true(peers_address_put(w.text, sizeof w.text, &w.n_text, w.at));
    w.listening = exec_fd_new(w.x, w.listener, UV_READABLE, on_accept, NULL);
    assert_non_null(w.listening);
    open_node();
    return 0;
}

static int close_world(void **state) {
    (void)state;
    sem_post(&w.heard); /* nobody waits any more for what has not come */
    if (w.o) close_node();
    exec_fd_free(w.listening, true, NULL);
    exec_unlock(w.x);
    shutdown(w.rendezvous, SHUT_RDWR);
    pthread_join(w.thread, NULL);
    close(w.rendezvous);
    exec_free(w.x);
    sem_destroy(&w.heard);
    log_done(&w.log);
    tls_ctx_free(w.tls);
    keyfile_close(w.keys);
    nftw(w.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void call_the_node(void) {
    char at[PEERS_ADDRESS + 1];
    assert_true(peers_address_get(wide_self(w.o->wide), 0, at));
    const char *places[] = {at};
    assert_non_null(dial_new(w.x, w.tls, w.keys, places, 1, LIMIT, on_dialled, NULL));
    UNTIL(w.answered);
}

static void link_up(void) {
    UNTIL(w.offered);
    say_peers(w.offered, &w.other, PEERS_ACCEPT, NULL, 0);
    w.up = true;
    say(w.offered, FRAME_PING, "all read", 8);
    link_flush(w.offered);
    UNTIL(w.read);
    assert_int_equal(sem_trywait(&w.heard), 0);
}

/* As one on the same machine does, whose sessions use the link; it is none of the mesh. */
static void call_by_unix(void) {
    struct rundir *d;
    int fd;
    assert_int_equal(rundir_open(&d, w.dir, NULL), 0);
    assert_int_equal(rundir_connect(d, &w.o->cfg.self, &fd, NULL, NULL), 0);
    memset(w.caller.b, 0x99, sizeof w.caller.b);
    w.called = greet(fd, NULL, &w.caller, rundir_host(d));
    rundir_close(d);
}

static void is_answered(void) {
    w.answered = false;
    say(w.called, FRAME_PING, "all read", 8);
    link_flush(w.called);
    UNTIL(w.answered || !w.called);
    if (!w.called) fail_msg("the link has ended; log: %s", w.said);
}

/* Who has such a link to a node sends what is for it by that, and what it is to pass on. */
static void what_is_forwarded_comes_by_unix(void **state) {
    (void)state;
    link_up();
    call_by_unix();
    is_answered();
    for (int to = 0; to < 2; to++) {
        uint8_t bytes[48] = {0};
        memcpy(bytes, to ? w.other.b : w.o->cfg.self.b, 16);
        memcpy(bytes + 16, w.caller.b, 16);
        bytes[32] = FRAME_PING;
        say(w.called, FRAME_FORWARD, bytes, sizeof bytes);
        is_answered();
    }
    assert_string_equal(w.said, "");
}

/* A leaver takes no new link of the mesh, but its sessions go on, and who has them hears its farewell. */
static void who_offers_to_a_leaver_by_unix_keeps_the_link(void **state) {
    (void)state;
    link_up();
    call_by_unix();
    is_answered();
    overlay_leaves(w.o);
    say_peers(w.called, &w.caller, PEERS_OFFER, NULL, 0);
    is_answered();
    assert_true(w.was_refused);
    is_answered(); /* what is reset goes down from the loop */
    assert_string_equal(w.said, "");
}

/* Who has lost a link that the node has still, and nobody else, has a place here: that it is not taken at once says
 * nothing of how many there are. */
static void who_is_refused_a_second_link_is_not_turned_away(void **state) {
    (void)state;
    link_up();
    call_the_node();
    w.last = PEERS_LAST;
    say_peers(w.called, &w.caller, PEERS_OFFER, NULL, 0);
    link_flush(w.called);
    UNTIL(w.was_refused);
    assert_int_equal(overlay_turned_away(w.o), 0);
    assert_string_equal(w.said, "");
}

static void say_count(struct link *l, enum peers_frame_kind kind, uint32_t count) {
    uint8_t bytes[64];
    const struct peers_frame f = {.kind = kind, .count = count};
    assert_true(peers_wire_size(&f) <= sizeof bytes);
    peers_wire_put(bytes, &f);
    say(l, (uint8_t)(FRAME_PEERS + kind), bytes, peers_wire_size(&f));
    link_flush(l);
}

/* There are two links, the other one to a node that leaves, perhaps; then this one is as the last. */
static void asked_for_its_place(bool leaves) {
    link_up();
    memset(w.caller.b, 0x99, sizeof w.caller.b);
    call_the_node();
    w.n_text = 0; /* it cannot be connected to: such links are not held */
    say_peers(w.called, &w.caller, PEERS_OFFER, NULL, 0);
    is_answered();
    assert_false(w.was_refused);
    if (leaves) say_count(w.offered, PEERS_LEAVE, 1);
    UNTIL(olink_ready(overlay_find(w.o, w.other.b))->leaving == leaves);
    say_count(w.called, PEERS_YIELD, 0);
    UNTIL(w.kept || w.given_up);
    assert_int_equal(w.kept, leaves);
    assert_string_equal(w.said, "");
}

static void one_of_two_links_is_given_up(void **state) {
    (void)state;
    asked_for_its_place(false);
}

static void the_last_is_not_be_it_that_others_go_soon(void **state) {
    (void)state;
    asked_for_its_place(true);
}

/* The node says goodbye to the rendezvous, and does not hear any more what others agree to. They are not told that the
 * link had broken, and nobody logs that: they hear the farewell by it. */
static void who_agrees_too_late_hears_the_farewell(void **state) {
    (void)state;
    UNTIL(w.offered);
    close_node();
    if (!w.farewell) fail_msg("the link has ended without a farewell; log: %s", w.said);
    assert_string_equal(w.said, "");
}

/* Who says hello, and where it can be reached, is there: what is known of it is believed as long as if it had said so
 * at the rendezvous. */
static void a_hello_renews_the_word_of_a_node(void **state) {
    (void)state;
    const struct peers *p = wide_peers(w.o->wide);
    UNTIL(w.offered);
    assert_non_null(peers_find(p, w.other.b));
    assert_true(peers_find(p, w.other.b)->reached); /* where the grid is met, this node has reached it itself */
    const moyai_ns before = peers_find(p, w.other.b)->until;
    call_the_node();
    assert_true(peers_find(p, w.other.b)->until > before);
}

/* That the node leaves says more than that it has no such session. */
static void who_opens_a_session_too_late_is_not_refused(void **state) {
    (void)state;
    link_up();
    close_node();
    assert_true(w.farewell);
    assert_false(w.refused);
}

/* Others that have not heard of it say where the dead were. */
static void the_dead_are_not_known_once_more(void **state) {
    (void)state;
    static const struct moyai_node_id ids[] = {{{8}}, {{9}}};
    const struct peers *p = wide_peers(w.o->wide);
    link_up();
    overlay_declare_dead(w.o, ids[0].b, "it was killed");
    w.read = false;
    say_peers(w.offered, &w.other, PEERS_ASK, ids, 2);
    say(w.offered, FRAME_PING, "all read", 8);
    link_flush(w.offered);
    UNTIL(w.read);
    assert_false(peers_knows(p, ids[0].b));
    assert_true(peers_knows(p, ids[1].b));
}

/* That one of its neighbours has left can wait, to be told to others, but not if the node leaves as well. */
static void who_leaves_tells_of_others_before(void **state) {
    (void)state;
    link_up();
    memset(w.caller.b, 0x88, sizeof w.caller.b);
    call_the_node();
    say_peers(w.called, &w.caller, PEERS_OFFER, NULL, 0);
    say(w.called, FRAME_FAREWELL, NULL, 0);
    link_flush(w.called);
    link_free(w.called);
    w.called = NULL;
    w.n_links--;
    UNTIL(overlay_find(w.o, w.caller.b) && overlay_find(w.o, w.caller.b)->dead);
    assert_false(w.told);
    close_node();
    assert_true(w.farewell && w.told);
}

#define ALONE (4 * MOYAI_SEC) /* some more than it takes until that is said */

/* But where the connection broke that is another matter. */
static void who_has_seen_the_last_one_die_has_not_lost_the_grid(void **state) {
    (void)state;
    static const atomic_bool not_over;
    link_up();
    overlay_declare_dead(w.o, w.other.b, "it was killed");
    (void)exec_serve(w.x, &not_over, moyai_now() + (moyai_ns)ALONE);
    if (strstr(w.said, "MOYAI-ALONE")) fail_msg("%s", w.said);
    /* Until nobody can come any more. What is tried is said. */
    shutdown(w.rendezvous, SHUT_RDWR);
    UNTIL(strstr(w.said, "MOYAI-ALONE no link to another host is left; that to node "));
    if (!strstr(w.said, "Connection refused")) fail_msg("%s", w.said);
}

static void who_has_lost_a_connection_has(void **state) {
    (void)state;
    link_up();
    exec_fd_events(w.listening, 0); /* nor is there another */
    link_reset(w.offered, MOYAI_ECLOSED, "it breaks");
    UNTIL(strstr(w.said, "MOYAI-ALONE"));
}

/* ---- leaving --------------------------------------------------------------------------------- */

#define SEEK (FRAME_LEAVE + LEAVE_SEEK)
#define ROOT (FRAME_LEAVE + LEAVE_ROOT)
#define ACK  (FRAME_LEAVE + LEAVE_ACK)

static int open_leaving(void **state) {
    const int rc = open_world(state);
    w.leaves = HELLO_LEAVE;
    return rc;
}

static void on_withdrawn(void *arg) {
    (void)arg;
    w.withdrawn = true;
}

static void say_number(uint8_t type, uint32_t n) {
    const uint8_t bytes[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    say(w.offered, type, bytes, 4);
    link_flush(w.offered);
}

static void say_alone(uint8_t type) {
    say(w.offered, type, NULL, 0);
    link_flush(w.offered);
}

/* All that the node has said until now has been read, and it has read what was said. */
static void catch_up(void) {
    w.read = false;
    say(w.offered, FRAME_PING, "all read", 8);
    link_flush(w.offered);
    UNTIL(w.read);
}

/* It asks whether its neighbour stays, says farewell when it does, then its last; and is there until the other has
 * said its own. */
static void a_leaver_waits_for_the_last_word_of_who_stays(void **state) {
    (void)state;
    link_up();
    assert_true(overlay_withdraw(w.o, on_withdrawn, NULL));
    UNTIL(w.number != 0);
    catch_up();
    assert_string_equal(w.left, "S");
    say_number(ROOT, w.number + 1); /* the answer to another question */
    catch_up();
    assert_string_equal(w.left, "S");
    say_number(ROOT, w.number);
    UNTIL(strchr(w.left, 'A'));
    assert_string_equal(w.left, "SFA");
    assert_false(w.withdrawn);
    say(w.offered, FRAME_PING, "too late", 8); /* nothing follows the last word, nor is what still comes a fault */
    say_alone(ACK);
    UNTIL(w.withdrawn && !w.offered);
    close_node();
    assert_string_equal(w.left, "SFA");
    assert_false(w.answered);
    assert_string_equal(w.said, "");
}

/* Be it stopped, or too busy: the node goes when its time is over. */
static void a_leaver_whose_neighbour_does_not_answer_goes(void **state) {
    (void)state;
    link_up();
    assert_true(overlay_withdraw(w.o, on_withdrawn, NULL));
    UNTIL(w.withdrawn);
    close_node();
    assert_string_equal(w.left, "SF");
}

static void a_leaver_whose_neighbour_breaks_off_goes(void **state) {
    (void)state;
    link_up();
    assert_true(overlay_withdraw(w.o, on_withdrawn, NULL));
    UNTIL(w.number != 0);
    say_number(ROOT, w.number);
    UNTIL(strchr(w.left, 'A'));
    link_reset(w.offered, MOYAI_ECLOSED, "it breaks");
    UNTIL(w.withdrawn);
}

/* Where nobody stays, nobody answers. */
static void those_who_all_leave_do_not_wait_for_each_other(void **state) {
    (void)state;
    link_up();
    assert_true(overlay_withdraw(w.o, on_withdrawn, NULL));
    UNTIL(w.number != 0);
    const moyai_ns from = moyai_now();
    say_number(SEEK, 7);
    UNTIL(w.withdrawn);
    assert_true(moyai_now() - from < (moyai_ns)DEPART_MOST);
    close_node();
    assert_string_equal(w.left, "SF");
}

static void who_stays_answers_and_closes(void **state) {
    (void)state;
    link_up();
    say_number(SEEK, 0x01020304);
    UNTIL(w.number != 0);
    assert_int_equal(w.number, 0x01020304);
    assert_string_equal(w.left, "R");
    say_alone(FRAME_FAREWELL);
    say_alone(ACK);
    UNTIL(!w.offered);
    assert_string_equal(w.left, "RA");
    UNTIL(overlay_find(w.o, w.other.b)->dead);
    assert_int_equal(overlay_find(w.o, w.other.b)->why_code, MOYAI_ECLOSED);
    assert_string_equal(w.said, "");
    assert_int_equal(w.ends, 0); /* what others have open here goes on */
}

/* Two that leave part without a farewell. Whether the other has executed what it has not answered, its last word says.
 */
static void part_from(uint32_t label, enum moyai_executed executed) {
    link_up();
    assert_true(overlay_withdraw(w.o, on_withdrawn, NULL));
    UNTIL(w.number != 0);
    say_number(SEEK, 7);
    const struct frame_head h = {.type = ACK, .class_ = FRAME_CONTROL, .hops = 1, .label = label};
    assert_int_equal(link_send(w.offered, &h, NULL, 0), 0);
    link_flush(w.offered);
    UNTIL(w.failed.code);
    assert_int_equal(w.failed.code, MOYAI_ECLOSED);
    assert_int_equal(w.failed.executed, executed);
    assert_string_equal(w.left, "SA");
    assert_true(w.ends > 0);
}

static void who_parts_was_cut_short(void **state) {
    (void)state;
    part_from(FAREWELL_COUNTED, MOYAI_MAY_HAVE_EXECUTED);
}

static void who_parts_is_cleared(void **state) {
    (void)state;
    part_from(FAREWELL_CLEARED, MOYAI_NEVER_EXECUTED);
}

/* A node of before hears nothing of all this, and keeps nobody. */
static void an_older_neighbour_hears_the_farewell_only(void **state) {
    (void)state;
    w.leaves = 0;
    link_up();
    assert_false(overlay_withdraw(w.o, on_withdrawn, NULL));
    close_node();
    assert_string_equal(w.left, "F");
}

static void a_frame_that_is_none_ends_the_link(void **state) {
    (void)state;
    link_up();
    say(w.offered, SEEK, "abc", 3);
    link_flush(w.offered);
    UNTIL(strstr(w.said, "frame of type 73 and 3 bytes"));
    UNTIL(!w.offered || !w.was_offered);
}

static void a_question_without_number_ends_the_link(void **state) {
    (void)state;
    link_up();
    say_number(SEEK, 0);
    UNTIL(strstr(w.said, "frame of type 73 breaks the protocol"));
}

#define LEAVING(test) cmocka_unit_test_setup_teardown(test, open_leaving, close_world)

int main(void) {
    const struct CMUnitTest tests[] = {
        LEAVING(a_leaver_waits_for_the_last_word_of_who_stays),
        LEAVING(a_leaver_whose_neighbour_does_not_answer_goes),
        LEAVING(a_leaver_whose_neighbour_breaks_off_goes),
        LEAVING(those_who_all_leave_do_not_wait_for_each_other),
        LEAVING(who_parts_was_cut_short),
        LEAVING(who_parts_is_cleared),
        LEAVING(who_stays_answers_and_closes),
        LEAVING(an_older_neighbour_hears_the_farewell_only),
        LEAVING(a_frame_that_is_none_ends_the_link),
        LEAVING(a_question_without_number_ends_the_link),
        LEAVING(what_is_forwarded_comes_by_unix),
        LEAVING(who_offers_to_a_leaver_by_unix_keeps_the_link),
        LEAVING(who_is_refused_a_second_link_is_not_turned_away),
        LEAVING(one_of_two_links_is_given_up),
        LEAVING(the_last_is_not_be_it_that_others_go_soon),
        cmocka_unit_test_setup_teardown(who_opens_a_session_too_late_is_not_refused, open_world, close_world),
        cmocka_unit_test_setup_teardown(the_dead_are_not_known_once_more, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_leaves_tells_of_others_before, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_has_seen_the_last_one_die_has_not_lost_the_grid, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_has_lost_a_connection_has, open_world, close_world),
        cmocka_unit_test_setup_teardown(who_agrees_too_late_hears_the_farewell, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_hello_renews_the_word_of_a_node, open_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
