/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names (S0/3.3): any object under any string, for the whole grid.
 *
 * At present a name is a file of the rendezvous directory; a node without a grid keeps its names in its objects only.
 * Choices where the paper is silent: a name that a live object has is refused (EEXIST), that of a dead node's object
 * is replaced; a name that is not there yet can be waited for; names end with their object.
 *
 * An object ends whatever its rendezvous says. A name that cannot be removed then (no permission, another process about
 * to replace it) is *stale*: it is tried again after a while, and before it is looked up or given away here.
 */
#include "base/err.h"
#include "object/internal.h"

#include <stdlib.h>

#define STALE_FIRST (100 * MOYAI_MS)
#define STALE_MOST  (10 * MOYAI_SEC)
#define OTHERS_MOST ((size_t)64) /* other nodes that are counted for the text of an error */

static bool is_dead(const struct moyai_node_id *id, void *ctx) {
    moyai_node *n = ctx;
    return overlay_is_dead(n->o, id->b);
}

static struct object *named_here(moyai_node *n, const char *name) {
    struct object *ob, *tmp;
    HASH_ITER (hh, n->objects, ob, tmp)
        for (struct object_name *m = ob->names; m; m = m->next)
            if (strcmp(m->text, name) == 0) return ob;
    return NULL;
}

static void names_changed(void *arg) {
    moyai_node *n = arg;
    for (struct blocked *b = n->lookups; b; b = b->wait_next) (void)blocked_wake(n, b, 0);
    n->lookups = NULL;
}

/* ---- stale names ----------------------------------------------------------------------------- */

/* Remove it from the rendezvous. 0: it is not there any more. */
static int name_remove(moyai_node *n, const struct object_name *m, struct moyai_error *why) {
    struct rdv *r = overlay_rdv(n->o);
    struct moyai_object_id oid;
    memcpy(oid.b, m->object, 16);
    int rc = r ? rdv_del_name(r, m->text, &oid, &n->id, why) : 0;
    return rc == MOYAI_ENOENT ? 0 : rc;
}

static void stale_due(struct exec *x, struct exec_timer *t) {
    moyai_node *n = (moyai_node *)((char *)t - offsetof(moyai_node, stale_timer));
    struct object_name **q = &n->stale;
    while (*q) {
        struct object_name *m = *q;
        if (name_remove(n, m, NULL) < 0) {
            q = &m->next;
            continue;
        }
        *q = m->next;
        free(m);
    }
    if (!n->stale) return;
    n->stale_wait = n->stale_wait < STALE_MOST / 2 ? 2 * n->stale_wait : STALE_MOST;
    exec_timer_set(x, t, moyai_now() + (moyai_ns)n->stale_wait);
}

/* Is the name stale? Then it is removed now: 0 (it was, or is not), or why it cannot be. */
static int stale_remove(moyai_node *n, const char *name, struct moyai_error *e) {
    for (struct object_name **q = &n->stale, *m; (m = *q);) {
        struct moyai_error why = {0};
        if (strcmp(m->text, name) != 0) {
            q = &m->next;
            continue;
        }
        int rc = name_remove(n, m, &why);
        if (rc < 0) {
            if (!e) return rc;
            *e = why;
            return err_prefix(e, "the object that had the name \"%s\" has ended, but the name is still there", name);
        }
        *q = m->next;
        free(m);
    }
    return 0;
}

void names_remove(struct object *ob) {
    moyai_node *n = ob->node;
    while (ob->names) {
        struct object_name *m = ob->names;
        struct moyai_error why = {0};
        ob->names = m->next;
        if (name_remove(n, m, &why) == 0) {
            free(m);
            continue;
        }
        log_warning(n->log, "object", "MOYAI-NAME-REMOVE", "%s", why.text);
        if (!n->stale) {
            n->stale_wait = STALE_FIRST;
            exec_timer_set(n->x, &n->stale_timer, moyai_now() + (moyai_ns)n->stale_wait);
        }
        m->next = n->stale;
        n->stale = m;
    }
}

void names_init(moyai_node *n) {
    exec_timer_init(&n->stale_timer, stale_due);
}

/* What is still there is met by somebody who finds the node dead. */
void names_done(moyai_node *n) {
    if (n->stale) exec_timer_clear(n->x, &n->stale_timer);
    while (n->stale) {
        struct object_name *m = n->stale;
        n->stale = m->next;
        free(m);
    }
}

/* ---- the public functions -------------------------------------------------------------------- */

int moyai_register(moyai_ref *ref, const char *name) {
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct moyai_error e = {0};
    int rc = name ? entry_check_name(name, &e) : err_set(&e, MOYAI_EINVAL, "no name given");
    struct object *ob = rc == 0 && moyai_ref_is_local(ref) ? object_find(n, ref->object) : NULL;
    struct object *have = ob ? named_here(n, name) : NULL;
    if (rc == 0 && (!ob || ob->ended))
        rc = err_set(&e, MOYAI_ENOOBJECT, "only a living object of this node can be registered");
    else if (rc == 0 && have && have != ob)
        rc = err_set(&e, MOYAI_EEXIST, "the name \"%s\" belongs to another object of this process", name);
    if (rc == 0 && !have) {
        struct object_name *m = malloc(sizeof *m + strlen(name) + 1);
        if (!m) rc = err_set(&e, MOYAI_ENOMEM, "out of memory for a name");
        struct rdv *r = overlay_rdv(n->o);
        if (rc == 0) rc = stale_remove(n, name, &e);
        if (rc == 0 && r) {
            struct moyai_object_id oid = moyai_ref_object(ref);
            rc = rdv_put_name(r, name, &oid, &n->id, is_dead, n, &e);
        }
        if (rc == 0) {
            strcpy(m->text, name);
            memcpy(m->object, ob->id, 16);
            m->next = ob->names;
            ob->names = m;
            names_changed(n); /* who waits in this process without a grid hears it from here */
        } else {
            free(m);
        }
    }
    if (rc < 0) {
        e.executed = MOYAI_NEVER_EXECUTED;
        (void)api_error(n, &e);
    }
    api_leave(n);
    return rc;
}

int moyai_unregister(moyai_ref *ref, const char *name) {
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct object *ob = name && moyai_ref_is_local(ref) ? object_find(n, ref->object) : NULL;
    struct object_name **q = ob ? &ob->names : NULL;
    while (q && *q && strcmp((*q)->text, name) != 0) q = &(*q)->next;
    int rc = 0;
    if (!q || !*q) {
        rc = api_fail(n, MOYAI_ENOENT, "the object has no name \"%s\"", name ? name : "");
    } else {
        struct moyai_error e = {0};
        if (name_remove(n, *q, &e) < 0) {
            rc = api_error(n, &e); /* the object has it still, and may be asked again */
        } else {
            struct object_name *m = *q;
            *q = m->next;
            free(m);
        }
    }
    api_leave(n);
    return rc;
}

struct others {
    const moyai_node *n;
    size_t found;
};

static bool count_other(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    struct others *o = ctx;
    if (bad || !id_equal(node->id.b, o->n->id.b)) o->found++;
    return o->found <= OTHERS_MOST;
}

/* Nobody has it. A grid other than the one that was meant, or none, is the usual reason: so say which it is, and after
 * a wait, whether anybody else is there. */
static int not_found(moyai_node *n, const char *name, int rc, struct moyai_error *e) {
    struct rdv *r = overlay_rdv(n->o);
    const char *late = rc == MOYAI_ETIMEDOUT ? " in time" : "";
    if (!r)
        return err_set(e, rc, "nobody has registered the name \"%s\"%s: this node is alone, as MOYAI_GRID is not set",
                       name, late);
    char where[48] = "";
    struct others o = {n, 0};
    if (rc == MOYAI_ETIMEDOUT && rdv_nodes(r, count_other, &o, NULL) == 0) {
        if (o.found == 0)
            snprintf(where, sizeof where, ", in which there is no other node");
        else
            snprintf(where, sizeof where, ", of %s%zu other node%s", o.found > OTHERS_MOST ? "more than " : "",
                     o.found > OTHERS_MOST ? OTHERS_MOST : o.found, o.found == 1 ? "" : "s");
    }
    return err_set(e, rc, "nobody has registered the name \"%s\"%s in the grid at \"file:%s\"%s", name, late,
                   rdv_path(r), where);
}

/* ENOENT: nobody has it now. */
static int find(moyai_node *n, const char *name, moyai_ref **ret, struct moyai_error *e) {
    struct object *ob = named_here(n, name);
    struct moyai_object_id oid;
    struct moyai_node_id nid = n->id;
    if (ob) {
        memcpy(oid.b, ob->id, 16);
    } else {
        struct rdv *r = overlay_rdv(n->o);
        int rc = r ? rdv_get_name(r, name, is_dead, n, &oid, &nid, e) : MOYAI_ENOENT;
        if (rc == MOYAI_ENOENT) return not_found(n, name, rc, e);
        if (rc < 0) return rc;
        if (id_equal(nid.b, n->id.b)) { /* none of this node's objects has it */
            (void)stale_remove(n, name, NULL);
            return err_set(e, MOYAI_ENOENT, "nobody has the name \"%s\": the object that had it has ended", name);
        }
    }
    moyai_ref *ref = ref_new(n, oid.b, nid.b);
    if (!ref) return err_set(e, MOYAI_ENOMEM, "out of memory for a reference");
    *ret = ref;
    return 0;
}

static int lookup(moyai_node *n, const char *name, moyai_ns until, moyai_ref **ret) {
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct moyai_error e = {0};
    int rc = name ? entry_check_name(name, &e) : err_set(&e, MOYAI_EINVAL, "no name given");
    struct rdv *r = overlay_rdv(n->o);
    if (rc == 0) rc = find(n, name, ret, &e);
    if (rc == MOYAI_ENOENT && until == UINT64_MAX && !r) /* no error will ever say it */
        log_warning(n->log, "object", "MOYAI-NAME-ALONE",
                    "waits for the name \"%s\", which nobody but this process can register: MOYAI_GRID is not set",
                    name);
    while (rc == MOYAI_ENOENT && until != 0) {
        if (r && !n->watching) {
            rc = rdv_watch(r, n->x, names_changed, n, &e);
            if (rc < 0) break;
            n->watching = true;
            rc = find(n, name, ret, &e); /* it may have appeared before the watch began */
            if (rc != MOYAI_ENOENT) break;
        }
        struct blocked b;
        blocked_init(n, &b, "waits for a name");
        b.wait_next = n->lookups;
        n->lookups = &b;
        rc = block(n, &b, until, false);
        for (struct blocked **q = &n->lookups; *q; q = &(*q)->wait_next)
            if (*q == &b) {
                *q = b.wait_next;
                break;
            }
        if (rc == MOYAI_ETIMEDOUT)
            not_found(n, name, rc, &e);
        else if (rc < 0)
            err_set(&e, rc, "%s", block_why(rc));
        if (rc == 0) rc = find(n, name, ret, &e);
    }
    if (n->watching && !n->lookups) {
        n->watching = false;
        rdv_unwatch(r);
    }
    if (rc < 0 && rc != MOYAI_SIGNALLED) (void)api_error(n, &e);
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
