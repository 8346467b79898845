/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the public interface share: a private grid, child processes that play a role in it, and checks
 * that say what the library said.
 *
 * A test program is a process of its own with a temporary directory as grid and run directory. Children are the same
 * program started again with --role; they die with it, and a janitor removes the directory however the test
 * ends. A check that fails ends the process: cmocka's own leave by longjmp, which must not leave a fiber.
 *
 * Nothing here sleeps to wait for something. A test that hangs is ended by SIGALRM.
 */
#ifndef TESTS_PUBLIC_KIT_H
#define TESTS_PUBLIC_KIT_H

#include "tests/support/fiber_assert.h"

#include <moyai.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

/* ---- the program ----------------------------------------------------------------------------- */

/* What a child may be asked to be; run's value is its exit status. The list ends with a NULL name. */
struct kit_role {
    const char *name;
    int (*run)(int argc, char **argv); /* arguments of kit_child */
};

/* The main function of a test program: plays a role, or makes the grid and runs tests(). */
int kit_main(int argc, char **argv, const struct kit_role *roles, int (*tests)(void));

/* A number that is not the same in every run, printed, and given back with --seed N. */
uint64_t kit_seed(void);

bool kit_long(void); /* --long: what takes longer, instead of the ordinary tests */

const char *kit_dir(void);  /* the grid's directory */
const char *kit_grid(void); /* "file:" and the directory */

/* n numbers that all processes of the test see: a file of the grid's directory, zeros at first; or one with a path, for
 * those that are not in that grid. */
_Atomic uint32_t *kit_shared(const char *name, size_t n);

/* ---- child processes ------------------------------------------------------------------------- */

/* Start a child in a role, with arguments up to NULL. An argument with '=' before any other becomes a
 * variable of its environment. */
pid_t kit_child(const char *role, ...) __attribute__((sentinel));
/* The same with its standard error in a file of the grid's directory: "err." and the pid; kit_stderr reads it. */
pid_t kit_child_quiet(const char *role, ...) __attribute__((sentinel));
char *kit_stderr(pid_t pid); /* malloc'ed */

int kit_reap(pid_t pid);  /* wait for its end: the status of waitpid */
bool kit_gone(pid_t pid); /* has it ended? Then it is reaped. For children that need this process until then */
void kit_kill(pid_t pid); /* SIGKILL and wait */
void kit_stop(pid_t pid); /* SIGSTOP, and wait until it has stopped */
void kit_cont(pid_t pid);
void kit_end(pid_t pid); /* SIGTERM to a child that serves: it must end in order, with status 0 */

/* For a role: serve one object under a name until SIGTERM, then end in order. opts may be NULL. */
int kit_serve(const struct moyai_node_opts *opts, const struct moyai_class *cls, void *self, const char *name);

/* ---- nodes and objects ----------------------------------------------------------------------- */

moyai_node *kit_node(const struct moyai_node_opts *opts); /* opts may be NULL */
moyai_ref *kit_object(moyai_node *n, const struct moyai_class *cls, void *self);
moyai_ref *kit_lookup(moyai_node *n, const char *name); /* waits until it is there */
moyai_set *kit_set(moyai_node *n);

/* Let every fiber run until it blocks. Main context or a fiber of the node. */
void kit_settle(moyai_node *n);

/* Let the node work until something has come true, at most for a time that is too long by far. */
#define KIT_UNTIL(n, cond)                                                                                             \
    do {                                                                                                               \
        moyai_ns kit_limit = moyai_now() + (moyai_ns)(240 * MOYAI_SEC);                                                \
        while (!(cond)) {                                                                                              \
            if (moyai_now() > kit_limit) FIBER_FAIL("%s: has not come true: %s", __func__, #cond);                     \
            (void)moyai_sleep_masked(n, 1);                                                                            \
        }                                                                                                              \
    } while (0)

/* Compute without calling the library for a while: long enough for the progress thread to take over. */
void kit_compute(moyai_dur d);

/* ---- checks ---------------------------------------------------------------------------------- */

/* The call returned 0 or more; else the program ends and says what went wrong. */
#define KIT_OK(expr)                                                                                                   \
    do {                                                                                                               \
        int kit_rc = (expr);                                                                                           \
        if (kit_rc < 0) FIBER_FAIL("%s: %s: %s", __func__, #expr, moyai_err_name(kit_rc));                             \
    } while (0)

/* The call returned exactly this code. */
#define KIT_RC(expr, code)                                                                                             \
    do {                                                                                                               \
        int kit_rc = (expr);                                                                                           \
        if (kit_rc != (code))                                                                                          \
            FIBER_FAIL("%s: %s: %s (%d), not %s", __func__, #expr, kit_rc < 0 ? moyai_err_name(kit_rc) : "ok", kit_rc, \
                       #code);                                                                                         \
    } while (0)

/* The future has failed with this code, at this place, this far. Its text goes to the caller's buffer or nowhere. */
#define KIT_FAILED(f, code_, where_, executed_) kit_failed(__FILE__, __LINE__, f, code_, where_, executed_)
struct moyai_error kit_failed(const char *file, int line, moyai_future *f, int code, enum moyai_where where,
                              enum moyai_executed executed);

/* The text holds that part. */
#define KIT_TEXT(text, part)                                                                                           \
    do {                                                                                                               \
        if (!strstr(text, part)) FIBER_FAIL("%s: \"%s\" does not hold \"%s\"", __func__, text, part);                  \
    } while (0)

#endif
