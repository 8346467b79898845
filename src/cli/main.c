/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai VERB ...: finds the verb. Each verb has a file, a parser of its own (argp), --help, and a page in section 1.
 */
#include "cli/cli.h"

#include "base/config.h"
#include "base/near.h"

#include <errno.h>
#include <fcntl.h>
#include <moyai/base.h>
#include <poll.h>
#include <signal.h>
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
    {"move", "moyai move", cli_move},
    {"leave", "moyai leave", cli_leave},
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

/* One of several addresses: DIR is file:DIR, which who joins looks for. */
static size_t add_place(const struct argp_state *state, struct cli_grid *g, size_t n, const char *text) {
    static const char blanks[] = " \t\n";
    const char *dir = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    if (strpbrk(text, blanks) && access(dir, F_OK) == 0)
        cli_usage(
            state,
            "--grid: '%s' is not the address of a grid: white space stands between several addresses, and in none "
            "of them",
            dir);
    bool directory = !strchr(text, ':') && text[strspn(text, blanks)] && !strpbrk(text, blanks);
    int more = snprintf(g->several + n, sizeof g->several - n, "%s%s%s", n ? " " : "", directory ? "file:" : "", text);
    if (more < 0 || (size_t)more >= sizeof g->several - n) cli_usage(state, "--grid: the addresses are too long");
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

void cli_filled(const struct argp_state *state, const char *what, const char *text) {
    if (!*text) cli_usage(state, "%s: it is empty; is a variable not set?", what);
}

moyai_dur cli_duration(const struct argp_state *state, const char *option, const char *text) {
    moyai_dur d = 0;
    int rc = config_parse_duration(text, &d);
    if (rc == MOYAI_ERANGE) cli_usage(state, "--%s: '%s' is more than 292 years", option, text);
    if (rc < 0) cli_usage(state, "--%s: '%s' is not a time such as 500ms, 90s, 5m, 12h or 7d", option, text);
    return d;
}

void cli_tell_grace(moyai_dur grace) {
    char text[40];
    snprintf(text, sizeof text, "%lldns", (long long)(grace > 0 ? grace : 1)); /* 0 is: nobody kills */
    (void)setenv("MOYAI_GRACE", text, 1);
}

void cli_leave_deadline(const struct argp_state *state, const char *text) {
    if (cli_duration(state, "leave-deadline", text) < MOYAI_MS)
        cli_usage(state, "--leave-deadline: a node needs some time to leave in order: 1ms is the least");
    if (setenv("MOYAI_LEAVE_DEADLINE", text, 1) < 0) argp_failure(state, CLI_FAILED, errno, "--leave-deadline");
}

moyai_dur cli_timeout(const struct argp_state *state, const char *text) {
    moyai_dur d = cli_duration(state, "timeout", text);
    if (d <= 0) cli_usage(state, "--timeout: '%s' is no time at all", text);
    return d;
}

static void warn_of_unknown(const char *name, const char *value, const char *like, void *arg) {
    (void)value;
    cli_say((const char *)arg, "%s is not a setting of moyai%s%s%s", name,
            like ? "; did you mean " : " (moyai config lists all)", like ? like : "", like ? "?" : "");
}

struct parsed {
    const struct verb *verb;
    bool help; /* of the verb */
    int next;  /* index of the verb's arguments */
};

struct all_verbs {
    char text[200];
};

static struct all_verbs all_verbs(void) {
    struct all_verbs all = {""};
    size_t n = 0;
    for (size_t i = 0; i < N_VERBS && n < sizeof all.text; i++)
        n += (size_t)snprintf(all.text + n, sizeof all.text - n, "%s%s", i ? ", " : "", verbs[i].name);
    return all;
}

/* All there are, and which was meant, if that is to be guessed. */
static void unknown_verb(const struct argp_state *state, const char *arg) {
    char meant[40] = "";
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < N_VERBS; i++) {
        if (near_is(arg, verbs[i].name, &least)) snprintf(meant, sizeof meant, " (did you mean '%s'?)", verbs[i].name);
    }
    if (near_is(arg, "help", &least)) snprintf(meant, sizeof meant, " (did you mean 'help'?)");
    cli_usage(state, "unknown verb '%s'%s; the verbs are: %s, and help", arg, meant, all_verbs().text);
}

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
        if (!p->verb) unknown_verb(state, arg);
        if (p->help && state->next < state->argc) cli_usage(state, "unknown argument '%s'", state->argv[state->next]);
        p->next = state->next;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        cli_usage(state, "no verb; there are: %s, and help", all_verbs().text);
        return 0;
    case ARGP_KEY_END:
        if (p->help && !p->verb) argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/*
 * Standard output, of all verbs and of --help: stdio on a function of ours, since stdio tells that a write has failed,
 * but not why, and a node ignores SIGPIPE.
 *
 * What could not be written is an error, also when it is found out only at the end. If its reader has gone, we end as a
 * program does that writes there by itself: by SIGPIPE, without a word.
 */
struct out {
    const char *title;
    bool ignored; /* SIGPIPE, by who started us */
    int sys;      /* errno of the first write that failed; then there are no more */
};

static ssize_t write_out(void *arg, const char *p, size_t n) {
    struct out *o = arg;
    size_t done = 0;
    while (done < n && o->sys == 0) {
        ssize_t k = write(STDOUT_FILENO, p + done, n - done);
        if (k >= 0) {
            done += (size_t)k;
        } else if (errno == EAGAIN) { /* somebody who has it as well made it so */
            (void)poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            o->sys = errno;
        }
    }
    return (ssize_t)done;
}

static void open_stdout(struct out *o) {
    struct sigaction pipe;
    o->ignored = sigaction(SIGPIPE, NULL, &pipe) == 0 && pipe.sa_handler == SIG_IGN;
    FILE *f = fopencookie(o, "w", (cookie_io_functions_t){.write = write_out});
    if (!f || setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ) != 0) {
        cli_say(o->title, "out of memory");
        _exit(CLI_FAILED);
    }
    stdout = f;
}

static void close_stdout(int status, void *arg) {
    struct out *o = arg;
    (void)fclose(stdout);
    if (close(STDOUT_FILENO) < 0 && o->sys == 0) o->sys = errno;
    if (o->sys == 0) return;
    if (o->sys == EPIPE && !o->ignored) {
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        signal(SIGPIPE, SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &pipe, NULL);
        raise(SIGPIPE);
    }
    cli_say(o->title, "cannot write to standard output: %s", strerror(o->sys));
    _exit(status ? status : CLI_FAILED);
}

/* A descriptor below 3 that is not open would be given to the next file that is. What is written to it fails, as it
 * would have: it can be read only. */
static void open_standard(void) {
    int fd;
    do fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd < 3);
    if (fd >= 3) close(fd);
    for (int i = 0; i < 3; i++)
        if (fd >= 0) (void)fcntl(i, F_SETFD, 0);
}

static int run_verb(int argc, char **argv, struct out *out) {
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
               "  move      move an object to another node\n"
               "  leave     tell nodes to leave a grid in order\n"
               "  key       make, show and replace the keys of a grid\n"
               "  endpoint  serve as a meeting point of grids\n"
               "  config    show all options, their values and where they come from\n"
               "  help      show this, or with a verb, that verb's help\n"
               "\nEach verb has --help and a manual page (moyai-VERB).",
    };
    argp_err_exit_status = CLI_USAGE;
    struct parsed p = {0};
    cli_parse(&parser, argc, argv, CLI_PROGRAM, &p);
    char *title = (char *)(uintptr_t)p.verb->title; /* argp prints it and does not write to it */
    out->title = title;
    if (p.help) {
        char help[] = "--help";
        char *ask[] = {title, help, NULL};
        return p.verb->run(2, ask);
    }
    char **rest = argv + p.next - 1; /* the verb's own place becomes its argv[0] */
    rest[0] = title;
    if (p.verb->run != cli_config) config_unknown(warn_of_unknown, title); /* which lists them itself */
    return p.verb->run(argc - p.next + 1, rest);
}

int main(int argc, char **argv) {
    struct out out = {.title = "moyai"};
    open_standard();
    open_stdout(&out);
    (void)on_exit(close_stdout, &out);
    exit(run_verb(argc, argv, &out)); /* and not return: it looks at `out` */
}
