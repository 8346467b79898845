/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the rendezvous share: one in a temporary directory, entries by number, child processes. */
#ifndef OVERLAY_IO_RENDEZVOUS_TESTKIT_H
#define OVERLAY_IO_RENDEZVOUS_TESTKIT_H

#include "overlay/io/rendezvous.h"

#include "base/id.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fix {
    char base[32]; /* temporary */
    char dir[40];  /* the rendezvous in it */
    char url[48];
    struct rdv *r;
};

static inline struct rdv *open_ok(const char *url) {
    struct rdv *r = NULL;
    struct moyai_error e = {0};
    if (rdv_open(&r, url, &e) < 0) fail_msg("rdv_open: %s", e.text);
    return r;
}

static inline int set_up(void **state) {
    struct fix *f = calloc(1, sizeof *f);
    if (!f) return -1;
    *state = f;
    strcpy(f->base, "/tmp/moyai-test-XXXXXX");
    if (!mkdtemp(f->base)) return -1;
    snprintf(f->dir, sizeof f->dir, "%s/grid", f->base);
    snprintf(f->url, sizeof f->url, "file:%s", f->dir);
    return rdv_open(&f->r, f->url, NULL);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void remove_all(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int tear_down(void **state) {
    struct fix *f = *state;
    rdv_close(f->r);
    remove_all(f->base);
    free(f);
    return 0;
}

static inline const char *in(const struct fix *f, const char *sub, const char *file, char path[400]) {
    snprintf(path, 400, "%s/%s/%s", f->dir, sub, file);
    return path;
}

/* Files in a folder of the rendezvous. */
static inline int files(const struct fix *f, const char *sub) {
    char path[400], command[500];
    in(f, sub, "", path);
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    int n = -1;
    assert_int_equal(fscanf(p, "%d", &n), 1);
    pclose(p);
    return n;
}

static inline void put_file(const struct fix *f, const char *sub, const char *file, const char *bytes, size_t n) {
    char path[400];
    int fd = open(in(f, sub, file, path), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

static inline struct moyai_node_id node_id(unsigned k) {
    struct moyai_node_id id = {{0x40, (uint8_t)(k >> 8), (uint8_t)k}};
    return id;
}

static inline struct moyai_object_id object_id(unsigned k) {
    struct moyai_object_id id = {{0x80, (uint8_t)(k >> 8), (uint8_t)k}};
    return id;
}

static inline struct rdv_node node_entry(unsigned k) {
    static const uint8_t host[16] = {1};
    struct moyai_node_id id = node_id(k);
    struct rdv_node n;
    rdv_node_fill(&n, &id, host, "/run/nowhere", "test");
    return n;
}

static inline int put_name(struct rdv *r, const char *name, unsigned object, unsigned node, rdv_dead_fn *dead,
                           void *ctx, struct moyai_error *e) {
    struct moyai_object_id o = object_id(object);
    struct moyai_node_id n = node_id(node);
    return rdv_put_name(r, name, &o, &n, dead, ctx, e);
}

static inline int del_name(struct rdv *r, const char *name, unsigned object, unsigned node) {
    struct moyai_object_id o = object_id(object);
    struct moyai_node_id n = node_id(node);
    return rdv_del_name(r, name, &o, &n, NULL);
}

/* Whose is the name: the number of its object, or an error. */
static inline int get_name(struct rdv *r, const char *name, rdv_dead_fn *dead, void *ctx, struct moyai_error *e) {
    struct moyai_object_id o = {{0}};
    struct moyai_node_id n = {{0}};
    int rc = rdv_get_name(r, name, dead, ctx, &o, &n, e);
    return rc < 0 ? rc : o.b[1] << 8 | o.b[2];
}

/* ctx: an unsigned, the node that is dead. */
static inline bool is_dead(const struct moyai_node_id *id, void *ctx) {
    struct moyai_node_id dead = node_id(*(unsigned *)ctx);
    return id_equal(id->b, dead.b);
}

static inline bool all_dead(const struct moyai_node_id *id, void *ctx) {
    (void)id, (void)ctx;
    return true;
}

/* A child that ends with this process, whatever happens. */
static inline pid_t start(void) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(120);
    }
    return pid;
}

static inline int exit_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status)) fail_msg("child: status %#x", (unsigned)status);
    return WEXITSTATUS(status);
}

#endif
