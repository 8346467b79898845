/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous directory: what its entries mean. How they are written, replaced and removed safely: store.h.
 */
#include "overlay/io/rendezvous.h"

#include "base/err.h"
#include "base/id.h"
#include "link/rundir.h"
#include "overlay/io/await.h"
#include "overlay/io/dirwatch.h"
#include "overlay/io/places.h"
#include "overlay/io/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct own {
    UT_hash_handle hh;
    struct moyai_object_id object;
    struct moyai_node_id node;
    char name[];
};

struct rdv {
    struct store store;
    bool has_node, withdrawn;
    struct moyai_node_id node; /* whose entry was put */
    struct own *own;           /* names that were put: uthash by name */
    bool poll_only;
    struct dirwatch watch;
};

int rdv_open(struct rdv **ret, const char *url, struct moyai_error *reterr) {
    const char *path = places_path(url);
    if (!path)
        return err_set(reterr, MOYAI_EINVAL, "'%.100s' is not the address of a grid: file:/DIR with an absolute path",
                       url);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    if (n >= PATH_MAX) return err_set(reterr, MOYAI_ERANGE, "grid '%.60s...': the path is too long", url);
    struct rdv *r = calloc(1, sizeof *r);
    if (!r) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    int rc = store_open(&r->store, path, n, reterr);
    if (rc < 0) {
        free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

static struct own *find_own(struct rdv *r, const char *name) {
    struct own *o;
    HASH_FIND_STR(r->own, name, o);
    return o;
}

static void forget_own(struct rdv *r, struct own *o) {
    if (!o) return;
    HASH_DEL(r->own, o);
    free(o);
}

/* A place for a name that is not there. NULL: out of memory. */
static struct own *new_own(struct rdv *r, const char *name) {
    size_t len = strlen(name);
    struct own *o = calloc(1, sizeof *o + len + 1);
    if (!o) return NULL;
    memcpy(o->name, name, len);
    HASH_ADD_KEYPTR(hh, r->own, o->name, len, o);
    if (o->hh.tbl) return o;
    free(o);
    return NULL;
}

void rdv_abandon(struct rdv *r) {
    if (!r) return;
    rdv_unwatch(r);
    store_done(&r->store);
    while (r->own) forget_own(r, r->own);
    free(r);
}

const char *rdv_path(const struct rdv *r) {
    return r->store.path;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

int rdv_put_node(struct rdv *r, const struct rdv_node *node, struct moyai_error *reterr) {
    if (r->has_node && !id_equal(r->node.b, node->id.b))
        return err_set(reterr, MOYAI_ESTATE, "the entry of another node was put before and is still there");
    char text[ENTRY_MAX], file[33], temp[33];
    int n = entry_encode_node(node, text, reterr);
    if (n < 0) return n;
    id_format(node->id.b, file);
    const struct store *s = &r->store;
    int rc = store_write(s, &s->nodes, file, text, (size_t)n, temp, reterr);
    if (rc < 0) return rc;
    rc = store_rename(s, &s->nodes, file, temp, reterr);
    if (rc < 0) {
        store_drop(s, temp);
        return rc;
    }
    r->has_node = true;
    r->node = node->id;
    return 0;
}

int rdv_del_node(struct rdv *r, const struct moyai_node_id *id, struct moyai_error *reterr) {
    char file[33];
    id_format(id->b, file);
    if (r->has_node && id_equal(r->node.b, id->b)) r->has_node = false;
    return store_unlink(&r->store, &r->store.nodes, file, reterr);
}

/* The entry in n/<file>, which must be that of the id the file is named after. */
static int load_node(const struct store *s, const char *file, struct rdv_node *ret, struct moyai_error *reterr) {
    const struct store_dir *d = &s->nodes;
    char text[ENTRY_MAX];
    struct moyai_node_id id;
    if (!id_parse(file, strlen(file), id.b)) return store_bad(s, d, file, "is not named after a node", reterr);
    int n = store_load(s, d, file, text, NULL, reterr);
    if (n < 0) return n;
    struct rdv_node x;
    int rc = entry_decode_node(text, (size_t)n, &x, reterr);
    if (rc < 0) return store_bad_text(s, d, file, rc, reterr);
    char right[33];
    id_format(x.id.b, right);
    if (strcmp(file, right) != 0) return store_bad(s, d, file, "is that of another node", reterr);
    *ret = x;
    return 0;
}

int rdv_get_node(struct rdv *r, const struct moyai_node_id *id, struct rdv_node *ret, struct moyai_error *reterr) {
    char file[33];
    id_format(id->b, file);
    return load_node(&r->store, file, ret, reterr);
}

struct each_node {
    struct rdv *r;
    bool (*fn)(const struct rdv_node *node, const struct moyai_error *bad, void *ctx);
    void *ctx;
};

static bool each_node(const char *file, void *ctx) {
    struct each_node *e = ctx;
    struct rdv_node node;
    struct moyai_error bad;
    int rc = load_node(&e->r->store, file, &node, &bad);
    if (rc == MOYAI_ENOENT) return true; /* removed meanwhile */
    return e->fn(rc < 0 ? NULL : &node, rc < 0 ? &bad : NULL, e->ctx);
}

int rdv_nodes(struct rdv *r, bool (*fn)(const struct rdv_node *node, const struct moyai_error *bad, void *ctx),
              void *ctx, struct moyai_error *reterr) {
    struct each_node e = {r, fn, ctx};
    return store_each(&r->store, &r->store.nodes, each_node, &e, reterr);
}

struct each_id {
    bool (*fn)(const struct moyai_node_id *id, void *ctx);
    void *ctx;
};

static bool each_id(const char *file, void *ctx) {
    const struct each_id *e = ctx;
    struct moyai_node_id id;
    return !id_parse(file, strlen(file), id.b) || e->fn(&id, e->ctx);
}

int rdv_node_ids(struct rdv *r, bool (*fn)(const struct moyai_node_id *id, void *ctx), void *ctx,
                 struct moyai_error *reterr) {
    struct each_id e = {fn, ctx};
    return store_each(&r->store, &r->store.nodes, each_id, &e, reterr);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The entry in m/<file>, open as *fd to be locked. */
static int load_name(const struct store *s, const char *file, struct rdv_name *ret, int *fd,
                     struct moyai_error *reterr) {
    const struct store_dir *d = &s->names;
    char text[ENTRY_MAX];
    int f;
    int n = store_load(s, d, file, text, &f, reterr);
    if (n < 0) return n;
    struct rdv_name x;
    int rc = entry_decode_name(text, (size_t)n, &x, reterr);
    if (rc < 0) {
        rc = store_bad_text(s, d, file, rc, reterr);
    } else {
        char right[ENTRY_FILE_MAX + 1];
        entry_file_of_name(x.name, right);
        if (strcmp(file, right) != 0) rc = store_bad(s, d, file, "is that of another name", reterr);
    }
    if (rc < 0) {
        close(f);
        return rc;
    }
    *ret = x;
    *fd = f;
    return 0;
}

struct each_name {
    struct rdv *r;
    bool (*fn)(const char *name, void *ctx);
    void *ctx;
};

static bool each_name(const char *file, void *ctx) {
    const struct each_name *e = ctx;
    struct rdv_name x;
    int fd;
    if (!strchr(file, '%')) return e->fn(file, e->ctx);
    if (load_name(&e->r->store, file, &x, &fd, NULL) < 0) return true;
    close(fd);
    return e->fn(x.name, e->ctx);
}

int rdv_names(struct rdv *r, bool (*fn)(const char *name, void *ctx), void *ctx, struct moyai_error *reterr) {
    struct each_name e = {r, fn, ctx};
    return store_each(&r->store, &r->store.names, each_name, &e, reterr);
}

static bool has_owner(const struct rdv_name *x, const struct moyai_object_id *object,
                      const struct moyai_node_id *node) {
    return id_equal(x->object.b, object->b) && id_equal(x->node.b, node->b);
}

static bool is_dead(const struct rdv *r, const struct moyai_node_id *node, rdv_dead_fn *dead, void *ctx) {
    if (r->has_node && id_equal(r->node.b, node->b)) return false;
    return dead && dead(node, ctx);
}

static int taken(struct rdv *r, const struct rdv_name *has, struct moyai_error *reterr) {
    struct rdv_node node;
    char who[ENTRY_CALLED];
    bool known = rdv_get_node(r, &has->node, &node, NULL) == 0; /* else its id has to do */
    entry_called(who, has->node.b, known ? node.title : "", known ? node.pid : 0);
    return err_set(reterr, MOYAI_EEXIST, "the name \"%s\" belongs to an object of %s", has->name, who);
}

/* The name is taken by `has`, which was loaded as fd (closed here). 0: it is the wanted one; EEXIST: its owner
 * lives. Else its owner is dead, and it has been replaced (0, *moved), or not: EAGAIN, ESTATE or another error. */
static int take_over(struct rdv *r, const char *file, const struct rdv_name *want, const char *temp,
                     const struct rdv_name *has, int fd, rdv_dead_fn *dead, void *ctx, bool *moved,
                     struct moyai_error *reterr) {
    const struct store *s = &r->store;
    bool same = strcmp(has->name, want->name) == 0; /* else two long names have one hash */
    if (same && has_owner(has, &want->object, &want->node)) {
        close(fd);
        return 0;
    }
    const bool came = same && id_equal(has->object.b, want->object.b); /* the object has moved, its name with it */
    if (!same || (!came && !is_dead(r, &has->node, dead, ctx))) {
        close(fd);
        return taken(r, has, reterr);
    }
    int rc = store_lock(s, &s->names, file, fd, reterr);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    rc = store_rename(s, &s->names, file, temp, reterr);
    *moved = rc == 0;
    store_unlock(fd);
    return rc;
}

/* Put the finished file temp under the name. temp is still there afterwards, or has become the entry (*moved). *why is
 * written to in any case. */
static int claim(struct rdv *r, const char *file, const struct rdv_name *want, const char *temp, rdv_dead_fn *dead,
                 void *ctx, bool *moved, struct moyai_error *why) {
    const struct store *s = &r->store;
    int rc = MOYAI_EAGAIN;
    for (int i = 0; i < STORE_TRIES; i++) {
        rc = store_link(s, &s->names, file, temp, why);
        if (rc != MOYAI_EEXIST) return rc;
        struct rdv_name has;
        int fd;
        rc = load_name(s, file, &has, &fd, why);
        if (rc == MOYAI_ENOENT) { /* removed meanwhile */
            rc = err_set(why, MOYAI_EAGAIN, "name '%.100s' is made and removed all the time", want->name);
            continue;
        }
        if (rc == 0) rc = take_over(r, file, want, temp, &has, fd, dead, ctx, moved, why);
        if (rc != MOYAI_EAGAIN && rc != MOYAI_ESTATE) return rc;
        sched_yield(); /* to whoever is replacing it */
    }
    return rc == MOYAI_ESTATE ? (why->code = MOYAI_EAGAIN) : rc;
}

int rdv_put_name(struct rdv *r, const char *name, const struct moyai_object_id *object,
                 const struct moyai_node_id *node, rdv_dead_fn *dead, void *ctx, struct moyai_error *reterr) {
    int rc = entry_check_name(name, reterr);
    if (rc < 0) return rc;
    if (r->withdrawn) return err_set(reterr, MOYAI_ECLOSED, "this node has said farewell");
    struct rdv_name want;
    memset(&want, 0, sizeof want);
    strcpy(want.name, name);
    want.object = *object;
    want.node = *node;
    char text[ENTRY_MAX], file[ENTRY_FILE_MAX + 1], temp[33];
    int n = entry_encode_name(&want, text, reterr);
    if (n < 0) return n;
    entry_file_of_name(name, file);

    struct own *had = find_own(r, name), *o = had ? had : new_own(r, name);
    if (!o) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    const struct store *s = &r->store;
    bool moved = false;
    struct moyai_error why;
    rc = store_write(s, &s->names, file, text, (size_t)n, temp, &why);
    if (rc == 0) {
        rc = claim(r, file, &want, temp, dead, ctx, &moved, &why);
        if (!moved) store_drop(s, temp);
    }
    if (rc < 0) {
        if (reterr) *reterr = why;
        if (!had) forget_own(r, o);
        return rc;
    }
    o->object = *object;
    o->node = *node;
    await_tell(s, file);
    return 0;
}

int rdv_get_name(struct rdv *r, const char *name, rdv_dead_fn *dead, void *ctx, struct moyai_object_id *object,
                 struct moyai_node_id *node, struct moyai_error *reterr) {
    int rc = entry_check_name(name, reterr);
    if (rc < 0) return rc;
    char file[ENTRY_FILE_MAX + 1];
    entry_file_of_name(name, file);
    struct rdv_name has;
    int fd;
    rc = load_name(&r->store, file, &has, &fd, reterr);
    if (rc == MOYAI_ENOENT) return err_set(reterr, rc, "nobody has the name '%s'", name);
    if (rc < 0) return rc;
    if (strcmp(has.name, name) != 0) {
        close(fd);
        return err_set(reterr, MOYAI_ENOENT, "nobody has the name '%s'", name);
    }
    if (is_dead(r, &has.node, dead, ctx)) {
        /* Whoever is at it already, or the next to ask, removes what this does not. */
        (void)store_remove(&r->store, &r->store.names, file, fd, NULL);
        return err_set(reterr, MOYAI_ENOENT, "nobody has the name '%s': the process that had it is dead", name);
    }
    close(fd);
    *object = has.object;
    *node = has.node;
    return 0;
}

int rdv_del_name(struct rdv *r, const char *name, const struct moyai_object_id *object,
                 const struct moyai_node_id *node, struct moyai_error *reterr) {
    int rc = entry_check_name(name, reterr);
    if (rc < 0) return rc;
    char file[ENTRY_FILE_MAX + 1];
    entry_file_of_name(name, file);
    struct own *o = find_own(r, name);
    bool own = o && id_equal(o->object.b, object->b) && id_equal(o->node.b, node->b);
    struct rdv_name has;
    int fd;
    rc = load_name(&r->store, file, &has, &fd, reterr);
    if (rc == 0 && (strcmp(has.name, name) != 0 || !has_owner(&has, object, node))) {
        close(fd);
        rc = MOYAI_ENOENT;
    }
    if (rc == MOYAI_ENOENT) {
        if (own) forget_own(r, o); /* it was taken away */
        return err_set(reterr, rc, "that object does not have the name '%s'", name);
    }
    if (rc < 0) return rc;
    rc = store_remove(&r->store, &r->store.names, file, fd, reterr);
    if (rc == 0 && own) forget_own(r, o);
    return rc;
}

void rdv_withdraw(struct rdv *r) {
    r->withdrawn = true;
    while (r->own) {
        struct own *o = r->own;
        char name[ENTRY_NAME_MAX + 1];
        strcpy(name, o->name);
        (void)rdv_del_name(r, name, &o->object, &o->node, NULL); /* whoever meets what stays finds its owner dead */
        forget_own(r, find_own(r, name));
    }
    if (r->has_node) {
        struct moyai_node_id id = r->node;
        (void)rdv_del_node(r, &id, NULL);
    }
}

void rdv_close(struct rdv *r) {
    if (!r) return;
    rdv_withdraw(r);
    rdv_abandon(r);
}

/* ---- the dead -------------------------------------------------------------------------------- */

struct rdv_forget {
    struct rdv *r;
    struct moyai_node_id id;
    char file[33];
    int fd;   /* its entry, locked */
    DIR *dir; /* the names */
};

int rdv_forget_begin(struct rdv *r, const struct moyai_node_id *id, struct rdv_forget **ret,
                     struct moyai_error *reterr) {
    const struct store *s = &r->store;
    struct moyai_error why = {0};
    char text[ENTRY_MAX];
    struct rdv_forget *f = calloc(1, sizeof *f);
    if (!f) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    f->r = r;
    f->id = *id;
    id_format(id->b, f->file);
    int rc = store_load(s, &s->nodes, f->file, text, &f->fd, &why);
    if (rc >= 0 && flock(f->fd, LOCK_EX | LOCK_NB) < 0) { /* another process is at it: it is its business */
        close(f->fd);
        rc = MOYAI_ENOENT;
    }
    if (rc < 0) {
        free(f);
        if (rc != MOYAI_ENOENT && reterr) *reterr = why;
        return rc == MOYAI_ENOENT ? 0 : rc;
    }
    f->dir = store_stream(&s->names);
    if (!f->dir) {
        rc = err_sys(reterr, errno, "cannot read rendezvous directory '%.110s/%s'", s->path, s->names.sub);
        rdv_forget_end(f);
        return rc;
    }
    *ret = f;
    return 1;
}

static void forget_name(const struct rdv_forget *f, const char *file) {
    const struct store *s = &f->r->store;
    struct rdv_name has;
    int fd;
    if (load_name(s, file, &has, &fd, NULL) < 0) return; /* none of its names can be told from it */
    if (id_equal(has.node.b, f->id.b))
        (void)store_remove(s, &s->names, file, fd, NULL); /* busy: somebody is at it already */
    else
        close(fd);
}

int rdv_forget_some(struct rdv_forget *f, moyai_dur most, struct moyai_error *reterr) {
    moyai_ns begun = moyai_now();
    do {
        const struct dirent *e = readdir(f->dir);
        if (!e) { /* The node entry goes last: while it is there, something may be left to do. */
            struct moyai_error why;
            int rc = rdv_del_node(f->r, &f->id, &why);
            if (rc == 0 || rc == MOYAI_ENOENT) return 0;
            if (reterr) *reterr = why;
            return rc;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) forget_name(f, e->d_name);
    } while (most == MOYAI_FOREVER || moyai_now() - begun < (moyai_ns)most);
    return 1;
}

void rdv_forget_end(struct rdv_forget *f) {
    if (!f) return;
    if (f->dir) closedir(f->dir);
    store_unlock(f->fd);
    free(f);
}

int rdv_forget_node(struct rdv *r, const struct moyai_node_id *id, const struct rundir *dir,
                    struct moyai_error *reterr) {
    struct rdv_forget *f = NULL;
    int rc = rdv_forget_begin(r, id, &f, reterr);
    if (rc > 0) rc = rdv_forget_some(f, MOYAI_FOREVER, reterr);
    rdv_forget_end(f);
    if (dir) rundir_unlink(dir, id);
    return rc;
}

/* ---- watching -------------------------------------------------------------------------------- */

bool rdv_await(struct rdv *r, struct exec *x, const char *name, void (*fn)(void *arg), void *arg, struct await **ret) {
    char file[ENTRY_FILE_MAX + 1];
    if (r->poll_only || dirwatch_shared(r->store.waits.fd) || entry_check_name(name, NULL) < 0) return false;
    entry_file_of_name(name, file);
    struct await *w = await_new(&r->store, x, file, fn, arg);
    if (w) *ret = w;
    return w;
}

void rdv_await_free(struct await *w) {
    await_free(w);
}

int rdv_watch(struct rdv *r, struct exec *x, bool all, void (*fn)(void *arg), void *arg, struct moyai_error *reterr) {
    if (r->watch.x) return err_set(reterr, MOYAI_ESTATE, "the names of '%.110s' are watched already", r->store.path);
    int rc = store_check(&r->store, &r->store.names, reterr);
    if (rc < 0) return rc;
    if (all)
        dirwatch_start(&r->watch, x, r->store.names_path, r->store.names.fd, r->poll_only, fn, arg);
    else
        dirwatch_start_slow(&r->watch, x, r->store.names.fd, fn, arg);
    return 0;
}

void rdv_unwatch(struct rdv *r) {
    dirwatch_stop(&r->watch);
}

void rdv_poll_only(struct rdv *r, bool on) {
    r->poll_only = on;
}
