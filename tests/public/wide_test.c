/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that pass through other nodes of a grid of several hosts, and what becomes of them when these, or their
 * callees, end or fall silent. */
#include "tests/public/wide_kit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the servers ----------------------------------------------------------------------------- */

/* It ends by the return of main, or has a thread of its own. */
static int role_relay(int argc, char **argv) {
    struct server s = {0};
    FIBER_ASSERT_INT(argc, 2);
    bool own = strcmp(argv[1], "own") == 0;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.own_thread = own;
    opts.signals = !own;
    sigset_t set;
    int sig;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (own) pthread_sigmask(SIG_BLOCK, &set, NULL);
    moyai_node *n = kit_node(&opts);
    moyai_ref *ref = kit_object(n, &cls, &s);
    KIT_OK(moyai_register(ref, argv[0]));
    if (own)
        FIBER_ASSERT(sigwait(&set, &sig) == 0);
    else
        KIT_OK(moyai_node_serve(n, MOYAI_FOREVER));
    if (own) {
        moyai_ref_unref(ref);
        moyai_node_free(n);
    }
    return 0;
}

static _Atomic uint32_t *begun;

static int m_once(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    (*begun)++;
    return 0;
}
static int m_never(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

static const struct moyai_method once_methods[] = {{"once", m_once}, {"never", m_never}, {NULL, NULL}};
static const struct moyai_class once = MOYAI_CLASS("Once", once_methods, NULL);

/* NAME FILE: it counts there what it executes. */
static int role_counter(int argc, char **argv) {
    FIBER_ASSERT_INT(argc, 2);
    begun = kit_shared(argv[1], 1);
    return kit_serve(NULL, &once, NULL, argv[0]);
}

/* ---- through others -------------------------------------------------------------------------- */

static void calls_pass_through_others(void **state) {
    (void)state;
    begin_grid(1);
    pid_t pid[] = {start("middle", 0), start("left", -1), start("right", -1)};
    moyai_node *n = join();
    moyai_ref *middle = kit_lookup(n, "middle"), *left = kit_lookup(n, "left"), *right = kit_lookup(n, "right");
    moyai_ref *all[] = {middle, left, right};
    for (int i = 0; i < 3; i++) {
        add_much(n, all[i], 300);
        static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000, 3 << 20};
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            uint8_t *p = malloc(sizes[k] + 1);
            FIBER_ASSERT(p);
            for (size_t b = 0; b < sizes[k]; b++) p[b] = (uint8_t)(b * 7 + b / 251 + k);
            const void *q = NULL;
            size_t m = 0;
            KIT_OK(moyai_call(all[i], "echo", MOYAI_ARGS(moyai_bytes(p, sizes[k])),
                              MOYAI_INTO(moyai_into_bytes(&q, &m)), NULL));
            FIBER_ASSERT(m == sizes[k] && memcmp(p, q, m) == 0);
            free(p);
        }
        int64_t calls = 0, sum = 0;
        KIT_OK(moyai_call(all[i], "counts", MOYAI_NONE, MOYAI_INTO(&calls, &sum), NULL));
        FIBER_ASSERT_INT(calls, 300);
        FIBER_ASSERT_INT(sum, 300 * 299 / 2);
    }
    for (int i = 0; i < 3; i++) {
        int64_t y = 0;
        KIT_OK(moyai_call(all[i], "add_at", MOYAI_ARGS(i == 2 ? "left" : "right", 41), MOYAI_INTO(&y), NULL));
        FIBER_ASSERT_INT(y, 42);
    }
    /* It was counted: by who has sent for himself, and by who has passed it on. */
    FIBER_ASSERT(counted(n, moyai_node_self(n), "locating") > 0);
    FIBER_ASSERT(counted(n, moyai_node_self(n), "forwarded") >= 300);
    FIBER_ASSERT(counted(n, moyai_ref_home(middle), "forwarded") >= 300);
    /* Pings, too; of who has gone, and of who never was. */
    for (int i = 0; i < 6; i++) KIT_OK(moyai_ping(n, moyai_ref_home(all[i % 3]), 30 * MOYAI_SEC));
    struct moyai_node_id never = {{1, 2, 3}}, none = {{0}};
    KIT_RC(moyai_ping(n, none, 30 * MOYAI_SEC), MOYAI_EINVAL);
    KIT_RC(moyai_ping(n, never, 30 * MOYAI_SEC), MOYAI_EUNREACHABLE);
    kit_end(pid[2]);
    int rc;
    do rc = moyai_ping(n, moyai_ref_home(right), 30 * MOYAI_SEC);
    while (rc == 0); /* the farewell may be under way */
    KIT_RC(rc, MOYAI_ECLOSED);
    for (int i = 0; i < 3; i++) moyai_ref_unref(all[i]);
    moyai_node_free(n);
    for (int i = 1; i >= 0; i--) kit_end(pid[i]);
}

/* Each call is executed once, whatever becomes of the nodes that it passes. */
static void a_relay_dies(void **state) {
    (void)state;
    begin_grid(2);
    pid_t relay[] = {start("one", 0), start("two", 1)}, pid = start("far", -1);
    moyai_node *n = join();
    moyai_ref *far = kit_lookup(n, "far");
    /* Both ends know both. */
    struct moyai_node_stats s = {.size = sizeof s};
    do {
        (void)moyai_sleep(n, MOYAI_MS);
        moyai_node_stats(n, &s);
    } while (s.links < 2);
    add_much(n, far, 100);
    kit_kill(relay[0]);
    add_much(n, far, 100);
    relay[0] = start("three", 0); /* at the same address */
    moyai_ref *three = kit_lookup(n, "three");
    add_much(n, three, 10);
    kit_kill(relay[1]);
    add_much(n, far, 100);
    int64_t calls = 0, sum = 0;
    KIT_OK(moyai_call(far, "counts", MOYAI_NONE, MOYAI_INTO(&calls, &sum), NULL));
    FIBER_ASSERT_INT(calls, 300);
    FIBER_ASSERT_INT(sum, 3 * (100 * 99 / 2));
    moyai_ref_unref(far);
    moyai_ref_unref(three);
    moyai_node_free(n);
    kit_end(pid);
    kit_end(relay[0]);
}

/* Its only relay is away for some seconds, and comes back as another process at the same address. Who has other links
 * does not wait for his next look at the rendezvous: a session would have given up by then. And so again and again: the
 * earlier lives of the relay, which all are still known at its address, do not make it take longer. */
static void a_relay_is_away(void **state) {
    (void)state;
    begin_grid(1);
    pid_t relay = start("only", 0), pid = start("end", -1);
    /* A neighbour of this host, which leads nowhere: others do not reach it where it says that it is. */
    char grid[160], file[160], at[160], dir[128];
    snprintf(grid, sizeof grid, "MOYAI_GRID=%s", places);
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "%s/beside", kit_dir());
    snprintf(at, sizeof at, "MOYAI_RUN_DIR=%s", dir);
    pid_t beside =
        kit_child("server", grid, file, at, "MOYAI_LISTEN=127.0.0.1:0", "MOYAI_ADVERTISE=127.0.0.1:1", "beside", NULL);
    moyai_node *first = join();
    moyai_ref_unref(kit_lookup(first, "beside")); /* so it is known where the next one asks */
    moyai_node_free(first);
    moyai_node *n = join_at(dir, key);
    struct moyai_node_stats s = {.size = sizeof s};
    do {
        (void)moyai_sleep(n, MOYAI_MS);
        moyai_node_stats(n, &s);
    } while (s.links < 2);
    moyai_ref *end = kit_lookup(n, "end");
    add_much(n, end, 100);
    for (int i = 0; i < 6; i++) {
        kit_kill(relay);
        moyai_future *f = moyai_call_async(end, "add", MOYAI_ARGS(41));
        (void)moyai_sleep(n, i ? 200 * MOYAI_MS : 4 * MOYAI_SEC);
        relay = start("other", 0);
        while (moyai_node_stats(n, &s), s.links < 2) (void)moyai_sleep(n, MOYAI_MS);
        moyai_ref *again = NULL;
        KIT_OK(moyai_lookup(n, "end", &again)); /* also if that is not linked again yet */
        moyai_ref_unref(again);
        int64_t y = 0;
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&y)));
        FIBER_ASSERT_INT(y, 42);
        moyai_future_free(f);
    }
    moyai_ref_unref(end);
    moyai_node_free(n);
    kit_end(beside);
    kit_end(pid);
    kit_end(relay);
}

static int sockets(const char *name) {
    char path[160];
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", kit_dir(), name);
    DIR *d = opendir(path);
    FIBER_ASSERT(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Who joins removes sockets of those that were killed: no entry elsewhere names them. */
static void sockets_of_the_killed_are_removed(void **state) {
    (void)state;
    begin_grid(1);
    pid_t pid = start("host", 0);
    moyai_node *n = join();
    moyai_ref *ref = kit_lookup(n, "host");
    FIBER_ASSERT_INT(sockets("host"), 1);
    kit_kill(pid);
    FIBER_ASSERT_INT(sockets("host"), 1);
    pid = start("host", 0);
    KIT_UNTIL(n, kit_gone(pid) || sockets("host") == 2); /* its own has come */
    KIT_UNTIL(n, sockets("host") == 1);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    kit_end(pid);
    FIBER_ASSERT_INT(sockets("host"), 0);
}

/* One relay after another leaves in order, however its program ends. What is open stays so. */
static void relays_leave(void **state) {
    (void)state;
    enum { CALLS = 200 };
    begin_grid(4);
    pid_t relay[] = {start("first", 0), start_as("relay", "second", 1, "exit"), start_as("relay", "third", 2, "own"),
                     start("stays", 3)};
    pid_t pid = start("far", -1);
    moyai_node *n = join();
    moyai_ref *far = kit_lookup(n, "far");
    moyai_future *open = moyai_call_async(far, "sleep", MOYAI_NONE);
    KIT_OK(moyai_call(far, "linked", MOYAI_ARGS(4), MOYAI_NONE, NULL));
    struct moyai_node_stats s = {.size = sizeof s};
    do {
        (void)moyai_sleep(n, MOYAI_MS);
        moyai_node_stats(n, &s);
    } while (s.links < 4);
    for (int i = 0; i < 3; i++) {
        moyai_future *f[CALLS];
        for (int k = 0; k < CALLS; k++) f[k] = moyai_call_async(far, "add", MOYAI_ARGS(k));
        kit_end(relay[i]);
        for (int k = 0; k < CALLS; k++) {
            int64_t y = 0;
            KIT_OK(moyai_future_get(f[k], MOYAI_INTO(&y)));
            FIBER_ASSERT_INT(y, k + 1);
            moyai_future_free(f[k]);
        }
        FIBER_ASSERT(!moyai_future_ready(open));
    }
    int64_t calls = 0, sum = 0;
    KIT_OK(moyai_call(far, "counts", MOYAI_NONE, MOYAI_INTO(&calls, &sum), NULL));
    FIBER_ASSERT_INT(calls, 3 * CALLS);
    FIBER_ASSERT_INT(sum, 3 * (CALLS * (CALLS - 1) / 2));
    moyai_future_free(open);
    moyai_ref_unref(far);
    moyai_node_free(n);
    kit_end(pid);
    kit_end(relay[3]);
}

/* What came of the calls of one that was called on and on, until it had been gone for a while. */
struct tally {
    uint32_t answered, never, unknown, after; /* after: never, of those that were made when it was gone */
};

/* It is told to leave when so many calls have been answered, and so is another node. */
enum { OPEN = 16, FIRST = 100, AFTER = 50 };
static struct tally call_on(moyai_node *n, moyai_ref *ref, pid_t pid, pid_t with) {
    struct tally t = {0};
    moyai_set *set = kit_set(n);
    moyai_future *f;
    uint32_t after = 0;
    for (bool gone = false; after < AFTER || moyai_set_count(set) > 0;) {
        while (after < AFTER && moyai_set_count(set) < OPEN) {
            f = moyai_call_async(ref, "once", MOYAI_NONE);
            moyai_future_set_user(f, gone ? &t : NULL);
            KIT_OK(moyai_set_add(set, f));
            after += gone;
        }
        KIT_OK(moyai_wait_masked(set, MOYAI_FOREVER));
        while ((f = moyai_set_next(set))) {
            struct moyai_error e;
            const int rc = moyai_future_error(f, 0, &e);
            t.answered += rc == 0;
            t.never += rc < 0 && e.executed == MOYAI_NEVER_EXECUTED;
            t.after += rc < 0 && e.executed == MOYAI_NEVER_EXECUTED && moyai_future_user(f);
            t.unknown += rc < 0 && e.executed != MOYAI_NEVER_EXECUTED;
            if (t.answered == FIRST && rc == 0) {
                FIBER_ASSERT(kill(pid, SIGTERM) == 0);
                FIBER_ASSERT(!with || kill(with, SIGTERM) == 0);
            }
            moyai_future_free(f);
        }
        if (!gone) gone = kit_gone(pid);
    }
    if (with) FIBER_ASSERT_INT(kit_reap(with), 0);
    FIBER_ASSERT(t.answered >= FIRST);
    FIBER_ASSERT_INT(t.after, AFTER); /* never sent at all */
    moyai_set_free(set);
    return t;
}

/* Nodes beyond a relay are called on and on, and leave, each other one together with another relay. Of each call it is
 * known whether it was executed, whatever frames of it were on their way when its node ended. But not of those of one
 * that is cut short. */
static void who_is_called_beyond_others_leaves(void **state) {
    (void)state;
    enum { LEAVERS = 9 };
    begin_grid(2);
    pid_t relay = start("relay", 0);
    moyai_node *n = join();
    struct moyai_node_stats s = {.size = sizeof s};
    for (int i = 0; i < LEAVERS; i++) {
        char name[16], other[16], file[160];
        const bool cut = i == LEAVERS - 1;
        snprintf(name, sizeof name, "counter%d", i);
        snprintf(file, sizeof file, "%s/begun%d", kit_dir(), i);
        snprintf(other, sizeof other, "other%d", i);
        begun = kit_shared(file, 1);
        if (cut) setenv("MOYAI_LEAVE_DEADLINE", "300ms", 1);
        pid_t with = i % 2 ? start(other, 1) : 0, pid = start_as("counter", name, -1, file);
        unsetenv("MOYAI_LEAVE_DEADLINE");
        moyai_ref *ref = kit_lookup(n, name);
        KIT_UNTIL(n, (moyai_node_stats(n, &s), s.links >= (with ? 2 : 1)));
        moyai_future *never = cut ? moyai_call_async(ref, "never", MOYAI_NONE) : NULL;
        const struct tally t = call_on(n, ref, pid, with);
        if (never) {
            KIT_RC(moyai_future_get(never, MOYAI_NONE), MOYAI_ECLOSED);
            FIBER_ASSERT(*begun >= t.answered && *begun <= t.answered + t.unknown);
        } else {
            FIBER_ASSERT_INT(t.unknown, 0);
            FIBER_ASSERT_INT(*begun, t.answered);
        }
        moyai_future_free(never);
        moyai_ref_unref(ref);
    }
    moyai_node_free(n);
    kit_end(relay);
}

/* ---- the end of a node ----------------------------------------------------------------------- */

static void a_death_is_known_beyond_others(void **state) {
    (void)state;
    begin_grid(4);
    pid_t open[4], pid[2];
    for (int i = 0; i < 4; i++) {
        char name[8] = {'o', (char)('0' + i)};
        open[i] = start(name, i);
    }
    pid[0] = start("killed", -1);
    pid[1] = start("ended", -1);
    moyai_node *n = join();
    moyai_ref *ref[] = {kit_lookup(n, "killed"), kit_lookup(n, "ended"), kit_lookup(n, "o3")};
    moyai_future *f[3];
    for (int i = 0; i < 3; i++) {
        int64_t y = 0;
        KIT_OK(moyai_call(ref[i], "add", MOYAI_ARGS(1), MOYAI_INTO(&y), NULL));
        f[i] = moyai_call_async(ref[i], "sleep", MOYAI_NONE);
    }
    /* Three witnesses at least; of those that can be connected to one is enough, but its neighbours must know it. */
    KIT_OK(moyai_call(ref[0], "linked", MOYAI_ARGS(4), MOYAI_NONE, NULL));
    KIT_OK(moyai_call(ref[2], "linked", MOYAI_ARGS(4), MOYAI_NONE, NULL));
    moyai_ns before = moyai_now();
    kit_kill(pid[0]);
    struct moyai_error e;
    KIT_RC(moyai_future_get(f[0], MOYAI_NONE), MOYAI_EDEAD);
    moyai_future_error(f[0], 0, &e);
    printf("the death was known after %.1f ms: %s\n", (double)(moyai_now() - before) * 1e-6, e.text);
    FIBER_ASSERT_INT(e.executed, MOYAI_MAY_HAVE_EXECUTED);
    kit_end(pid[1]);
    KIT_RC(moyai_future_get(f[1], MOYAI_NONE), MOYAI_ELEAVING);
    before = moyai_now();
    kit_kill(open[3]); /* a neighbour */
    KIT_RC(moyai_future_get(f[2], MOYAI_NONE), MOYAI_EDEAD);
    printf("a neighbour's after %.1f ms\n", (double)(moyai_now() - before) * 1e-6);
    for (int i = 0; i < 3; i++) {
        moyai_future_free(f[i]);
        moyai_ref_unref(ref[i]);
    }
    moyai_node_free(n);
    for (int i = 0; i < 3; i++) kit_end(open[i]);
}

/* Of methods that run for long nothing is heard, and nothing need be. A host that has lost its power, or a process that
 * was stopped, is found by the heartbeat of who waits, also behind others. */
static void who_falls_silent_is_given_up(void **state) {
    (void)state;
    begin_grid(3);
    pid_t middle = start("middle", 0), pid[] = {start("direct", 1), start("behind", -1)};
    (void)setenv("MOYAI_REATTACH", "1s", 1);
    moyai_node *n = join();
    (void)unsetenv("MOYAI_REATTACH");
    moyai_ref *ref[] = {kit_lookup(n, "direct"), kit_lookup(n, "behind"), kit_lookup(n, "middle")};
    moyai_future *f[3];
    for (int i = 0; i < 3; i++) {
        int64_t y = 0;
        f[i] = moyai_call_async(ref[i], "sleep", MOYAI_NONE);
        KIT_OK(moyai_call(ref[i], "add", MOYAI_ARGS(1), MOYAI_INTO(&y), NULL));
    }
    KIT_OK(moyai_call(ref[0], "linked", MOYAI_ARGS(2), MOYAI_NONE, NULL));
    moyai_ns before = moyai_now();
    for (int i = 0; i < 2; i++) FIBER_ASSERT(kill(pid[i], SIGSTOP) == 0);
    for (int i = 0; i < 2; i++) {
        struct moyai_error e;
        KIT_RC(moyai_future_get(f[i], MOYAI_NONE), MOYAI_EUNREACHABLE);
        moyai_future_error(f[i], 0, &e);
        printf("given up after %.1f s: %s\n", (double)(moyai_now() - before) * 1e-9, e.text);
        FIBER_ASSERT_INT(e.executed, MOYAI_MAY_HAVE_EXECUTED);
    }
    FIBER_ASSERT(!moyai_future_ready(f[2])); /* who only has nothing to say goes on */
    for (int i = 0; i < 3; i++) {
        moyai_future_free(f[i]);
        moyai_ref_unref(ref[i]);
    }
    moyai_node_free(n);
    for (int i = 0; i < 2; i++) {
        FIBER_ASSERT(kill(pid[i], SIGCONT) == 0);
        kit_kill(pid[i]);
    }
    kit_end(middle);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(calls_pass_through_others),
        cmocka_unit_test(a_relay_dies),
        cmocka_unit_test(a_relay_is_away),
        cmocka_unit_test(sockets_of_the_killed_are_removed),
        cmocka_unit_test(relays_leave),
        cmocka_unit_test(who_is_called_beyond_others_leaves),
        cmocka_unit_test(a_death_is_known_beyond_others),
        cmocka_unit_test(who_falls_silent_is_given_up),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"server", role_server}, {"relay", role_relay}, {"counter", role_counter}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
