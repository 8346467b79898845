/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are located among the nodes: a fiber waits for what the overlay is told by others. */
#include "base/err.h"
#include "object/drain.h"
#include "object/internal.h"

#define OTHERS_TIME (3 * MOYAI_SEC) /* for a link, before a look-up that is not to wait for its name gives up */
#define AGAIN_TIME  (8 * MOYAI_SEC) /* as long is a look-up made again, where others are still being linked */
#define AGAIN_PAUSE (500 * MOYAI_MS)

struct asking {
    struct name_ask ask; /* first */
    moyai_node *node;
    struct blocked b;
    bool told;
    int code;
    uint8_t object[16], home[16];
    bool known; /* object and home */
};

static void on_told(struct name_ask *ask, int code, const uint8_t object[16], const uint8_t node[16]) {
    struct asking *a = (struct asking *)ask;
    a->told = true;
    a->code = code;
    a->known = object != NULL;
    if (object) {
        memcpy(a->object, object, 16);
        memcpy(a->home, node, 16);
    }
    (void)blocked_wake(a->node, &a->b, 0);
}

static void begin(moyai_node *n, struct asking *a, const char *what) {
    *a = (struct asking){.node = n, .ask.told = on_told};
    blocked_init(n, &a->b, what);
}

/* Nobody answers any more. */
static int ended(moyai_node *n, struct moyai_error *e) {
    return drain_gone(n, e) < 0 ? e->code : err_set(e, MOYAI_ECLOSED, "this node leaves its grid");
}

/* rc: of asking. name: to be said if it takes long; or NULL. */
static int wait_for(struct asking *a, int rc, moyai_ns until, bool masked, const char *name) {
    moyai_node *n = a->node;
    if (rc < 0 || a->told) return rc;
    moyai_ns say = name ? moyai_now() + (moyai_ns)NAME_AWAITED : UINT64_MAX;
    a->b.name = name;
    rc = block(n, &a->b, say < until ? say : until, masked);
    if (rc == MOYAI_ETIMEDOUT && say < until && !a->told) { /* it may have been told since the time was over */
        name_awaited(n, name);
        blocked_init(n, &a->b, a->b.what);
        a->b.name = name;
        rc = block(n, &a->b, until, masked);
    }
    overlay_name_drop(n->o, &a->ask);
    return a->told && rc == MOYAI_ETIMEDOUT ? 0 : rc;
}

int located_claim(moyai_node *n, const char *name, const uint8_t object[16], struct moyai_error *e) {
    struct asking a;
    begin(n, &a, "waits for a name to be its own");
    int rc = overlay_name_claim(n->o, name, object, &a.ask);
    if (rc == MOYAI_ECLOSED) return ended(n, e);
    rc = wait_for(&a, rc, UINT64_MAX, true, NULL);
    if (rc == MOYAI_EAGAIN) return err_set(e, MOYAI_ELIMIT, NAMES_FULL);
    if (rc == MOYAI_EEXIST) return err_set(e, rc, "the name \"%s\" belongs to another object of this process", name);
    if (rc < 0) {
        *e = context_get(n)->last; /* block has said why */
        if (e->code != rc) err_set(e, rc, "%s", moyai_strerror(rc));
        overlay_name_release(n->o, name);
        return rc;
    }
    if (a.code == MOYAI_EEXIST) {
        char who[PEER_NAME];
        struct peer *p = overlay_find(n->o, a.home);
        if (p)
            peer_name(p, who);
        else
            entry_called(who, a.home, "", 0);
        return err_set(e, MOYAI_EEXIST, "the name \"%s\" belongs to an object of %s", name, who);
    }
    if (a.code == MOYAI_ECLOSED) return ended(n, e);
    if (a.code == MOYAI_ECANCELED) return err_set(e, a.code, GIVEN_UP, name);
    return a.code < 0 ? err_set(e, a.code, "%s", moyai_strerror(a.code)) : 0;
}

/* ---- has anybody been asked? ----------------------------------------------------------------- */

struct link_wait {
    struct exec_hook hook; /* first */
    moyai_node *node;
    struct blocked *b; /* NULL: it does not wait just now */
};

/* Is there anybody to ask, or certainly nobody? */
static bool others_are_clear(moyai_node *n) {
    const struct overlay_asks a = overlay_asks(n->o);
    return a.linked || a.alone || overlay_left_out(n->o);
}

/* Whatever makes a link, or says who is there, is a turn of the loop. */
static void look_linked(struct exec_hook *h) {
    struct link_wait *w = (struct link_wait *)h;
    if (w->b && others_are_clear(w->node)) (void)blocked_wake(w->node, w->b, 0);
}

/* A node begins without links, and may be without for a moment. 0; ETIMEDOUT; or what block has said. */
static int await_others(moyai_node *n) {
    struct link_wait w = {.hook.fn = look_linked, .node = n};
    moyai_ns until = moyai_now() + (moyai_ns)OTHERS_TIME;
    int rc = 0;
    exec_hook_add(n->x, &w.hook);
    while (rc == 0 && !others_are_clear(n)) {
        struct blocked b;
        blocked_init(n, &b, "waits for a link, to look up a name");
        w.b = &b;
        rc = block(n, &b, until, false);
        w.b = NULL;
    }
    exec_hook_remove(n->x, &w.hook);
    return rc;
}

static int find_once(moyai_node *n, const char *name, moyai_ns until, uint8_t object[16], uint8_t node[16],
                     struct moyai_error *e) {
    struct asking a;
    begin(n, &a, "waits for a name");
    int rc = overlay_name_find(n->o, name, until, &a.ask);
    if (rc == MOYAI_ECLOSED) return ended(n, e);
    rc = wait_for(&a, rc, until ? until : UINT64_MAX, false, name);
    if (rc == MOYAI_EAGAIN) return err_set(e, MOYAI_ELIMIT, "too many look-ups are under way");
    if (rc == MOYAI_ETIMEDOUT) return rc;
    if (rc != 0) {
        *e = context_get(n)->last; /* block has said why */
        return rc;
    }
    if (a.code == MOYAI_ECLOSED) return ended(n, e);
    if (a.code < 0) return until && a.code == MOYAI_ENOENT ? MOYAI_ETIMEDOUT : a.code;
    memcpy(object, a.object, 16);
    memcpy(node, a.home, 16);
    return 0;
}

static int pause_a_moment(moyai_node *n) {
    struct blocked b;
    blocked_init(n, &b, "waits to look up a name again");
    int rc = block(n, &b, moyai_now() + (moyai_ns)AGAIN_PAUSE, false);
    return rc == MOYAI_ETIMEDOUT ? 0 : rc;
}

/* Is it true that the name is nowhere, as a look-up has found that began then? Or is it not to be made again? */
static bool is_sure(const struct overlay_asks *a, moyai_ns began, bool twice, moyai_ns again) {
    if (!a->linked) return a->alone || twice;
    return began > a->sure || (twice && !a->late) || moyai_now() > again;
}

/* That a name is nowhere is said only if somebody was asked, or nobody else is there. Who has got all his links just
 * now asks once more: when there was none, others may have been without as well; and who was without for long, as when
 * the only relay has died, until those must have found it, too. A wait goes on while links come and go, and says no
 * more than that its time is over. */
int located_find(moyai_node *n, const char *name, moyai_ns until, uint8_t object[16], uint8_t node[16],
                 struct moyai_error *e) {
    const moyai_ns again = moyai_now() + (moyai_ns)AGAIN_TIME;
    int rc = 0;
    for (unsigned i = 0; rc == 0; i++) {
        if (!until && (rc = await_others(n)) != 0) break;
        moyai_ns began = moyai_now();
        rc = find_once(n, name, until, object, node, e);
        if (rc != MOYAI_ENOENT) return rc;
        const struct overlay_asks a = overlay_asks(n->o);
        if (is_sure(&a, began, i > 0, again)) break;
        rc = a.late ? pause_a_moment(n) : 0;
    }
    if (rc == MOYAI_ENOENT) {
        const struct overlay_asks a = overlay_asks(n->o);
        if (a.linked || a.alone) return rc;
        rc = MOYAI_ETIMEDOUT;
    }
    if (rc == MOYAI_ETIMEDOUT) return MOYAI_EUNREACHABLE;
    *e = context_get(n)->last; /* block has said why */
    return rc;
}
