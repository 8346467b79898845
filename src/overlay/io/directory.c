/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid of one host: nodes that meet in a directory (rendezvous.h) and have their sockets in one run directory.
 *
 * Which one that is depends on the environment (rundir.h), and a login session, a batch job and a service differ in it.
 * So who joins takes that of the nodes that are there, unless it was told another one, which is refused: nodes of two
 * run directories cannot reach each other. What cannot be judged by one's own run directory, since a node's entry
 * names another, is never called dead because of it: its names would be taken from it while it lives.
 *
 * A directory that several hosts see (NFS, a volume of containers) is no such grid: each host would be one of its own,
 * where names of others are seen and nobody can be called. Whoever sees an entry of another host says so.
 */
#include "base/err.h"
#include "overlay/io/internal.h"
#include "overlay/io/onehost.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_MOST 16u /* entries that are looked at for one of a living node; as a rule the first is */

struct look {
    struct overlay *o;
    struct rundir *theirs;
    struct rdv_node who; /* whose it is */
    unsigned n;
};

static bool look_at(const struct moyai_node_id *id, void *ctx) {
    struct look *l = ctx;
    struct rdv_node e;
    if (++l->n > LOOK_MOST) return false;
    if (rdv_get_node(l->o->rdv, id, &e, NULL) < 0) return true;
    if (l->o->dir && id_equal(e.host, rundir_host(l->o->dir))) return rundir_is_dead(l->o->dir, id);
    directory_note(l->o, &e);
    struct rundir *d = onehost_dir(&e);
    if (!d) return true;
    if (rundir_is_dead(d, id)) {
        rundir_close(d);
        return true;
    }
    l->theirs = d;
    l->who = e;
    return false;
}

/* Open ours, if it was told or nobody is there whose we could take: NULL is the default. */
static int open_own(struct overlay *o, const char *path, struct moyai_error *reterr) {
    int rc = rundir_open(&o->dir, path, reterr);
    if (rc < 0 && path) (void)config_blame(reterr, o->cfg.config, CONFIG_run_dir);
    return rc;
}

static int refuse(struct overlay *o, const struct look *l, struct moyai_error *reterr) {
    char who[ENTRY_CALLED];
    entry_called(who, l->who.id.b, l->who.title, l->who.pid);
    err_set(reterr, MOYAI_EINVAL,
            "run directory '%s' is not that of the grid in '%s': %s has its socket in '%s': set MOYAI_RUN_DIR to that, "
            "or not at all",
            rundir_path(o->dir), rdv_path(o->rdv), who, rundir_path(l->theirs));
    return config_blame(reterr, o->cfg.config, CONFIG_run_dir);
}

int directory_open(struct overlay *o, const char *url, struct moyai_error *reterr) {
    int rc = o->cfg.run_dir || !url ? open_own(o, o->cfg.run_dir, reterr) : 0;
    if (rc < 0 || !url) return rc;
    struct look l = {.o = o};
    rc = rdv_open(&o->rdv, url, reterr);
    if (rc == 0) rc = rdv_node_ids(o->rdv, look_at, &l, reterr);
    if (rc < 0) {
        (void)config_blame(reterr, o->cfg.config, CONFIG_grid);
    } else if (!l.theirs) {
        rc = o->dir ? 0 : open_own(o, NULL, reterr);
    } else if (!o->dir) {
        o->dir = l.theirs;
        return 0;
    } else {
        rc = refuse(o, &l, reterr);
    }
    rundir_close(l.theirs);
    return rc;
}

/* The entry of a node whose run directory is not ours. */
static bool elsewhere(struct overlay *o, const struct moyai_node_id *id, struct rdv_node *e) {
    return o->rdv && rdv_get_node(o->rdv, id, e, NULL) == 0 && !id_equal(e->host, o->hello.host);
}

bool directory_is_dead(struct overlay *o, const struct moyai_node_id *id) {
    if (!rundir_is_dead(o->dir, id)) return false;
    struct rdv_node e;
    return !elsewhere(o, id, &e) || onehost_is_dead(&e);
}

static void not_here(const struct overlay *o, const struct rdv_node *e, struct moyai_error *why) {
    char who[ENTRY_CALLED];
    entry_called(who, e->id.b, e->title, e->pid);
    if (!rundir_this_host(e->host)) {
        err_set(why, MOYAI_EUNREACHABLE,
                "%.90s is (or was, if it has ended) of another host or container: a grid over several needs a key that "
                "each names (moyai key new, --key-file; see moyai-grid(5))",
                who);
        return;
    }
    struct rundir *d = onehost_dir(e);
    err_set(why, MOYAI_EUNREACHABLE, "%.60s has its socket in run directory '%.70s'%s; ours is '%.70s'", who,
            e->run_dir, d ? "" : ", which is not seen from here", rundir_path(o->dir));
    rundir_close(d);
}

bool directory_elsewhere(struct overlay *o, const struct moyai_node_id *id, struct moyai_error *why) {
    struct rdv_node e;
    if (!elsewhere(o, id, &e) || onehost_is_dead(&e)) return false;
    directory_note(o, &e);
    not_here(o, &e, why);
    return true;
}

/* ---- several hosts --------------------------------------------------------------------------- */

void directory_note(struct overlay *o, const struct rdv_node *e) {
    struct moyai_error why;
    if (o->split.text[0] || rundir_this_host(e->host) || onehost_is_dead(e)) return;
    not_here(o, e, &why);
    snprintf(o->split.text, sizeof o->split.text, "%s", why.text);
    log_warning(o->cfg.log, "overlay", "MOYAI-GRID-HOSTS", "%s", why.text);
}

struct notes {
    struct overlay *o;
    size_t skip, n;
};

static bool count_one(const struct moyai_node_id *id, void *ctx) {
    (void)id;
    ((struct notes *)ctx)->n++;
    return true;
}

static bool note_one(const struct moyai_node_id *id, void *ctx) {
    struct notes *s = ctx;
    struct rdv_node e;
    if (s->skip > 0) {
        s->skip--;
        return true;
    }
    if (rdv_get_node(s->o->rdv, id, &e, NULL) == 0) directory_note(s->o, &e);
    return ++s->n < LOOK_MOST && !s->o->split.text[0];
}

bool overlay_split(struct overlay *o, char text[MOYAI_ERROR_TEXT]) {
    char path[PATH_MAX];
    struct stat st;
    if (!o->rdv) return false;
    if (!o->split.text[0] && snprintf(path, sizeof path, "%s/n", rdv_path(o->rdv)) < (int)sizeof path &&
        stat(path, &st) == 0 && (st.st_mtim.tv_sec != o->split.looked[0] || st.st_mtim.tv_nsec != o->split.looked[1])) {
        struct notes s = {.o = o};
        o->split.looked[0] = st.st_mtim.tv_sec;
        o->split.looked[1] = st.st_mtim.tv_nsec;
        int rc = rdv_node_ids(o->rdv, count_one, &s, NULL);
        s.skip = s.n > LOOK_MOST ? (size_t)rng_below(&o->rng, s.n - LOOK_MOST + 1) : 0;
        s.n = 0;
        if (rc == 0) rc = rdv_node_ids(o->rdv, note_one, &s, NULL);
        if (rc < 0) return false; /* who needs the directory says so */
    }
    if (!o->split.text[0]) return false;
    snprintf(text, MOYAI_ERROR_TEXT, "%s", o->split.text);
    return true;
}
