/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/lines.h"

#include "base/err.h"
#include "base/id.h"
#include "overlay/io/dial.h"
#include "overlay/io/forward.h"
#include "overlay/io/wide.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIAL_TIME (20 * MOYAI_SEC) /* it may be far, and ssh may be busy */
#define LOOK      (2 * MOYAI_SEC)  /* whether a port has become free */

struct line {
    struct lines *s;
    struct forward *forward; /* NULL: there is only to listen */
    struct dial *dial;
    struct olink *link; /* not yet agreed on, or used */
    uint8_t peer[16];   /* at the other end, as far as is known */
    uint16_t port;      /* to listen at; 0: nothing, or it does */
    bool said;          /* that it cannot */
};

struct lines {
    struct overlay *o;
    struct tls_ctx *tls;
    const struct keyfile *keys;
    char *path;
    struct gridfile file;
    struct exec_timer timer;
    struct line line[GRIDFILE_LINES];
};

static struct line *line_of(struct lines *s, const struct forward *f) {
    for (size_t i = 0; i < s->file.n; i++)
        if (s->line[i].forward == f) return &s->line[i];
    return NULL; /* not so */
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void on_dialled(void *arg, const struct dialled *got, const struct moyai_error *why) {
    struct line *l = arg;
    struct overlay *o = l->s->o;
    l->dial = NULL;
    if (!got) {
        log_debug(o->cfg.log, "overlay", "MOYAI-FORWARD", "cannot connect through ssh: %s", why->text);
        forward_failed(l->forward, why);
        return;
    }
    struct olink *k = olink_new(o, got->fd, got->tls, NULL, 0);
    if (!k) {
        struct moyai_error e;
        tls_free(got->tls);
        close(got->fd);
        (void)err_set(&e, MOYAI_ENOMEM, "out of memory");
        forward_failed(l->forward, &e);
        return;
    }
    k->outgoing = true;
    k->line = l;
    l->link = k;
    tcp_format(&got->at, k->at);
}

static void on_dial(void *ctx, struct forward *f, uint16_t port) {
    struct lines *s = ctx;
    struct line *l = line_of(s, f);
    char place[24];
    const char *places = place;
    snprintf(place, sizeof place, "127.0.0.1:%u", port);
    l->dial = dial_new(s->o->x, s->tls, s->keys, &places, 1, DIAL_TIME, on_dialled, l);
    if (l->dial) return;
    struct moyai_error e;
    (void)err_set(&e, MOYAI_ENOMEM, "out of memory");
    forward_failed(f, &e);
}

static void on_cancel(void *ctx, struct forward *f) {
    struct lines *s = ctx;
    struct line *l = line_of(s, f);
    dial_cancel(l->dial);
    l->dial = NULL;
    if (!l->link) return;
    struct olink *k = l->link;
    l->link = NULL;
    k->line = NULL;
    if (s->o->closing) return; /* it says farewell */
    k->orderly = true;         /* what was between the two has ended, which says nothing of the other */
    link_reset(k->link, MOYAI_ECLOSED, "its ssh has ended");
}

static const struct forward_ops ops = {.dial = on_dial, .cancel = on_cancel};

void lines_hello(struct line *l, const uint8_t id[16]) {
    memcpy(l->peer, id, 16);
    forward_answered(l->forward);
}

void lines_used(struct line *l) {
    forward_up(l->forward);
}

void lines_down(struct line *l) {
    l->link = NULL;
    forward_down(l->forward);
}

/* A line is refused where there is a link to the same node already, and then seldom tried. */
void lines_lost(struct lines *s, const uint8_t id[16]) {
    for (size_t i = 0; s && i < s->file.n; i++) {
        struct line *l = &s->line[i];
        if (l->forward && !l->link && memcmp(l->peer, id, 16) == 0) forward_hasten(l->forward);
    }
}

/* It may lead to a node to which there is another link. */
void lines_each(const struct lines *s, bool (*fn)(const struct overlay_line *l, void *ctx), void *ctx) {
    for (size_t i = 0; s && i < s->file.n; i++) {
        const struct line *l = &s->line[i];
        const char *why = "";
        const enum forward_state state = l->forward ? forward_state(l->forward, &why) : FORWARD_OTHERS;
        const struct peer *p = id_zero(l->peer) ? NULL : overlay_find(s->o, l->peer);
        if (state == FORWARD_OTHERS || state == FORWARD_LINKED || (p && olink_ready(p))) continue;
        if (!fn(&(struct overlay_line){s->path, s->file.line[i].number, state == FORWARD_FAILED, why}, ctx)) return;
    }
}

/* ---- listening ------------------------------------------------------------------------------- */

static void on_timer(struct exec *x, struct exec_timer *t) {
    struct lines *s = (struct lines *)((char *)t - offsetof(struct lines, timer));
    bool more = false;
    for (size_t i = 0; i < s->file.n; i++) {
        struct line *l = &s->line[i];
        if (!l->port) continue;
        char place[24];
        struct tcp_addr at;
        struct moyai_error why = {0};
        snprintf(place, sizeof place, "127.0.0.1:%u", l->port);
        int rc = tcp_parse(place, &at, &why);
        if (rc == 0) rc = wide_listen(s->o, &at, &why);
        if (rc == 0) {
            l->port = 0;
            continue;
        }
        more = true;
        if (!l->said)
            log_info(s->o->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\", line %u: %s", s->path, s->file.line[i].number,
                     why.text);
        l->said = true;
    }
    if (more) exec_timer_set(x, t, moyai_now() + (moyai_ns)LOOK);
}

/* Lines that lead to one port have one listener. */
static void listen_for(struct lines *s, size_t i) {
    const struct gridfile_line *l = &s->file.line[i];
    for (size_t k = 0; k < i; k++)
        if (s->line[k].port == l->to) return;
    s->line[i].port = l->to;
    exec_timer_set(s->o->x, &s->timer, 1);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int read_file(struct lines *s, struct moyai_error *reterr) {
    int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) return err_set(reterr, MOYAI_ENOENT, "there is no grid file \"%.200s\"", s->path);
    if (fd < 0) return err_sys(reterr, errno, "cannot read the grid file \"%.200s\"", s->path);
    struct stat st;
    char *text = malloc(GRIDFILE_MOST + 1);
    size_t n = 0;
    int rc = text ? 0 : err_set(reterr, MOYAI_ENOMEM, "out of memory");
    if (rc == 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
        rc = err_set(reterr, MOYAI_EINVAL, "the grid file \"%.200s\" is no file", s->path);
    while (rc == 0 && n <= GRIDFILE_MOST) {
        ssize_t m = read(fd, text + n, GRIDFILE_MOST + 1 - n);
        if (m == 0) break;
        if (m > 0)
            n += (size_t)m;
        else if (errno != EINTR)
            rc = err_sys(reterr, errno, "cannot read the grid file \"%.200s\"", s->path);
    }
    if (rc == 0) rc = gridfile_parse(&s->file, s->path, text, n, reterr);
    free(text);
    close(fd);
    return rc;
}

static int begin(struct lines *s, struct moyai_error *reterr) {
    struct overlay *o = s->o;
    char host[256] = "";
    int rc = read_file(s, reterr);
    if (rc < 0) return rc;
    bool mine = false;
    (void)gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < s->file.n; i++) {
        const struct gridfile_line *l = &s->file.line[i];
        s->line[i].s = s;
        mine |= gridfile_is_host(l->host[0], host) || gridfile_is_host(l->host[1], host);
        struct forward_cfg c = {.line = l,
                                .file = s->path,
                                .ssh = o->cfg.ssh ? o->cfg.ssh : "ssh",
                                .dir = rundir_path(o->dir),
                                .log = o->cfg.log,
                                .seed = rng_next(&o->rng),
                                .ops = &ops,
                                .ctx = s};
        if (forward_concerns(l, host, &c.connects)) {
            s->line[i].forward = forward_new(o->x, &c);
            if (!s->line[i].forward) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
        }
        if (gridfile_is_host(l->host[1], host) && strcmp(l->to_host, "127.0.0.1") == 0 && !o->cfg.outbound_only)
            listen_for(s, i);
    }
    if (!mine)
        log_info(o->cfg.log, "overlay", "MOYAI-FORWARD", "\"%s\": no line of the grid file concerns this host, %s",
                 s->path, host);
    return 0;
}

int lines_new(struct lines **ret, struct overlay *o, struct tls_ctx *tls, const struct keyfile *keys,
              struct moyai_error *reterr) {
    struct lines *s = calloc(1, sizeof *s);
    if (!s) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    s->o = o;
    s->tls = tls;
    s->keys = keys;
    exec_timer_init(&s->timer, on_timer);
    s->path = strdup(o->cfg.grid_file);
    int rc = s->path ? begin(s, reterr) : err_set(reterr, MOYAI_ENOMEM, "out of memory");
    if (rc < 0)
        lines_close(s);
    else
        *ret = s;
    return rc;
}

void lines_stop(struct lines *s) {
    if (!s) return;
    exec_timer_clear(s->o->x, &s->timer);
    for (size_t i = 0; i < s->file.n; i++) {
        struct line *l = &s->line[i];
        forward_stop(l->forward); /* which cancels */
        if (l->link) l->link->line = NULL;
        l->link = NULL;
    }
}

void lines_leave(struct lines *s) {
    for (size_t i = 0; s && i < s->file.n; i++) forward_leaves(s->line[i].forward);
}

bool lines_carry(const struct lines *s) {
    for (size_t i = 0; s && i < s->file.n; i++)
        if (forward_carries(s->line[i].forward)) return true;
    return false;
}

void lines_close(struct lines *s) {
    if (!s) return;
    lines_stop(s);
    for (size_t i = 0; i < s->file.n; i++) forward_free(s->line[i].forward);
    free(s->path);
    free(s);
}
