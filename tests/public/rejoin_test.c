/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that others have declared dead, and that lives, joins again under another id (doc/spec/06-death.md, 5.6): what
 * was open has failed, and who had references to it hears that it has died; its objects go on, under their names.
 *
 * In a directory a node is dead whose socket is gone: a cleaner of old files may have removed it. Between hosts it is
 * dead if it is stopped while all its links are reset, as by a router: they go through this program here, which resets
 * them.
 */
#include "link/key.h"
#include "tests/public/kit.h"
#include "tests/support/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the server ------------------------------------------------------------------------------ */

struct server {
    int64_t sum;
    moyai_ref *self, *node; /* made before all that happens */
    moyai_future *held;
};

static int m_add(moyai_request *rq, void *self) {
    struct server *s = self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    s->sum += x;
    return moyai_return(rq, MOYAI_ARGS(s->sum));
}

static int m_sleep(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

/* hold(name): a call to that object that stays open; it has begun. */
static int m_hold(moyai_request *rq, void *self) {
    struct server *s = self;
    const char *name;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name)));
    KIT_OK(moyai_lookup_wait(moyai_request_node(rq), name, MOYAI_FOREVER, &ref));
    s->held = moyai_call_async(ref, "sleep", MOYAI_NONE);
    int64_t sum = 0;
    KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(0), MOYAI_INTO(&sum), NULL));
    moyai_ref_unref(ref);
    return 0;
}

/* What has become of it. */
static int m_held(moyai_request *rq, void *self) {
    struct server *s = self;
    struct moyai_error e;
    int rc = moyai_future_get(s->held, MOYAI_NONE);
    moyai_future_error(s->held, 0, &e);
    moyai_future_free(s->held);
    s->held = NULL;
    return moyai_return(rq, MOYAI_ARGS((int64_t)rc, (int64_t)e.executed, e.text));
}

/* References that it has had from the start are good here, and are good for others who are given them now. */
static int m_own(moyai_request *rq, void *self) {
    struct server *s = self;
    moyai_node *n = moyai_request_node(rq);
    int64_t sum = 0;
    FIBER_ASSERT(moyai_ref_is_local(s->self) && moyai_ref_is_local(s->node));
    FIBER_ASSERT(moyai_node_id_equal(moyai_ref_home(s->self), moyai_node_self(n)));
    KIT_OK(moyai_call(s->self, "add", MOYAI_ARGS(1), MOYAI_INTO(&sum), NULL));
    KIT_OK(moyai_call(s->node, "ping", MOYAI_NONE, MOYAI_NONE, NULL));
    KIT_OK(moyai_signal(s->self));
    KIT_RC(moyai_sleep(n, 30 * MOYAI_SEC), MOYAI_SIGNALLED); /* else it would wait for the next method that blocks */
    return moyai_return(rq, MOYAI_ARGS(s->self, s->node));
}

/* call(name): one call to an object of another; its code. */
static int m_call(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    moyai_ref *ref = NULL;
    int64_t sum = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name)));
    KIT_OK(moyai_lookup_wait(moyai_request_node(rq), name, MOYAI_FOREVER, &ref));
    int rc = moyai_call(ref, "add", MOYAI_ARGS(1), MOYAI_INTO(&sum), NULL);
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS((int64_t)rc));
}

static int m_linked(moyai_request *rq, void *self) {
    (void)self;
    int64_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    struct moyai_node_stats s = {.size = sizeof s};
    do {
        moyai_node_stats(moyai_request_node(rq), &s);
        (void)moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS);
    } while (s.links < (uint64_t)n);
    return 0;
}

static const struct moyai_method methods[] = {{"add", m_add},       {"sleep", m_sleep}, {"hold", m_hold},
                                              {"held", m_held},     {"own", m_own},     {"call", m_call},
                                              {"linked", m_linked}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Server", methods, NULL);

/* Registered under both names. */
static int role_server(int argc, char **argv) {
    struct server s = {0};
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.signals = true;
    moyai_node *n = kit_node(&o);
    s.self = kit_object(n, &cls, &s);
    KIT_OK(moyai_node_ref(n, moyai_node_self(n), &s.node));
    for (int i = 0; i < argc; i++) KIT_OK(moyai_register(s.self, argv[i]));
    KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    moyai_ref_unref(s.self);
    moyai_ref_unref(s.node);
    moyai_node_free(n);
    return 0;
}

static int64_t add(moyai_ref *ref, int64_t x) {
    int64_t sum = 0;
    KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(x), MOYAI_INTO(&sum), NULL));
    return sum;
}

/* The name leads to another node than before, as soon as that has happened. */
static moyai_ref *lookup_other(moyai_node *n, const char *name, struct moyai_node_id before) {
    for (;;) {
        moyai_ref *ref = kit_lookup(n, name);
        if (!moyai_node_id_equal(moyai_ref_home(ref), before)) return ref;
        moyai_ref_unref(ref);
        (void)moyai_sleep_masked(n, MOYAI_MS);
    }
}

static void events_say(const char *path, const char *kind, int times) {
    FILE *in = fopen(path, "r");
    FIBER_ASSERT(in);
    char line[8192], text[64];
    int n = 0;
    snprintf(text, sizeof text, "\"kind\":\"%s\"", kind);
    while (fgets(line, sizeof line, in)) n += strstr(line, text) != NULL;
    fclose(in);
    FIBER_ASSERT_INT(n, times);
}

/* The object is where it was, with all that it had; its node is another to everybody. */
static void goes_on(moyai_node *n, moyai_ref *before, const char *name, int64_t sum) {
    moyai_ref *now = lookup_other(n, name, moyai_ref_home(before)), *given = NULL, *node = NULL;
    FIBER_ASSERT(moyai_ref_equal(before, now));
    FIBER_ASSERT_INT(add(now, 10), sum + 10);
    KIT_OK(moyai_call(now, "own", MOYAI_NONE, MOYAI_INTO(&given, &node), NULL));
    FIBER_ASSERT(moyai_node_id_equal(moyai_ref_home(given), moyai_ref_home(now)));
    FIBER_ASSERT_INT(add(given, 0), sum + 11);
    KIT_OK(moyai_call(node, "ping", MOYAI_NONE, MOYAI_NONE, NULL));
    KIT_OK(moyai_ping(n, moyai_ref_home(now), 30 * MOYAI_SEC));
    moyai_future *f = moyai_call_async(before, "add", MOYAI_ARGS(1000));
    (void)KIT_FAILED(f, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    FIBER_ASSERT_INT(add(now, 0), sum + 11);
    moyai_ref_unref(given);
    moyai_ref_unref(node);
    moyai_ref_unref(now);
}

/* ---- on one host ----------------------------------------------------------------------------- */

static void remove_socket(struct moyai_node_id id) {
    char hex[33], path[200];
    moyai_node_id_format(id, hex);
    snprintf(path, sizeof path, "%s/%.16s", getenv("MOYAI_RUN_DIR"), hex);
    FIBER_ASSERT(unlink(path) == 0);
}

/* What it had open when it was declared dead. */
static void held_has_failed(moyai_ref *ref) {
    int64_t rc = 0, executed = 0;
    const char *text;
    KIT_OK(moyai_call(ref, "held", MOYAI_NONE, MOYAI_INTO(&rc, &executed, &text), NULL));
    FIBER_ASSERT_INT(rc, MOYAI_EUNREACHABLE);
    FIBER_ASSERT_INT(executed, MOYAI_MAY_HAVE_EXECUTED);
    KIT_TEXT(text, "declared this node dead");
}

static void on_one_host(void **state) {
    (void)state;
    char events[160], seen[140];
    snprintf(seen, sizeof seen, "%s/one.events", kit_dir());
    snprintf(events, sizeof events, "MOYAI_EVENTS=%s", seen);
    pid_t pid = kit_child_quiet("server", events, "worker", "alias", NULL), other = kit_child("server", "other", NULL);
    moyai_node *n = kit_node(NULL), *m = kit_node(NULL);
    struct server mine = {0};
    moyai_ref *back = kit_object(m, &cls, &mine), *linked = kit_lookup(n, "worker"),
              *not_linked = kit_lookup(m, "worker");
    KIT_OK(moyai_register(back, "back"));
    struct moyai_node_id before = moyai_ref_home(linked);
    FIBER_ASSERT_INT(add(linked, 5), 5);
    KIT_OK(moyai_call(linked, "hold", MOYAI_ARGS("other"), MOYAI_NONE, NULL));
    moyai_future *open = moyai_call_async(linked, "sleep", MOYAI_NONE);
    FIBER_ASSERT_INT(add(linked, 0), 5);
    remove_socket(before);
    /* Who has a link uses it; who has none finds that it is dead, and says so when it comes. */
    FIBER_ASSERT_INT(add(linked, 0), 5);
    moyai_future *f = moyai_call_async(not_linked, "add", MOYAI_ARGS(1000));
    (void)KIT_FAILED(f, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
    moyai_future_free(f);
    f = moyai_call_async(linked, "call", MOYAI_ARGS("back"));
    struct moyai_error e = KIT_FAILED(open, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    KIT_TEXT(e.text, "joined again as node");
    (void)KIT_FAILED(f, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    moyai_future_free(open);
    moyai_future_free(f);
    goes_on(n, linked, "worker", 5);
    goes_on(m, not_linked, "alias", 16);
    FIBER_ASSERT_INT(mine.sum, 0);
    /* What it had open itself has failed, and it can do the same again. */
    moyai_ref *now = kit_lookup(n, "worker");
    int64_t rc = 0;
    held_has_failed(now);
    KIT_OK(moyai_call(now, "call", MOYAI_ARGS("other"), MOYAI_INTO(&rc), NULL));
    FIBER_ASSERT_INT(rc, 0);
    FIBER_ASSERT_INT(mine.sum, 0);
    /* And once more. */
    remove_socket(moyai_ref_home(now));
    moyai_node *third = kit_node(NULL);
    moyai_ref *found = NULL; /* not by the name, which it would take for a dead one's */
    char ref_text[MOYAI_REF_TEXT];
    moyai_ref_format(now, ref_text);
    KIT_OK(moyai_ref_parse(third, ref_text, &found));
    KIT_RC(moyai_call(found, "add", MOYAI_ARGS(1), MOYAI_NONE, NULL), MOYAI_EDEAD);
    moyai_ref *of_third = kit_object(third, &cls, &mine);
    KIT_OK(moyai_register(of_third, "third"));
    KIT_RC(moyai_call(now, "call", MOYAI_ARGS("third"), MOYAI_NONE, NULL), MOYAI_EDEAD);
    goes_on(n, now, "worker", 27);
    moyai_ref *refs[] = {back, linked, not_linked, now, found, of_third};
    for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++) moyai_ref_unref(refs[i]);
    moyai_node_free(third);
    moyai_node_free(n);
    moyai_node_free(m);
    kit_end(pid);
    kit_end(other);
    char *said = kit_stderr(pid);
    KIT_TEXT(said, "MOYAI-TOLD-DEAD");
    KIT_TEXT(said, "MOYAI-REJOIN");
    free(said);
    events_say(seen, "told-dead", 2);
    events_say(seen, "node-rejoin", 2);
}

/* ---- between hosts --------------------------------------------------------------------------- */

/* Connections to open nodes pass through here. */
#define OPEN  4
#define PAIRS 256
struct pair {
    int fd[2]; /* -1: none */
};
static struct {
    int listener[OPEN], wake[2];
    uint16_t port[OPEN], through[OPEN]; /* where they listen; where they say that they do */
    struct pair pair[PAIRS];
    int n;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_t thread;
} net;

static int bound(uint16_t *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FIBER_ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
                 getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static void pair_close(struct pair *p, bool reset) {
    struct linger now = {1, 0};
    for (int e = 0; e < 2; e++) {
        if (reset) (void)setsockopt(p->fd[e], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(p->fd[e]);
        p->fd[e] = -1;
    }
}

static void take(int i) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(net.port[i])};
    int in = accept4(net.listener[i], NULL, NULL, SOCK_CLOEXEC);
    if (in < 0) return;
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (net.n == PAIRS || connect(out, (struct sockaddr *)&a, sizeof a) < 0) {
        close(in);
        close(out);
        return;
    }
    net.pair[net.n++] = (struct pair){{in, out}};
}

static void pass(struct pair *p, int from) {
    char bytes[65536];
    ssize_t n = recv(p->fd[from], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0 || send(p->fd[1 - from], bytes, (size_t)n, MSG_NOSIGNAL) != n) pair_close(p, n < 0);
}

static void *run(void *arg) {
    (void)arg;
    static struct pollfd fds[OPEN + 1 + 2 * PAIRS];
    static int of[OPEN + 1 + 2 * PAIRS];
    while (!atomic_load(&net.stop)) {
        nfds_t n = 0;
        for (int i = 0; i < OPEN; i++) fds[n++] = (struct pollfd){.fd = net.listener[i], .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = net.wake[0], .events = POLLIN};
        pthread_mutex_lock(&net.mutex);
        for (int i = 0; i < net.n; i++)
            for (int e = 0; e < 2; e++)
                if (net.pair[i].fd[e] >= 0) {
                    of[n] = 2 * i + e;
                    fds[n++] = (struct pollfd){.fd = net.pair[i].fd[e], .events = POLLIN};
                }
        pthread_mutex_unlock(&net.mutex);
        (void)poll(fds, n, -1);
        pthread_mutex_lock(&net.mutex);
        for (int i = 0; i < OPEN; i++)
            if (fds[i].revents) take(i);
        char c;
        if (fds[OPEN].revents) (void)!read(net.wake[0], &c, 1);
        for (nfds_t k = OPEN + 1; k < n; k++) {
            struct pair *p = &net.pair[of[k] / 2];
            if (fds[k].revents && p->fd[of[k] % 2] == fds[k].fd) pass(p, of[k] % 2);
        }
        pthread_mutex_unlock(&net.mutex);
    }
    return NULL;
}

static void net_begin(void) {
    FIBER_ASSERT(pipe(net.wake) == 0 && pthread_mutex_init(&net.mutex, NULL) == 0);
    for (int i = 0; i < OPEN; i++) {
        net.port[i] = test_free_port();
        net.listener[i] = bound(&net.through[i]);
        FIBER_ASSERT(listen(net.listener[i], 64) == 0);
    }
    FIBER_ASSERT(pthread_create(&net.thread, NULL, run, NULL) == 0);
}

static int connections(void) {
    pthread_mutex_lock(&net.mutex);
    int n = net.n;
    pthread_mutex_unlock(&net.mutex);
    return n;
}

/* Those that were made after the first so many. */
static void reset_since(int first) {
    pthread_mutex_lock(&net.mutex);
    for (int i = first; i < net.n; i++)
        if (net.pair[i].fd[0] >= 0) pair_close(&net.pair[i], true);
    pthread_mutex_unlock(&net.mutex);
    FIBER_ASSERT(write(net.wake[1], "", 1) == 1);
}

static void net_end(void) {
    atomic_store(&net.stop, true);
    FIBER_ASSERT(write(net.wake[1], "", 1) == 1);
    pthread_join(net.thread, NULL);
    for (int i = 0; i < net.n; i++)
        if (net.pair[i].fd[0] >= 0) pair_close(&net.pair[i], false);
    for (int i = 0; i < OPEN; i++) close(net.listener[i]);
    close(net.wake[0]);
    close(net.wake[1]);
}

static char grid[OPEN * 24 + 16], key[128];

static pid_t start(const char *name, int open, const char *events) {
    char file[160], dir[160], at[48], told[48] = "MOYAI_TITLE=server";
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/%s", kit_dir(), name);
    if (open < 0) {
        snprintf(at, sizeof at, "MOYAI_OUTBOUND_ONLY=yes");
    } else {
        snprintf(at, sizeof at, "MOYAI_LISTEN=127.0.0.1:%u", net.port[open]);
        snprintf(told, sizeof told, "MOYAI_ADVERTISE=127.0.0.1:%u", net.through[open]);
    }
    return kit_child("server", grid, file, dir, at, told, events, name, NULL);
}

static void between_hosts(void **state) {
    (void)state;
    struct keyring r = {.n = 1};
    KIT_OK(key_new(&r.key[0], NULL));
    snprintf(key, sizeof key, "%s/key", kit_dir());
    KIT_OK(keyfile_write(&r, key, false, NULL));
    net_begin();
    snprintf(grid, sizeof grid, "MOYAI_GRID=");
    for (int i = 0; i < OPEN; i++)
        snprintf(grid + strlen(grid), sizeof grid - strlen(grid), "%s127.0.0.1:%u", i ? " " : "", net.through[i]);
    char dir[128], seen[140], events[160];
    snprintf(dir, sizeof dir, "%s/client", kit_dir());
    snprintf(seen, sizeof seen, "%s/worker.events", kit_dir());
    snprintf(events, sizeof events, "MOYAI_EVENTS=%s", seen);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.grid = grid + strlen("MOYAI_GRID=");
    opts.run_dir = dir;
    opts.key_file = key;
    opts.outbound_only = true;
    pid_t pid[OPEN], worker;
    moyai_node *n = kit_node(&opts);
    moyai_ref *server[OPEN];
    char name[OPEN][8];
    for (int i = 0; i < OPEN; i++) {
        snprintf(name[i], sizeof name[i], "open%d", i);
        pid[i] = start(name[i], i, "MOYAI_STACK=262144");
    }
    for (int i = 0; i < OPEN; i++) {
        server[i] = kit_lookup(n, name[i]);
        KIT_OK(moyai_call(server[i], "linked", MOYAI_ARGS(OPEN), MOYAI_NONE, NULL)); /* to this one as well */
    }
    int first = connections();
    worker = start("worker", -1, events);
    moyai_ref *ref = kit_lookup(n, "worker");
    KIT_OK(moyai_call(ref, "linked", MOYAI_ARGS(OPEN), MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(add(ref, 7), 7);
    KIT_OK(moyai_call(ref, "hold", MOYAI_ARGS("open1"), MOYAI_NONE, NULL));
    moyai_future *open = moyai_call_async(ref, "sleep", MOYAI_NONE);
    FIBER_ASSERT_INT(add(ref, 0), 7);
    kit_stop(worker);
    reset_since(first);
    (void)KIT_FAILED(open, MOYAI_EDEAD, MOYAI_AT_PEER, MOYAI_MAY_HAVE_EXECUTED);
    moyai_future_free(open);
    kit_cont(worker);
    goes_on(n, ref, "worker", 7);
    moyai_ref *now = kit_lookup(n, "worker");
    int64_t rc = 0;
    held_has_failed(now);
    for (int i = 0; i < OPEN; i++) {
        KIT_OK(moyai_call(now, "call", MOYAI_ARGS(name[i]), MOYAI_INTO(&rc), NULL));
        FIBER_ASSERT_INT(rc, 0);
    }
    moyai_ref_unref(now);
    moyai_ref_unref(ref);
    kit_end(worker);
    for (int i = 0; i < OPEN; i++) moyai_ref_unref(server[i]);
    moyai_node_free(n);
    for (int i = 0; i < OPEN; i++) kit_end(pid[i]);
    net_end();
    events_say(seen, "told-dead", 1);
    events_say(seen, "node-rejoin", 1);
}

static int tests(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(on_one_host), cmocka_unit_test(between_hosts)};
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"server", role_server}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
