/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_lines.h"

#include <stdlib.h>
#include <string.h>

#define KEEP (4u << 10) /* an empty writer's or stream's memory up to this size stays */

static int put(struct lines_out *o, const void *p, size_t n) {
    if (n == 0) return 0;
    if (o->cap - o->n < n) {
        size_t have = o->n - o->at;
        if (o->at < o->cap / 4 || o->cap - have < n) { /* moving what waits would gain little */
            size_t cap = o->cap < KEEP ? KEEP : o->cap * 2;
            while (cap - have < n) cap *= 2;
            uint8_t *q = realloc(o->p, cap);
            if (!q) return MOYAI_ENOMEM;
            o->p = q;
            o->cap = cap;
        }
        memmove(o->p, o->p + o->at, have);
        o->at = 0;
        o->n = have;
    }
    memcpy(o->p + o->n, p, n);
    o->n += n;
    return 0;
}

void lines_take(struct lines_out *o, size_t n) {
    o->at += n;
    if (o->at < o->n) return;
    o->at = o->n = 0;
    if (o->cap > KEEP * 64) { /* after a burst */
        free(o->p);
        o->p = NULL;
        o->cap = 0;
    }
}

void lines_out_done(struct lines_out *o) {
    free(o->p);
    memset(o, 0, sizeof *o);
}

void lines_in_done(struct lines_out *o, struct lines_in *i) {
    if (o->open == i) o->open = NULL;
    free(i->part);
    i->part = NULL;
    i->n = i->cap = 0;
}

/* Finish somebody else's line. */
static int close_line(struct lines_out *o, const struct lines_in *own) {
    if (!o->open || o->open == own) return 0;
    o->open = NULL;
    return put(o, "\n", 1);
}

/* A piece of a line, in two parts. end: the newline that comes last, the carriage return, or 0. */
static int pass(struct lines_out *o, struct lines_in *i, const uint8_t *p, size_t n, char end) {
    bool only_newline = end == '\n' && i->n + n == 1;
    if (only_newline && i->begun && o->open != i) { /* somebody else's line has ended this one already */
        i->n = 0;
        i->begun = false;
        return 0;
    }
    int rc = close_line(o, i);
    if (rc == 0 && (o->open != i || (o->returned && !only_newline))) rc = put(o, i->prefix, strlen(i->prefix));
    if (rc == 0) rc = put(o, i->part, i->n);
    if (rc == 0) rc = put(o, p, n);
    i->n = 0;
    if (i->cap > KEEP) {
        free(i->part);
        i->part = NULL;
        i->cap = 0;
    }
    o->open = end == '\n' ? NULL : i;
    o->returned = end == '\r';
    i->begun = end != '\n';
    return rc;
}

static int hold(struct lines_in *i, const uint8_t *p, size_t n) {
    if (i->cap - i->n < n) {
        size_t cap = i->cap ? i->cap : 128;
        while (cap - i->n < n) cap *= 2;
        uint8_t *q = realloc(i->part, cap);
        if (!q) return MOYAI_ENOMEM;
        i->part = q;
        i->cap = cap;
    }
    memcpy(i->part + i->n, p, n);
    i->n += n;
    return 0;
}

static const uint8_t *find_end(const struct lines_out *o, const uint8_t *p, size_t n) {
    const uint8_t *nl = memchr(p, '\n', n);
    if (!o->terminal) return nl;
    const uint8_t *cr = memchr(p, '\r', nl ? (size_t)(nl - p) : n);
    /* "\r\n" is one end; at the end of what is there, the newline after it finds its place by itself. */
    return cr && cr + 1 != nl ? cr : nl;
}

int lines_feed(struct lines_out *o, struct lines_in *i, const uint8_t *p, size_t n) {
    int result = 0;
    while (n > 0) {
        const uint8_t *end = find_end(o, p, n);
        size_t k = end ? (size_t)(end - p) + 1 : n;
        int rc;
        if (i->n + k > LINES_MOST) {
            /* Pieces are cut at the limit, whatever the portions in which the bytes have come. */
            k = LINES_MOST - i->n;
            rc = pass(o, i, p, k, 0);
        } else if (end) {
            rc = pass(o, i, p, k, (char)*end);
        } else {
            rc = hold(i, p, k);
        }
        if (rc < 0) result = rc;
        p += k;
        n -= k;
    }
    return result;
}

int lines_end(struct lines_out *o, struct lines_in *i) {
    int rc = 0;
    if (i->n > 0) rc = pass(o, i, NULL, 0, 0);
    if (o->open == i) {
        o->open = NULL;
        int e = put(o, "\n", 1);
        if (e < 0) rc = e;
    }
    i->begun = false;
    return rc;
}

int lines_say(struct lines_out *o, const char *text) {
    int rc = close_line(o, NULL);
    if (rc == 0) rc = put(o, text, strlen(text));
    if (rc == 0) rc = put(o, "\n", 1);
    return rc;
}
