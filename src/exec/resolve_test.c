/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/resolve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

struct answer {
    struct exec *x;
    atomic_bool stop;
    int told, n;
    uint16_t port;
    bool loopback;
    char why[100];
};

static void on_answer(void *arg, const struct addrinfo *list, const char *why) {
    struct answer *a = arg;
    a->told++;
    snprintf(a->why, sizeof a->why, "%s", why ? why : "");
    for (const struct addrinfo *i = list; i; i = i->ai_next) {
        a->n++;
        if (i->ai_family == AF_INET) {
            const struct sockaddr_in *v4 = (const struct sockaddr_in *)i->ai_addr;
            a->port = ntohs(v4->sin_port);
            a->loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
        }
    }
    atomic_store(&a->stop, true);
    exec_kick(a->x);
}

static void ask(struct answer *a, const char *host) {
    a->told = a->n = 0;
    atomic_store(&a->stop, false);
    assert_non_null(exec_resolve(a->x, host, 4711, on_answer, a, NULL));
    assert_int_equal(exec_serve(a->x, &a->stop, moyai_now() + (moyai_ns)LIMIT), 0);
    assert_int_equal(a->told, 1);
}

static void names_have_addresses(void **state) {
    (void)state;
    struct answer a = {0};
    assert_int_equal(exec_new(&a.x, NULL, NULL), 0);
    exec_lock(a.x);
    ask(&a, "localhost");
    assert_true(a.n >= 1);
    assert_int_equal(a.port, 4711);
    assert_true(a.loopback);
    ask(&a, "127.0.0.1");
    assert_int_equal(a.n, 1);
    ask(&a, "no such host");
    assert_int_equal(a.n, 0);
    assert_true(a.why[0]);
    exec_unlock(a.x);
    exec_free(a.x);
}

/* Cancelled at once, or left open when the node ends: nobody is told and nothing is touched. */
static void questions_are_cancelled(void **state) {
    (void)state;
    struct answer a = {0};
    assert_int_equal(exec_new(&a.x, NULL, NULL), 0);
    exec_lock(a.x);
    for (int i = 0; i < 20; i++) {
        struct exec_resolve *q = exec_resolve(a.x, i % 2 ? "localhost" : "host.invalid", 1, on_answer, &a, NULL);
        assert_non_null(q);
        if (i % 3 == 0) {
            atomic_bool never = false;
            (void)exec_serve(a.x, &never, moyai_now() + MOYAI_MS);
        }
        if (a.told == 0) exec_resolve_cancel(q);
        a.told = 0;
    }
    exec_resolve_cancel(NULL);
    exec_unlock(a.x);
    exec_free(a.x);
    assert_int_equal(a.told, 0);
}

/* A child that is forked meanwhile, and lives on, has copies of whatever tells the end. */
static void a_child_holds_up_no_answer(void **state) {
    (void)state;
    struct answer a = {0};
    assert_int_equal(exec_new(&a.x, NULL, NULL), 0);
    exec_lock(a.x);
    for (int i = 0; i < 20; i++) {
        a.told = 0;
        atomic_store(&a.stop, false);
        assert_non_null(exec_resolve(a.x, "localhost", 4711, on_answer, &a, NULL));
        exec_unlock(a.x);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            alarm(300);
            for (;;) pause();
        }
        exec_lock(a.x);
        assert_int_equal(exec_serve(a.x, &a.stop, moyai_now() + (moyai_ns)LIMIT), 0);
        assert_int_equal(a.told, 1);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    exec_unlock(a.x);
    exec_free(a.x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_have_addresses),
                                       cmocka_unit_test(questions_are_cancelled),
                                       cmocka_unit_test(a_child_holds_up_no_answer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
