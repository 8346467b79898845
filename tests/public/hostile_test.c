/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node and a peer that means harm, or is broken: the peer is bytes on a socket, written by the test. So this program
 * looks inside the library, which the other tests here do not.
 *
 * The peer has the lower node id: it opens sessions, and its paths have odd numbers.
 */
#include "link/hello.h"
#include "link/rundir.h"
#include "object/message.h"
#include "overlay/session_wire.h"
#include "tests/public/kit.h"

#include <errno.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SMALL 4096u  /* bytes of the first chunk of a large message */
#define LAST  50000u /* and of the last, which is under the limit of chunks */

/* ---- the node -------------------------------------------------------------------------------- */

struct state {
    int echoes, begun, intact, done;
    bool go;
};
static struct state here;
static moyai_node *node;
static moyai_ref *ref;

static int m_touch(moyai_request *rq, void *self) {
    (void)rq;
    ((struct state *)self)->echoes++;
    return 0;
}

/* look(bytes): they are all the same, and stay so until the method may return. */
static int m_look(moyai_request *rq, void *self) {
    struct state *s = self;
    const uint8_t *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_bytes((const void **)&p, &n))));
    s->begun++;
    while (!s->go) (void)moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS);
    size_t same = 0;
    while (same < n && p[same] == p[0]) same++;
    s->intact += same == n;
    s->done++;
    return 0;
}

/* Waits for `go`. */
static int m_wait(moyai_request *rq, void *self) {
    struct state *s = self;
    s->begun++;
    while (!s->go) (void)moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS);
    s->done++;
    return 0;
}

/* A large answer, all of it the same. */
enum { BIG = 4100000, BIG_BYTE = 0x5a };
static int m_give(moyai_request *rq, void *self) {
    struct state *s = self;
    uint8_t *p = malloc(BIG);
    FIBER_ASSERT(p);
    memset(p, BIG_BYTE, BIG);
    int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, BIG)));
    free(p);
    s->done++;
    return rc;
}

static const struct moyai_method methods[] = {
    {"touch", m_touch}, {"look", m_look}, {"wait", m_wait}, {"give", m_give}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Attacked", methods, NULL);

static uint64_t links(void) {
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(node, &s);
    return s.links;
}

/* ---- the peer -------------------------------------------------------------------------------- */

static struct moyai_node_id peer_is;
static struct rundir *dir;
static int listener; /* that nobody takes connections from: a peer whose socket is gone is dead */
static struct {
    uint64_t session, seq, call;
    uint32_t path;
} peer;

static int open_with(const struct moyai_node_opts *opts) {
    here = (struct state){0};
    node = kit_node(opts);
    ref = kit_object(node, &cls, &here);
    KIT_OK(rundir_open(&dir, kit_dir(), NULL));
    peer_is.b[15]++; /* a declared death is final: each test has its own */
    KIT_OK(rundir_listen(dir, &peer_is, &listener, NULL));
    memset(&peer, 0, sizeof peer);
    peer.session = kit_seed() | 1;
    return 0;
}

static int open_world(void **state) {
    (void)state;
    return open_with(NULL);
}

static int close_world(void **state) {
    (void)state;
    moyai_ref_unref(ref);
    moyai_node_free(node);
    close(listener);
    rundir_unlink(dir, &peer_is);
    rundir_close(dir);
    return 0;
}

/* What the socket does not take yet it takes when the node has read. */
static void put(int fd, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k < 0 && errno != EAGAIN) FIBER_FAIL("send: %s", strerror(errno));
        if (k < 0) {
            (void)moyai_sleep_masked(node, 1);
            continue;
        }
        p += k;
        n -= (size_t)k;
    }
}

static void put_frame_head(int fd, uint8_t type, size_t n) {
    struct frame_head h = {.type = type, .class_ = FRAME_CONTROL, .hops = 1, .length = (uint32_t)n};
    uint8_t bytes[FRAME_HEAD];
    frame_put_head(bytes, &h);
    put(fd, bytes, sizeof bytes);
}

/* A link that has said hello. */
static int connect_peer(void) {
    struct moyai_node_id to = moyai_node_self(node);
    uint64_t before = links();
    int fd = -1;
    KIT_OK(rundir_connect(dir, &to, &fd, NULL, NULL));
    struct link_hello h;
    hello_fill(&h, &peer_is, rundir_host(dir), "peer", FRAME_MAX, 1u << 30);
    uint8_t bytes[HELLO_MAX];
    int n = hello_encode(&h, bytes, NULL);
    KIT_OK(n);
    put_frame_head(fd, FRAME_HELLO, (size_t)n);
    put(fd, bytes, (size_t)n);
    KIT_UNTIL(node, links() == before + 1);
    return fd;
}

/* The node has done with all that was written before: it has answered a ping that came after it. */
static void settle(int fd) {
    static const uint8_t token[8] = "settled";
    put_frame_head(fd, FRAME_PING, sizeof token);
    put(fd, token, sizeof token);
    uint8_t bytes[64 * 1024];
    size_t have = 0;
    bool there = false;
    while (!there) {
        (void)moyai_sleep_masked(node, 1);
        ssize_t k = recv(fd, bytes + have, sizeof bytes - have, 0);
        if (k < 0 && errno == EAGAIN) continue;
        if (k <= 0) FIBER_FAIL("the node has closed the link");
        have += (size_t)k;
        there = memmem(bytes, have, token, sizeof token);
        if (!there && have > sizeof token) {
            memmove(bytes, bytes + have - sizeof token, sizeof token);
            have = sizeof token;
        }
    }
}

/* OPEN or RESUME: the session's path is that link from now on; the node has agreed. */
static void take_path(int fd) {
    struct session_frame f = {.kind = peer.path ? SESSION_RESUME : SESSION_OPEN, .id = peer.session};
    f.path = peer.path += peer.path ? 2 : 1;
    uint8_t bytes[32];
    size_t n = session_wire_head_size(&f);
    session_wire_put_head(bytes, &f);
    put_frame_head(fd, (uint8_t)(FRAME_SESSION + f.kind), n);
    put(fd, bytes, n);
    settle(fd);
}

/* A DATA frame of one chunk, of whose len bytes only the first `now` are written. Its number is that of the next byte;
 * the caller says with peer.seq what counts as sent. */
static void put_data(int fd, uint32_t stream, uint32_t flags, uint64_t total, const uint8_t *p, uint32_t len,
                     uint32_t now) {
    struct session_chunk c = {.stream = stream, .flags = flags, .len = len, .total = total};
    struct session_frame f = {
        .kind = SESSION_DATA, .id = peer.session, .path = peer.path, .seq = peer.seq, .n_chunks = 1, .chunks = &c};
    uint8_t head[64];
    size_t n = session_wire_head_size(&f);
    session_wire_put_head(head, &f);
    put_frame_head(fd, FRAME_SESSION + SESSION_DATA, n + len);
    put(fd, head, n);
    put(fd, p, now);
}

/* An object of the peer. */
static moyai_ref *peers_object(void) {
    char text[MOYAI_REF_TEXT], id[33];
    moyai_ref *r = NULL;
    moyai_node_id_format(peer_is, id);
    snprintf(text, sizeof text, "moyai:%032d@%s", 8, id); /* one that does not move */
    KIT_OK(moyai_ref_parse(node, text, &r));
    return r;
}

/* The id of the next call the node makes. */
static uint64_t read_call(int fd) {
    static uint8_t bytes[FRAME_HEAD + FRAME_MAX];
    for (size_t have = 0;;) {
        (void)moyai_sleep_masked(node, 1);
        ssize_t k = recv(fd, bytes + have, sizeof bytes - have, 0);
        if (k < 0 && errno == EAGAIN) continue;
        if (k <= 0) FIBER_FAIL("the node has closed the link");
        have += (size_t)k;
        struct frame_head h;
        while (have >= FRAME_HEAD) {
            KIT_OK(frame_get_head(bytes, &h, NULL));
            if (have < FRAME_HEAD + h.length) break;
            static struct session_chunk chunks[SESSION_CHUNKS];
            struct session_frame f = {.chunks = chunks};
            size_t head;
            if (h.type == FRAME_SESSION + SESSION_DATA) {
                KIT_OK(session_wire_get(h.type, bytes + FRAME_HEAD, h.length, &f, &head, NULL));
                struct request_head rq;
                KIT_OK(request_get_head(bytes + FRAME_HEAD + head, chunks[0].len, &rq));
                return rq.call;
            }
            have -= FRAME_HEAD + h.length;
            memmove(bytes, bytes + FRAME_HEAD + h.length, have);
        }
    }
}

/* Bytes written to the link that the node has not read. */
static int unread(int fd) {
    int n = 0;
    if (ioctl(fd, SIOCOUTQ, &n) < 0) FIBER_FAIL("SIOCOUTQ: %s", strerror(errno));
    return n;
}

static size_t request(uint8_t *out, const char *method) {
    struct moyai_object_id id = moyai_ref_object(ref);
    struct request_head h = {
        .method_len = (uint8_t)strlen(method), .call = ++peer.call, .remaining = MOYAI_FOREVER, .method = method};
    memcpy(h.object, id.b, 16);
    request_put_head(out, &h);
    return request_head_size(&h);
}

static void call(int fd, const char *method) {
    uint8_t bytes[REQUEST_MOST];
    uint32_t n = (uint32_t)request(bytes, method);
    put_data(fd, 0, SESSION_BEGIN | SESSION_END, 0, bytes, n, n);
    peer.seq += n;
}

/* A message that calls look(n bytes, all of them `c`). */
static uint8_t *call_look(uint8_t c, size_t n, size_t *size) {
    uint8_t *p = malloc(REQUEST_MOST + 16 + n);
    FIBER_ASSERT(p);
    size_t at = request(p, "look");
    p[at++] = 0x5a; /* CBOR: bytes, their number in 4 bytes */
    for (int i = 3; i >= 0; i--) p[at++] = (uint8_t)(n >> (8 * i));
    memset(p + at, c, n);
    *size = at + n;
    return p;
}

/* A message but for its last chunk; and that. */
static void begin_message(int fd, uint32_t stream, const uint8_t *p, size_t size) {
    put_data(fd, stream, SESSION_BEGIN, size, p, SMALL, SMALL);
    peer.seq += SMALL;
    for (size_t at = SMALL; at + LAST < size; at += LAST) {
        uint32_t n = size - LAST - at < LAST ? (uint32_t)(size - LAST - at) : LAST;
        put_data(fd, stream, 0, 0, p + at, n, n);
        peer.seq += n;
    }
}

static void end_message(int fd, uint32_t stream, const uint8_t *p, size_t size) {
    put_data(fd, stream, SESSION_END, 0, p + size - LAST, LAST, LAST);
    peer.seq += LAST;
}

/* ---- a message that crosses links ------------------------------------------------------------ */

enum { BYTES = 200000, PART = 20000 };

/* An old link is in the middle of the frame when the session has gone elsewhere and the message is complete: its memory
 * is another call's by then, and what still comes by the old link must not go there. */
static void a_frame_of_an_old_path_touches_no_other_call(void **state) {
    (void)state;
    size_t size, size2;
    uint8_t *one = call_look(0x11, BYTES, &size), *two = call_look(0x22, BYTES, &size2);
    FIBER_ASSERT_INT(size, size2);
    int old = connect_peer();
    take_path(old);
    begin_message(old, 1, one, size);
    put_data(old, 1, SESSION_END, 0, one + size - LAST, LAST, PART); /* counts as not sent */
    KIT_UNTIL(node, unread(old) == 0);                               /* the part is where the message will be */
    int new = connect_peer();
    take_path(new);
    here.go = true;
    end_message(new, 1, one, size);
    settle(new);
    KIT_UNTIL(node, here.done == 1);
    FIBER_ASSERT_INT(here.intact, 1);
    here.go = false;
    begin_message(new, 2, two, size);
    end_message(new, 2, two, size);
    KIT_UNTIL(node, here.begun == 2);
    put(old, one + size - LAST + PART, LAST - PART);
    settle(old);
    here.go = true;
    KIT_UNTIL(node, here.done == 2);
    FIBER_ASSERT_INT(here.intact, 2);
    close(old);
    close(new);
    free(one);
    free(two);
}

/* Data are taken from the session's path only, whatever path number they bear. */
static void data_of_another_link_is_none(void **state) {
    (void)state;
    int old = connect_peer();
    take_path(old);
    call(old, "touch");
    KIT_UNTIL(node, here.echoes == 1);
    int new = connect_peer();
    take_path(new);
    uint64_t seq = peer.seq;
    call(old, "touch");
    settle(old);
    kit_settle(node);
    FIBER_ASSERT_INT(here.echoes, 1);
    peer.seq = seq;
    call(new, "touch");
    KIT_UNTIL(node, here.echoes == 2);
    close(old);
    close(new);
}

static void answer(int fd, struct session_frame f) {
    uint8_t bytes[64];
    f.id = peer.session;
    f.path = peer.path;
    size_t n = session_wire_head_size(&f);
    session_wire_put_head(bytes, &f);
    put_frame_head(fd, (uint8_t)(FRAME_SESSION + f.kind), n);
    put(fd, bytes, n);
}

/* Take the large answer: acknowledge it, allow all of it. */
static void take_big(int fd, uint64_t want) {
    static uint8_t bytes[2 * FRAME_MAX];
    uint64_t count = 0;
    bool granted = false;
    for (size_t have = 0, at; count < want;) {
        (void)moyai_sleep_masked(node, 1);
        ssize_t k = recv(fd, bytes + have, sizeof bytes - have, 0);
        if (k < 0 && errno == EAGAIN) continue;
        if (k <= 0) FIBER_FAIL("the node has closed the link after %llu bytes", (unsigned long long)count);
        have += (size_t)k;
        uint64_t before = count;
        for (at = 0; have - at >= FRAME_HEAD;) {
            struct frame_head h;
            KIT_OK(frame_get_head(bytes + at, &h, NULL));
            if (have - at < FRAME_HEAD + h.length) break;
            static struct session_chunk chunks[SESSION_CHUNKS];
            struct session_frame f = {.chunks = chunks};
            size_t head;
            if (h.type == FRAME_SESSION + SESSION_DATA) {
                KIT_OK(session_wire_get(h.type, bytes + at + FRAME_HEAD, h.length, &f, &head, NULL));
                for (uint32_t i = 0; i < f.n_chunks; i++) count += chunks[i].len;
            }
            at += FRAME_HEAD + h.length;
        }
        memmove(bytes, bytes + at, have - at);
        have -= at;
        if (count == before) continue;
        if (!granted)
            answer(fd, (struct session_frame){.kind = SESSION_GRANT, .ack = count, .stream = 1, .allowed = want});
        else
            answer(fd, (struct session_frame){.kind = SESSION_ACK, .ack = count});
        granted = true;
    }
}

/* A link that is full of an answer when the session goes elsewhere has lent its bytes; when all of it has been taken by
 * the other link they go, and what the old one still writes is what they were. */
static void an_old_link_writes_no_freed_bytes(void **state) {
    (void)state;
    enum { ALL = BIG + REPLY_HEAD + 5 };
    /* What is freed stays mapped, and is not what it was. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_PERTURB, 0x33);
    int old = connect_peer();
    take_path(old);
    call(old, "give");
    KIT_UNTIL(node, here.done == 1);
    for (int i = 0; i < 50; i++) {
        answer(old, (struct session_frame){.kind = SESSION_GRANT, .stream = 1, .allowed = ALL});
        (void)moyai_sleep_masked(node, MOYAI_MS);
    }
    int new = connect_peer();
    peer.path += 2;
    answer(new, (struct session_frame){.kind = SESSION_RESUME});
    take_big(new, ALL);
    settle(new);
    size_t odd = 0, total = 0;
    static uint8_t bytes[1 << 20];
    for (int idle = 0; idle < 50; idle++) {
        (void)moyai_sleep_masked(node, MOYAI_MS);
        ssize_t k = recv(old, bytes, sizeof bytes, 0);
        if (k <= 0) continue;
        idle = 0;
        total += (size_t)k;
        for (ssize_t i = 0; i < k; i++) odd += bytes[i] != BIG_BYTE;
    }
    FIBER_ASSERT(total > 100000); /* it was full of the answer */
    if (odd > 4096) FIBER_FAIL("%zu bytes of %zu are not those of the answer", odd, total);
    close(old);
    close(new);
}

/* ---- answers that are none ------------------------------------------------------------------- */

/* The first reply is large and arrives; the second answers the same call. Neither is the answer, the peer is broken. */
static void a_second_reply_is_refused(void **state) {
    (void)state;
    int fd = connect_peer();
    take_path(fd);
    moyai_ref *there = peers_object();
    moyai_future *f = moyai_call_async(there, "answer_twice", MOYAI_NONE);
    uint8_t bytes[REPLY_HEAD + 8] = {MESSAGE_REPLY}, *large = calloc(1, BYTES);
    FIBER_ASSERT(large);
    struct cursor_out c = cursor_out(bytes + 8, 8);
    cursor_put_u64(&c, read_call(fd));
    memcpy(large, bytes, REPLY_HEAD);
    put_data(fd, 1, SESSION_BEGIN, BYTES, large, SMALL, SMALL);
    peer.seq += SMALL;
    bytes[REPLY_HEAD] = 1; /* CBOR: 1 */
    put_data(fd, 0, SESSION_BEGIN | SESSION_END, 0, bytes, REPLY_HEAD + 1, REPLY_HEAD + 1);
    struct moyai_error e;
    int64_t x = 0;
    KIT_RC(moyai_future_get(f, MOYAI_INTO(&x)), MOYAI_EUNREACHABLE);
    moyai_last_error(node, &e);
    FIBER_ASSERT_INT(e.executed, MOYAI_MAY_HAVE_EXECUTED);
    moyai_future_free(f);
    moyai_ref_unref(there);
    free(large);
    close(fd);
}

/* ---- questions whose answers nobody reads ---------------------------------------------------- */

enum { FLOOD = 256 * 1024 * 1024 };

/* Write a frame again and again until the node has had enough. It must, long before it has stored FLOOD bytes. */
static void flood(int fd, uint8_t type, const uint8_t *payload, size_t n) {
    size_t one = FRAME_HEAD + n, sent = 0, many = 1024;
    uint8_t *p = malloc(many * one);
    FIBER_ASSERT(p);
    struct frame_head h = {.type = type, .class_ = FRAME_CONTROL, .hops = 1, .length = (uint32_t)n};
    for (size_t i = 0; i < many; i++) {
        frame_put_head(p + i * one, &h);
        memcpy(p + i * one + FRAME_HEAD, payload, n);
    }
    while (links() == 1) {
        if (sent > FLOOD) FIBER_FAIL("%zu bytes of questions are answered, and nobody reads the answers", sent);
        ssize_t k = send(fd, p + sent % (many * one), many * one - sent % (many * one), MSG_NOSIGNAL);
        if (k > 0) sent += (size_t)k;
        (void)moyai_sleep_masked(node, 1);
    }
    free(p);
}

static void a_peer_that_reads_no_pongs_loses_its_link(void **state) {
    (void)state;
    static const uint8_t token[8];
    int fd = connect_peer();
    flood(fd, FRAME_PING, token, sizeof token);
    close(fd);
    fd = connect_peer(); /* and may come again */
    take_path(fd);
    call(fd, "touch");
    KIT_UNTIL(node, here.echoes == 1);
    close(fd);
}

static void a_peer_that_reads_no_refusals_loses_its_link(void **state) {
    (void)state;
    int fd = connect_peer();
    struct session_frame f = {.kind = SESSION_ACK, .id = 12345, .path = 1};
    uint8_t bytes[32];
    session_wire_put_head(bytes, &f);
    flood(fd, FRAME_SESSION + SESSION_ACK, bytes, session_wire_head_size(&f));
    close(fd);
}

/* ---- the node itself ------------------------------------------------------------------------- */

/* A request for the node's own object, with those arguments, whatever they are. */
static void call_node(int fd, const char *method, uint8_t flags, const uint8_t *args, size_t n) {
    static uint8_t bytes[SMALL];
    struct moyai_node_id id = moyai_node_self(node);
    struct request_head h = {
        .method_len = (uint8_t)strlen(method), .call = ++peer.call, .remaining = MOYAI_FOREVER, .method = method};
    memcpy(h.object, id.b, 16);
    request_put_head(bytes, &h);
    bytes[1] |= flags;
    size_t at = request_head_size(&h);
    FIBER_ASSERT(n <= sizeof bytes - at);
    memcpy(bytes + at, args, n);
    put_data(fd, 0, SESSION_BEGIN | SESSION_END, 0, bytes, (uint32_t)(at + n), (uint32_t)(at + n));
    peer.seq += at + n;
}

/* It takes any arguments, and answers. What is no request ends the link, as for other objects. */
static void a_node_takes_any_arguments(void **state) {
    (void)state;
    static const uint8_t good[] = {0x58, 24, 1,  2, 3, 4, 5, 6, 7, 8, 9, 10,   11, 12, 13,
                                   14,   15, 16, 1, 0, 0, 0, 0, 0, 0, 0, 0x19, 1,  0}; /* a place, and 256 */
    uint8_t args[1100];
    uint64_t random = kit_seed();
    int fd = connect_peer();
    take_path(fd);
    for (int i = 0; i < 2000; i++) {
        size_t n = 0;
        for (size_t k = 0; k < sizeof args; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            args[k] = (uint8_t)(random >> 56);
        }
        if (i % 3 == 0) { /* nearly right */
            n = sizeof good - (i % 2 ? args[1] % sizeof good : 0);
            memcpy(args + 4, good, n);
            args[4 + args[2] % n] = args[3];
        } else {
            n = i % 3 == 1 ? args[0] % 40u : (size_t)args[0] * 4;
        }
        call_node(fd, i % 5 ? "objects" : "info", 0, args + (i % 3 == 0 ? 4 : 1), n);
        if (i % 50 == 0) settle(fd);
    }
    settle(fd);
    FIBER_ASSERT_INT(links(), 1);
    call(fd, "touch");
    KIT_UNTIL(node, here.echoes == 1);
    call_node(fd, "info", 0x80, args, 0);
    KIT_UNTIL(node, links() == 0);
    close(fd);
}

/* ---- crowds ---------------------------------------------------------------------------------- */

/* Of one peer there may be as many calls as a node takes. To cancel one is not to look at all. */
static void a_cancel_looks_at_few_calls(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    enum { N = 8000 };
    opts.max_fibers = N + 1;
    open_with(&opts);
    int fd = connect_peer();
    take_path(fd);
    size_t size;
    uint8_t *large = call_look(0x33, BYTES, &size);
    begin_message(fd, 1, large, size); /* the others are held behind it, and need no fibers */
    uint64_t first = peer.call + 1;
    for (int i = 0; i < N; i++) {
        call(fd, "touch");
        if (i % 100 == 0) settle(fd);
    }
    settle(fd);
    uint64_t before = node->id_steps;
    for (uint64_t id = first; id < first + N; id++) {
        uint8_t bytes[16] = {MESSAGE_CANCEL};
        for (int i = 0; i < 8; i++) bytes[8 + i] = (uint8_t)(id >> (8 * i));
        put_data(fd, 0, SESSION_BEGIN | SESSION_END, 0, bytes, sizeof bytes, sizeof bytes);
        peer.seq += sizeof bytes;
        if (id % 100 == 0) settle(fd);
    }
    here.go = true;
    end_message(fd, 1, large, size);
    settle(fd);
    KIT_UNTIL(node, here.done == 1);
    kit_settle(node);
    FIBER_ASSERT_INT(here.echoes, 0);
    uint64_t steps = node->id_steps - before;
    if (steps > 64 * N) FIBER_FAIL("%llu calls were looked at to cancel %d", (unsigned long long)steps, N);
    free(large);
    close(fd);
    close_world(state);
}

/* Answers (2) and signals (5) among the frames that the node sends, from now until so many answers are there. The peer
 * acknowledges all, so that more may come. */
static void read_messages(int fd, int answers, int *signals) {
    static uint8_t bytes[2 * FRAME_MAX];
    size_t have = 0;
    int got = 0;
    uint64_t count = 0;
    *signals = 0;
    moyai_ns limit = moyai_now() + (moyai_ns)(240 * MOYAI_SEC);
    while (got < answers) {
        if (moyai_now() > limit) FIBER_FAIL("%d answers of %d have come", got, answers);
        (void)moyai_sleep_masked(node, 1);
        ssize_t k = recv(fd, bytes + have, sizeof bytes - have, 0);
        if (k < 0 && errno == EAGAIN) continue;
        if (k <= 0) FIBER_FAIL("the node has closed the link; %d answers of %d have come", got, answers);
        have += (size_t)k;
        struct frame_head h;
        size_t at = 0;
        bool taken = false;
        while (have - at >= FRAME_HEAD) {
            KIT_OK(frame_get_head(bytes + at, &h, NULL));
            if (have - at < FRAME_HEAD + h.length) break;
            const uint8_t *p = bytes + at + FRAME_HEAD;
            at += FRAME_HEAD + h.length;
            FIBER_ASSERT(h.type != FRAME_SESSION + SESSION_REFUSE && h.type != FRAME_FAREWELL);
            if (h.type != FRAME_SESSION + SESSION_DATA) continue;
            static struct session_chunk chunks[SESSION_CHUNKS];
            struct session_frame f = {.chunks = chunks};
            size_t head;
            KIT_OK(session_wire_get(h.type, p, h.length, &f, &head, NULL));
            p += head;
            for (uint32_t i = 0; i < f.n_chunks; p += chunks[i++].len) {
                got += p[0] == MESSAGE_REPLY;
                *signals += p[0] == MESSAGE_SIGNAL;
                count += chunks[i].len;
                taken = true;
            }
        }
        memmove(bytes, bytes + at, have - at);
        have -= at;
        if (!taken) continue;
        struct session_frame ack = {.kind = SESSION_ACK, .id = peer.session, .path = peer.path, .ack = count};
        uint8_t out[32];
        size_t n = session_wire_head_size(&ack);
        session_wire_put_head(out, &ack);
        put_frame_head(fd, FRAME_SESSION + SESSION_ACK, n);
        put(fd, out, n);
    }
}

/* Signals to a peer that does not read leave room for what it is owed: its calls are answered when it reads again. */
static void a_flood_of_signals_keeps_calls_alive(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    enum { N = 50 };
    opts.max_fibers = 2 * N;
    open_with(&opts);
    int fd = connect_peer();
    take_path(fd);
    for (int i = 0; i < N; i++) call(fd, "wait");
    KIT_UNTIL(node, here.begun == N);
    moyai_ref *there = peers_object();
    int rc = 0, sent = 0, signals = 0;
    for (; rc == 0 && sent < 1000000; sent++) {
        rc = moyai_signal(there);
        if (sent % 64 == 0) kit_settle(node);
    }
    KIT_RC(rc, MOYAI_EAGAIN);
    here.go = true;
    KIT_UNTIL(node, here.done == N);
    read_messages(fd, N, &signals);
    FIBER_ASSERT_INT(signals, sent - 1);
    KIT_OK(moyai_signal(there));
    moyai_ref_unref(there);
    close(fd);
    close_world(state);
}

static int role_victim(int argc, char **argv) {
    struct state s = {0};
    FIBER_ASSERT_INT(argc, 1);
    return kit_serve(NULL, &cls, &s, argv[0]);
}

static size_t count(const char *text, const char *part) {
    size_t n = 0;
    for (; (text = strstr(text, part)); text++) n++;
    return n;
}

/* The other side closes the link. */
static void await_end(moyai_node *n, int fd) {
    uint8_t byte;
    ssize_t k;
    while ((k = read(fd, &byte, 1)) > 0 || (k < 0 && errno == EAGAIN)) (void)moyai_sleep_masked(n, MOYAI_MS);
    close(fd);
}

/* Who breaks link after link is named, and does not fill the log. */
static void who_breaks_many_links_is_named_some_times(void **state) {
    (void)state;
    enum { LINKS = 60, LINES = 2 };
    pid_t victim = kit_child_quiet("victim", "MOYAI_LOG=warning", "victim", NULL);
    moyai_node *n = kit_node(NULL);
    moyai_ref *r = kit_lookup(n, "victim");
    struct moyai_node_id id = moyai_ref_home(r);
    struct rundir *d;
    KIT_OK(rundir_open(&d, kit_dir(), NULL));
    for (int i = 0; i < LINKS; i++) {
        uint8_t junk[64];
        int fd;
        memset(junk, 0xff, sizeof junk);
        while (rundir_connect(d, &id, &fd, NULL, NULL) < 0) (void)moyai_sleep_masked(n, MOYAI_MS);
        FIBER_ASSERT(send(fd, junk, sizeof junk, MSG_NOSIGNAL) == sizeof junk);
        await_end(n, fd);
    }
    rundir_close(d);
    moyai_ref_unref(r);
    moyai_node_free(n);
    kit_end(victim);
    char *said = kit_stderr(victim), who[80];
    snprintf(who, sizeof who, "MOYAI-LINK-RESET the link to process %ld is closed: ", (long)getpid());
    FIBER_ASSERT_INT(count(said, who), LINES);
    FIBER_ASSERT_INT(count(said, "MOYAI-LINK-RESET"), LINES + 1);
    KIT_TEXT(said, "MOYAI-LINK-RESET 58 more of these were left out");
    free(said);
}

/* Two hosts that use one directory, as on a shared file system, would find each other's sockets, behind which nobody
 * is: it is said by default. */
static void hosts_do_not_share_a_run_directory(void **state) {
    (void)state;
    pid_t victim = kit_child_quiet("victim", "victim", NULL);
    moyai_node *n = kit_node(NULL);
    moyai_ref *r = kit_lookup(n, "victim");
    struct moyai_node_id id = moyai_ref_home(r), other = {{7}};
    struct rundir *d;
    KIT_OK(rundir_open(&d, kit_dir(), NULL));
    struct link_hello h;
    hello_fill(&h, &other, rundir_host(d), "other", FRAME_MAX, 1u << 30);
    h.host[0] ^= 1;
    uint8_t bytes[HELLO_MAX];
    int fd, size = hello_encode(&h, bytes, NULL);
    KIT_OK(size);
    KIT_OK(rundir_connect(d, &id, &fd, NULL, NULL));
    put_frame_head(fd, FRAME_HELLO, (size_t)size);
    put(fd, bytes, (size_t)size);
    await_end(n, fd);
    rundir_close(d);
    moyai_ref_unref(r);
    moyai_node_free(n);
    kit_end(victim);
    char *said = kit_stderr(victim);
    KIT_TEXT(said, "MOYAI-LINK-HELLO refused: ");
    KIT_TEXT(said, "a Unix link from another host: hosts must not share a run directory");
    free(said);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(a_frame_of_an_old_path_touches_no_other_call),
        WORLD(data_of_another_link_is_none),
        WORLD(a_second_reply_is_refused),
        WORLD(an_old_link_writes_no_freed_bytes),
        WORLD(a_peer_that_reads_no_pongs_loses_its_link),
        WORLD(a_peer_that_reads_no_refusals_loses_its_link),
        WORLD(a_node_takes_any_arguments),
        cmocka_unit_test(a_cancel_looks_at_few_calls),
        cmocka_unit_test(a_flood_of_signals_keeps_calls_alive),
        cmocka_unit_test(who_breaks_many_links_is_named_some_times),
        cmocka_unit_test(hosts_do_not_share_a_run_directory),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"victim", role_victim}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
