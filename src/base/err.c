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
    return "MOYAI_E?";
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

/* Put n bytes at text[at...]: one line of well-formed UTF-8, cut between characters. A text may quote what a peer
 * sent, so nothing is taken for granted. Returns the new length; text is terminated. */
static size_t put_line(char text[MOYAI_ERROR_TEXT], size_t at, const char *from, size_t n) {
    const uint8_t *p = (const uint8_t *)from;
    for (size_t i = 0; i < n;) {
        size_t k = utf8_length(p + i, n - i);
        size_t m = k ? k : 1;
        if (at + m > MOYAI_ERROR_TEXT - 1) break;
        if (k == 0 || p[i] == 0x7f) {
            text[at] = '?';
        } else if (p[i] < 0x20) {
            text[at] = p[i] == '\n' || p[i] == '\r' || p[i] == '\t' ? ' ' : '?';
        } else {
            memcpy(text + at, p + i, k);
        }
        at += m;
        i += m;
    }
    text[at] = 0;
    return at;
}

/* vsnprintf into a bounded buffer: the length of what is there; a character cut at its end is left out. */
static size_t format(char *buf, size_t size, const char *fmt, va_list ap) {
    int n = vsnprintf(buf, size, fmt, ap);
    if (n < 0) return 0; /* an encoding error: no text is better than none of the rest */
    if ((size_t)n < size) return (size_t)n;
    size_t end = size - 1;
    for (size_t back = 1; back <= 3 && back < end; back++) {
        uint8_t c = (uint8_t)buf[end - back];
        if (c < 0x80) break;
        if (c < 0xc0) continue; /* a tail: its head is further left */
        size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        return want > back ? end - back : end;
    }
    return end;
}

static void fill(struct moyai_error *e, int code, int sys, const char *fmt, va_list ap) {
    char buf[2 * MOYAI_ERROR_TEXT];
    size_t n = format(buf, sizeof buf, fmt, ap);
    memset(e, 0, sizeof *e);
    e->code = code;
    e->sys = sys;
    e->where = MOYAI_AT_CALLER;
    e->executed = MOYAI_MAY_HAVE_EXECUTED;
    put_line(e->text, 0, buf, n);
}

int err_set(struct moyai_error *reterr, int code, const char *fmt, ...) {
    if (reterr) {
        va_list ap;
        va_start(ap, fmt);
        fill(reterr, code, 0, fmt, ap);
        va_end(ap);
    }
    return code;
}

int err_sys(struct moyai_error *reterr, int sys, const char *fmt, ...) {
    int code = err_of_errno(sys);
    if (reterr) {
        va_list ap;
        va_start(ap, fmt);
        fill(reterr, code, sys, fmt, ap);
        va_end(ap);
        char why[128];
        const char *text = strerror_r(sys, why, sizeof why);
        size_t at = strlen(reterr->text);
        at = put_line(reterr->text, at, ": ", 2);
        put_line(reterr->text, at, text, strlen(text));
    }
    return code;
}

int err_prefix(struct moyai_error *reterr, const char *fmt, ...) {
    if (!reterr) return MOYAI_EINTERNAL;
    char buf[2 * MOYAI_ERROR_TEXT], old[MOYAI_ERROR_TEXT];
    memcpy(old, reterr->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    size_t n = format(buf, sizeof buf, fmt, ap);
    va_end(ap);
    size_t at = put_line(reterr->text, 0, buf, n);
    at = put_line(reterr->text, at, ": ", 2);
    put_line(reterr->text, at, old, strnlen(old, sizeof old));
    return reterr->code;
}
