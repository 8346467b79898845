/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/dial.h"

#include "base/dur.h"
#include "base/err.h"
#include "exec/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One address. */
struct try {
    struct dial *d;
    struct exec_resolve *question; /* its name is being asked for */
    struct tcp_addr to;
    size_t key; /* offered */
    bool connected;
    int fd; /* -1: not connecting */
    struct exec_fd *watched;
    struct tls *tls;
    uint16_t port;
    char host[TCP_HOST];
};

struct dial {
    struct exec *x;
    struct tls_ctx *tls;
    const struct keyfile *keys;
    dial_fn fn;
    void *arg;
    struct exec_timer timer; /* the limit, or at once if nothing can be tried */
    moyai_dur limit;
    struct moyai_error why; /* of what went farthest */
    size_t n, going;
    struct try tries[DIAL_MOST];
};

static void stop(struct try *t) {
    exec_resolve_cancel(t->question);
    t->question = NULL;
    tls_free(t->tls);
    t->tls = NULL;
    if (t->watched) exec_fd_free(t->watched, true, NULL);
    t->watched = NULL;
    t->fd = -1;
    t->connected = false;
}

static void end(struct dial *d, const struct dialled *got, const struct moyai_error *why) {
    dial_fn fn = d->fn;
    void *arg = d->arg;
    struct moyai_error e = *why;
    for (size_t i = 0; i < d->n; i++) stop(&d->tries[i]);
    exec_timer_clear(d->x, &d->timer);
    free(d);
    fn(arg, got, got ? NULL : &e);
}

/* That there is no key both have is worth more to know than that another address did not answer. */
static unsigned weight(const struct moyai_error *why) {
    switch (why->code) {
    case MOYAI_EPERM:
        return 5;
    case MOYAI_EPROTO:
        return 4;
    case MOYAI_ECLOSED:
        return 3;
    default:
        return why->sys == ECONNREFUSED ? 2 : why->code != 0;
    }
}

static void note(struct dial *d, const struct try *t, const struct moyai_error *why) {
    if (weight(why) <= weight(&d->why)) return;
    char at[TCP_TEXT];
    if (t->to.n) {
        tcp_format(&t->to, at);
        err_set(&d->why, why->code, "%s: %.180s", at, why->text);
        d->why.sys = why->sys;
    } else {
        d->why = *why;
    }
}

/* Only a connection that was taken can be reset: it was closed, with what had been sent still unread. */
static bool was_closed(int sys) {
    return sys == ECONNRESET || sys == EPIPE;
}

static void failed(struct try *t, const struct moyai_error *why) {
    struct dial *d = t->d;
    note(d, t, why);
    stop(t);
    /* Within dial_new nobody may be told yet. */
    if (--d->going == 0) exec_timer_set(d->x, &d->timer, 1);
}

static void connect_to(struct try *t);

static void on_ready(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct try *t = arg;
    struct dial *d = t->d;
    struct moyai_error why = {0};
    int e = 0;
    socklen_t n = sizeof e;
    if (!t->connected && getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &e, &n) == 0 && e) {
        if (was_closed(e))
            err_set(&why, MOYAI_ECLOSED, "connection lost before the handshake: %s", strerror(e));
        else
            err_set(&why, MOYAI_EUNREACHABLE, "%s", strerror(e));
        why.sys = e;
        failed(t, &why);
        return;
    }
    t->connected = true;
    int rc = tls_handshake(t->tls, &why);
    if (rc == TLS_READY) {
        struct dialled got = {.fd = t->fd, .tls = t->tls, .at = t->to};
        exec_fd_free(t->watched, false, NULL);
        t->watched = NULL;
        t->tls = NULL;
        t->fd = -1;
        end(d, &got, &why);
    } else if (rc == MOYAI_EPERM && keyring_usable(keyfile_keys(d->keys), t->key + 1, time(NULL))) {
        note(d, t, &why);
        stop(t);
        t->key++;
        connect_to(t);
    } else if (rc < 0) {
        if (was_closed(why.sys)) why.code = MOYAI_ECLOSED;
        failed(t, &why);
    } else {
        exec_fd_events(t->watched, rc == TLS_WANT_WRITE ? UV_WRITABLE : UV_READABLE);
    }
}

static void connect_to(struct try *t) {
    struct dial *d = t->d;
    struct moyai_error why = {0};
    int rc = keyfile_usable(d->keys, &why);
    if (rc < 0) { /* it would take us for a stranger */
        failed(t, &why);
        return;
    }
    rc = tcp_connect(&t->fd, &t->to, &why);
    if (rc < 0) {
        t->fd = -1;
        const int sys = why.sys;
        if (sys) err_set(&why, rc, "%s", strerror(sys)); /* the address is said by note() */
        why.sys = sys;
        failed(t, &why);
        return;
    }
    t->tls = tls_new(d->tls, t->fd, false, t->key);
    t->watched = t->tls ? exec_fd_new(d->x, t->fd, UV_WRITABLE, on_ready, t) : NULL;
    if (t->watched) return;
    close(t->fd);
    t->fd = -1;
    err_set(&why, MOYAI_ENOMEM, "out of memory");
    failed(t, &why);
}

static struct try *add(struct dial *d) {
    if (d->n == DIAL_MOST) return NULL;
    struct try *t = &d->tries[d->n++];
    *t = (struct try){.d = d, .fd = -1};
    d->going++;
    return t;
}

static void on_resolved(void *arg, const struct addrinfo *list, const char *no) {
    struct try *t = arg;
    struct dial *d = t->d;
    t->question = NULL;
    if (!list) {
        struct moyai_error why = {0};
        err_set(&why, MOYAI_EUNREACHABLE, "cannot find the address of %.100s: %s", t->host, no ? no : "none");
        failed(t, &why);
        return;
    }
    for (const struct addrinfo *i = list; i && t; i = i->ai_next) {
        if (i->ai_addrlen > sizeof t->to.ss) continue;
        if (t->to.n && !(t = add(d))) break; /* the first one takes the place of the name */
        memcpy(&t->to.ss, i->ai_addr, i->ai_addrlen);
        t->to.n = i->ai_addrlen;
        connect_to(t);
    }
}

static void on_timer(struct exec *x, struct exec_timer *timer) {
    (void)x;
    struct dial *d = (struct dial *)((char *)timer - offsetof(struct dial, timer));
    if (d->going > 0) {
        for (size_t i = 0; i < d->n; i++) {
            struct moyai_error why = {0};
            const struct try *t = &d->tries[i];
            if (t->question)
                err_set(&why, MOYAI_EUNREACHABLE, "cannot find the address of %.100s: no name server answers", t->host);
            else if (t->connected)
                err_set(&why, MOYAI_ETIMEDOUT, "it accepts the connection, and says nothing for %s", DUR(d->limit));
            else
                err_set(&why, MOYAI_ETIMEDOUT, "no answer within %s", DUR(d->limit));
            if (t->fd >= 0 || t->question) note(d, t, &why);
        }
        /* What others have said is not all. */
        d->why.sys = d->why.code == MOYAI_ETIMEDOUT && d->n == 1 && d->tries[0].connected ? ETIMEDOUT : 0;
    }
    if (!d->why.code) err_set(&d->why, MOYAI_EUNREACHABLE, "it has no address");
    end(d, NULL, &d->why);
}

struct dial *dial_new(struct exec *x, struct tls_ctx *tls, const struct keyfile *keys, const char *const *places,
                      size_t n, moyai_dur limit, dial_fn fn, void *arg) {
    struct dial *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->x = x;
    d->tls = tls;
    d->keys = keys;
    d->fn = fn;
    d->arg = arg;
    d->limit = limit;
    exec_timer_init(&d->timer, on_timer);
    exec_timer_set(x, &d->timer, moyai_now() + (moyai_ns)limit);
    for (size_t i = 0; i < n; i++) {
        struct try *t = add(d);
        struct moyai_error why = {0};
        if (!t) break;
        if (tcp_parse(places[i], &t->to, NULL) == 0) {
            connect_to(t);
            continue;
        }
        t->to.n = 0;
        if (tcp_split(places[i], true, t->host, &t->port, &why) == 0)
            t->question = exec_resolve(x, t->host, t->port, on_resolved, t, &why);
        if (!t->question) failed(t, &why);
    }
    if (d->n == 0) exec_timer_set(x, &d->timer, 1);
    return d;
}

void dial_cancel(struct dial *d) {
    if (!d) return;
    for (size_t i = 0; i < d->n; i++) stop(&d->tries[i]);
    exec_timer_clear(d->x, &d->timer);
    free(d);
}
