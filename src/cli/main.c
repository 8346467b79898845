/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai VERB ...: finds the verb. Each verb has a file, a parser of its own (argp), --help, and a page in section 1.
 */
#include "cli/cli.h"

#include "base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <moyai/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct verb {
    const char *name, *title;
    int (*run)(int argc, char **argv);
};
static const struct verb verbs[] = {
    {"run", "moyai run", cli_run},
    {"node", "moyai node", cli_node},
    {"ps", "moyai ps", cli_ps},
    {"graph", "moyai graph", cli_graph},
    {"call", "moyai call", cli_call},
    {"ping", "moyai ping", cli_ping},
    {"trace", "moyai trace", cli_trace},
    {"key", "moyai key", cli_key},
    {"endpoint", "moyai endpoint", cli_endpoint},
    {"config", "moyai config", cli_config},
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static const struct verb *find(const char *name) {
    for (size_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    return NULL;
}

void cli_help(int key, const struct argp_state *state) {
    if (key == CLI_KEY_HELP) argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
    if (key == CLI_KEY_USAGE) argp_state_help(state, state->out_stream, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
}

/* One of several addresses: DIR is file:DIR, from here. Returns how long they are then. */
static size_t add_place(const struct argp_state *state, struct cli_grid *g, size_t n, const char *text) {
    char path[PATH_MAX];
    bool directory = !strchr(text, ':');
    if (directory && !realpath(text, path)) argp_error(state, "--grid: '%s': %s", text, strerror(errno));
    int more = snprintf(g->several + n, sizeof g->several - n, "%s%s%s", n ? " " : "", directory ? "file:" : "",
                        directory ? path : text);
    if (more < 0 || (size_t)more >= sizeof g->several - n) argp_error(state, "--grid: the addresses are too long");
    return n + (size_t)more;
}

void cli_grid(const struct argp_state *state, struct cli_grid *g, const char *text) {
    if (g->all) {
        size_t n = g->all == g->several ? strlen(g->all) : add_place(state, g, 0, g->all);
        (void)add_place(state, g, n, text);
        text = g->several;
    }
    g->all = text;
}

moyai_dur cli_duration(const struct argp_state *state, const char *option, const char *text) {
    moyai_dur d = 0;
    int rc = config_parse_duration(text, &d);
    if (rc == MOYAI_ERANGE) argp_error(state, "--%s: '%s' is more than 292 years", option, text);
    if (rc < 0) argp_error(state, "--%s: '%s' is not a time such as 500ms, 90s, 5m, 12h or 7d", option, text);
    return d;
}

struct parsed {
    const struct verb *verb;
    bool help; /* of the verb */
    int next;  /* index of the verb's arguments */
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct parsed *p = state->input;
    cli_help(key, state);
    switch (key) {
    case 'V':
        printf("moyai %s\n", moyai_version());
        exit(CLI_OK);
    case ARGP_KEY_ARG:
        if (!p->help && strcmp(arg, "help") == 0) {
            p->help = true;
            return 0;
        }
        p->verb = find(arg);
        if (!p->verb) argp_error(state, "unknown verb '%s'", arg);
        p->next = state->next;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no verb");
        return 0;
    case ARGP_KEY_END:
        if (p->help && !p->verb) argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What could not be written is an error, also when it is found out only now. */
static void close_stdout(void) {
    bool lost = ferror(stdout);
    if (fclose(stdout) == 0 && !lost) return;
    fprintf(stderr, "moyai: cannot write to standard output: %s\n", strerror(errno));
    _exit(CLI_FAILED);
}

/* A descriptor below 3 that is not open would be given to the next file that is. */
static void open_standard(void) {
    int fd;
    do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd < 3);
    if (fd >= 3) close(fd);
    for (int i = 0; i < 3; i++)
        if (fd >= 0) (void)fcntl(i, F_SETFD, 0);
}

int main(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"version", 'V', 0, 0, "Print the version, and exit", -1}, CLI_HELP_OPTIONS, {0}};
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "VERB [ARGUMENT...]",
        .doc = "Starts and looks after programs of an elastic grid.\v"
               "Verbs:\n"
               "  run       start processes on a grid, and look after them\n"
               "  node      run commands for others: an agent\n"
               "  ps        list the nodes of a grid\n"
               "  graph     show the links between them\n"
               "  call      call a method of an object, or of a node itself\n"
               "  ping      measure round trips to a node\n"
               "  trace     show the way of calls to a node\n"
               "  key       make, show and replace the keys of a grid\n"
               "  endpoint  serve as a meeting point of grids\n"
               "  config    show all options, their values and where they come from\n"
               "  help      show this, or with a verb, that verb's help\n"
               "\nEach verb has --help and a manual page (moyai-VERB).",
    };
    open_standard();
    atexit(close_stdout);
    argp_err_exit_status = CLI_USAGE;
    struct parsed p = {0};
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &p);
    char *title = (char *)(uintptr_t)p.verb->title; /* argp prints it and does not write to it */
    if (p.help) {
        char help[] = "--help";
        char *ask[] = {title, help, NULL};
        return p.verb->run(2, ask);
    }
    char **rest = argv + p.next - 1; /* the verb's own place becomes its argv[0] */
    rest[0] = title;
    return p.verb->run(argc - p.next + 1, rest);
}
