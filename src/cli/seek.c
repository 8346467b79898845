/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/seek.h"

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

void seek_nobody(const struct observer *o) {
    cli_say(o->title, "nobody is in the grid at '%.200s' now", o->grid.address);
}
