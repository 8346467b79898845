/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs say on standard error. Names and values that stand in it may be anybody's: a file's name may hold line
 * ends, and sequences that a terminal obeys. So each message is made one line of text first.
 */
#include "cli/cli.h"

#include "base/log.h"
#include "base/utf8.h"
#include "node/node.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SAY_MOST = 2 * PATH_MAX };

void cli_line_of(char *out, size_t cap, const char *fmt, va_list ap) {
    char raw[SAY_MOST];
    int n = vsnprintf(raw, sizeof raw, fmt, ap);
    (void)utf8_line(out, cap, raw, n < 0 ? 0 : utf8_printed(raw, sizeof raw, n));
}

void cli_say(const char *title, const char *fmt, ...) {
    char text[SAY_MOST];
    va_list ap;
    va_start(ap, fmt);
    cli_line_of(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s: %s\n", title, text);
}

void cli_usage(const struct argp_state *state, const char *fmt, ...) {
    char text[SAY_MOST];
    va_list ap;
    va_start(ap, fmt);
    cli_line_of(text, sizeof text, fmt, ap);
    va_end(ap);
    argp_error(state, "%s", text);
}

void cli_show(const char *title, const struct log_event *ev) {
    cli_say(title, "%.*s", (int)strcspn(ev->line, "\n"), ev->line);
}

static void say_logged(const struct log_event *ev, void *arg) {
    cli_show(arg, ev);
}

void cli_log(moyai_node *n, const char *title) {
    log_set_sink(node_log(n), say_logged, (void *)(uintptr_t)title);
}

const char *cli_signal_text(int sig, char out[40]) {
    if (sig == SIGINT)
        snprintf(out, 40, "interrupted");
    else
        snprintf(out, 40, "got SIG%.20s", sigabbrev_np(sig) ? sigabbrev_np(sig) : "?");
    return out;
}
