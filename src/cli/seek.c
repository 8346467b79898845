/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/seek.h"

#include "base/dur.h"
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
    if (why->code != MOYAI_ENOENT || target[digits] || digits < 2 || digits > 3) return; /* one may be any name's */
    snprintf(why->text + n, sizeof why->text - n, "; of a node's id at least its first four digits are needed");
}

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
