/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FNV_START UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

void trace_init(struct trace *t, bool keep, FILE *print) {
    *t = (struct trace){.hash = FNV_START, .keep = keep, .print = print};
}

void trace_done(struct trace *t) {
    free(t->text);
    *t = (struct trace){0};
}

static void keep(struct trace *t, const char *line, size_t n) {
    if (t->n + n + 2 > t->cap) {
        size_t cap = 2 * (t->n + n + 2);
        char *p = realloc(t->text, cap);
        if (!p) abort();
        t->text = p;
        t->cap = cap;
    }
    memcpy(t->text + t->n, line, n);
    t->n += n;
    t->text[t->n++] = '\n';
    t->text[t->n] = 0;
}

void trace_line(struct trace *t, moyai_ns now, const char *who, const char *fmt, ...) {
    char line[8192];
    int n = snprintf(line, sizeof line, "%" PRIu64 ".%03u %s ", now / 1000000, (unsigned)(now / 1000 % 1000), who);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    size_t len = (size_t)n + (size_t)m;
    if (len >= sizeof line) len = sizeof line - 1;
    for (size_t i = 0; i < len; i++) t->hash = (t->hash ^ (uint8_t)line[i]) * FNV_PRIME;
    t->lines++;
    if (t->keep) keep(t, line, len);
    if (t->print) fprintf(t->print, "%.*s\n", (int)len, line);
}

/* The length of the next line at *p, which is moved past its leading blanks. */
static size_t next_line(const char **p) {
    *p += strspn(*p, " \n");
    return strcspn(*p, "\n");
}

bool trace_expect(struct trace *t, const char *expected) {
    const char *got = t->text ? t->text : "", *want = expected;
    bool same = true;
    while (same) {
        size_t n = next_line(&got), m = next_line(&want);
        same = n == m && memcmp(got, want, n) == 0;
        if (n == 0 && m == 0) break;
        if (!same) fprintf(stderr, "trace: \"%.*s\"\n   not \"%.*s\"\n", (int)n, got, (int)m, want);
        got += n;
        want += m;
    }
    if (!same) fprintf(stderr, "happened:\n%sexpected:\n%s\n", t->text ? t->text : "", expected);
    t->n = 0;
    if (t->text) t->text[0] = 0;
    return same;
}
