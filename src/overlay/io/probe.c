/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define AGAIN (2 * MOYAI_MS) /* so that what accepts and closes at once is not connected to without pause */

struct probe {
    struct exec *x;
    struct tcp_addr to;
    struct exec_fd *watched; /* NULL: the next try is due */
    int fd;
    bool made, refused;
    moyai_ns limit;
    struct exec_timer timer; /* the next try, or the limit */
    probe_fn fn;
    void *arg;
};

static void let_go(struct probe *p) {
    if (p->watched) exec_fd_free(p->watched, true, NULL);
    p->watched = NULL;
}

void probe_cancel(struct probe *p) {
    if (!p) return;
    let_go(p);
    exec_timer_clear(p->x, &p->timer);
    free(p);
}

static void tell(struct probe *p, bool refused) {
    probe_fn fn = p->fn;
    void *arg = p->arg;
    probe_cancel(p);
    fn(arg, refused);
}

static void again(struct probe *p) {
    let_go(p);
    exec_timer_set(p->x, &p->timer, moyai_now() + (moyai_ns)AGAIN);
}

static void on_socket(struct exec_fd *f, int events, void *arg) {
    (void)events;
    struct probe *p = arg;
    char byte;
    if (p->made) { /* what it says is of no interest, but that it is there */
        ssize_t n = recv(p->fd, &byte, 1, MSG_DONTWAIT);
        if (n > 0)
            tell(p, false);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            again(p);
        return;
    }
    int e = 0;
    socklen_t n = sizeof e;
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0) e = errno;
    if (e == 0) {
        p->made = true;
        exec_fd_events(f, UV_READABLE);
    } else if (e == ECONNRESET) { /* it was in the queue of a listener that went */
        again(p);
    } else {
        tell(p, e == ECONNREFUSED);
    }
}

static void attempt(struct probe *p) {
    struct moyai_error why = {0};
    p->made = false;
    if (tcp_connect(&p->fd, &p->to, &why) < 0) { /* on one host the answer may be there at once */
        tell(p, why.sys == ECONNREFUSED);
        return;
    }
    p->watched = exec_fd_new(p->x, p->fd, UV_WRITABLE, on_socket, p);
    if (!p->watched) {
        close(p->fd);
        tell(p, false);
        return;
    }
    exec_timer_set(p->x, &p->timer, p->limit);
}

static void on_timer(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct probe *p = (struct probe *)((char *)t - offsetof(struct probe, timer));
    if (p->watched || moyai_now() >= p->limit)
        tell(p, false);
    else
        attempt(p);
}

struct probe *probe_new(struct exec *x, const struct tcp_addr *to, moyai_dur limit, probe_fn fn, void *arg) {
    struct probe *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (struct probe){.x = x, .to = *to, .limit = moyai_now() + (moyai_ns)limit, .fn = fn, .arg = arg};
    exec_timer_init(&p->timer, on_timer);
    exec_timer_set(x, &p->timer, moyai_now()); /* at the next turn, so that fn is never called from here */
    return p;
}
