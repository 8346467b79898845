/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log, for operators: one line an event, quiet by default (errors only).
 *
 *     2031-05-06T07:08:09.123Z warning link MOYAI-LINK-RESET link to "8a0f..." reset by the peer
 *
 * The id is stable: people search for it and tests assert it, never the text. The source is the layer. Who handles an
 * error logs it; libraries below return errors. Values that come from elsewhere stand in double quotes.
 *
 * A warning tells of what is so, and an error of what has happened. So a warning that says the same again is written
 * once more, and then when LOG_REPEAT has passed since the last time, then after twice as long, up to LOG_REPEAT_MOST,
 * with how often it came meanwhile; what has not come for LOG_FORGET is new. Ports that the system has given to a
 * client make no difference.
 *
 * That all is well again of which an error has told is an event of level info, and shown where errors are: who was
 * shown that something is wrong must be shown its end, or he looks for what is mended (log_mended).
 *
 * Of errors and warnings of one id at most LOG_BURST are written in LOG_SPAN, whatever others do to provoke them; the
 * next one after that, log_left_out, or the end of the log says how many were left out.
 *
 * $MOYAI_LOG: a comma-separated list of a level for all sources and of source=level: "warning", "debug,overlay=trace",
 * "off". Any thread may log; a sink runs under the log's lock and must not log.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <moyai/error.h>
#include <pthread.h>

enum log_level {
    LOG_LEVEL_OFF,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_TRACE,
};

struct log_event {
    int64_t wall; /* nanoseconds since 1970, UTC */
    enum log_level level;
    const char *source, *id;
    const char *text; /* one line of UTF-8 */
    const char *line; /* all of it as it stands in the log, with its newline */
};
typedef void (*log_sink_fn)(const struct log_event *ev, void *arg);

/* All there are; tools/check-docs compares them with the code. */
#define LOG_SOURCES                                                                                                    \
    { "base", "link", "node", "object", "overlay", "cli" }

#define LOG_RULES       16
#define LOG_IDS         48 /* for which that is counted */
#define LOG_BURST       20u
#define LOG_SPAN        (60 * MOYAI_SEC)
#define LOG_SOURCE      24
#define LOG_FACTS       128 /* that are known again */
#define LOG_REPEAT      (30 * MOYAI_SEC)
#define LOG_REPEAT_MOST (3600 * MOYAI_SEC)
#define LOG_FORGET      (300 * MOYAI_SEC)

struct moyai_log {
    enum log_level max; /* the highest of all: what is above it costs one comparison */
    enum log_level other;
    size_t n_rules;
    struct {
        char source[LOG_SOURCE];
        enum log_level level;
    } rules[LOG_RULES];
    struct log_count {
        char id[40];
        const char *source; /* static */
        enum log_level level;
        moyai_ns since; /* the first of the burst */
        uint32_t n, left_out;
    } counts[LOG_IDS];
    struct log_fact {
        uint64_t hash; /* of id and text; 0: free */
        moyai_ns said, heard;
        moyai_dur pause; /* until it is said again */
        uint32_t times;  /* heard and not said, since then */
        uint32_t of;     /* which of counts */
        bool again;      /* it has been said more than once */
    } facts[LOG_FACTS];
    log_sink_fn sink;
    void *sink_arg;
    pthread_mutex_t lock;
};

/* spec as above; NULL or empty: errors only. EINVAL (a source that there is not, too): what is wrong with it and what
 * is accepted; the log then works as if it were empty. Writes to standard error until a sink is set. */
int log_init(struct moyai_log *log, const char *spec, struct moyai_error *reterr);
void log_done(struct moyai_log *log);
void log_left_out(struct moyai_log *log); /* now and then: says what nothing has said since; NULL is fine */
void log_set_sink(struct moyai_log *log, log_sink_fn fn, void *arg); /* NULL: standard error */

const char *log_level_name(enum log_level level);
bool log_wants(const struct moyai_log *log, enum log_level level, const char *source);
void log_write(struct moyai_log *log, enum log_level level, const char *source, const char *id, const char *fmt, ...)
    MOYAI_PRINTF(5, 6);

void log_write_mended(struct moyai_log *log, const char *source, const char *id, const char *fmt, ...)
    MOYAI_PRINTF(4, 5);

/* Arguments are not evaluated when nobody wants the event. log may be NULL: nobody does. */
#define LOG_AT(log, level, source, id, ...)                                                                            \
    do {                                                                                                               \
        struct moyai_log *log_ = (log);                                                                                \
        if (log_ && (level) <= log_->max) log_write(log_, level, source, id, __VA_ARGS__);                             \
    } while (0)
#define log_mended(log, source, id, ...)                                                                               \
    do {                                                                                                               \
        struct moyai_log *log_ = (log);                                                                                \
        if (log_ && LOG_LEVEL_ERROR <= log_->max) log_write_mended(log_, source, id, __VA_ARGS__);                     \
    } while (0)
#define log_error(log, source, id, ...)   LOG_AT(log, LOG_LEVEL_ERROR, source, id, __VA_ARGS__)
#define log_warning(log, source, id, ...) LOG_AT(log, LOG_LEVEL_WARNING, source, id, __VA_ARGS__)
#define log_info(log, source, id, ...)    LOG_AT(log, LOG_LEVEL_INFO, source, id, __VA_ARGS__)
#define log_debug(log, source, id, ...)   LOG_AT(log, LOG_LEVEL_DEBUG, source, id, __VA_ARGS__)
#define log_trace(log, source, id, ...)   LOG_AT(log, LOG_LEVEL_TRACE, source, id, __VA_ARGS__)

#endif
