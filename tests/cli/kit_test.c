/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the command stand on: of a test that fails nothing is left. */
#include "tests/cli/kit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64 };

struct report {
    pid_t pid[MOST];
    size_t n;
    char dir[64];
};

static void descendants(struct report *r, pid_t of) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)of, (int)of);
    char *text = kit_read(path), *next;
    for (char *at = text;; at = next) {
        const long child = strtol(at, &next, 10);
        if (next == at) break;
        assert_true(r->n < MOST);
        r->pid[r->n++] = (pid_t)child;
        descendants(r, (pid_t)child);
    }
    free(text);
}

/* A test that has killed all who would end the programs of its run, and gets no further. */
static _Noreturn void fails(int to) {
    struct report r = {0};
    struct cli c;
    (void)kit_setup(NULL);
    cli_start(&c, NULL, "run", "@h", "family", "sgpd", NULL);
    (void)cli_line(&c, 1, "ready");
    const pid_t keeper = kit_child_of(c.pid), runner = kit_child_of(keeper), guards[] = {c.pid, keeper, runner};
    descendants(&r, runner);
    snprintf(r.dir, sizeof r.dir, "%s", kit_dir());
    for (int i = 0; i < 3; i++) assert_int_equal(kill(guards[i], SIGSTOP), 0);
    for (int i = 3; i-- > 0;) assert_int_equal(kill(guards[i], SIGKILL), 0);
    assert_int_equal(write(to, &r, sizeof r), sizeof r);
    for (;;) pause();
}

static void nothing_is_left(void **state) {
    (void)state;
    int p[2], lives = 0;
    struct report r;
    struct pollfd process[MOST];
    assert_int_equal(pipe(p), 0);
    const pid_t test = fork();
    assert_true(test >= 0);
    if (test == 0) fails(p[1]);
    alarm(KIT_LIMIT);
    assert_int_equal(read(p[0], &r, sizeof r), sizeof r);
    for (size_t i = 0; i < r.n; i++) { /* some have ended with the runner */
        process[lives] = (struct pollfd){.fd = (int)syscall(SYS_pidfd_open, r.pid[i], 0), .events = POLLIN};
        lives += process[lives].fd >= 0;
    }
    assert_true(lives > 0);
    assert_int_equal(kill(test, SIGKILL), 0);
    assert_int_equal(waitpid(test, NULL, 0), test);
    while (lives-- > 0) {
        assert_int_equal(poll(&process[lives], 1, -1), 1);
        close(process[lives].fd);
    }
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", r.dir);
    assert_int_equal(system(command), 0);
    close(p[0]);
    close(p[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
