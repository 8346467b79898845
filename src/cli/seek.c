/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/seek.h"

#include "base/dur.h"
#include "base/err.h"
#include "base/utf8.h"
#include "node/node.h"

#include <stdio.h>
#include <string.h>

int seek_interrupted(const struct observer *o, bool json) {
    if (!moyai_node_stopping(o->node)) return 0;
    observer_failed(o->title, json, MOYAI_ECANCELED, "interrupted");
    return CLI_INTERRUPTED;
}

void seek_hint(const char *target, struct moyai_error *why) {
    const size_t digits = strspn(target, "0123456789abcdefABCDEF"), n = strlen(why->text);
    if (why->code != MOYAI_ENOENT) return;
    const bool few = !target[digits] && digits >= 2 && digits <= 3; /* one may be any name's */
    snprintf(why->text + n, sizeof why->text - n, "%s",
             few ? "; of a node's id at least its first four digits are needed"
                 : "; hosts are no names: moyai ps shows the ids of nodes");
}

/* ---- where an object is ---------------------------------------------------------------------- */

/* A node's own id says nothing by its last bit (doc/spec/10-moving.md, 1.1). */
static bool may_move(const moyai_ref *ref) {
    char text[MOYAI_REF_TEXT]; /* "moyai:OBJECT@NODE" */
    static const char odd[] = "13579bdf";
    moyai_ref_format(ref, text);
    return strncmp(text + 6, text + 39, 32) != 0 && strchr(odd, text[37]);
}

static bool is_in(const moyai_value *objects, const moyai_ref *object) {
    bool found = false;
    for (size_t i = 0; objects && !found && i < moyai_value_count(objects); i++) {
        moyai_ref *one = NULL;
        const moyai_value *ref = moyai_value_find(moyai_value_at(objects, i), "ref");
        found = ref && moyai_value_get(ref, MOYAI_INTO(&one)->v[0]) == 0 && moyai_ref_equal(one, object);
        moyai_ref_unref(one);
    }
    return found;
}

/* A node that leaves refuses calls of what it has, and of what it has not. 1: it has it. */
static int has_object(const struct observer *o, struct moyai_node_id id, const moyai_ref *object, moyai_dur timeout) {
    moyai_ref *node = NULL;
    moyai_value *page = NULL; /* the last one's end is where the next begins */
    int rc = moyai_node_ref(o->node, id, &node);
    bool found = false, more = rc == 0;
    while (more && !found) {
        const moyai_value *after = page ? moyai_value_find(page, "next") : NULL;
        moyai_value *next = NULL;
        moyai_future *f = moyai_call_async(node, "objects", after ? MOYAI_ARGS(after) : MOYAI_NONE);
        moyai_future_deadline(f, timeout);
        rc = moyai_future_get(f, MOYAI_INTO(&next));
        moyai_future_free(f);
        moyai_value_free(page);
        page = next;
        found = page && is_in(moyai_value_find(page, "objects"), object);
        after = page ? moyai_value_find(page, "next") : NULL;
        more = after && moyai_value_kind(after) != MOYAI_K_NULL;
    }
    moyai_value_free(page);
    moyai_ref_unref(node);
    return rc < 0 ? rc : found;
}

/* By a call of a method that its class has not got, as the name has this node's id in it: it goes where the object is,
 * as all calls do, and who has the object refuses it. */
int seek_home(const struct observer *o, moyai_ref *object, const char *target, moyai_dur timeout,
              struct moyai_node_id *id, struct moyai_error *why) {
    char method[34] = "@";
    moyai_node_id_format(moyai_node_self(o->node), method + 1);
    moyai_future *f = moyai_call_async(object, method, MOYAI_NONE);
    moyai_future_deadline(f, timeout);
    int rc = moyai_future_get(f, MOYAI_NONE);
    if (rc < 0) (void)moyai_future_error(f, 0, why);
    moyai_future_free(f);
    const bool leaves = rc == MOYAI_ELEAVING && why->where == MOYAI_AT_PEER;
    if (rc == MOYAI_ENOMETHOD || (leaves && has_object(o, why->origin, object, timeout) == 1)) {
        *id = why->origin;
        return 0;
    }
    if (rc == 0) return err_set(why, MOYAI_EINTERNAL, "'%.71s' has a method \"%s\"", target, method);
    seek_unanswered(o, target, moyai_ref_home(object), timeout, why);
    if (rc == MOYAI_ENOOBJECT || rc == MOYAI_EDEAD || rc == MOYAI_ECLOSED || rc == MOYAI_ELEAVING)
        err_prefix(why, "the object that '%.71s' names is nowhere (any more)", target);
    return rc;
}

int seek_node(struct observer *o, const char *target, moyai_dur timeout, struct moyai_node_id *id, moyai_ref **object,
              struct moyai_error *why) {
    moyai_ref *ref = NULL;
    if (object) *object = NULL;
    int rc = observer_find(o, target, &ref, why);
    if (rc < 0) {
        seek_hint(target, why);
        return rc;
    }
    *id = moyai_ref_home(ref);
    if (may_move(ref)) {
        rc = seek_home(o, ref, target, timeout, id, why);
        if (rc == 0 && object) *object = moyai_ref_ref(ref);
    }
    moyai_ref_unref(ref);
    return rc;
}

/* ---- what does not answer -------------------------------------------------------------------- */

bool seek_way(const struct observer *o, struct moyai_node_id id) {
    struct overlay_way way;
    exec_lock(node_exec(o->node));
    const bool known = overlay_way(node_overlay(o->node), &id, 0, &way);
    exec_unlock(node_exec(o->node));
    return known;
}

const char *seek_silence(const struct observer *o, struct moyai_node_id id, const struct moyai_error *why) {
    if (why->executed != MOYAI_NEVER_EXECUTED) return "it was sent, and the node, or one on the way, has not answered";
    if (seek_way(o, id)) return "it could not be sent, as the node, or one on the way, takes nothing: is it stopped?";
    return SEEK_NO_WAY;
}

void seek_unanswered(const struct observer *o, const char *target, struct moyai_node_id id, moyai_dur timeout,
                     struct moyai_error *why) {
    if (why->code != MOYAI_ETIMEDOUT) return;
    const char *reason = seek_silence(o, id, why);
    snprintf(why->text, sizeof why->text, "no answer of '%.*s' within %s: %s",
             (int)utf8_cut(target, strlen(target), 71), target, DUR(timeout), reason);
}

void seek_nobody(const struct observer *o) {
    cli_say(o->title, "nobody is in the grid at '%.200s' now", o->grid.address);
}
