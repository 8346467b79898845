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

/* Texts may quote what a peer sent: they are made one line of well-formed UTF-8. Returns the new length. */
static size_t put_line(char text[MOYAI_ERROR_TEXT], size_t at, const char *from, size_t n) {
    return at + utf8_line(text + at, MOYAI_ERROR_TEXT - at, from, n);
}

static void fill(struct moyai_error *e, int code, int sys, const char *fmt, va_list ap) {
    char buf[2 * MOYAI_ERROR_TEXT];
    size_t n = utf8_printed(buf, sizeof buf, vsnprintf(buf, sizeof buf, fmt, ap));
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
        at = put_line(reterr->text, at, text, strlen(text));
        static const char raise[] = " (raise ulimit -n)";
        if (sys == EMFILE) put_line(reterr->text, at, raise, sizeof raise - 1);
    }
    return code;
}

int err_prefix(struct moyai_error *reterr, const char *fmt, ...) {
    if (!reterr) return MOYAI_EINTERNAL;
    char buf[2 * MOYAI_ERROR_TEXT], old[MOYAI_ERROR_TEXT];
    memcpy(old, reterr->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    size_t n = utf8_printed(buf, sizeof buf, vsnprintf(buf, sizeof buf, fmt, ap));
    va_end(ap);
    size_t at = put_line(reterr->text, 0, buf, n);
    at = put_line(reterr->text, at, ": ", 2);
    put_line(reterr->text, at, old, strnlen(old, sizeof old));
    return reterr->code;
}
