/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command line, and what they have in common. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <argp.h>
#include <moyai.h>
#include <stdarg.h>

struct log_event;

/* Exit statuses of our own, as of env(1) and timeout(1). */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1, /* verbs that run nothing */
    CLI_USAGE = 2,
    CLI_TIMED_OUT = 124,
    CLI_BROKEN = 125, /* moyai run itself failed */
    CLI_CANNOT_RUN = 126,
    CLI_NOT_FOUND = 127,
    CLI_INTERRUPTED = 130, /* verbs that run nothing */
};

/* argv[0] is what messages call the verb ("moyai run"). Returns the exit status, or exits with a usage hint. */
int cli_run(int argc, char **argv);
int cli_key(int argc, char **argv);
int cli_endpoint(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_ping(int argc, char **argv);
int cli_call(int argc, char **argv);
int cli_ps(int argc, char **argv);
int cli_graph(int argc, char **argv);
int cli_node(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_leave(int argc, char **argv);
int cli_move(int argc, char **argv);

/* One line "TITLE: TEXT" on standard error, and argp_error, of whatever: say.c. cli_line_of: such a text. */
void cli_say(const char *title, const char *fmt, ...) MOYAI_PRINTF(2, 3);
void cli_usage(const struct argp_state *state, const char *fmt, ...) MOYAI_PRINTF(2, 3);
void cli_line_of(char *out, size_t cap, const char *fmt, va_list ap);
/* The node's log is said so, too. title: borrowed. */
void cli_log(moyai_node *n, const char *title);
void cli_show(const char *title, const struct log_event *ev); /* one event of it */
/* Who has begun to end for another reason than a signal is asked by the first one, as if it had been that, and by the
 * second one to be quick. */
#define CLI_TWICE "SIGTERM or Ctrl-C twice"
/* "interrupted", "got SIGTERM" */
const char *cli_signal_text(int sig, char out[40]);

/* -h, --help and --usage, the same for every parser. In a parser: the two rows at the end of its options, ARGP_NO_HELP
 * among its flags, and cli_help first in its function: true if it was one of them (it exits). */
enum { CLI_KEY_HELP = 'h', CLI_KEY_USAGE = 0x1000 };
#define CLI_HELP_OPTIONS                                                                                               \
    {"help", CLI_KEY_HELP, 0, 0, "Print this, and exit", -1}, {                                                        \
        "usage", CLI_KEY_USAGE, 0, 0, "Print the options without explanations, and exit", -1                           \
    }
void cli_help(int key, const struct argp_state *state);

/* argp_parse, which exits where something is wrong; it also says which option was meant by one that there is not.
 * argv[0] is the title. CLI_PROGRAM: the parser takes what follows the first argument as it is. */
enum cli_order { CLI_ANY_ORDER, CLI_IN_ORDER, CLI_PROGRAM };
void cli_parse(const struct argp *parser, int argc, char **argv, enum cli_order order, void *input);

/* What config_parse_duration and config_parse_size take, for --help. */
#define CLI_TIME_FORM                                                                                                  \
    "TIME is a number with one of the units d, h, m (or min), s, ms, us and ns, as in 90s, 500ms or 1.5h; a plain "    \
    "number is seconds."
#define CLI_SIZE_FORM                                                                                                  \
    "SIZE is a number of bytes, also with one of the units k, M, G and T (or KiB, MiB, GiB and TiB) of 1024, or kB, "  \
    "MB, GB and TB of 1000."

/* The value of an option, or what an argument is called ("the node"), is not empty, as a shell's variable that is not
 * set is; exits with a usage hint if it is. */
void cli_filled(const struct argp_state *state, const char *what, const char *text);
/* The value of an option that is a time; exits with a usage hint if it is none. */
moyai_dur cli_duration(const struct argp_state *state, const char *option, const char *text);
/* --leave-deadline, as MOYAI_LEAVE_DEADLINE: of this process and those that it starts. */
void cli_leave_deadline(const struct argp_state *state, const char *text);
#define LEAVE_DEADLINE_HELP                                                                                            \
    "How long who is told to leave may take to finish what it has begun (default: as MOYAI_LEAVE_DEADLINE, 30s)"
/* Into the environment of what is started from here: how long after SIGTERM it is killed (MOYAI_GRACE). */
void cli_tell_grace(moyai_dur grace);
/* That of --timeout, which every verb takes as more than 0: nothing is done in no time. */
moyai_dur cli_timeout(const struct argp_state *state, const char *text);

/* --grid, which may be given several times: all together are the grid's address. */
struct cli_grid {
    const char *all; /* NULL: not given */
    char several[4096];
};
void cli_grid(const struct argp_state *state, struct cli_grid *g, const char *text);
/* The grid to join: what was given, else that of MOYAI_GRID. NULL: neither, or it is empty; that has been said. */
extern const char *cli_grid_called; /* where it was given: --grid or $MOYAI_GRID */
const char *cli_which_grid(const char *title, const struct cli_grid *given);
/* --key-file, for this process and what it starts: as MOYAI_KEY_FILE. */
void cli_key_file(const struct argp_state *state, const char *path);

#endif
