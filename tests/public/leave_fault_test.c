/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaving where something is wrong, or there is very much of it: it takes no longer than the time for it, nothing is
 * lost within that, and what is cut short is said.
 */
#include "link/key.h"
#include "node/node.h"
#include "object/internal.h"
#include "object/request.h"
#include "tests/public/kit.h"
#include "tests/support/port.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static moyai_node *node;
static _Atomic uint32_t *counts;
enum { BEGUN, ENDED, HOOKS, COUNTS };

/* ---- the one that leaves, and one that calls it ---------------------------------------------- */

/* Until the node leaves. */
static int m_hold(moyai_request *rq, void *self) {
    (void)self;
    counts[BEGUN]++;
    KIT_RC(moyai_sleep(node, MOYAI_FOREVER), MOYAI_ELEAVING);
    counts[ENDED]++;
    return moyai_return(rq, MOYAI_ARGS(1));
}

static int m_never(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    counts[BEGUN]++;
    return moyai_sleep_masked(node, MOYAI_FOREVER);
}

static uint8_t nth(size_t i) {
    return (uint8_t)(i * 7 + i / 251);
}

/* So many bytes, when the node leaves. */
static int m_give(moyai_request *rq, void *self) {
    (void)self;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    uint8_t *p = malloc(n);
    FIBER_ASSERT(p);
    for (size_t i = 0; i < n; i++) p[i] = nth(i);
    counts[BEGUN]++;
    (void)moyai_sleep(node, MOYAI_FOREVER);
    int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
    free(p);
    counts[ENDED]++;
    return rc;
}

static void on_leave(moyai_node *n, moyai_ref *ref, void *self) {
    (void)ref;
    counts[HOOKS]++;
    if (self) (void)moyai_sleep_masked(n, MOYAI_FOREVER);
}

static bool part_from(struct peer *p, void *ctx) {
    size_t *parted = ctx;
    bool untaken = false;
    const struct peer_calls *pc = peer_calls(p, false);
    for (const moyai_request *rq = pc ? pc->served : NULL; rq; rq = rq->peer_next) untaken |= rq->begun && rq->over;
    if (untaken) overlay_break(p, "the test parts them");
    *parted += untaken;
    return true;
}

/* The session with one that does not take its answer ends. Returns whether this node would say then that nothing is in
 * doubt; and whether it would have before. */
static int m_part(moyai_request *rq, void *self) {
    (void)self;
    size_t parted = 0;
    const bool before = !node->unheard;
    counts[BEGUN]++;
    while (parted == 0) {
        (void)moyai_sleep_masked(node, 5 * MOYAI_MS);
        exec_lock(node->x);
        overlay_each_peer(node->o, part_from, &parted);
        exec_unlock(node->x);
    }
    (void)moyai_sleep_masked(node, 50 * MOYAI_MS); /* it ends in a turn of its own */
    exec_lock(node->x);
    const bool after = !node->unheard;
    exec_unlock(node->x);
    return moyai_return(rq, MOYAI_ARGS(before, after));
}

static const struct moyai_method methods[] = {
    {"hold", m_hold}, {"never", m_never}, {"give", m_give}, {"part", m_part}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS_LEAVING("Leaver", methods, NULL, on_leave);

/* NAME [stuck]: with an on_leave that does not return. */
static int role_leaver(int argc, char **argv) {
    counts = kit_shared(argv[0], COUNTS);
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    node = kit_node(&opts);
    moyai_ref *ref = kit_object(node, &cls, argc > 1 ? argv[1] : NULL);
    KIT_OK(moyai_register(ref, argv[0]));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

/* NAME BYTES: has that one give so many. 0: it has them; 10: it knows that it does not. */
static int role_taker(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 2);
    const size_t size = (size_t)atol(argv[1]);
    node = kit_node(NULL);
    moyai_ref *ref = kit_lookup(node, argv[0]);
    moyai_future *f = moyai_call_async(ref, "give", MOYAI_ARGS(size));
    const void *p = NULL;
    size_t n = 0;
    struct moyai_error e = {0};
    const int rc = moyai_future_get(f, MOYAI_INTO(moyai_into_bytes(&p, &n)));
    if (rc < 0) {
        moyai_future_error(f, 0, &e);
        FIBER_ASSERT(e.executed != MOYAI_NEVER_EXECUTED); /* it was */
        FIBER_ASSERT(rc == MOYAI_ECLOSED || rc == MOYAI_EDEAD || rc == MOYAI_EUNREACHABLE);
    } else {
        FIBER_ASSERT(n == size);
        for (size_t i = 0; i < n; i++) FIBER_ASSERT(((const uint8_t *)p)[i] == nth(i));
    }
    moyai_future_free(f);
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return rc < 0 ? 10 : 0;
}

/* ---- the grid: of this host, in the directory of the kit; or of several ---------------------- */

static bool wide;
static char grid[160], key[160];

static void one_host(void) {
    wide = false;
    unsetenv("MOYAI_KEY_FILE");
    setenv("MOYAI_GRID", kit_grid(), 1);
    setenv("MOYAI_RUN_DIR", kit_dir(), 1);
}

/* One in a directory is of several hosts where a key is named; each node is on a host of its own. */
static void several_hosts(void) {
    char dir[128];
    struct keyring r = {.n = 1};
    wide = true;
    snprintf(dir, sizeof dir, "%s/wide", kit_dir());
    (void)mkdir(dir, 0700);
    snprintf(grid, sizeof grid, "file:%s", dir);
    snprintf(key, sizeof key, "%s/key", kit_dir());
    KIT_OK(key_new(&r.key[0], NULL));
    KIT_OK(keyfile_write(&r, key, false, NULL));
    setenv("MOYAI_GRID", grid, 1);
    setenv("MOYAI_KEY_FILE", key, 1);
    setenv("MOYAI_LISTEN", "127.0.0.1", 1);
}

static void on_a_host(const char *name) {
    char dir[160];
    if (!wide) return;
    snprintf(dir, sizeof dir, "%s/of-%s", kit_dir(), name);
    setenv("MOYAI_RUN_DIR", dir, 1);
}

static moyai_node *join(void) {
    static int n;
    char name[16];
    snprintf(name, sizeof name, "caller%d", n++);
    on_a_host(name);
    return kit_node(NULL);
}

/* deadline: MOYAI_LEAVE_DEADLINE=... */
static pid_t begin(const char *deadline, const char *name, const char *how, moyai_ref **ref) {
    counts = kit_shared(name, COUNTS);
    if (wide) { /* a child's directory is that of its grid */
        char here[200], there[200];
        snprintf(here, sizeof here, "%s/shared.%s", kit_dir(), name);
        snprintf(there, sizeof there, "%s/wide/shared.%s", kit_dir(), name);
        FIBER_ASSERT_INT(link(here, there), 0);
    }
    on_a_host(name);
    pid_t pid = kit_child_quiet("leaver", deadline, name, how, NULL);
    *ref = kit_lookup(node, name);
    return pid;
}

static void tell(moyai_ref *of) {
    moyai_ref *home = NULL;
    KIT_OK(moyai_node_ref(node, moyai_ref_home(of), &home));
    KIT_OK(moyai_call(home, "leave", MOYAI_NONE, MOYAI_NONE, NULL));
    moyai_ref_unref(home);
}

static void has_said(pid_t pid, const char *text) {
    char *said = kit_stderr(pid);
    const char *cut = strstr(said, "MOYAI-LEAVE-CUT");
    if (text)
        KIT_TEXT(said, text);
    else if (said[0])
        FIBER_FAIL("it has said: %s", said);
    if (cut && strstr(cut + 1, "MOYAI-LEAVE-CUT")) FIBER_FAIL("it has said twice what was cut short:\n%s", said);
    free(said);
}

/* ---- very much ------------------------------------------------------------------------------- */

#define MANY FIBER_SCALE(10000, 1000, 1000) /* sanitizers have places for a few thousand threads */

static void many_calls(const char *name, const char *deadline, const char *method, int code, const char *said) {
    const int n = MANY;
    moyai_ref *ref;
    node = join();
    moyai_set *set = kit_set(node);
    pid_t pid = begin(deadline, name, NULL, &ref);
    for (int i = 0; i < n; i++) KIT_OK(moyai_set_add(set, moyai_call_async(ref, method, MOYAI_NONE)));
    KIT_UNTIL(node, counts[BEGUN] == (uint32_t)n);
    tell(ref);
    while (moyai_set_count(set) > 0) {
        KIT_OK(moyai_wait_masked(set, MOYAI_FOREVER));
        for (moyai_future *f; (f = moyai_set_next(set)); moyai_future_free(f)) {
            struct moyai_error e;
            KIT_RC(moyai_future_error(f, 0, &e), code);
            if (code < 0) FIBER_ASSERT(e.executed == MOYAI_MAY_HAVE_EXECUTED);
        }
    }
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    FIBER_ASSERT_INT(counts[ENDED], code ? 0 : n);
    has_said(pid, said);
    moyai_set_free(set);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

static void many_calls_are_finished_or_cut(void **state) {
    (void)state;
    static const char finished[] = "MOYAI_LEAVE_DEADLINE=200s", cut[] = "MOYAI_LEAVE_DEADLINE=500ms";
    char said[120];
    snprintf(said, sizeof said, "its time (500 ms) is over: cut short: %d calls in progress here: 'never' sleeps",
             MANY);
    one_host();
    many_calls("many", finished, "hold", 0, NULL);
    many_calls("many-cut", cut, "never", MOYAI_ECLOSED, said);
    several_hosts();
    many_calls("many-wide", finished, "hold", 0, NULL);
    many_calls("many-wide-cut", cut, "never", MOYAI_ECLOSED, said);
}

/* ---- who calls is wrong ---------------------------------------------------------------------- */

#define LARGE "60000000"

static uint64_t links(void) {
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(node, &s);
    return s.links;
}

/* Stopped when the answer is about to come; it goes on within the time, or only after it. */
static void caller_stops(const char *name, const char *deadline, bool in_time) {
    moyai_ref *ref;
    node = join();
    pid_t pid = begin(deadline, name, NULL, &ref);
    char host[64];
    snprintf(host, sizeof host, "%s-taker", name);
    on_a_host(host);
    pid_t taker = kit_child("taker", name, LARGE, NULL);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    if (strstr(name, "wide")) KIT_UNTIL(node, links() >= 2); /* else it is cut off: it makes none any more */
    kit_stop(taker);
    tell(ref);
    KIT_UNTIL(node, counts[ENDED] == 1);
    if (in_time) {
        kit_cont(taker);
        FIBER_ASSERT_INT(kit_reap(taker), 0);
        FIBER_ASSERT_INT(kit_reap(pid), 0);
        has_said(pid, NULL);
    } else {
        FIBER_ASSERT_INT(kit_reap(pid), 0);
        has_said(pid, "its time (4 s) is over: cut short: what was sent and its addressee has not taken");
        kit_cont(taker);
        const int status = kit_reap(taker);
        FIBER_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 10);
    }
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

static void who_does_not_read_is_waited_for_within_the_time(void **state) {
    (void)state;
    one_host();
    caller_stops("read", "MOYAI_LEAVE_DEADLINE=200s", true);
    caller_stops("unread", "MOYAI_LEAVE_DEADLINE=4s", false); /* more than it needs to write its answer */
    several_hosts();
    caller_stops("read-wide", "MOYAI_LEAVE_DEADLINE=200s", true);
    caller_stops("unread-wide", "MOYAI_LEAVE_DEADLINE=4s", false);
}

/* A session ends in which an answer is that its caller, who lives, has not taken: that call has been executed. */
static void what_was_not_heard_is_not_cleared(void **state) {
    (void)state;
    one_host();
    moyai_ref *ref;
    bool before = false, after = true;
    node = join();
    pid_t pid = begin("MOYAI_LEAVE_DEADLINE=2s", "parts", NULL, &ref);
    moyai_future *f = moyai_call_async(ref, "part", MOYAI_NONE);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    pid_t taker = kit_child("taker", "parts", LARGE, NULL);
    KIT_UNTIL(node, counts[BEGUN] == 2);
    kit_stop(taker);
    tell(ref);
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&before, &after)));
    FIBER_ASSERT(before && !after);
    moyai_future_free(f);
    kit_kill(taker);
    kit_kill(pid);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

/* What nobody waits for any more does not keep it. */
static void caller_dies(const char *name) {
    moyai_ref *ref;
    node = join();
    pid_t pid = begin("MOYAI_LEAVE_DEADLINE=200s", name, NULL, &ref);
    char host[64];
    snprintf(host, sizeof host, "%s-taker", name);
    on_a_host(host);
    pid_t taker = kit_child("taker", name, LARGE, NULL);
    KIT_UNTIL(node, counts[BEGUN] == 1);
    kit_stop(taker);
    tell(ref);
    KIT_UNTIL(node, counts[ENDED] == 1);
    kit_kill(taker);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    has_said(pid, NULL);
    moyai_ref_unref(ref);
    moyai_node_free(node);
}

static void who_has_died_is_not_waited_for(void **state) {
    (void)state;
    one_host();
    caller_dies("died");
    several_hosts();
    setenv("MOYAI_REATTACH", "1s", 1); /* nobody of its host tells that it is dead */
    caller_dies("died-wide");
    unsetenv("MOYAI_REATTACH");
}

/* ---- who leaves is wrong --------------------------------------------------------------------- */

static void an_on_leave_that_stays_is_cut(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *ref;
        (i ? several_hosts : one_host)();
        node = join();
        pid_t pid = begin("MOYAI_LEAVE_DEADLINE=300ms", i ? "stuck-wide" : "stuck", "stuck", &ref);
        tell(ref);
        tell(ref); /* told again, it is not called again */
        FIBER_ASSERT_INT(kit_reap(pid), 0);
        FIBER_ASSERT_INT(counts[HOOKS], 1);
        has_said(pid, "its time (300 ms) is over: cut short: 1 on_leave that has not returned");
        moyai_ref_unref(ref);
        moyai_node_free(node);
    }
}

/* Before it has a link; where it can be met nobody answers, or nobody is. */
static void who_has_not_joined_leaves_at_once(void **state) {
    (void)state;
    char nobody[48];
    several_hosts();
    snprintf(nobody, sizeof nobody, "127.0.0.1:%u", test_free_port());
    const char *const places[] = {nobody, "192.0.2.1:7471", grid};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        setenv("MOYAI_GRID", places[i], 1);
        for (int served = 0; served < 2; served++) {
            node = join();
            moyai_ref *ref = kit_object(node, &cls, NULL);
            counts = kit_shared("unlinked", COUNTS);
            const uint32_t before = counts[HOOKS];
            KIT_OK(moyai_leave(node, MOYAI_FOREVER));
            KIT_OK(moyai_leave(node, MOYAI_FOREVER));
            if (served) KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
            moyai_ref_unref(ref);
            moyai_node_free(node);
            FIBER_ASSERT_INT(counts[HOOKS], before + 1);
        }
    }
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(many_calls_are_finished_or_cut),
        cmocka_unit_test(who_does_not_read_is_waited_for_within_the_time),
        cmocka_unit_test(what_was_not_heard_is_not_cleared),
        cmocka_unit_test(who_has_died_is_not_waited_for),
        cmocka_unit_test(an_on_leave_that_stays_is_cut),
        cmocka_unit_test(who_has_not_joined_leaves_at_once),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"leaver", role_leaver}, {"taker", role_taker}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
