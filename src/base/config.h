/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: one table of all that can be set, with type, default, unit and help. `moyai config` prints it, the
 * environment and command lines are read by it. To add one: one line in CONFIG_TABLE.
 *
 * Sizes are "65536", "64k", "256MiB", "1GB" (k, K, KiB, M, MiB, G, GiB, T, TiB are powers of 1024; kB, MB, GB, TB of
 * 1000); durations "10s", "500ms", "250us", "5m", "1h", "2d", a plain number is seconds, fractions are fine; bools
 * yes/no, true/false, on/off, 1/0.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <moyai/error.h>
#include <stdio.h>

enum config_type {
    CONFIG_STRING,   /* char *, NULL if neither set nor defaulted */
    CONFIG_SIZE,     /* uint64_t, bytes */
    CONFIG_DURATION, /* moyai_dur */
    CONFIG_INTEGER,  /* int64_t */
    CONFIG_BOOL,     /* bool */
};

/* X(field, C type, type, environment variable, default as text or NULL, least, most, unit, help); the option's name
 * is the field with '-' for '_'. least and most are ignored for strings and bools. */
#define CONFIG_TABLE(X)                                                                                                \
    X(grid, char *, STRING, "MOYAI_GRID", NULL, 0, 0, "address",                                                       \
      "rendezvous of the grid to join: /dir, file:/dir, http://host:port/GRID, host:port of a member, fd:R,W; none: "  \
      "a node alone")                                                                                                  \
    X(run_dir, char *, STRING, "MOYAI_RUN_DIR", NULL, 0, 0, "path",                                                    \
      "directory for sockets, mode 0700; none: $XDG_RUNTIME_DIR/moyai, then /tmp/moyai-UID")                           \
    X(key_file, char *, STRING, "MOYAI_KEY_FILE", NULL, 0, 0, "path",                                                  \
      "the grid's keys, mode 0600; none: $XDG_CONFIG_HOME/moyai/key, then ~/.config/moyai/key")                        \
    X(listen, char *, STRING, "MOYAI_LISTEN", NULL, 0, 0, "addresses",                                                 \
      "numeric addresses of this host to listen at, each with or without a port, or any; none: any")                   \
    X(advertise, char *, STRING, "MOYAI_ADVERTISE", NULL, 0, 0, "addresses",                                           \
      "host[:port] by which others reach it, where they are not those at which it listens")                            \
    X(port_range, char *, STRING, "MOYAI_PORT_RANGE", NULL, 0, 0, "ports",                                             \
      "first-last, to listen at one of them; none: any")                                                               \
    X(outbound_only, bool, BOOL, "MOYAI_OUTBOUND_ONLY", "no", 0, 0, "",                                                \
      "nobody can connect to this host: do not listen")                                                                \
    X(site, char *, STRING, "MOYAI_SITE", NULL, 0, 0, "name",                                                          \
      "nodes of one site can connect to each other; none: the host's domain")                                          \
    X(grid_file, char *, STRING, "MOYAI_GRID_FILE", NULL, 0, 0, "path",                                                \
      "what is to be forwarded by ssh to clusters that nothing else reaches; none: nothing")                           \
    X(ssh, char *, STRING, "MOYAI_SSH", "ssh", 0, 0, "program", "program run to forward ports, of OpenSSH's kind")     \
    X(degree, int64_t, INTEGER, "MOYAI_DEGREE", "15", 1, 16, "links",                                                  \
      "links a node opens in a grid of several hosts; it takes three times as many")                                   \
    X(relay_memory, uint64_t, SIZE, "MOYAI_RELAY_MEMORY", "64MiB", 1, INT64_MAX, "bytes",                              \
      "memory for what passes through this node on its way between others")                                            \
    X(parent, char *, STRING, "MOYAI_PARENT", NULL, 0, 0, "node id",                                                   \
      "the process that started this one and witnesses its end; set by moyai run")                                     \
    X(title, char *, STRING, "MOYAI_TITLE", NULL, 0, 0, "text",                                                        \
      "what reports call this process, cut after 63 bytes; none: the program's name")                                  \
    X(max_fibers, int64_t, INTEGER, "MOYAI_MAX_FIBERS", "25000", 1, 10000000, "calls",                                 \
      "calls in progress at once in a node")                                                                           \
    X(stack, uint64_t, SIZE, "MOYAI_STACK", "256KiB", 16384, 1073741824, "bytes", "stack of one call")                 \
    X(queue_calls, int64_t, INTEGER, "MOYAI_QUEUE_CALLS", "1000000", 1, INT64_MAX, "calls",                            \
      "calls waiting for one peer")                                                                                    \
    X(queue_bytes, uint64_t, SIZE, "MOYAI_QUEUE_BYTES", "256MiB", 4096, INT64_MAX, "bytes",                            \
      "and their bytes; of answers to it as many")                                                                     \
    X(max_message, uint64_t, SIZE, "MOYAI_MAX_MESSAGE", "1GiB", 4096, INT64_MAX, "bytes",                              \
      "arguments or results of one call")                                                                              \
    X(reattach, moyai_dur, DURATION, "MOYAI_REATTACH", "10s", 0, INT64_MAX, "time",                                    \
      "how long a broken session tries to resume before it fails")                                                     \
    X(leave_deadline, moyai_dur, DURATION, "MOYAI_LEAVE_DEADLINE", "30s", 1000000, INT64_MAX, "time",                  \
      "how long a node that is told to leave may take to finish what it has begun")                                    \
    X(grace, moyai_dur, DURATION, "MOYAI_GRACE", "0s", 0, INT64_MAX, "time",                                           \
      "after SIGTERM who runs this process kills it: a node leaves within nine tenths of it, or less; 0s: it does "    \
      "not")                                                                                                           \
    X(session_idle, moyai_dur, DURATION, "MOYAI_SESSION_IDLE", "60s", 0, INT64_MAX, "time",                            \
      "after which an unused session is closed")                                                                       \
    X(log, char *, STRING, "MOYAI_LOG", "error", 0, 0, "levels",                                                       \
      "off, error, warning, info, debug or trace, also for one source: warning,overlay=debug")                         \
    X(events, char *, STRING, "MOYAI_EVENTS", NULL, 0, 0, "path",                                                      \
      "file for the event log (JSON lines); %p stands for the process id; none: no event log")                         \
    X(link_delay, moyai_dur, DURATION, "MOYAI_LINK_DELAY", "0", 0, 3600000000000, "time",                              \
      "for tests: delay of everything sent on a link")                                                                 \
    X(link_rate, uint64_t, SIZE, "MOYAI_LINK_RATE", "0", 0, INT64_MAX, "bytes/s",                                      \
      "for tests: the most a link sends; 0: no limit")                                                                 \
    X(no_install, bool, BOOL, "MOYAI_NO_INSTALL", "no", 0, 0, "",                                                      \
      "the build's scripts install nothing and only list what is missing")

enum config_index {
#define CONFIG_X(field, ctype, type, env, deflt, least, most, unit, help) CONFIG_##field,
    CONFIG_TABLE(CONFIG_X)
#undef CONFIG_X
        CONFIG_COUNT
};

enum config_origin {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_ENVIRONMENT,
    CONFIG_FROM_OPTION, /* config_set: a command line, struct moyai_node_opts */
};

struct config {
#define CONFIG_X(field, ctype, type, env, deflt, least, most, unit, help) ctype field;
    CONFIG_TABLE(CONFIG_X)
#undef CONFIG_X
    uint8_t origin[CONFIG_COUNT]; /* enum config_origin */
};

/* The table, CONFIG_COUNT entries. */
struct config_option {
    const char *field; /* the name with '_' */
    const char *env;
    const char *deflt; /* NULL: none */
    enum config_type type;
    size_t offset; /* in struct config */
    int64_t least, most;
    const char *unit, *help;
};
const struct config_option *config_options(void);
void config_option_name(const struct config_option *o, char name[40]); /* "max-fibers" */

/* Defaults, then the environment; a variable set to nothing counts as not set. EINVAL: the text names variable, value
 * and what is accepted. ENOMEM. Nothing is kept on failure. Reads the environment: not while another thread changes it.
 */
int config_load(struct config *c, struct moyai_error *reterr) MOYAI_MUST_USE;

/* What is wrong with each of the values; code 0: nothing. */
struct config_faults {
    struct moyai_error of[CONFIG_COUNT];
};
/* The same, but what has a bad value gets its default and a fault, which is not a failure: for those who show all. */
int config_load_all(struct config *c, struct config_faults *faults, struct moyai_error *reterr) MOYAI_MUST_USE;
void config_done(struct config *c);

/* Set one by its name ("max-fibers"), as a command line does. EINVAL, ENOENT (no such option), ENOMEM. */
int config_set(struct config *c, const char *name, const char *value, struct moyai_error *reterr) MOYAI_MUST_USE;

/* What texts call an option: "$MOYAI_GRID", or "option grid" if the program has set it (CONFIG_FROM_OPTION, or c is
 * NULL). */
const char *config_called(const struct config *c, enum config_index which);
/* Put that before the text of an error in what the option asks for; not if the system is short of something (memory,
 * descriptors, room on the disk), which is not the option's fault. Returns the error's code. */
int config_blame(struct moyai_error *e, const struct config *c, enum config_index which);

/* Call fn for each variable of the environment that begins with MOYAI_, has a value, and that nobody reads: it is
 * mistyped, most likely. like: the one that is meant, or NULL. The environment as for config_load. */
void config_unknown(void (*fn)(const char *name, const char *value, const char *like, void *arg), void *arg);

/* What is in effect and where it comes from, what is bad, and what is unknown, for people or as one JSON object. 0 or
 * what writing to f reported. */
int config_print(const struct config *c, const struct config_faults *faults, FILE *f, bool json) MOYAI_MUST_USE;

/* 0, or EINVAL (not of that form), ERANGE (too large). */
int config_parse_size(const char *text, uint64_t *ret) MOYAI_MUST_USE;
int config_parse_duration(const char *text, moyai_dur *ret) MOYAI_MUST_USE;
int config_parse_integer(const char *text, int64_t *ret) MOYAI_MUST_USE;
int config_parse_bool(const char *text, bool *ret) MOYAI_MUST_USE;

#endif
