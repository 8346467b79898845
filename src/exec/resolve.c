/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread's end is told by a byte in a pipe (its end alone would not be seen while a forked child has a copy): the
 * descriptor is watched like any other, and the thread needs neither the node's lock nor to know whether the node still
 * lives. The question belongs to both; who leaves last frees it.
 */
#include "exec/resolve.h"

#include "base/err.h"
#include "exec/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK (256u * 1024)

struct exec_resolve {
    atomic_int owners;
    char host[256], port[8];
    int fd[2]; /* the reading end is the node's, the other one the thread's */
    struct exec_fd *watched;
    exec_resolve_fn fn;
    void *arg;
    int rc; /* the thread's until it has left */
    struct addrinfo *list;
};

static void leave(struct exec_resolve *q) {
    if (atomic_fetch_sub(&q->owners, 1) > 1) return;
    if (q->list) freeaddrinfo(q->list);
    free(q);
}

static void *ask(void *arg) {
    struct exec_resolve *q = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
    q->rc = getaddrinfo(q->host, q->port, &hints, &q->list);
    if (q->rc != 0) q->list = NULL;
    int fd = q->fd[1];
    leave(q);
    ssize_t n = write(fd, "", 1); /* after the results are there; q may be gone, and the reader: SIGPIPE is blocked */
    (void)n;
    close(fd);
    return NULL;
}

static void on_end(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct exec_resolve *q = arg;
    exec_fd_free(q->watched, true, NULL);
    (void)atomic_load(&q->owners); /* what the thread wrote before it left is seen from here on */
    q->fn(q->arg, q->list, q->rc ? gai_strerror(q->rc) : NULL);
    leave(q);
}

struct exec_resolve *exec_resolve(struct exec *x, const char *host, uint16_t port, exec_resolve_fn fn, void *arg,
                                  struct moyai_error *reterr) {
    struct exec_resolve *q = calloc(1, sizeof *q);
    if (!q) {
        err_set(reterr, MOYAI_ENOMEM, "out of memory");
        return NULL;
    }
    snprintf(q->host, sizeof q->host, "%s", host);
    snprintf(q->port, sizeof q->port, "%u", port);
    q->fn = fn;
    q->arg = arg;
    atomic_init(&q->owners, 2);
    if (pipe2(q->fd, O_CLOEXEC | O_NONBLOCK) < 0) {
        err_sys(reterr, errno, "cannot ask for the address of %.100s", host);
        free(q);
        return NULL;
    }
    q->watched = exec_fd_new(x, q->fd[0], UV_READABLE, on_end, q);
    if (!q->watched) {
        err_set(reterr, MOYAI_ENOMEM, "out of memory");
        close(q->fd[0]);
        close(q->fd[1]);
        free(q);
        return NULL;
    }
    int rc = thread_start(NULL, STACK, "moyai-resolve", ask, q);
    if (rc == 0) return q;
    err_set(reterr, MOYAI_ELIMIT, "cannot start a thread to ask for the address of %.100s: %s", host, strerror(rc));
    exec_fd_free(q->watched, true, NULL);
    close(q->fd[1]);
    free(q);
    return NULL;
}

void exec_resolve_cancel(struct exec_resolve *q) {
    if (!q) return;
    exec_fd_free(q->watched, true, NULL);
    leave(q);
}
