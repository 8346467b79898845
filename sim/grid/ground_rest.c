/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors, the rendezvous, and what has no part in a simulated grid: keys, TLS, the run directory, ssh. The linker
 * gives __wrap_NAME to whoever calls NAME (meson.build).
 */
#include "sim/grid/ground_link.h"

#include "base/err.h"
#include "link/key.h"
#include "link/rundir.h"
#include "overlay/io/forward.h"
#include "overlay/io/meet.h"
#include "overlay/io/meet_fd.h"
#include "overlay/io/rendezvous.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE 128u /* entries that a rendezvous names, doc/spec/07 */
#define EPOCH  1900000000u

/* ---- the system ------------------------------------------------------------------------------ */

moyai_ns __wrap_moyai_now(void);
moyai_ns __wrap_moyai_now(void) {
    return ground_world->w->now;
}

time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t) {
    time_t now = (time_t)(EPOCH + ground_world->w->now / (moyai_ns)MOYAI_SEC);
    if (t) *t = now;
    return now;
}

int __wrap_rng_system(void *p, size_t n);
int __wrap_rng_system(void *p, size_t n) {
    rng_bytes(&ground_world->draws, p, n);
    return 0;
}

/* What texts call a node must not differ from run to run. */
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void) {
    return ground_now ? (pid_t)(1000 + ground_now->index) : 1;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

struct exec_fd {
    struct ground_node *node;
    int fd, events;
    exec_fd_fn fn;
    void *arg;
    uint32_t refs;
    bool freed;
    int found; /* by a probe */
};

static _Thread_local int so_error; /* of the probe whose turn it is */

static void fd_unref(void *arg) {
    struct exec_fd *f = arg;
    if (--f->refs == 0) free(f);
}

static void accept_due(void *arg) {
    struct exec_fd *f = arg;
    if (!f->freed && (f->events & UV_READABLE) && f->node->waiting) {
        f->fn(f, UV_READABLE, f->arg);
        if (!f->freed && f->node->waiting) ground_accepts(f->node);
    }
    fd_unref(f);
}

void ground_accepts(struct ground_node *n) {
    struct exec_fd *f = n->listener;
    if (!f || !(f->events & UV_READABLE)) return;
    f->refs++;
    ground_task(n, 0, accept_due, fd_unref, f);
}

static void probe_due(void *arg) {
    struct exec_fd *f = arg;
    so_error = f->found;
    if (!f->freed) f->fn(f, UV_WRITABLE, f->arg);
    fd_unref(f);
}

/* A probe that was taken ends with whoever has taken it. */
static void probe_watch(void *arg) {
    struct exec_fd *f = arg;
    if (f->freed) {
        fd_unref(f);
    } else if (f->node->g->node[f->fd - GROUND_PROBES]->here) {
        ground_task(f->node, 100 * MOYAI_MS, probe_watch, fd_unref, f);
    } else {
        f->fn(f, UV_READABLE, f->arg);
        fd_unref(f);
    }
}

ssize_t __wrap_recv(int fd, void *p, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *p, size_t n, int flags) {
    (void)p, (void)n, (void)flags;
    errno = EAGAIN;
    return ground_world->node[fd - GROUND_PROBES]->here ? -1 : 0;
}

struct exec_fd *exec_fd_new(struct exec *x, int fd, int events, exec_fd_fn fn, void *arg) {
    struct exec_fd *f = sim_alloc(sizeof *f);
    struct ground_node *n = x->node;
    *f = (struct exec_fd){.node = n, .fd = fd, .events = events, .fn = fn, .arg = arg, .refs = 1};
    if (fd == GROUND_LISTENER) n->listener = f;
    if (fd < GROUND_PROBES || fd >= GROUND_FDS) return f;
    struct ground_node *to = n->g->node[fd - GROUND_PROBES];
    enum ground_answer a = ground_knock(n, to); /* as it is now: nothing is listened at a second time */
    if (a == GROUND_NOTHING) return f;
    f->found = a == GROUND_NO ? ECONNREFUSED : 0;
    f->refs++;
    ground_task(n, 2 * ground_delay(n->g, n, to), probe_due, fd_unref, f);
    return f;
}

void exec_fd_events(struct exec_fd *f, int events) {
    f->events = events;
    if (f->node->listener == f && f->node->waiting) ground_accepts(f->node);
    if (f->fd < GROUND_PROBES || f->fd >= GROUND_FDS || !(events & UV_READABLE)) return;
    f->refs++;
    ground_task(f->node, 100 * MOYAI_MS, probe_watch, fd_unref, f);
}

void exec_fd_free(struct exec_fd *f, bool close_fd, void (*closed)(void *arg)) {
    (void)close_fd, (void)closed;
    f->freed = true;
    if (f->node->listener == f) f->node->listener = NULL;
    fd_unref(f);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *n);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *n) {
    (void)fd, (void)level, (void)name, (void)n;
    memcpy(value, &so_error, sizeof so_error);
    return 0;
}

void ground_parse(const char *address, struct tcp_addr *at) {
    if (tcp_parse(address, at, NULL) < 0) abort();
}

int __wrap_tcp_listen(int *ret, const struct tcp_addr *where, uint16_t first, uint16_t last, struct tcp_addr *at,
                      struct moyai_error *reterr);
int __wrap_tcp_listen(int *ret, const struct tcp_addr *where, uint16_t first, uint16_t last, struct tcp_addr *at,
                      struct moyai_error *reterr) {
    (void)first, (void)last, (void)reterr;
    *ret = GROUND_LISTENER;
    *at = *where;
    return 0;
}

int __wrap_tcp_accept(int listener, int *ret, struct tcp_addr *from, struct moyai_error *reterr);
int __wrap_tcp_accept(int listener, int *ret, struct tcp_addr *from, struct moyai_error *reterr) {
    (void)reterr;
    return ground_accept(listener, ret, from);
}

/* The nodes of a site are neighbours. */
bool __wrap_tcp_is_near(const struct tcp_addr *a);
bool __wrap_tcp_is_near(const struct tcp_addr *a) {
    char text[TCP_TEXT];
    tcp_format(a, text);
    const struct ground_node *n = ground_at(ground_world, text);
    return !n || n->site == ground_now->site;
}

/* Only probes connect themselves. */
int __wrap_tcp_connect(int *ret, const struct tcp_addr *to, struct moyai_error *reterr);
int __wrap_tcp_connect(int *ret, const struct tcp_addr *to, struct moyai_error *reterr) {
    char text[TCP_TEXT];
    tcp_format(to, text);
    const struct ground_node *n = ground_at(ground_world, text);
    if (!n) return err_set(reterr, MOYAI_EUNREACHABLE, "no such address");
    *ret = GROUND_PROBES + (int)n->index;
    return 0;
}

/* ---- the rendezvous -------------------------------------------------------------------------- */

struct meet {
    struct ground_node *node;
    const struct meet_ops *ops;
    void *ctx;
    size_t entry; /* place among the entries + 1 */
    moyai_ns until;
    moyai_dur lifetime;
    uint32_t refs;
    bool over;
    size_t n; /* of bytes; 0: none */
    uint8_t *bytes, *left;
    size_t left_n;
};

/* Never inline: gcc, when it optimises much, takes the first of two references given up for the last. */
__attribute__((noinline)) static void meet_unref(void *arg) {
    struct meet *m = arg;
    if (--m->refs > 0) return;
    free(m->bytes);
    free(m->left);
    free(m);
}

static void entry_remove(struct ground *g, struct meet *m) {
    if (!m->entry) return;
    size_t i = m->entry - 1;
    g->entry[i] = g->entry[--g->n_entry];
    g->entry[i]->entry = i + 1;
    m->entry = 0;
    meet_unref(m);
}

static void entry_leave(struct ground *g, struct meet *m) {
    if (m->n == 0) return;
    if (!m->entry) {
        if (g->n_entry == g->cap_entry) {
            g->cap_entry = g->cap_entry ? 2 * g->cap_entry : 64;
            g->entry = realloc(g->entry, g->cap_entry * sizeof *g->entry);
            if (!g->entry) abort();
        }
        g->entry[g->n_entry] = m;
        m->entry = ++g->n_entry;
        m->refs++;
    }
    free(m->left);
    m->left = malloc(m->n);
    if (!m->left) abort();
    memcpy(m->left, m->bytes, m->n);
    m->left_n = m->n;
    m->until = g->w->now + (moyai_ns)m->lifetime;
}

int meet_new(struct meet **ret, struct exec *x, const struct keyfile *keys, const char *const *urls, size_t n,
             bool looks, const struct meet_ops *ops, void *ctx, struct moyai_error *reterr) {
    (void)keys, (void)urls, (void)n, (void)looks, (void)reterr;
    struct meet *m = sim_alloc(sizeof *m);
    *m = (struct meet){.node = x->node, .ops = ops, .ctx = ctx, .refs = 1};
    x->node->meet = m;
    *ret = m;
    return 0;
}

int meet_entry(struct meet *m, const uint8_t id[16], const uint8_t *p, size_t n, moyai_dur lifetime) {
    (void)id;
    free(m->bytes);
    m->bytes = malloc(n ? n : 1);
    if (!m->bytes) abort();
    memcpy(m->bytes, p, n);
    m->n = n;
    m->lifetime = lifetime;
    return 0;
}

/* Which entries to show: each i-th is to change places with the one that is drawn. They lie anywhere. */
static size_t draw(struct ground *g, size_t *drawn) {
    size_t n = g->n_entry < SAMPLE ? g->n_entry : SAMPLE;
    for (size_t i = 0; i < n; i++) {
        drawn[i] = i + (size_t)rng_below(&g->rng, g->n_entry - i);
        ground_fetch(&g->entry[drawn[i]], sizeof *g->entry);
    }
    for (size_t i = 0; i < n; i++) {
        ground_fetch(g->entry[drawn[i]], sizeof *g->entry[0]);
        ground_fetch(&g->entry[i]->entry, sizeof(size_t));
    }
    for (size_t i = 0; i < n; i++) ground_fetch(g->entry[drawn[i]]->left, 128);
    return n;
}

static void look_due(void *arg) {
    struct meet *m = arg;
    struct ground_node *n = m->node;
    struct ground *g = n->g;
    bool away = g->no_rendezvous || (g->parted && n->part != 0); /* it is in the first part */
    if (!m->over && away) m->ops->asked(m->ctx, 0, "http://sim", MOYAI_EUNREACHABLE, MET_SILENT, "it does not answer");
    if (!m->over && !away) {
        entry_leave(g, m);
        m->ops->asked(m->ctx, 0, "http://sim", 0, MET_OTHER, "");
    }
    size_t drawn[SAMPLE], n_drawn = away ? 0 : draw(g, drawn);
    for (size_t i = 0; !m->over && i < n_drawn; i++) {
        size_t k = drawn[i];
        if (i >= g->n_entry || k >= g->n_entry) continue; /* some have ended meanwhile */
        struct meet *e = g->entry[k], *other = g->entry[i];
        g->entry[k] = other;
        other->entry = k + 1;
        g->entry[i] = e;
        e->entry = i + 1;
        if (e->until < g->w->now)
            entry_remove(g, e);
        else
            m->ops->entry(m->ctx, e->left, e->left_n);
    }
    if (!m->over) m->ops->done(m->ctx);
    meet_unref(m);
}

int meet_look(struct meet *m, struct moyai_error *reterr) {
    (void)reterr;
    struct ground *g = m->node->g;
    m->refs++;
    g->looks++;
    ground_task(m->node, 1 + (moyai_dur)rng_below(&g->rng, 2 * (uint64_t)g->delay), look_due, meet_unref, m);
    return 0;
}

/* Who crashes leaves its entry behind. */
void meet_free(struct meet *m) {
    m->over = true;
    if (!m->node->mute) entry_remove(m->node->g, m);
    m->node->meet = NULL;
    meet_unref(m);
}

void ground_meet_forget(struct ground_node *n) {
    n->meet = NULL;
}

void ground_done(struct ground *g) {
    while (g->n_entry) entry_remove(g, g->entry[g->n_entry - 1]);
    for (uint32_t i = 0; i < g->n; i++) free(g->node[i]);
    ground_spare_done(g);
    free(g->node);
    free(g->entry);
    free(g->conn);
    free(g->site);
    ground_world = NULL;
}

/* ---- keys and TLS: whoever is here has the key ----------------------------------------------- */

struct tls {
    int nothing;
};
struct tls_ctx {
    int nothing;
};
struct keyfile {
    int nothing;
};

struct tls *ground_tls(void) {
    static struct tls all;
    return &all;
}

int keyfile_path(char **ret, const char *option, struct moyai_error *reterr) {
    (void)reterr;
    *ret = strdup(option ? option : "key");
    return *ret ? 0 : MOYAI_ENOMEM;
}
int keyfile_open(struct keyfile **ret, const char *path, struct moyai_error *reterr) {
    (void)path, (void)reterr;
    static struct keyfile all;
    *ret = &all;
    return 0;
}
void keyfile_close(struct keyfile *f) {
    (void)f;
}
int keyfile_refresh(struct keyfile *f, struct moyai_error *reterr) {
    (void)f, (void)reterr;
    return 0;
}
const struct keyring *keyfile_keys(const struct keyfile *f) {
    (void)f;
    static const struct keyring none;
    return &none;
}
const struct key *keyring_find(const struct keyring *r, const char *id, size_t n, int64_t now) {
    (void)r, (void)id, (void)n, (void)now;
    return NULL;
}
bool keyring_ended(const struct keyring *r, int64_t since, int64_t now) {
    (void)r, (void)since, (void)now;
    return false;
}
const char *tls_key_id(const struct tls *t) {
    (void)t;
    return ""; /* no key, so none is withdrawn */
}
enum tls_shown tls_shown(const struct tls *t) {
    (void)t;
    return TLS_PROOF;
}
int tls_ctx_new(struct tls_ctx **ret, const struct keyfile *keys, struct moyai_error *reterr) {
    (void)keys, (void)reterr;
    static struct tls_ctx all;
    *ret = &all;
    return 0;
}
void tls_ctx_free(struct tls_ctx *c) {
    (void)c;
}
struct tls *tls_new(struct tls_ctx *c, int fd, bool server, size_t key) {
    (void)c, (void)fd, (void)server, (void)key;
    return ground_tls();
}
void tls_free(struct tls *t) {
    (void)t;
}

/* ---- the run directory: each node is alone on its host ---------------------------------------- */

struct rundir {
    uint8_t host[16];
};

int rundir_open(struct rundir **ret, const char *path, struct moyai_error *reterr) {
    (void)path, (void)reterr;
    struct rundir *d = sim_alloc(sizeof *d);
    rng_bytes(&ground_world->draws, d->host, sizeof d->host);
    uint32_t per_host = ground_world->per_host, host = per_host ? ground_now->index / per_host + 1 : 0;
    if (per_host) memset(d->host, 0, sizeof d->host);
    if (per_host) memcpy(d->host, &host, sizeof host);
    *ret = d;
    return 0;
}
void rundir_close(struct rundir *d) {
    free(d);
}
const char *rundir_path(const struct rundir *d) {
    (void)d;
    return "/sim";
}
const uint8_t *rundir_host(const struct rundir *d) {
    return d->host;
}
bool rundir_this_host(const uint8_t host[16]) {
    (void)host;
    return true; /* the grids have no directories */
}
int rundir_listen(const struct rundir *d, const struct moyai_node_id *id, int *ret, struct moyai_error *reterr) {
    (void)d, (void)id, (void)reterr;
    *ret = GROUND_UNIX;
    return 0;
}
int rundir_connect(const struct rundir *d, const struct moyai_node_id *id, int *ret, pid_t *pid,
                   struct moyai_error *reterr) {
    (void)d, (void)id, (void)ret, (void)pid;
    return err_set(reterr, MOYAI_EUNREACHABLE, "not of this host");
}
int rundir_accept(int listener, int *ret, uid_t *uid, pid_t *pid, struct moyai_error *reterr) {
    (void)listener, (void)ret, (void)uid, (void)pid, (void)reterr;
    return MOYAI_EAGAIN;
}
bool rundir_has(const struct rundir *d, const struct moyai_node_id *id) {
    (void)d, (void)id;
    return false;
}
bool rundir_is_dead(const struct rundir *d, const struct moyai_node_id *id) {
    (void)d, (void)id;
    return false;
}
int rundir_sweep(const struct rundir *d, size_t most, uint64_t random, struct moyai_error *reterr) {
    (void)d, (void)most, (void)random, (void)reterr;
    return 0;
}
void rundir_unlink(const struct rundir *d, const struct moyai_node_id *id) {
    (void)d, (void)id;
}

/* ---- what nobody here has: directories, ssh -------------------------------------------------- */

int meet_fd_new(struct meet_fd **ret, struct exec *x, const struct keyfile *keys, int in, int out,
                const struct meet_fd_ops *ops, void *ctx, struct moyai_error *reterr) {
    (void)ret, (void)x, (void)keys, (void)in, (void)out, (void)ops, (void)ctx;
    return err_set(reterr, MOYAI_EINVAL, "there are no descriptors");
}
void meet_fd_look(struct meet_fd *m) {
    (void)m;
}
void meet_fd_free(struct meet_fd *m) {
    (void)m;
}
int rdv_open(struct rdv **ret, const char *url, struct moyai_error *reterr) {
    (void)ret, (void)url;
    return err_set(reterr, MOYAI_EUNREACHABLE, "there is no directory");
}
void rdv_close(struct rdv *r) {
    (void)r;
}
const char *rdv_path(const struct rdv *r) {
    (void)r;
    return "";
}
void rdv_withdraw(struct rdv *r) {
    (void)r;
}
int rdv_put_node(struct rdv *r, const struct rdv_node *node, struct moyai_error *reterr) {
    (void)r, (void)node, (void)reterr;
    return MOYAI_EINTERNAL;
}
int rdv_del_node(struct rdv *r, const struct moyai_node_id *id, struct moyai_error *reterr) {
    (void)r, (void)id, (void)reterr;
    return MOYAI_EINTERNAL;
}
int rdv_get_node(struct rdv *r, const struct moyai_node_id *id, struct rdv_node *ret, struct moyai_error *reterr) {
    (void)r, (void)id, (void)ret, (void)reterr;
    return MOYAI_EINTERNAL;
}
int rdv_node_ids(struct rdv *r, bool (*fn)(const struct moyai_node_id *id, void *ctx), void *ctx,
                 struct moyai_error *reterr) {
    (void)r, (void)fn, (void)ctx, (void)reterr;
    return MOYAI_EINTERNAL;
}
int rdv_forget_begin(struct rdv *r, const struct moyai_node_id *id, struct rdv_forget **ret,
                     struct moyai_error *reterr) {
    (void)r, (void)id, (void)ret, (void)reterr;
    return 0;
}
int rdv_forget_some(struct rdv_forget *f, moyai_dur most, struct moyai_error *reterr) {
    (void)f, (void)most, (void)reterr;
    return 0;
}
void rdv_forget_end(struct rdv_forget *f) {
    (void)f;
}
bool forward_concerns(const struct gridfile_line *l, const char *host, bool *connects) {
    (void)l, (void)host, (void)connects;
    return false;
}
struct forward *forward_new(struct exec *x, const struct forward_cfg *cfg) {
    (void)x, (void)cfg;
    return NULL;
}
void forward_stop(struct forward *f) {
    (void)f;
}
void forward_leaves(struct forward *f) {
    (void)f;
}
void forward_free(struct forward *f) {
    (void)f;
}
bool forward_carries(const struct forward *f) {
    (void)f;
    return false;
}
void forward_failed(struct forward *f, const struct moyai_error *why) {
    (void)f, (void)why;
}
void forward_answered(struct forward *f) {
    (void)f;
}
void forward_up(struct forward *f) {
    (void)f;
}
void forward_down(struct forward *f) {
    (void)f;
}
void forward_hasten(struct forward *f) {
    (void)f;
}
enum forward_state forward_state(const struct forward *f, const char **why) {
    (void)f;
    *why = "";
    return FORWARD_OTHERS;
}
bool forward_holds(const struct forward *f) {
    (void)f;
    return false;
}
