/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/session_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say(char *text, size_t n, const char *fmt, ...) MOYAI_PRINTF(3, 4);
static void say(char *text, size_t n, const char *fmt, ...) {
    size_t at = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text + at, n - at, fmt, ap); /* cut off, as promised */
    va_end(ap);
}

static const char *flag(uint32_t flags, uint32_t bit, const char *letter) {
    return flags & bit ? letter : "";
}

static const char *frame_name(enum session_frame_kind kind) {
    switch (kind) {
    case SESSION_OPEN:
        return "OPEN";
    case SESSION_ACCEPT:
        return "ACCEPT";
    case SESSION_RESUME:
        return "RESUME";
    case SESSION_RESUMED:
        return "RESUMED";
    case SESSION_REFUSE:
        return "REFUSE";
    case SESSION_CLOSE:
        return "CLOSE";
    case SESSION_CLOSED:
        return "CLOSED";
    case SESSION_DATA:
        return "DATA";
    case SESSION_ACK:
        return "ACK";
    case SESSION_GRANT:
        return "GRANT";
    }
    return "?";
}

void session_frame_text(char *text, size_t n, const struct session_frame *f) {
    say(text, n, "%s", frame_name(f->kind));
    if (f->kind == SESSION_REFUSE) return;
    say(text, n, "%" PRIu32, f->path);
    if (f->ack) say(text, n, " ack%" PRIu64, f->ack);
    if (f->kind == SESSION_GRANT) say(text, n, " %" PRIu32 ":%" PRIu64, f->stream, f->allowed);
    if (f->kind != SESSION_DATA) return;
    say(text, n, " #%" PRIu64, f->seq);
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        const struct session_chunk *c = &f->chunks[i];
        say(text, n, " %" PRIu32 ":%s%s%s%" PRIu32, c->stream, flag(c->flags, SESSION_BEGIN, "b"),
            flag(c->flags, SESSION_END, "e"), flag(c->flags, SESSION_ABORT, "x"), c->len);
        if (c->total) say(text, n, "/%" PRIu64, c->total);
    }
}

void session_effect_text(char *text, size_t n, const struct session_effect *fx) {
    switch (fx->kind) {
    case SESSION_FX_OPENED:
        say(text, n, "opened");
        break;
    case SESSION_FX_PATH:
        say(text, n, "path");
        break;
    case SESSION_FX_WANT_PATH:
        say(text, n, "want");
        break;
    case SESSION_FX_DELIVER:
        say(text, n, "%" PRIu32 ":%s%s%" PRIu64 "+%" PRIu32 "/%" PRIu64, fx->stream,
            flag(fx->flags, SESSION_BEGIN, "b"), flag(fx->flags, SESSION_END, "e"), fx->offset, fx->len, fx->total);
        if (fx->skip) say(text, n, "(%" PRIu32 ")", fx->skip);
        break;
    case SESSION_FX_ABORTED:
        say(text, n, "aborted:%" PRIu32, fx->stream);
        break;
    case SESSION_FX_ACKED:
        say(text, n, "acked:%" PRIu64, fx->token);
        break;
    case SESSION_FX_DROPPED:
        say(text, n, "%s:%" PRIu64, fx->executed == MOYAI_NEVER_EXECUTED ? "never" : "maybe", fx->token);
        break;
    case SESSION_FX_CLOSED:
        say(text, n, "closed");
        break;
    case SESSION_FX_FAILED:
        say(text, n, "failed%d", fx->code);
        break;
    }
}
