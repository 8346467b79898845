/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/err.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MORE_MAX 100u  /* and of what is said of others that were not written */
#define TEXT_MAX 1000u /* bytes of a line's text: with its head it is written in one piece also to a pipe */

static const char *const names[] = {"off", "error", "warning", "info", "debug", "trace"};

const char *log_level_name(enum log_level level) {
    return names[level];
}

static bool parse_level(const char *p, size_t n, enum log_level *level) {
    if (n == 4 && memcmp(p, "warn", 4) == 0) { /* what everybody types */
        *level = LOG_LEVEL_WARNING;
        return true;
    }
    for (int i = LOG_LEVEL_OFF; i <= LOG_LEVEL_TRACE; i++) {
        if (strlen(names[i]) == n && memcmp(p, names[i], n) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static const char *const sources[] = LOG_SOURCES;

static bool is_source(const char *p, size_t n) {
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        if (strlen(sources[i]) == n && memcmp(p, sources[i], n) == 0) return true;
    return false;
}

static bool parse_rule(struct moyai_log *log, const char *p, size_t n) {
    const char *eq = memchr(p, '=', n);
    if (!eq) return parse_level(p, n, &log->other);
    size_t len = (size_t)(eq - p);
    if (!is_source(p, len) || log->n_rules == LOG_RULES) return false;
    if (!parse_level(eq + 1, n - len - 1, &log->rules[log->n_rules].level)) return false;
    memcpy(log->rules[log->n_rules].source, p, len);
    log->rules[log->n_rules++].source[len] = 0;
    return true;
}

static bool parse_spec(struct moyai_log *log, const char *spec) {
    for (const char *p = spec;; p++) {
        size_t n = strcspn(p, ",");
        if (!parse_rule(log, p, n)) return false;
        p += n;
        if (*p == 0) return true;
    }
}

static void to_stderr(const struct log_event *ev, void *arg) {
    (void)arg;
    /* One write for one line, so that lines of several processes do not mix. If it fails there is nobody to tell. */
    ssize_t n = write(STDERR_FILENO, ev->line, strlen(ev->line));
    (void)n;
}

int log_init(struct moyai_log *log, const char *spec, struct moyai_error *reterr) {
    memset(log, 0, sizeof *log);
    log->other = LOG_LEVEL_ERROR;
    log->sink = to_stderr;
    int rc = pthread_mutex_init(&log->lock, NULL);
    if (rc) return err_sys(reterr, rc, "cannot make a lock");
    if (spec && *spec && !parse_spec(log, spec)) {
        log->n_rules = 0;
        log->other = LOG_LEVEL_ERROR;
        char list[80] = "";
        for (size_t i = 0, n = 0; i < sizeof sources / sizeof sources[0] && n < sizeof list; i++)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", sources[i]);
        rc = err_set(reterr, MOYAI_EINVAL,
                     "log levels \"%.64s\": expected off, error, warning, info, debug or trace, or a list such as "
                     "\"warning,overlay=debug\" of at most %u sources, which are %s",
                     spec, LOG_RULES, list);
    }
    log->max = log->other;
    for (size_t i = 0; i < log->n_rules; i++) {
        if (log->rules[i].level > log->max) log->max = log->rules[i].level;
    }
    return rc;
}

void log_set_sink(struct moyai_log *log, log_sink_fn fn, void *arg) {
    pthread_mutex_lock(&log->lock);
    log->sink = fn ? fn : to_stderr;
    log->sink_arg = arg;
    pthread_mutex_unlock(&log->lock);
}

bool log_wants(const struct moyai_log *log, enum log_level level, const char *source) {
    if (!log || level > log->max) return false;
    for (size_t i = log->n_rules; i-- > 0;) { /* the last one given counts */
        if (strcmp(log->rules[i].source, source) == 0) return level <= log->rules[i].level;
    }
    return level <= log->other;
}

/* ---- what is held back ----------------------------------------------------------------------- */

/* Of a client's address the port is another each time, and out of the range in which the system chooses. */
static size_t client_port(const char *text, const char *colon) {
    if (*colon != ':' || colon == text || !(isdigit((unsigned char)colon[-1]) || colon[-1] == ']')) return 0;
    size_t n = strspn(colon + 1, "0123456789");
    return n == 5 && strncmp(colon + 1, "32768", 5) >= 0 ? n : 0;
}

static uint64_t hash_of(const char *source, const char *id, const char *text) {
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *p = source; *p; p++) h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    for (const char *p = id; *p; p++) h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    for (const char *p = text; *p; p++) {
        h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
        p += client_port(text, p);
    }
    return h ? h : 1;
}

/* Its place, or that of what was not heard for longest. The lock is held. */
static struct log_fact *find_fact(struct moyai_log *log, uint64_t hash) {
    struct log_fact *oldest = log->facts;
    for (struct log_fact *f = log->facts; f < log->facts + LOG_FACTS; f++) {
        if (f->hash == hash) return f;
        if (f->heard < oldest->heard) oldest = f;
    }
    return oldest;
}

/* NULL: there is no place. The lock is held. */
static struct log_count *find_count(struct moyai_log *log, const char *id) {
    struct log_count *c = log->counts, *end = c + LOG_IDS;
    while (c < end && c->id[0] && strncmp(c->id, id, sizeof c->id - 1) != 0) c++;
    if (c == end) return NULL;
    if (!c->id[0]) snprintf(c->id, sizeof c->id, "%s", id);
    return c;
}

/* May this be written? *repeated: how often it was not, for being the same; *left_out: how many others of that id, for
 * being too many. The lock is held. What there is no place for is not counted. */
static bool counts(struct moyai_log *log, enum log_level level, const char *source, const char *id, const char *text,
                   uint32_t *repeated, uint32_t *left_out) {
    moyai_ns now = moyai_now();
    struct log_count *c = find_count(log, id);
    if (!c) return true;
    uint64_t hash = level == LOG_LEVEL_WARNING ? hash_of(source, id, text) : 0;
    struct log_fact *f = find_fact(log, hash);
    bool known = hash && f->hash == hash && now - f->heard < (moyai_ns)LOG_FORGET;
    c->level = level;
    c->source = source;
    if (known && f->again && now - f->said < (moyai_ns)f->pause) {
        f->heard = now;
        f->times++;
        return false;
    }
    if (c->n == 0 || now - c->since >= (moyai_ns)LOG_SPAN) {
        c->since = now;
        c->n = 0;
    }
    if (c->n == LOG_BURST) {
        c->left_out++;
        return false;
    }
    c->n++;
    *left_out = c->left_out;
    c->left_out = 0;
    if (!hash) return true;
    *repeated = f->hash == hash ? f->times : 0;
    if (f->hash != hash) log->counts[f->of].left_out += f->times; /* another's: nobody else will say so */
    moyai_dur pause = known && f->again ? 2 * f->pause : LOG_REPEAT;
    *f = (struct log_fact){.hash = hash,
                           .said = now,
                           .heard = now,
                           .again = known,
                           .pause = pause < LOG_REPEAT_MOST ? pause : LOG_REPEAT_MOST,
                           .of = (uint32_t)(c - log->counts)};
    return true;
}

static void put(struct moyai_log *log, enum log_level level, const char *source, const char *id, const char *text) {
    struct timespec t;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    char line[TEXT_MAX + MORE_MAX + 200];
    snprintf(line, sizeof line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %.*s %.64s %s\n", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, t.tv_nsec / 1000000, names[level],
             (int)LOG_SOURCE, source, id, text);
    const struct log_event ev = {
        .wall = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec,
        .level = level,
        .source = source,
        .id = id,
        .text = text,
        .line = line,
    };
    pthread_mutex_lock(&log->lock);
    log->sink(&ev, log->sink_arg);
    pthread_mutex_unlock(&log->lock);
}

/* like: which others it is shown with, and counted. */
static void write_like(struct moyai_log *log, enum log_level like, enum log_level level, const char *source,
                       const char *id, const char *fmt, va_list ap) {
    if (!log_wants(log, like, source)) return;
    char raw[TEXT_MAX + 1], text[TEXT_MAX + MORE_MAX];
    size_t n = utf8_printed(raw, sizeof raw, vsnprintf(raw, sizeof raw, fmt, ap));
    utf8_line(text, TEXT_MAX + 1, raw, n);
    uint32_t repeated = 0, left_out = 0;
    bool go = like > LOG_LEVEL_WARNING;
    if (!go) {
        pthread_mutex_lock(&log->lock);
        go = counts(log, like, source, id, text, &repeated, &left_out);
        pthread_mutex_unlock(&log->lock);
    }
    if (!go) return;
    n = strlen(text);
    if (repeated) n += (size_t)snprintf(text + n, sizeof text - n, " (%u times since this was said)", repeated);
    if (left_out) snprintf(text + n, sizeof text - n, " (%u before this were left out)", left_out);
    put(log, level, source, id, text);
}

void log_write(struct moyai_log *log, enum log_level level, const char *source, const char *id, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_like(log, level, level, source, id, fmt, ap);
    va_end(ap);
}

void log_write_mended(struct moyai_log *log, const char *source, const char *id, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    write_like(log, LOG_LEVEL_ERROR, LOG_LEVEL_INFO, source, id, fmt, ap);
    va_end(ap);
}

static void say_left_out(struct moyai_log *log, moyai_ns before) {
    for (size_t i = 0; i < LOG_IDS; i++) {
        char text[48];
        pthread_mutex_lock(&log->lock);
        struct log_count *c = &log->counts[i], was = *c;
        bool due = c->left_out && c->since <= before;
        if (due) c->left_out = 0;
        pthread_mutex_unlock(&log->lock);
        snprintf(text, sizeof text, "%u more of these were left out", was.left_out);
        if (due) put(log, was.level, was.source, was.id, text);
    }
}

void log_left_out(struct moyai_log *log) {
    moyai_ns now = moyai_now();
    if (log && now > (moyai_ns)LOG_SPAN) say_left_out(log, now - (moyai_ns)LOG_SPAN);
}

void log_done(struct moyai_log *log) {
    for (size_t i = 0; i < LOG_FACTS; i++)
        if (log->facts[i].hash) log->counts[log->facts[i].of].left_out += log->facts[i].times;
    say_left_out(log, UINT64_MAX);
    pthread_mutex_destroy(&log->lock);
}
