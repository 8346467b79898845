/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event log, for programs: what happened, as JSON lines; pictures and reports are drawn from it.
 *
 *     {"moyai-events":1,"moyai":"0.1.0","pid":4711,"wall":1936969689123456789,"mono":86400123456789}
 *     {"wall":1936969689123500000,"mono":86400123500000,"node":"8a0f...","kind":"node-start","title":"squares","pid":4711}
 *
 * The first line of each writer carries the version of the format; a reader skips fields and kinds it does not know.
 * wall is nanoseconds since 1970 (UTC), mono those of CLOCK_BOOTTIME; node is left out by what has none. Several
 * processes may be given one file: lines are appended whole, and the first writer to come when nobody writes to the
 * file empties it.
 *
 * The log never harms the run: what cannot be written (a full disk) ends it, with one line in the operators' log.
 * Any thread may write. What a child process inherits by fork is silent.
 */
#ifndef BASE_EVENTS_H
#define BASE_EVENTS_H

#include "base/log.h"

#define EVENTS_VERSION    1
#define EVENTS_BUFFER     (64u << 10) /* bytes gathered before they are written */
#define EVENTS_TEXT       4096u       /* bytes of one text field; longer ones are cut */
#define EVENTS_FLUSH_TIME MOYAI_SEC   /* and the age at which they are written with the next event */

struct events;

enum event_type { EVENT_TEXT, EVENT_INT, EVENT_DOUBLE };

struct event_field {
    const char *name; /* of a C identifier's letters and '-' */
    enum event_type type;
    union {
        const char *text; /* any bytes; NULL is null */
        int64_t i;
        double d;
    } v;
};

/* path: "%p" in it stands for the process id. log gets the one line when writing fails; it must outlive *ret. */
int events_open(struct events **ret, const char *path, struct moyai_log *log, struct moyai_error *reterr);
void events_close(struct events *e); /* writes what is gathered. NULL is fine */
void events_flush(struct events *e); /* NULL is fine */

/* node may be NULL. e NULL: nothing happens. */
void events_write(struct events *e, const struct moyai_node_id *node, const char *kind,
                  const struct event_field *fields, size_t n);

static inline struct event_field event_text(const char *name, const char *text) {
    struct event_field f = {name, EVENT_TEXT, {.text = text}};
    return f;
}
static inline struct event_field event_int(const char *name, int64_t i) {
    struct event_field f = {name, EVENT_INT, {.i = i}};
    return f;
}
static inline struct event_field event_double(const char *name, double d) {
    struct event_field f = {name, EVENT_DOUBLE, {.d = d}};
    return f;
}

/* EVENT(e, &node, "node-start", event_int("pid", pid), ...): at least one field; they are not evaluated when e is NULL.
 */
#define EVENT(e, node, kind, ...)                                                                                      \
    do {                                                                                                               \
        struct events *events_ = (e);                                                                                  \
        if (events_) {                                                                                                 \
            const struct event_field fields_[] = {__VA_ARGS__};                                                        \
            events_write(events_, node, kind, fields_, sizeof fields_ / sizeof fields_[0]);                            \
        }                                                                                                              \
    } while (0)

#endif
