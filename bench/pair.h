/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of a private grid: the child serves one object, the parent calls it through the public interface.
 */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include "bench/bench.h"
#include <moyai.h>

struct pair {
    char dir[64], grid[80];
    pid_t pid;
    moyai_node *node;
    moyai_ref *ref;
};

__attribute__((noreturn)) static inline void pair_die(struct pair *p, int rc) {
    struct moyai_error e;
    moyai_last_error(p->node, &e);
    errno = 0;
    bench_die("%s: %s", moyai_err_name(rc), e.text);
}

/* A directory for the grid, exported so that nodes of this process and its children join it. */
static inline void pair_grid(struct pair *p) {
    snprintf(p->dir, sizeof p->dir, "/tmp/moyai-bench-XXXXXX");
    if (!mkdtemp(p->dir)) bench_die("mkdtemp");
    snprintf(p->grid, sizeof p->grid, "file:%s", p->dir);
    setenv("MOYAI_GRID", p->grid, 1);
    setenv("MOYAI_RUN_DIR", p->dir, 1);
}

static inline moyai_node *pair_node(void) {
    moyai_node *n;
    struct moyai_error e;
    errno = 0;
    if (moyai_node_new(&n, NULL, &e) < 0) bench_die("%s", e.text);
    return n;
}

/* Serve an object under a name for ever: the child's side. */
__attribute__((noreturn)) static inline void pair_serve(const struct moyai_class *cls, void *state, const char *name) {
    moyai_node *n = pair_node();
    moyai_ref *ref;
    struct moyai_error e;
    errno = 0;
    if (moyai_object_new(n, cls, state, &ref, &e) < 0) bench_die("%s", e.text);
    if (moyai_register(ref, name) < 0) bench_die("cannot register");
    moyai_node_serve(n, MOYAI_FOREVER);
    exit(0);
}

static inline void pair_remove(struct pair *p) {
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", p->dir);
    if (system(cmd) != 0) fprintf(stderr, "cannot remove %s\n", p->dir);
}

static inline void pair_open(struct pair *p, const struct moyai_class *cls, void *state) {
    pair_grid(p);
    p->pid = bench_fork();
    if (p->pid == 0) pair_serve(cls, state, "callee");
    p->node = pair_node();
    int rc = moyai_lookup_wait(p->node, "callee", 10 * MOYAI_SEC, &p->ref);
    if (rc < 0) pair_die(p, rc);
}

static inline void pair_close(struct pair *p) {
    moyai_ref_unref(p->ref);
    moyai_node_free(p->node);
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    pair_remove(p);
}

#endif
