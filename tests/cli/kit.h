/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the command under test. Everything waits for events; alarm(2) is the hang guard. Each run of a test has a
 * runtime directory of its own, in which nothing may be left behind.
 *
 * A run and all that descends from it inherit one end of a pipe ("alive"): its end of file at our side is the event
 * that no process of the run is left.
 */
#ifndef TESTS_CLI_KIT_H
#define TESTS_CLI_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>

#define KIT_LIMIT 240 /* seconds for a whole test program, under sanitizers on a busy machine */

struct kit_text {
    char *p; /* ends with NUL */
    size_t n, cap;
    size_t at; /* lines up to here have been handed out */
    bool ended;
};

struct cli {
    pid_t pid;
    int in; /* -1: closed */
    int alive;
    int fd[2]; /* standard output and standard error, our ends */
    struct kit_text text[2];
    int status; /* exit status, 128+n for a signal; once cli_wait has returned */
};

/* MOYAI, HELPER and NODE: paths of the programs, from the environment. */
const char *kit_program(const char *which);
const char *kit_dir(void); /* the runtime directory, made at the first call */
int kit_setup(void **state);
int kit_teardown(void **state); /* fails if something is left in the runtime directory */
/* Entries in the runtime directory. */
int kit_left(void);

struct cli_opts {
    const char *const *env; /* NAME=VALUE, added; NULL: none */
    int in, out;            /* descriptors to give as standard input and output; 0: pipes of the kit's; -1: closed */
    bool group;             /* in a process group of its own */
    bool terminal;          /* in a session of its own, whose terminal is `in` */
    int files;              /* limit of open files; 0: as it is */
};
/* The words after argv[0], which is the command; NULL ends them. "@h", "@n", "@m": helper, node, the command. */
void cli_start(struct cli *c, const struct cli_opts *o, ...) __attribute__((sentinel));
void cli_startv(struct cli *c, const struct cli_opts *o, const char *const *words);
/* The next line of standard output (1) or standard error (2) that contains needle; fails at the end. It is valid until
 * the next call. */
const char *cli_line(struct cli *c, int fd, const char *needle);
/* Wait until that many lines with needle have come, in any order with others. */
void cli_await(struct cli *c, int fd, const char *needle, int count);
void cli_type(struct cli *c, const char *text);
void cli_close_in(struct cli *c);
/* Read both outputs to their ends and wait; returns the status, and asserts that no process of the run is left. */
int cli_wait(struct cli *c);
/* Wait until no process of the run holds the pipe. */
void cli_await_gone(struct cli *c);
void cli_free(struct cli *c);
/* All of it in one: what is left in c are the texts. */
int cli_do(struct cli *c, ...) __attribute__((sentinel));

/* Number of lines in the text that contain needle. */
int kit_count(const struct kit_text *t, const char *needle);
/* The whole of a file; fails if it is not there. Freed by the caller. */
char *kit_read(const char *path);
/* A child of that process: the keeper of a run's front, and the runner of that. */
pid_t kit_child_of(pid_t pid);

#endif
