/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OWN_CODES (-1000) /* a method's own codes: this and below */

const char *moyai_strerror(int code) {
    switch (code) {
    case MOYAI_OK:
        return "success";
#define X(name, value, category, text)                                                                                 \
    case name:                                                                                                         \
        return text;
        MOYAI_ERROR_TABLE(X)
#undef X
    }
    return code <= OWN_CODES ? "the method failed with a code of its own" : "unknown error";
}

const char *moyai_err_name(int code) {
    switch (code) {
    case MOYAI_OK:
        return "MOYAI_OK";
#define X(name, value, category, text)                                                                                 \
    case name:                                                                                                         \
        return #name;
        MOYAI_ERROR_TABLE(X)
#undef X
    }
    return code <= OWN_CODES ? "own code" : "MOYAI_E?";
}

enum moyai_category moyai_err_category(int code) {
    switch (code) {
    case MOYAI_OK:
        return MOYAI_CAT_OK;
#define X(name, value, category, text)                                                                                 \
    case name:                                                                                                         \
        return MOYAI_CAT_##category;
        MOYAI_ERROR_TABLE(X)
#undef X
    }
    return code <= OWN_CODES ? MOYAI_CAT_PEER : MOYAI_CAT_INTERNAL;
}

const char *moyai_category_name(enum moyai_category category) {
    switch (category) {
    case MOYAI_CAT_OK:
        return "ok";
    case MOYAI_CAT_SIGNAL:
        return "signal";
    case MOYAI_CAT_RETRY:
        return "retry";
    case MOYAI_CAT_CLOSED:
        return "closed";
    case MOYAI_CAT_PEER:
        return "peer";
    case MOYAI_CAT_USAGE:
        return "usage";
    case MOYAI_CAT_RESOURCE:
        return "resource";
    case MOYAI_CAT_DATA:
        return "data";
    case MOYAI_CAT_STATE:
        return "state";
    case MOYAI_CAT_INTERNAL:
        return "internal";
    }
    return "?";
}

int err_of_errno(int sys) {
    switch (sys) {
    case ENOSPC:
    case EDQUOT:
        return MOYAI_ENOSPC;
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return MOYAI_ELIMIT; /* of pthread_create, fork and their kin */
    case ENOMEM:
        return MOYAI_ENOMEM;
    case EACCES:
    case EPERM:
        return MOYAI_EPERM;
    }
    return MOYAI_ESYS;
}

enum { BUFFER = 4 * MOYAI_ERROR_TEXT };
static const char gap[] = " ... ";

/*
 * Texts may quote what a peer sent: they are made one line of well-formed UTF-8. Contexts are put before what is there,
 * one a layer and one a call, so a text that is too long loses its middle: who failed is in front, the cause behind.
 */
void err_fit(char *text, size_t cap, const char *from, size_t n) {
    if (n < cap) {
        utf8_line(text, cap, from, n);
        return;
    }
    const size_t front = cap / 2 - 8;
    size_t at = utf8_line(text, front + 1, from, n);
    memcpy(text + at, gap, sizeof gap - 1);
    at += sizeof gap - 1;
    size_t rest = n - (cap - 1 - at);
    while (rest < n && ((unsigned char)from[rest] & 0xc0) == 0x80) rest++; /* not within a character */
    utf8_line(text + at, cap - at, from + rest, n - rest);
}

static void fill(struct moyai_error *e, int code, int sys, const char *text, size_t n) {
    memset(e, 0, sizeof *e);
    e->code = code;
    e->sys = sys;
    e->where = MOYAI_AT_CALLER;
    e->executed = MOYAI_MAY_HAVE_EXECUTED;
    err_fit(e->text, sizeof e->text, text, n);
}

int err_vset(struct moyai_error *reterr, int code, const char *fmt, va_list ap) {
    if (reterr) {
        char buf[BUFFER];
        size_t n = utf8_printed(buf, sizeof buf, vsnprintf(buf, sizeof buf, fmt, ap));
        fill(reterr, code, 0, buf, n);
    }
    return code;
}

int err_set(struct moyai_error *reterr, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    err_vset(reterr, code, fmt, ap);
    va_end(ap);
    return code;
}

/* Put ": " and more behind the n bytes in buf; there is room. */
static size_t join(char *buf, size_t n, const char *more) {
    return n + (size_t)sprintf(buf + n, ": %s", more);
}

int err_sys(struct moyai_error *reterr, int sys, const char *fmt, ...) {
    int code = err_of_errno(sys);
    if (reterr) {
        char buf[BUFFER], why[128];
        const size_t room = sizeof buf - 2 * sizeof why;
        va_list ap;
        va_start(ap, fmt);
        size_t n = utf8_printed(buf, room, vsnprintf(buf, room, fmt, ap));
        va_end(ap);
        n = join(buf, n, strerror_r(sys, why, sizeof why));
        if (sys == EMFILE) n += (size_t)sprintf(buf + n, " (raise ulimit -n)");
        fill(reterr, code, sys, buf, n);
    }
    return code;
}

/* The length of the context of one word, "name: ", that the text begins with; 0: none. */
static size_t context_of(const char *text) {
    size_t n = strcspn(text, " ");
    return n >= 2 && text[n] && text[n - 1] == ':' ? n + 1 : 0;
}

/*
 * Calls within calls: each puts the name of its method in front. What does not fit then is names between the outermost
 * and the reason, which stays whole: "a: b: ... no space left". False: that does not make it fit.
 */
static bool leave_out_names(char *buf, size_t n, const char *old) {
    static const char left_out[] = "... ";
    const char *reason = old;
    for (size_t k; (k = context_of(reason)) || strncmp(reason, left_out, sizeof left_out - 1) == 0;)
        reason += k ? k : sizeof left_out - 1;
    size_t need = sizeof left_out - 1 + strlen(reason);
    if (n + need >= MOYAI_ERROR_TEXT) return false;
    for (size_t k; old < reason && (k = context_of(old)) && n + k + need < MOYAI_ERROR_TEXT; old += k, n += k)
        memcpy(buf + n, old, k);
    sprintf(buf + n, "%s%s", left_out, reason);
    return true;
}

int err_prefix(struct moyai_error *reterr, const char *fmt, ...) {
    if (!reterr) return MOYAI_EINTERNAL;
    char buf[BUFFER], old[MOYAI_ERROR_TEXT];
    const size_t room = sizeof buf - sizeof old - 2;
    size_t len = strnlen(reterr->text, sizeof old - 1);
    memcpy(old, reterr->text, len);
    old[len] = 0;
    va_list ap;
    va_start(ap, fmt);
    size_t n = utf8_printed(buf, room, vsnprintf(buf, room, fmt, ap)), all = join(buf, n, old);
    va_end(ap);
    if (all >= MOYAI_ERROR_TEXT && leave_out_names(buf, n + 2, old)) all = strlen(buf);
    err_fit(reterr->text, sizeof reterr->text, buf, all);
    return reterr->code;
}
