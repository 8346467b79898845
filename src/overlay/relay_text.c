/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/relay_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(char *text, size_t n, const char *fmt, ...) MOYAI_PRINTF(3, 4);
static void add(char *text, size_t n, const char *fmt, ...) {
    size_t at = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    if (at < n) (void)vsnprintf(text + at, n - at, fmt, ap);
    va_end(ap);
}

const char *relay_code_text(enum relay_code code) {
    static const char *const text[RELAY_CODES] = {"closed", "broken", "no-route", "dead",    "left",   "no-memory",
                                                  "loop",   "ttl",    "leaving",  "refused", "cleared"};
    return code < RELAY_CODES ? text[code] : "unknown";
}

void relay_frame_text(char *text, size_t n, const struct relay_frame *f) {
    switch (f->kind) {
    case RELAY_PATH:
        add(text, n, "PATH%" PRIu32 " %d>%d hops%" PRIu32 " credit%" PRIu32, f->label, f->from.b[0], f->to.b[0],
            f->hops, f->amount);
        break;
    case RELAY_ERROR:
        add(text, n, "ERROR%" PRIu32 " %s by%d", f->label, relay_code_text(f->code), f->node.b[0]);
        break;
    case RELAY_CREDIT:
        add(text, n, "CREDIT%" PRIu32 " %" PRIu32, f->label, f->amount);
        break;
    case RELAY_CLOSE:
        add(text, n, "CLOSE%" PRIu32, f->label);
        break;
    case RELAY_BLOCKED:
        add(text, n, "BLOCKED%" PRIu32, f->label);
        break;
    case RELAY_TAKE:
        add(text, n, "TAKE%" PRIu32 " %" PRIu32, f->label, f->amount);
        break;
    case RELAY_GIVE:
        add(text, n, "GIVE%" PRIu32 " %" PRIu32, f->label, f->amount);
        break;
    case RELAY_KINDS:
        break;
    }
}

void relay_effect_text(char *text, size_t n, const struct relay_effect *fx) {
    uint32_t path = relay_index(fx->path) + 1;
    switch (fx->kind) {
    case RELAY_FX_OPENED:
        add(text, n, "p%" PRIu32 ":opened", path);
        break;
    case RELAY_FX_ROUTE:
        add(text, n, "p%" PRIu32 ":route %d>%d", path, fx->from.b[0], fx->id.b[0]);
        if (fx->link) add(text, n, " not%" PRIu64, fx->link);
        if (fx->amount) add(text, n, " again%" PRIu32, fx->amount);
        break;
    case RELAY_FX_ARRIVED:
        add(text, n, "p%" PRIu32 ":arrived from%d", path, fx->id.b[0]);
        break;
    case RELAY_FX_DELIVER:
        add(text, n, "p%" PRIu32 ":got%" PRIu64, path, fx->token);
        break;
    case RELAY_FX_ROOM:
        add(text, n, "p%" PRIu32 ":room%" PRIu32, path, fx->amount);
        break;
    case RELAY_FX_LEAVING:
        add(text, n, "p%" PRIu32 ":leaving by%d", path, fx->id.b[0]);
        break;
    case RELAY_FX_SHORT:
        add(text, n, "p%" PRIu32 ":short", path);
        break;
    case RELAY_FX_DOWN:
        add(text, n, "p%" PRIu32 ":down %s by%d", path, relay_code_text(fx->code), fx->id.b[0]);
        break;
    case RELAY_FX_FREE:
        add(text, n, "free%" PRIu64, fx->token);
        break;
    case RELAY_FX_WAKE:
        add(text, n, "wake%" PRIu64, fx->link);
        break;
    case RELAY_FX_WITHDRAWN:
        add(text, n, "withdrawn");
        break;
    }
}
