/* SPDX-License-Identifier: Apache-2.0 */
/* Who still listens, who does not, and who is just ceasing to. */
#include "overlay/io/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

static struct world {
    struct exec *x;
    struct tcp_addr at;
    int listener, told, refused;
} w;

static int begin(void **state) {
    (void)state;
    struct tcp_addr a;
    w = (struct world){0};
    assert_int_equal(exec_new(&w.x, NULL, NULL), 0);
    exec_lock(w.x);
    assert_int_equal(tcp_parse("127.0.0.1:0", &a, NULL), 0);
    assert_int_equal(tcp_listen(&w.listener, &a, 0, 0, &w.at, NULL), 0);
    return 0;
}
static int end(void **state) {
    (void)state;
    exec_unlock(w.x);
    exec_free(w.x);
    if (w.listener >= 0) close(w.listener);
    return 0;
}

static void turns(moyai_dur most, const int *until) {
    static const atomic_bool never;
    moyai_ns limit = moyai_now() + (moyai_ns)most;
    while (!*until && moyai_now() < limit) (void)exec_serve(w.x, &never, moyai_now() + (moyai_ns)MOYAI_MS);
}

static void on_told(void *arg, bool refused) {
    assert_ptr_equal(arg, &w);
    w.told++;
    w.refused += refused;
}

static void stop_listening(void) {
    close(w.listener);
    w.listener = -1;
}

static void nobody_listens(void **state) {
    (void)state;
    stop_listening();
    assert_non_null(probe_new(w.x, &w.at, LIMIT, on_told, &w));
    assert_int_equal(w.told, 0);
    turns(LIMIT, &w.told);
    assert_int_equal(w.told, 1);
    assert_int_equal(w.refused, 1);
}

/* Links of a killed process may break before its listening socket is gone. */
static void the_listener_goes_last(void **state) {
    (void)state;
    for (int accepted = 0; accepted < 2; accepted++) {
        w.told = w.refused = 0;
        assert_non_null(probe_new(w.x, &w.at, LIMIT, on_told, &w));
        int fd = -1;
        struct tcp_addr from;
        for (moyai_ns limit = moyai_now() + (moyai_ns)LIMIT; accepted && fd < 0 && moyai_now() < limit;) {
            turns(MOYAI_MS, &w.told);
            if (tcp_accept(w.listener, &fd, &from, NULL) < 0) fd = -1;
        }
        turns(20 * MOYAI_MS, &w.told);
        assert_int_equal(w.told, 0);
        stop_listening();
        if (fd >= 0) close(fd);
        turns(LIMIT, &w.told);
        assert_int_equal(w.told, 1);
        assert_int_equal(w.refused, 1);
        if (!accepted) assert_int_equal(tcp_listen(&w.listener, &w.at, 0, 0, &from, NULL), 0);
    }
}

static void who_listens_does_not_refuse(void **state) {
    (void)state;
    assert_non_null(probe_new(w.x, &w.at, 30 * MOYAI_MS, on_told, &w));
    turns(LIMIT, &w.told);
    assert_int_equal(w.told, 1);
    assert_int_equal(w.refused, 0);
}

static void one_given_up_says_nothing(void **state) {
    (void)state;
    struct probe *p = probe_new(w.x, &w.at, LIMIT, on_told, &w);
    probe_cancel(p);
    p = probe_new(w.x, &w.at, LIMIT, on_told, &w);
    turns(10 * MOYAI_MS, &w.told);
    probe_cancel(p);
    probe_cancel(NULL);
    stop_listening();
    turns(10 * MOYAI_MS, &w.told);
    assert_int_equal(w.told, 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void) {
    alarm(600);
    const struct CMUnitTest tests[] = {TEST(nobody_listens), TEST(the_listener_goes_last),
                                       TEST(who_listens_does_not_refuse), TEST(one_given_up_says_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
