/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of this machine that are apart: each has a run directory of its own, so that they meet over TCP (TLS) only, and
 * who does not listen is reached through others. The processes of a bench; those that call are told by a byte to take
 * a sample, and answer with a number.
 */
#ifndef BENCH_APART_H
#define BENCH_APART_H

#include "bench/bench.h"
#include "link/key.h"
#include "tests/support/port.h"

#include <arpa/inet.h>
#include <moyai.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define APART_LIMIT (60 * MOYAI_SEC) /* hang guard */

struct apart {
    char dir[64], key[96];
    bool own_thread; /* of nodes made from now on: they serve while their process does something else */
};

static inline void apart_begin(struct apart *a) {
    *a = (struct apart){0};
    struct keyring r = {.n = 1};
    struct moyai_error e;
    snprintf(a->dir, sizeof a->dir, "/tmp/moyai-bench-XXXXXX");
    if (!mkdtemp(a->dir)) bench_die("mkdtemp");
    snprintf(a->key, sizeof a->key, "%s/key", a->dir);
    errno = 0;
    if (key_new(&r.key[0], &e) < 0 || keyfile_write(&r, a->key, false, &e) < 0) bench_die("%s", e.text);
}

static inline void apart_end(const struct apart *a) {
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", a->dir);
    if (system(cmd) != 0) fprintf(stderr, "cannot remove %s\n", a->dir);
}

/* An address of this machine that is free now. */
static inline void apart_place(char place[32]) {
    snprintf(place, 32, "127.0.0.1:%u", test_free_port());
}

/* Until somebody listens there: who starts earlier would try again only after a while. */
static inline void apart_await(const char *place) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strchr(place, ':') + 1));
    for (int i = 0;; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), rc = connect(fd, (struct sockaddr *)&a, sizeof a);
        close(fd);
        if (rc == 0) return;
        if (i == 10000) bench_die("nobody listens at %s", place);
        usleep(1000);
    }
}

/* listen_at: NULL: nobody can connect to it. told: the address that others are told of, if it is another one. */
static inline moyai_node *apart_node(const struct apart *a, const char *name, const char *grid, const char *listen_at,
                                     const char *told) {
    char dir[128];
    moyai_node *n;
    struct moyai_error e;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    snprintf(dir, sizeof dir, "%s/%s", a->dir, name);
    o.grid = grid;
    o.run_dir = dir;
    o.key_file = a->key;
    o.title = name;
    o.listen = listen_at;
    o.advertise = told;
    o.outbound_only = !listen_at;
    o.own_thread = a->own_thread;
    errno = 0;
    if (moyai_node_new(&n, &o, &e) < 0) bench_die("%s: %s", name, e.text);
    return n;
}

__attribute__((noreturn)) static inline void apart_die(moyai_node *n, int rc) {
    struct moyai_error e;
    moyai_last_error(n, &e);
    errno = 0;
    bench_die("%s: %s", moyai_err_name(rc), e.text);
}

/* A process that serves an object of a class, or, without one, only passes on what others send. */
static inline pid_t apart_serve(const struct apart *a, const char *name, const char *grid, const char *listen_at,
                                const char *told, const struct moyai_class *cls, void *state) {
    pid_t pid = bench_fork();
    if (pid) return pid;
    moyai_node *n = apart_node(a, name, grid, listen_at, told);
    moyai_ref *ref;
    struct moyai_error e;
    int rc;
    if (cls) {
        if (moyai_object_new(n, cls, state, &ref, &e) < 0) bench_die("%s", e.text);
        rc = moyai_register(ref, name);
        if (rc < 0) apart_die(n, rc);
    }
    (void)moyai_node_serve(n, MOYAI_FOREVER);
    _exit(0);
}

/* A process that takes samples. callee: whom it looks up first, or NULL. cls: of an object that it has, or NULL. */
struct caller {
    pid_t pid;
    int fd;
};

typedef double apart_sample(moyai_node *n, moyai_ref *callee, char what);

static inline struct caller apart_caller(const struct apart *a, const char *name, const char *grid, const char *callee,
                                         const struct moyai_class *cls, apart_sample *sample) {
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0) bench_die("socketpair");
    struct caller c = {bench_fork(), fd[0]};
    close(fd[c.pid ? 1 : 0]);
    if (c.pid) return c;
    moyai_node *n = apart_node(a, name, grid, NULL, NULL);
    moyai_ref *ref = NULL, *own;
    int rc = callee ? moyai_lookup_wait(n, callee, APART_LIMIT, &ref) : 0;
    if (rc == 0 && cls && moyai_object_new(n, cls, NULL, &own, NULL) == 0) rc = moyai_register(own, name);
    if (rc < 0) apart_die(n, rc);
    char what;
    while (bench_read(fd[1], &what, 1)) {
        double x = sample(n, ref, what);
        bench_write(fd[1], &x, sizeof x);
    }
    _exit(0);
}

static inline void apart_ask(const struct caller *c, char what) {
    bench_write(c->fd, &what, 1);
}

static inline double apart_answer(const struct caller *c) {
    double x;
    errno = 0;
    if (!bench_read(c->fd, &x, sizeof x)) bench_die("a caller has ended");
    return x;
}

static inline double apart_take(const struct caller *c, char what) {
    apart_ask(c, what);
    return apart_answer(c);
}

static inline void apart_kill(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

#endif
