/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names (S0/3.3): any object under any string, for the whole grid.
 *
 * A name is a file of the rendezvous directory; in a grid without one it is located among the nodes (located.c), and a
 * node without a grid keeps its names in its objects only.
 * Choices where the paper is silent: a name that a live object has is refused (EEXIST), that of a dead node's object
 * is replaced; a name that is not there yet can be waited for; names end with their object.
 *
 * An object ends whatever its rendezvous says. A name that cannot be removed then (no permission, another process about
 * to replace it) is *stale*: it is tried again after a while, and before it is looked up or given away here.
 */
#include "base/err.h"
#include "base/near.h"
#include "object/drain.h"
#include "object/internal.h"
#include "object/move.h"

#include <stdlib.h>

#define STALE_FIRST (100 * MOYAI_MS)
#define STALE_MOST  (10 * MOYAI_SEC)
#define STALE_HOLD  (1 * MOYAI_MS) /* the node lock, for removing them */
#define OTHERS_MOST ((size_t)64)   /* other nodes that are counted for the text of an error */

static bool is_dead(const struct moyai_node_id *id, void *ctx) {
    moyai_node *n = ctx;
    return overlay_is_dead(n->o, id->b);
}

/* ---- the names of this node's objects --------------------------------------------------------- */

/* The table's hash is told by this file: that of internal.h is for ids. */
static unsigned text_hash(const char *s, size_t len) {
    unsigned h;
    HASH_JEN(s, len, h);
    return h;
}

static struct object_name *name_find(moyai_node *n, const char *text) {
    struct object_name *m;
    size_t len = strlen(text);
    HASH_FIND_BYHASHVALUE(hh, n->names, text, len, text_hash(text, len), m);
    return m;
}

static bool lives(const struct object_name *m) {
    return m->owner && !m->owner->ended;
}

static struct object *named_here(moyai_node *n, const char *name) {
    const struct object_name *m = name_find(n, name);
    return m && lives(m) ? m->owner : NULL;
}

static void list_add(struct object_name **list, struct object_name *m) {
    m->next = *list;
    if (m->next) m->next->at = &m->next;
    m->at = list;
    *list = m;
}

static void list_remove(struct object_name *m) {
    *m->at = m->next;
    if (m->next) m->next->at = m->at;
}

/* NULL: out of memory. */
static struct object_name *name_new(struct object *ob, const char *text) {
    size_t len = strlen(text);
    struct object_name *m = calloc(1, sizeof *m + len + 1);
    if (!m) return NULL;
    memcpy(m->text, text, len);
    memcpy(m->object, ob->id, 16);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, ob->node->names, m->text, len, text_hash(text, len), m);
    if (!m->hh.tbl) {
        free(m);
        return NULL;
    }
    m->owner = ob;
    m->under = atomic_load(&ob->node->self);
    list_add(&ob->names, m);
    return m;
}

static void name_free(moyai_node *n, struct object_name *m) {
    list_remove(m);
    HASH_DEL(n->names, m);
    free(m);
}

/* ---- who waits for a name -------------------------------------------------------------------- */

struct name_wait {
    UT_hash_handle hh;
    moyai_node *node;
    struct blocked *first;
    struct await *await; /* NULL: told already, or all names are watched */
    unsigned users;
    char text[];
};

enum { WATCH_NONE, WATCH_SLOW, WATCH_ALL };

static struct name_wait *wait_find(moyai_node *n, const char *text) {
    struct name_wait *w;
    size_t len = strlen(text);
    HASH_FIND_BYHASHVALUE(hh, n->waits, text, len, text_hash(text, len), w);
    return w;
}

/* One more user. NULL: out of memory. */
static struct name_wait *wait_enter(moyai_node *n, const char *text) {
    struct name_wait *w = wait_find(n, text);
    if (!w) {
        size_t len = strlen(text);
        w = calloc(1, sizeof *w + len + 1);
        if (!w) return NULL;
        w->node = n;
        memcpy(w->text, text, len);
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, n->waits, w->text, len, text_hash(text, len), w);
        if (!w->hh.tbl) {
            free(w);
            return NULL;
        }
    }
    w->users++;
    return w;
}

static void wait_free(struct name_wait *w) {
    rdv_await_free(w->await);
    HASH_DEL(w->node->waits, w);
    free(w);
}

static void unwatch(moyai_node *n) {
    struct rdv *r = overlay_rdv(n->o);
    if (n->watching != WATCH_NONE && r) rdv_unwatch(r);
    n->watching = WATCH_NONE;
}

static void wait_leave(struct name_wait *w) {
    moyai_node *n = w->node;
    if (--w->users > 0) return;
    wait_free(w);
    if (!n->waits) unwatch(n);
}

void names_unwait(moyai_node *n) {
    while (n->waits) wait_free(n->waits); /* whose fibers are abandoned */
    unwatch(n);
}

static void wait_wake(struct name_wait *w) {
    for (struct blocked *b; (b = w->first);) {
        wait_remove(b);
        (void)blocked_wake(w->node, b, 0);
    }
}

void names_fail(moyai_node *n) {
    struct name_wait *w, *tmp;
    HASH_ITER (hh, n->waits, w, tmp)
        for (struct blocked *b; (b = w->first);) {
            wait_remove(b);
            (void)blocked_wake(n, b, MOYAI_ECLOSED);
        }
}

static void on_awaited(void *arg) {
    struct name_wait *w = arg;
    rdv_await_free(w->await);
    w->await = NULL;
    wait_wake(w);
}

static void names_changed(void *arg) {
    moyai_node *n = arg;
    for (struct name_wait *w = n->waits; w; w = w->hh.next) wait_wake(w);
}

/* See to it that w is woken when its name appears. *looked: it was seen to already, and nobody was told since. */
static int wait_watch(struct name_wait *w, struct rdv *r, bool *looked, struct moyai_error *e) {
    moyai_node *n = w->node;
    *looked = w->await || n->watching == WATCH_ALL;
    if (*looked) return 0;
    bool all = !rdv_await(r, n->x, w->text, on_awaited, w, &w->await);
    if (n->watching == (all ? WATCH_ALL : WATCH_SLOW)) return 0;
    unwatch(n);
    int rc = rdv_watch(r, n->x, all, names_changed, n, e);
    if (rc == 0) n->watching = all ? WATCH_ALL : WATCH_SLOW;
    return rc;
}

/* ---- stale names ----------------------------------------------------------------------------- */

/* Remove it from the rendezvous. 0: it is not there any more. */
static int name_remove(moyai_node *n, const struct object_name *m, struct moyai_error *why) {
    if (overlay_locates(n->o)) {
        overlay_name_release(n->o, m->text);
        return 0;
    }
    struct rdv *r = overlay_rdv(n->o);
    struct moyai_object_id oid;
    memcpy(oid.b, m->object, 16);
    int rc = r ? rdv_del_name(r, m->text, &oid, node_id(n), why) : 0;
    return rc == MOYAI_ENOENT ? 0 : rc;
}

static void stale_due(struct exec *x, struct exec_timer *t) {
    moyai_node *n = (moyai_node *)((char *)t - offsetof(moyai_node, stale_timer));
    moyai_ns until = moyai_now() + (moyai_ns)STALE_HOLD;
    for (struct object_name *m; (m = n->stale[0]) && moyai_now() < until;) {
        if (name_remove(n, m, NULL) == 0) {
            name_free(n, m);
        } else {
            list_remove(m);
            list_add(&n->stale[1], m);
        }
    }
    if (n->stale[0]) { /* the rest in the next turn of the loop: others want the lock */
        exec_timer_set(x, t, moyai_now());
        return;
    }
    if (!n->stale[1]) return;
    n->stale[0] = n->stale[1];
    n->stale[0]->at = &n->stale[0];
    n->stale[1] = NULL;
    n->stale_wait = n->stale_wait < STALE_MOST / 2 ? 2 * n->stale_wait : STALE_MOST;
    exec_timer_set(x, t, moyai_now() + (moyai_ns)n->stale_wait);
}

/* Has an object that has ended the name still? Then it is removed now: 0, or why it cannot be. */
static int stale_remove(moyai_node *n, const char *name, struct moyai_error *e) {
    struct object_name *m = name_find(n, name);
    struct moyai_error why = {0};
    if (!m || lives(m)) return 0;
    int rc = name_remove(n, m, &why);
    if (rc == 0) {
        name_free(n, m);
        return 0;
    }
    if (!e) return rc;
    *e = why;
    return err_prefix(e, "the object that had the name \"%s\" has ended, but the name is still there", name);
}

/* Each is a file to be removed: an object may have many, and the lock is given away between, so that nobody else has to
 * wait for all of them. Until its turn has come a name is that of an ended object, as good as stale. */
void names_remove(struct object *ob) {
    moyai_node *n = ob->node;
    size_t failed = 0;
    for (struct object_name *m; (m = ob->names);) {
        struct moyai_error why = {0};
        if (name_remove(n, m, &why) == 0) {
            name_free(n, m);
        } else {
            if (failed++ == 0) log_warning(n->log, "object", "MOYAI-NAME-REMOVE", "%s", why.text);
            if (!n->stale[0] && !n->stale[1]) {
                n->stale_wait = STALE_FIRST;
                exec_timer_set(n->x, &n->stale_timer, moyai_now() + (moyai_ns)n->stale_wait);
            }
            list_remove(m);
            m->owner = NULL;
            list_add(&n->stale[0], m);
        }
        if (!n->ending) exec_pass(n->x);
    }
    if (failed > 1)
        log_warning(n->log, "object", "MOYAI-NAME-REMOVE", "so it is with %zu more names of the object", failed - 1);
}

/* ---- under another id ------------------------------------------------------------------------ */

/* The node's names in the directory, which others have removed as a dead node's, or are about to. */
static void again_due(struct exec *x, struct exec_timer *t) {
    moyai_node *n = (moyai_node *)((char *)t - offsetof(moyai_node, again_timer));
    struct rdv *r = overlay_rdv(n->o);
    const struct self_id *self = atomic_load(&n->self);
    moyai_ns until = moyai_now() + (moyai_ns)STALE_HOLD;
    bool more = false, failed = false;
    struct object_name *m, *tmp;
    if (!r || n->ending) return;
    HASH_ITER (hh, n->names, m, tmp) {
        if (m->under == self || !lives(m)) continue;
        if (m->owner && m->owner->at.state == MOVING_SETTLES) continue; /* the new home may have put it there already */
        more = true;
        if (moyai_now() >= until) break;
        struct moyai_object_id oid;
        struct moyai_error e = {0};
        memcpy(oid.b, m->object, 16);
        int rc = rdv_put_name(r, m->text, &oid, &self->id, is_dead, n, &e);
        if (rc == 0) {
            m->under = self;
        } else if (rc == MOYAI_EEXIST) {
            log_error(n->log, "object", "MOYAI-NAME-LOST",
                      "the name \"%s\" has been given to another object while this node was taken for dead: %s",
                      m->text, e.text);
            name_free(n, m);
        } else {
            if (!failed && n->again_wait == 0)
                log_warning(n->log, "object", "MOYAI-NAME-AGAIN", "cannot register the name \"%s\" again yet: %s",
                            m->text, e.text);
            failed = true;
        }
    }
    if (failed) {
        n->again_wait = n->again_wait == 0               ? STALE_FIRST
                        : n->again_wait < STALE_MOST / 2 ? 2 * n->again_wait
                                                         : STALE_MOST;
        exec_timer_set(x, t, moyai_now() + (moyai_ns)n->again_wait);
    } else if (more) {
        n->again_wait = 0;
        exec_timer_set(x, t, moyai_now()); /* whether that was all is seen then; others want the lock */
    }
}

static void names_again_soon(moyai_node *n) {
    n->again_wait = STALE_FIRST;
    exec_timer_set(n->x, &n->again_timer, moyai_now() + (moyai_ns)n->again_wait);
}

void names_again(moyai_node *n) {
    if (!overlay_rdv(n->o)) return;
    n->again_wait = 0;
    exec_timer_set(n->x, &n->again_timer, moyai_now());
}

void names_init(moyai_node *n) {
    exec_timer_init(&n->stale_timer, stale_due);
    exec_timer_init(&n->again_timer, again_due);
}

/* What is still there is met by somebody who finds the node dead. */
void names_done(moyai_node *n) {
    if (n->x) exec_timer_clear(n->x, &n->stale_timer);
    if (n->x) exec_timer_clear(n->x, &n->again_timer);
    for (int i = 0; i < 2; i++)
        while (n->stale[i]) name_free(n, n->stale[i]);
}

/* ---- the public functions -------------------------------------------------------------------- */

/* Somebody else registers it for that object just now: whether it gets the name is not known yet. */
static int await_claim(const moyai_ref *ref, const char *name, struct moyai_error *e) {
    moyai_node *n = ref->node;
    const struct object_name *m;
    int rc = 0;
    while (rc == 0 && (m = name_find(n, name)) && m->claim && m->owner && m->owner == object_of(ref)) {
        struct name_wait *w = wait_enter(n, name);
        if (!w) return err_set(e, MOYAI_ENOMEM, "out of memory for waiting for a name");
        struct blocked b;
        blocked_init(n, &b, "waits for a name to be its own");
        wait_add(&w->first, &b);
        rc = block(n, &b, UINT64_MAX, true);
        wait_remove(&b);
        wait_leave(w);
        if (rc < 0) *e = context_get(n)->last;
    }
    return rc;
}

int moyai_register(moyai_ref *ref, const char *name) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct moyai_error e = {0};
    int rc = name ? entry_check_name(name, &e) : err_set(&e, MOYAI_EINVAL, "no name given");
    if (rc == 0) rc = await_claim(ref, name, &e);
    uint64_t claim = 0;
    struct object *ob = rc == 0 ? object_of(ref) : NULL;
    struct object *have = ob ? named_here(n, name) : NULL;
    if (rc == 0 && ob && move_is_under_way(ob))
        rc = err_set(&e, MOYAI_ESTATE, "the object moves just now");
    else if (rc == 0 && !ob)
        rc = err_set(&e, MOYAI_ENOOBJECT, "only a living object of this node can be registered");
    else if (rc == 0 && have && have != ob)
        rc = err_set(&e, MOYAI_EEXIST, "the name \"%s\" belongs to another object of this process", name);
    if (rc == 0 && !have) rc = drain_gone(n, &e);
    if (rc == 0 && !have) {
        rc = stale_remove(n, name, &e);
        struct object_name *m = rc == 0 ? name_new(ob, name) : NULL;
        if (rc == 0 && !m) rc = err_set(&e, MOYAI_ENOMEM, "out of memory for a name");
        struct rdv *r = overlay_rdv(n->o);
        if (rc == 0 && r) {
            struct moyai_object_id oid = moyai_ref_object(ref);
            rc = rdv_put_name(r, name, &oid, node_id(n), is_dead, n, &e);
        }
        if (rc == 0 && overlay_locates(n->o)) {
            m->claim = claim = ++n->last_claim;
            ob->users++;
            move_waits(ob);
            if (overlay_name_room(n->o) <= host_names(n)) /* what arrives has its place already */
                rc = err_set(&e, MOYAI_ELIMIT, NAMES_FULL);
            else
                rc = located_claim(n, name, ob->id, &e);
            m = name_find(n, name); /* it may have been given up meanwhile, and be another's */
            if (m && m->claim != claim) m = NULL;
            if (m) m->claim = 0;
            if (rc == 0 && !m) rc = err_set(&e, MOYAI_ECANCELED, GIVEN_UP, name);
            if (rc == MOYAI_ECANCELED && ob->ended) rc = err_set(&e, MOYAI_ENOOBJECT, "the object has ended");
        }
        struct name_wait *w = wait_find(n, name);
        if (w) wait_wake(w); /* in this process, which may be without a grid; or it is decided */
        if (rc < 0 && m) name_free(n, m);
        if (claim) move_goes_on(ob);
        if (claim) object_leave(ob);
    }
    if (rc < 0) {
        e.executed = MOYAI_NEVER_EXECUTED;
        (void)api_error(n, &e);
    }
    api_leave(n);
    return rc;
}

int moyai_unregister(moyai_ref *ref, const char *name) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct object *ob = name ? object_of(ref) : NULL;
    struct object_name *m = ob ? name_find(n, name) : NULL;
    int rc = 0;
    if (ob && move_is_under_way(ob)) {
        rc = api_fail(n, MOYAI_ESTATE, "the object moves just now");
    } else if (!m || m->owner != ob) {
        rc = api_fail(n, MOYAI_ENOENT, "the object has no name \"%s\"", name ? name : "");
    } else {
        struct moyai_error e = {0};
        if (name_remove(n, m, &e) < 0)
            rc = api_error(n, &e); /* the object has it still, and may be asked again */
        else
            name_free(n, m);
    }
    api_leave(n);
    return rc;
}

void names_lost(void *ctx, const uint8_t key[16]) {
    moyai_node *n = ctx;
    struct object_name *m, *tmp;
    HASH_ITER (hh, n->names, m, tmp) {
        uint8_t k[16];
        overlay_name_key(m->text, k);
        if (!id_equal(k, key)) continue;
        log_error(n->log, "object", "MOYAI-NAME-LOST",
                  "the name \"%s\" was registered twice, in parts of the grid that did not know of each other: it is "
                  "another's now",
                  m->text);
        name_free(n, m);
        return;
    }
}

struct others {
    const moyai_node *n;
    uint8_t parent[16]; /* of moyai run: none of those that were meant. Zero: none */
    size_t found;
};

static bool count_other(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    struct others *o = ctx;
    if (bad || !(node_is(o->n, node->id.b) || id_equal(node->id.b, o->parent))) o->found++;
    return o->found <= OTHERS_MOST;
}

static bool count_linked(const struct overlay_link_info *l, void *ctx) {
    struct others *o = ctx;
    if (!id_equal(l->peer, o->parent)) o->found++;
    return true;
}

/* Nobody has it. A grid other than the one that was meant, or none, is the usual reason: so say which it is, and
 * after a wait (count), whether anybody else is there, and what name was meant. */
static int not_found(moyai_node *n, const char *name, int rc, const char *late, bool count, struct moyai_error *e) {
    struct rdv *r = overlay_rdv(n->o);
    struct others o = {.n = n};
    if (n->config.parent) (void)id_parse(n->config.parent, strlen(n->config.parent), o.parent);
    if (overlay_locates(n->o)) {
        char unmet[OVERLAY_UNMET];
        overlay_each_link(n->o, count_linked, &o);
        unsigned what;
        (void)overlay_unmet(n->o, unmet, &what);
        const bool said = o.found == 0 && unmet[0];
        return err_set(e, rc,
                       "nobody has registered the name \"%.100s\"%s in the grid at \"%.100s\", to which this node has "
                       "%zu link%s%s%s",
                       name, late, n->config.grid, o.found, o.found == 1 ? "" : "s", said ? ": " : "",
                       said ? unmet : "");
    }
    if (!r)
        return err_set(e, rc, "nobody has registered the name \"%s\"%s: this node is alone, as MOYAI_GRID is not set",
                       name, late);
    char where[48] = "";
    struct near like = {.wanted = name, .least = SIZE_MAX};
    if (count && rdv_names(r, near_look, &like, NULL) < 0) like.name[0] = 0;
    if (count && rdv_nodes(r, count_other, &o, NULL) == 0) {
        if (o.found == 0)
            snprintf(where, sizeof where, ", in which there is no other node");
        else
            snprintf(where, sizeof where, ", of %s%zu other node%s", o.found > OTHERS_MOST ? "more than " : "",
                     o.found > OTHERS_MOST ? OTHERS_MOST : o.found, o.found == 1 ? "" : "s");
    }
    bool meant = like.name[0];
    return err_set(e, rc, "nobody has registered the name \"%s\"%s in the grid at \"file:%s\"%s%s%s%s", name, late,
                   rdv_path(r), where, meant ? "; did you mean \"" : "", like.name, meant ? "\"?" : "");
}

static int nobody_has(moyai_node *n, const char *name, int rc, struct moyai_error *e) {
    bool waited = rc == MOYAI_ETIMEDOUT;
    return not_found(n, name, rc, waited ? " in time" : "", waited, e);
}

static int nobody_asked(moyai_node *n, const char *name, struct moyai_error *e) {
    char unmet[OVERLAY_UNMET];
    unsigned what;
    (void)overlay_unmet(n->o, unmet, &what);
    return err_set(e, MOYAI_EUNREACHABLE,
                   "nobody could be asked for the name \"%.100s\": this node has no link to another of the grid at "
                   "\"%.100s\"%s%s",
                   name, n->config.grid, unmet[0] ? ": " : "", unmet);
}

void name_awaited(moyai_node *n, const char *name) {
    struct moyai_error e;
    (void)not_found(n, name, MOYAI_ENOENT, "", true, &e);
    log_warning(n->log, "object", "MOYAI-NAME-AWAITED", "waits for a name and goes on waiting, mistyped? %s", e.text);
}

/* ENOENT: nobody has it now. EBUSY: that is not known. until: where names are located, to wait so long for it. */
static int find(moyai_node *n, const char *name, moyai_ns until, moyai_ref **ret, struct moyai_error *e) {
    struct object *ob = named_here(n, name);
    struct moyai_object_id oid;
    struct moyai_node_id nid = *node_id(n);
    if (ob) {
        memcpy(oid.b, ob->id, 16);
    } else if (drain_gone(n, e) < 0) {
        return e->code;
    } else if (overlay_locates(n->o)) {
        int rc = located_find(n, name, until, oid.b, nid.b, e);
        if (rc == MOYAI_ENOENT || rc == MOYAI_ETIMEDOUT) return nobody_has(n, name, rc, e);
        if (rc == MOYAI_EUNREACHABLE) return nobody_asked(n, name, e);
        if (rc == MOYAI_EBUSY)
            return err_set(
                e, rc,
                "it is not known whether the name \"%.100s\" is registered: not all of the grid at \"%.100s\" "
                "could be asked in time",
                name, n->config.grid);
        if (rc != 0) return rc;
    } else {
        struct rdv *r = overlay_rdv(n->o);
        int rc = r ? rdv_get_name(r, name, is_dead, n, &oid, &nid, e) : MOYAI_ENOENT;
        if (rc == MOYAI_ENOENT) return nobody_has(n, name, rc, e);
        if (rc < 0) return rc;
        if (node_is(n, nid.b)) { /* none of this node's objects has it */
            (void)stale_remove(n, name, NULL);
            return err_set(e, MOYAI_ENOENT, "nobody has the name \"%s\": the object that had it has ended", name);
        }
    }
    moyai_ref *ref = ref_new(n, oid.b, nid.b);
    if (!ref) return err_set(e, MOYAI_ENOMEM, "out of memory for a reference");
    *ret = ref;
    return 0;
}

/* When thousands of objects are looked for at once, as their node has left, those who are asked have no room for what
 * all want to know, and answer nothing: so some at a time. */
#define LOOKS_MOST 128u

static int look_begins(moyai_node *n) {
    int rc = 0;
    while (rc == 0 && n->looks == LOOKS_MOST) {
        struct blocked b;
        blocked_init(n, &b, "waits for others that are looked for");
        wait_add(&n->look_waits, &b);
        rc = block(n, &b, UINT64_MAX, true);
        wait_remove(&b);
    }
    n->looks += rc == 0;
    return rc;
}

static void look_ends(moyai_node *n) {
    struct blocked *b = n->look_waits;
    n->looks--;
    if (b) wait_remove(b);
    if (b) (void)blocked_wake(n, b, 0);
}

int name_where(moyai_node *n, const char *name, uint8_t home[16], struct moyai_error *e) {
    moyai_ref *ref;
    int rc = look_begins(n);
    if (rc < 0) return err_set(e, rc, "%s", moyai_strerror(rc));
    rc = find(n, name, 0, &ref, e);
    look_ends(n);
    if (rc == 0) memcpy(home, ref->home, 16);
    if (rc == 0) moyai_ref_unref(ref);
    return rc;
}

/* It is held at once: whoever else has it has it for the same object, and gives it up. */
int name_arrives(struct object *ob, const char *name, struct moyai_error *e) {
    moyai_node *n = ob->node;
    struct rdv *r = overlay_rdv(n->o);
    struct moyai_object_id oid;
    memcpy(oid.b, ob->id, 16);
    if (name_find(n, name)) return err_set(e, MOYAI_EEXIST, "the name \"%s\" belongs to another object", name);
    struct object_name *m = name_new(ob, name);
    int rc = m ? 0 : err_set(e, MOYAI_ENOMEM, "out of memory for a name");
    if (rc == 0 && r) rc = rdv_put_name(r, name, &oid, node_id(n), is_dead, n, e);
    if (rc == 0 && overlay_locates(n->o) && (rc = overlay_name_claim(n->o, name, ob->id, NULL)) < 0)
        err_set(e, rc, "the name \"%s\" cannot be held: %s", name, moyai_strerror(rc));
    struct name_wait *w = rc == 0 ? wait_find(n, name) : NULL;
    if (w) wait_wake(w);
    if (rc < 0 && m && r && rc != MOYAI_EEXIST) { /* a full disk, say: it is written when that is over */
        m->under = NULL;
        if (!exec_timer_is_set(&n->again_timer)) names_again_soon(n);
    } else if (rc < 0 && m) {
        name_free(n, m);
    }
    return rc;
}

void names_depart(struct object *ob) {
    for (struct object_name *m; (m = ob->names);) {
        (void)name_remove(ob->node, m, NULL); /* a file that is another's already stays */
        name_free(ob->node, m);
    }
}

#define CROWD_FIRST (50 * MOYAI_MS)  /* before it is looked for again where not all could be asked, */
#define CROWD_TIME  (10 * MOYAI_SEC) /* and for how long */

/* Others look for much at the same time: after a while again, each time later. */
static int find_in_crowd(moyai_node *n, const char *name, moyai_ref **ret, struct moyai_error *e) {
    const moyai_ns until = moyai_now() + (moyai_ns)CROWD_TIME;
    int rc = MOYAI_EBUSY;
    for (moyai_dur pause = CROWD_FIRST; rc == MOYAI_EBUSY && moyai_now() < until; pause *= 2) {
        struct blocked b;
        blocked_init(n, &b, "waits to look up a name again");
        rc = block(n, &b, moyai_now() + (moyai_ns)pause, false);
        if (rc == MOYAI_ETIMEDOUT)
            rc = find(n, name, 0, ret, e);
        else if (rc < 0)
            *e = context_get(n)->last;
    }
    if (rc == MOYAI_EBUSY) rc = e->code = MOYAI_EUNREACHABLE;
    return rc;
}

static int lookup(moyai_node *n, const char *name, moyai_ns until, moyai_ref **ret) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct moyai_error e = {0};
    int rc = name ? entry_check_name(name, &e) : err_set(&e, MOYAI_EINVAL, "no name given");
    if (rc == 0 && !ret) rc = err_set(&e, MOYAI_EINVAL, "ret must not be NULL");
    struct rdv *r = overlay_rdv(n->o);
    if (rc == 0) rc = find(n, name, until, ret, &e);
    if (rc == MOYAI_EBUSY) rc = find_in_crowd(n, name, ret, &e);
    if (rc == MOYAI_ENOENT && overlay_locates(n->o)) until = 0; /* has been waited for */
    if (rc == MOYAI_ENOENT && until == UINT64_MAX && !r)        /* no error will ever say it */
        log_warning(n->log, "object", "MOYAI-NAME-ALONE",
                    "waits for the name \"%s\", which nobody but this process can register: MOYAI_GRID is not set",
                    name);
    struct name_wait *w = NULL;
    moyai_ns say = moyai_now() + (moyai_ns)NAME_AWAITED;
    while (rc == MOYAI_ENOENT && until != 0) {
        if (!w && !(w = wait_enter(n, name))) {
            rc = err_set(&e, MOYAI_ENOMEM, "out of memory for waiting for a name");
            break;
        }
        bool looked = true;
        rc = r ? wait_watch(w, r, &looked, &e) : 0;
        if (rc < 0) break;
        rc = looked ? MOYAI_ENOENT : find(n, name, 0, ret, &e); /* it may have appeared before the watch began */
        if (rc != MOYAI_ENOENT) break;
        struct blocked b;
        blocked_init(n, &b, "waits for a name");
        b.name = name;
        wait_add(&w->first, &b);
        rc = block(n, &b, say < until ? say : until, false);
        wait_remove(&b);
        if (rc == MOYAI_ETIMEDOUT && say < until) {
            name_awaited(n, name);
            say = UINT64_MAX;
            rc = 0;
        } else if (rc == MOYAI_ETIMEDOUT)
            nobody_has(n, name, rc, &e);
        else if (rc < 0)
            e = context_get(n)->last;
        if (rc == 0) rc = find(n, name, 0, ret, &e);
    }
    if (w) wait_leave(w);
    if (rc < 0) (void)api_error(n, &e);
    api_leave(n);
    return rc;
}

int moyai_lookup(moyai_node *n, const char *name, moyai_ref **ret) {
    return lookup(n, name, 0, ret);
}

int moyai_lookup_wait(moyai_node *n, const char *name, moyai_dur timeout, moyai_ref **ret) {
    moyai_ns until = timeout == MOYAI_FOREVER ? UINT64_MAX : moyai_now() + (moyai_ns)(timeout > 0 ? timeout : 0);
    return lookup(n, name, until, ret);
}
