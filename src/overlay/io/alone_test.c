/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of the loss of the last link, and of a link again, at the times at which it is. */
#include "overlay/io/alone.h"

#include "tests/support/fiber_assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LIMIT (100 * MOYAI_SEC) /* hang guard */

static struct world {
    struct moyai_log log;
    struct overlay o;
    struct peer peer;
    struct olink link;
    struct alone alone;
    struct met met;
    char said[900];
    enum log_level level; /* of the last */
    int lines;
    moyai_ns at; /* the last */
} w;

static void sink(const struct log_event *ev, void *arg) {
    (void)arg;
    snprintf(w.said, sizeof w.said, "%s", ev->text);
    w.level = ev->level;
    w.lines++;
    w.at = moyai_now();
}

static int begin(void **state) {
    (void)state;
    memset(&w, 0, sizeof w);
    assert_int_equal(log_init(&w.log, NULL, NULL), 0);
    log_set_sink(&w.log, sink, NULL);
    assert_int_equal(exec_new(&w.o.x, NULL, NULL), 0);
    exec_lock(w.o.x);
    w.o.cfg.log = &w.log;
    w.peer.o = &w.o;
    w.link = (struct olink){.o = &w.o, .peer = &w.peer, .offered = true, .mesh = true};
    w.o.links = &w.link;
    w.met.began = moyai_now();
    (void)met_add(&w.met, "http://gw:7471/lab");
    (void)met_add(&w.met, "10.0.0.2:7472");
    alone_init(&w.alone, &w.o, &w.met);
    return 0;
}

static int end(void **state) {
    (void)state;
    alone_close(&w.alone);
    exec_unlock(w.o.x);
    exec_free(w.o.x);
    log_done(&w.log);
    return 0;
}

static void link_is(bool used) {
    if (!used) alone_lost(&w.alone, &w.link);
    w.link.mesh = used;
    alone_look(&w.alone);
}

static void serve(moyai_ns until) {
    static const atomic_bool never;
    (void)exec_serve(w.o.x, &never, until);
}

static void says(const char *text) {
    const int before = w.lines;
    const moyai_ns limit = moyai_now() + (moyai_ns)LIMIT;
    while (w.lines == before && moyai_now() < limit) serve(moyai_now() + 2 * MOYAI_MS);
    if (!strstr(w.said, text)) fail_msg("not \"%s\" but: %s", text, w.said);
}

/* A full node takes a guest, and puts it out again when nobody makes room: that link is no news, as often as it comes.
 */
static void a_guest_has_no_link(void **state) {
    (void)state;
    strcpy(w.peer.title, "worker");
    w.peer.pid = 4711;
    strcpy(w.link.at, "10.0.0.1:7471");
    (void)met_tell(&w.met, 1, MOYAI_EUNREACHABLE, MET_REFUSED, "Connection refused");
    link_is(false);
    says(
        "no link to another host is left; that to node 00000000 (worker, pid 4711) at 10.0.0.1:7471 broke last. Others "
        "are looked for, again within 45 s each time: http://gw:7471/lab: it has not answered; 10.0.0.2:7472: "
        "Connection refused");
    for (int i = 0; i < 3; i++) {
        link_is(true);
        serve(moyai_now() + 2 * MOYAI_SEC); /* the last ends when one that stood from the first on would count */
        link_is(false);
    }
    assert_int_equal(w.lines, 1);
    const moyai_ns since = moyai_now();
    link_is(true);
    says("there is a link to another host again");
    assert_int_equal(w.level, LOG_LEVEL_INFO);
    assert_true(w.at - since >= 5 * (moyai_ns)MOYAI_SEC);
    assert_int_equal(w.lines, 2);
}

/* And a link that is made anew within three seconds is not worth a word. */
static void what_is_back_soon_was_not_lost(void **state) {
    (void)state;
    link_is(false);
    serve(moyai_now() + MOYAI_SEC);
    link_is(true);
    const moyai_ns since = moyai_now();
    link_is(false); /* it counts from here */
    says("no link to another host is left");
    assert_true(w.at - since >= 3 * (moyai_ns)MOYAI_SEC);
    assert_int_equal(w.lines, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_guest_has_no_link, begin, end),
        cmocka_unit_test_setup_teardown(what_is_back_soon_was_not_lost, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
