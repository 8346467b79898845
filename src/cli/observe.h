/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs that look at a grid share (ping, call, ps, graph): they join it as a node of their own for a moment,
 * which is in no report.
 */
#ifndef CLI_OBSERVE_H
#define CLI_OBSERVE_H

#include "cli/cli.h"
#include "cli/run_grid.h"
#include "cli/unmet.h"
#include <moyai.h>
#include <stdio.h>

/* Those that are known where the grid is met, and did not answer; and those that others know, and that did not. */
#define CRAWL_LOST 3u
struct crawl_lost {
    size_t n, silent; /* of all; of the first CRAWL_LOST of each this: */
    struct {
        char id[33], at[80];
    } of[CRAWL_LOST];
    char silent_id[CRAWL_LOST][33];
    char lines[UNMET_LINE]; /* of their grid file, which nodes of this host run, and which have no link; "": none */
};

#define OBSERVER_DOUBTS 5u

struct observer {
    moyai_node *node;
    const char *title;
    struct run_grid grid;
    moyai_ns until;            /* links are waited for */
    char unlinked[UNMET_LINE]; /* lines of the grid file that had no link when those were last waited for; "": none */
    char unshown[UNMET_LINE];  /* the same, without what the log has shown of them */
    char *shown;               /* that; NULL: nothing. Node lock */
    size_t n_shown;
    bool awaits;            /* it has been logged that they are waited for */
    struct crawl_lost lost; /* of the last crawl */
    char (*seen)[33];       /* ids that it has found, if a node's id was looked for by its beginning */
    size_t n_seen;
    size_t n_doubts, of_lines; /* the latter: which of them is unlinked; OBSERVER_DOUBTS: none */
    char doubt[OBSERVER_DOUBTS][UNMET_LINE];
};

/* Their options. In a parser: the rows at the end of its options, and observe_option in its function: true if it was
 * one of them. */
struct observe_opts {
    struct cli_grid grid;
    moyai_dur timeout;
    bool timed; /* it was given */
    bool json;
};
enum { OBSERVE_GRID = 0x2000, OBSERVE_KEY_FILE, OBSERVE_TIMEOUT, OBSERVE_JSON };
#define OBSERVE_OPTIONS(timeout_help, json_help)                                                                       \
    {"timeout", OBSERVE_TIMEOUT, "TIME", 0, timeout_help, 0}, {"json", OBSERVE_JSON, 0, 0, json_help, 0},              \
        {"grid",                                                                                                       \
         OBSERVE_GRID,                                                                                                 \
         "ADDRESS",                                                                                                    \
         0,                                                                                                            \
         "The grid: a directory, or as MOYAI_GRID (the default); again for several places",                            \
         1},                                                                                                           \
        {"key-file", OBSERVE_KEY_FILE, "FILE", 0, "The grid's keys (default: as MOYAI_KEY_FILE)", 1}, CLI_HELP_OPTIONS
bool observe_option(int key, char *arg, const struct argp_state *state, struct observe_opts *o);

/* The one argument of verbs that look at one node, in the same way. */
bool observe_target(int key, char *arg, const struct argp_state *state, const char **target);

/* Join the grid; none: that of MOYAI_GRID. title: what the node is called. SIGINT and SIGTERM ask it to stop. 0
 * or the exit status, and the reason has been printed. */
int observer_join(struct observer *o, const char *title, const struct observe_opts *opts);
void observer_leave(struct observer *o);

/* For who looks at all nodes, before he does: until each line of the grid file that is this node's to connect through
 * has a link or has failed, as long as the first link is waited for. */
void observer_await_lines(struct observer *o);

/* Why the verb fails: said, and with --json printed as well, as moyai call prints errors. */
void observer_failed(const char *title, bool json, int code, const char *text);
/* The latter alone. */
void observer_print_error(bool json, int code, const char *text);

/* For who looks at all nodes, when he has: are there some that cannot be seen, for want of a key, of a way, or of an
 * answer? o->doubt has a line of each kind, and what to do. The exit status. */
int observer_doubt(struct observer *o, const struct crawl_lost *lost);
/* The same, of o->lost; it is said. */
int observer_doubts(struct observer *o);
/* What the former found, for --json: "complete" and "unseen", the last fields of an object. */
void observer_print_doubts(const struct observer *o);
/* As observer_failed, of who has found none of those that he looked for, with these fields. */
void observer_found_none(const struct observer *o, bool json, int code, const char *text);

/*
 * What is called that: a reference "moyai:OBJECT@NODE"; a node id of 32 hex digits, or eight of them or more with which
 * just one begins; a name that an object has; else the beginning of a node's id, four digits or more, likewise. Nodes
 * are referred to as objects (moyai_node_ref). ENOENT and others, with the text.
 */
int observer_find(struct observer *o, const char *target, moyai_ref **ret, struct moyai_error *why);

/* For people: the next character of the text, *c, and how many bytes it has; *text is behind it then. "?" for what may
 * not come to a terminal, nor into XML: control characters, what is no character at all, and bytes that are no text. */
size_t clean_next(const char **text, const char **c);
void print_clean(FILE *f, const char *text);
/* In columns: how many characters that prints, and blanks behind it up to so many; what is empty is "-". */
int clean_width(const char *text);
void print_cell(FILE *f, const char *text, int width);
/* As many bytes as fit, cut between characters. */
void clean_cut(char *out, size_t cap, const char *text);

#endif
