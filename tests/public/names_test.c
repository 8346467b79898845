/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names (S0/3.3): that are taken, not yet there, or whose owner is gone; with a grid and without.
 */
#include "tests/public/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

static int m_number(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(*(int *)self));
}

/* take(name): registers itself. */
static int m_take(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name)));
    return moyai_register(moyai_self(rq), name);
}

static int m_drop(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name)));
    return moyai_unregister(moyai_self(rq), name);
}

/* find(name, timeout): by a lookup that waits; how long is the caller's business. */
static int m_find(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    moyai_dur timeout;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name, &timeout)));
    moyai_node *n = moyai_request_node(rq);
    int rc = timeout < 0 ? moyai_lookup(n, name, &ref) : moyai_lookup_wait(n, name, timeout, &ref);
    if (rc < 0) return rc;
    rc = moyai_return(rq, MOYAI_ARGS(ref));
    moyai_ref_unref(ref);
    return rc;
}

static const struct moyai_method methods[] = {
    {"number", m_number}, {"take", m_take}, {"drop", m_drop}, {"find", m_find}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Named", methods, NULL);

static int role_named(int argc, char **argv) {
    (void)argc;
    int number = atoi(argv[1]);
    return kit_serve(NULL, &cls, &number, argv[0]);
}

/* Tries to have a name and says by its exit status whether it got it. It keeps it until its input ends. */
static int role_racer(int argc, char **argv) {
    (void)argc;
    _Atomic uint32_t *won = kit_shared(argv[0], 2);
    moyai_node *n = kit_node(NULL);
    int number = 0;
    moyai_ref *ref = kit_object(n, &cls, &number);
    int rc = moyai_register(ref, argv[0]);
    if (rc < 0) KIT_RC(rc, MOYAI_EEXIST);
    won[rc == 0]++;
    KIT_UNTIL(n, won[0] + won[1] == (uint32_t)atoi(argv[1])); /* so long it stays taken */
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

static int role_waiter(int argc, char **argv) {
    (void)argc;
    moyai_node *n = kit_node(NULL);
    moyai_ref *ref = NULL;
    KIT_OK(moyai_lookup_wait(n, argv[0], MOYAI_FOREVER, &ref));
    moyai_ref_unref(ref);
    moyai_node_free(n);
    return 0;
}

static void wait_for_ever(void *n) {
    moyai_ref *ref;
    if (moyai_lookup_wait(n, "master", MOYAI_FOREVER, &ref) == 0) moyai_ref_unref(ref);
}

/* Waits for a name without a grid, as long as its node is there. */
static int role_alone(int argc, char **argv) {
    (void)argc, (void)argv;
    unsetenv("MOYAI_GRID");
    moyai_node *n = kit_node(NULL);
    KIT_OK(moyai_go(n, wait_for_ever, n));
    kit_settle(n);
    moyai_node_free(n);
    return 0;
}

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node;
static moyai_ref *a, *b; /* of this process */
static int numbers[2] = {1, 2};

static int open_world(void **state) {
    (void)state;
    node = kit_node(NULL);
    a = kit_object(node, &cls, &numbers[0]);
    b = kit_object(node, &cls, &numbers[1]);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    moyai_node_free(node);
    return 0;
}

/* 0: nobody has it, or somebody whose death was news. */
static int number_of(const char *name) {
    int x = 0;
    moyai_ref *ref = NULL;
    int rc = moyai_lookup(node, name, &ref);
    if (rc < 0) {
        FIBER_ASSERT(!ref);
        KIT_RC(rc, MOYAI_ENOENT);
        return 0;
    }
    rc = moyai_call(ref, "number", MOYAI_NONE, MOYAI_INTO(&x), NULL);
    if (rc < 0) KIT_RC(rc, MOYAI_EDEAD);
    moyai_ref_unref(ref);
    return x;
}

/* ---- within one process and between two ------------------------------------------------------ */

static void a_name_is_found(void **state) {
    (void)state;
    FIBER_ASSERT_INT(number_of("fruit"), 0);
    KIT_OK(moyai_register(a, "fruit"));
    KIT_OK(moyai_register(a, "fruit")); /* once more for the same object */
    KIT_OK(moyai_register(a, "another name of it"));
    FIBER_ASSERT_INT(number_of("fruit"), 1);
    FIBER_ASSERT_INT(number_of("another name of it"), 1);
    pid_t pid = kit_child("named", "child", "7", NULL);
    moyai_ref *child = kit_lookup(node, "child"), *found = NULL;
    FIBER_ASSERT_INT(number_of("child"), 7);
    KIT_OK(moyai_call(child, "find", MOYAI_ARGS("fruit", -1), MOYAI_INTO(&found), NULL));
    FIBER_ASSERT(moyai_ref_equal(found, a) && moyai_ref_is_local(found));
    moyai_ref_unref(found);
    KIT_RC(moyai_call(child, "find", MOYAI_ARGS("nothing", -1), MOYAI_NONE, NULL), MOYAI_ENOENT);
    moyai_ref_unref(child);
    kit_end(pid);
    FIBER_ASSERT_INT(number_of("child"), 0); /* it left in order */
}

static void a_name_is_taken(void **state) {
    (void)state;
    pid_t pid = kit_child("named", "owner", "7", NULL);
    moyai_ref *owner = kit_lookup(node, "owner");
    struct moyai_error e;
    KIT_RC(moyai_register(a, "owner"), MOYAI_EEXIST);
    moyai_last_error(node, &e);
    char id[33], want[200];
    moyai_node_id_format(moyai_ref_home(owner), id);
    snprintf(want, sizeof want, "the name \"owner\" belongs to an object of node %.8s (%s, pid %d)", id,
             program_invocation_short_name, (int)pid);
    if (strcmp(e.text, want) != 0) FIBER_FAIL("\"%s\", not \"%s\"", e.text, want);
    KIT_OK(moyai_register(a, "mine"));
    KIT_RC(moyai_register(b, "mine"), MOYAI_EEXIST);
    KIT_RC(moyai_call(owner, "take", MOYAI_ARGS("mine"), MOYAI_NONE, NULL), MOYAI_EEXIST);
    kit_stop(pid); /* silence is no evidence of death */
    KIT_RC(moyai_register(a, "owner"), MOYAI_EEXIST);
    moyai_ref *found = NULL;
    KIT_OK(moyai_lookup(node, "owner", &found));
    FIBER_ASSERT(moyai_ref_equal(found, owner));
    moyai_ref_unref(found);
    kit_cont(pid);
    KIT_RC(moyai_unregister(b, "mine"), MOYAI_ENOENT); /* it is not b's */
    KIT_RC(moyai_unregister(owner, "owner"), MOYAI_ENOENT);
    KIT_RC(moyai_unregister(a, NULL), MOYAI_ENOENT);
    FIBER_ASSERT_INT(number_of("mine"), 1);
    KIT_OK(moyai_unregister(a, "mine"));
    KIT_RC(moyai_unregister(a, "mine"), MOYAI_ENOENT);
    FIBER_ASSERT_INT(number_of("mine"), 0);
    KIT_OK(moyai_call(owner, "take", MOYAI_ARGS("mine"), MOYAI_NONE, NULL));
    FIBER_ASSERT_INT(number_of("mine"), 7);
    KIT_OK(moyai_call(owner, "drop", MOYAI_ARGS("mine"), MOYAI_NONE, NULL));
    KIT_OK(moyai_register(b, "mine"));
    FIBER_ASSERT_INT(number_of("mine"), 2);
    moyai_ref_unref(owner);
    kit_end(pid);
}

static void the_owner_is_killed(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        pid_t pid = kit_child("named", "mortal", "7", NULL);
        moyai_ref *ref = kit_lookup(node, "mortal");
        if (connected) FIBER_ASSERT_INT(number_of("mortal"), 7);
        kit_kill(pid);
        if (connected) FIBER_ASSERT_INT(number_of("mortal"), 0); /* its name is nobody's */
        KIT_OK(moyai_register(a, "mortal"));                     /* and anybody's */
        FIBER_ASSERT_INT(number_of("mortal"), 1);
        moyai_ref_unref(ref);
        KIT_OK(moyai_unregister(a, "mortal"));
    }
    /* By another process, which has never heard of the dead one. */
    pid_t first = kit_child("named", "heritage", "7", NULL);
    moyai_ref_unref(kit_lookup(node, "heritage"));
    kit_kill(first);
    pid_t second = kit_child("named", "heritage", "8", NULL);
    KIT_UNTIL(node, number_of("heritage") == 8);
    kit_end(second);
}

static void one_of_several_gets_it(void **state) {
    (void)state;
    enum { RACERS = 6 };
    for (int round = 0; round < 3; round++) {
        char name[16];
        snprintf(name, sizeof name, "race%d", round);
        if (round == 2) { /* a dead one had it before */
            pid_t pid = kit_child("named", name, "7", NULL);
            moyai_ref_unref(kit_lookup(node, name));
            kit_kill(pid);
        }
        pid_t pid[RACERS];
        for (int i = 0; i < RACERS; i++) pid[i] = kit_child("racer", name, "6", NULL);
        for (int i = 0; i < RACERS; i++) FIBER_ASSERT_INT(kit_reap(pid[i]), 0);
        _Atomic uint32_t *won = kit_shared(name, 2);
        FIBER_ASSERT_INT(won[1], 1);
        FIBER_ASSERT_INT(won[0], RACERS - 1);
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct finder {
    const char *name;
    int code;
    bool found_a;
};

static void find(void *arg) {
    struct finder *f = arg;
    moyai_ref *ref = NULL;
    f->code = moyai_lookup_wait(node, f->name, 100 * MOYAI_SEC, &ref);
    f->found_a = f->code == 0 && moyai_ref_equal(ref, a);
    moyai_ref_unref(ref);
}

static void *find_on_a_thread(void *arg) {
    find(arg);
    return NULL;
}

static void a_name_is_waited_for(void **state) {
    (void)state;
    moyai_ref *ref = NULL;
    KIT_RC(moyai_lookup_wait(node, "late", 0, &ref), MOYAI_ETIMEDOUT);
    KIT_RC(moyai_lookup_wait(node, "late", 20 * MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    FIBER_ASSERT(!ref);
    /* By fibers, another thread and another process; for this name and for one that does not come. */
    struct finder f[4] = {{.name = "late", .code = 1},
                          {.name = "late", .code = 1},
                          {.name = "never", .code = 1},
                          {.name = "late", .code = 1}};
    for (int i = 0; i < 3; i++) KIT_OK(moyai_go(node, find, &f[i]));
    pthread_t thread;
    FIBER_ASSERT_INT(pthread_create(&thread, NULL, find_on_a_thread, &f[3]), 0);
    pid_t pid = kit_child("named", "waiter", "7", NULL);
    moyai_ref *waiter = kit_lookup(node, "waiter");
    moyai_future *there = moyai_call_async(waiter, "find", MOYAI_ARGS("late", 100 * MOYAI_SEC));
    moyai_future *never = moyai_call_async(waiter, "find", MOYAI_ARGS("never", 100 * MOYAI_SEC));
    for (int i = 0; i < 20; i++) KIT_OK(moyai_call(waiter, "number", MOYAI_NONE, MOYAI_NONE, NULL));
    FIBER_ASSERT(!moyai_future_ready(there) && f[0].code == 1 && f[1].code == 1);
    KIT_OK(moyai_register(b, "unrelated"));
    KIT_OK(moyai_register(a, "late"));
    KIT_OK(moyai_future_get(there, MOYAI_INTO(&ref)));
    FIBER_ASSERT(moyai_ref_equal(ref, a));
    moyai_ref_unref(ref);
    KIT_UNTIL(node, f[0].code <= 0 && f[1].code <= 0);
    pthread_join(thread, NULL);
    FIBER_ASSERT(f[0].found_a && f[1].found_a && f[3].found_a);
    FIBER_ASSERT(f[2].code == 1 && !moyai_future_ready(never));
    /* The other way: registered there, waited for here. */
    f[0] = (struct finder){.name = "theirs", .code = 1};
    KIT_OK(moyai_go(node, find, &f[0]));
    kit_settle(node);
    KIT_OK(moyai_call(waiter, "take", MOYAI_ARGS("theirs"), MOYAI_NONE, NULL));
    KIT_UNTIL(node, f[0].code <= 0);
    KIT_OK(f[0].code);
    KIT_OK(moyai_register(a, "never"));
    KIT_OK(moyai_future_get(never, MOYAI_INTO(&ref)));
    FIBER_ASSERT(moyai_ref_equal(ref, a));
    KIT_UNTIL(node, f[2].code <= 0);
    FIBER_ASSERT(f[2].found_a);
    moyai_ref_unref(ref);
    moyai_future_free(there);
    moyai_future_free(never);
    moyai_ref_unref(waiter);
    kit_end(pid);
}

/* ---- what a name may be ---------------------------------------------------------------------- */

static void names_are_text(void **state) {
    (void)state;
    char most[202];
    memset(most, 'n', 201);
    most[201] = 0;
    static const char *const good[] = {"x",          ".",    "..",           "a/b",       "../../etc/passwd",
                                       "with blank", "%41",  "\xe8\x88\xab", "CON",       "-rf",
                                       "~",          "a\\b", "*?[",          "name.lock", "#"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        KIT_OK(moyai_register(a, good[i]));
        FIBER_ASSERT_INT(number_of(good[i]), 1);
        KIT_RC(moyai_register(b, good[i]), MOYAI_EEXIST);
    }
    KIT_OK(moyai_register(a, most + 1)); /* 200 bytes */
    FIBER_ASSERT_INT(number_of(most + 1), 1);
    const char *const bad[] = {"", most, "\xff", "a\xc3", NULL};
    moyai_ref *ref = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        KIT_RC(moyai_register(a, bad[i]), MOYAI_EINVAL);
        KIT_RC(moyai_lookup(node, bad[i], &ref), MOYAI_EINVAL);
        KIT_RC(moyai_lookup_wait(node, bad[i], MOYAI_FOREVER, &ref), MOYAI_EINVAL);
    }
    FIBER_ASSERT(!ref);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) KIT_OK(moyai_unregister(a, good[i]));
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) FIBER_ASSERT_INT(number_of(good[i]), 0);
    /* Only a living object of this process has names. */
    char text[MOYAI_REF_TEXT];
    moyai_ref_format(a, text);
    text[40] = text[40] == '0' ? '1' : '0';
    KIT_OK(moyai_ref_parse(node, text, &ref));
    KIT_RC(moyai_register(ref, "far"), MOYAI_ENOOBJECT);
    moyai_ref_unref(ref);
}

static void an_object_has_many_names(void **state) {
    (void)state;
    enum { N = 200 };
    char name[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "many%d", i);
        KIT_OK(moyai_register(i % 2 ? a : b, name[i]));
    }
    for (int i = 0; i < N; i++) FIBER_ASSERT_INT(number_of(name[i]), i % 2 ? 1 : 2);
    KIT_OK(moyai_object_end(b)); /* its names end with it */
    for (int i = 0; i < N; i++) FIBER_ASSERT_INT(number_of(name[i]), i % 2 ? 1 : 0);
    KIT_RC(moyai_register(b, "again"), MOYAI_ENOOBJECT);
    for (int i = 0; i < N; i += 2) KIT_OK(moyai_register(a, name[i])); /* free for others */
}

static void names_end_with_their_node(void **state) {
    (void)state;
    moyai_node *n = kit_node(NULL);
    int number = 9;
    moyai_ref *ref = kit_object(n, &cls, &number);
    KIT_OK(moyai_register(ref, "short-lived"));
    moyai_ref *found = NULL;
    KIT_OK(moyai_lookup(node, "short-lived", &found));
    moyai_ref_unref(found);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    FIBER_ASSERT_INT(number_of("short-lived"), 0);
    KIT_OK(moyai_register(a, "short-lived"));
}

/* ---- entries that cannot be removed ---------------------------------------------------------- */

/* Holds an entry as a process does that is about to replace it: nobody else can remove it until then. */
static int hold_entry(const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/m/%s", kit_dir(), name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) FIBER_FAIL("%s: %s", path, strerror(errno));
    return fd;
}

static void a_name_that_cannot_be_removed_is_kept(void **state) {
    (void)state;
    KIT_OK(moyai_register(a, "stuck"));
    int fd = hold_entry("stuck");
    for (int i = 0; i < 2; i++) {
        KIT_RC(moyai_unregister(a, "stuck"), MOYAI_EAGAIN);
        struct moyai_error e;
        moyai_last_error(node, &e);
        KIT_TEXT(e.text, "stuck");
        FIBER_ASSERT_INT(number_of("stuck"), 1);
        KIT_RC(moyai_register(b, "stuck"), MOYAI_EEXIST);
    }
    close(fd);
    KIT_OK(moyai_unregister(a, "stuck"));
    KIT_RC(moyai_unregister(a, "stuck"), MOYAI_ENOENT);
    FIBER_ASSERT_INT(number_of("stuck"), 0);
    KIT_OK(moyai_register(b, "stuck"));
    FIBER_ASSERT_INT(number_of("stuck"), 2);
}

/* An object ends although its name cannot be removed: nobody is led to it, and the name goes as soon as it can. */
static void a_name_outlives_its_object_for_a_while_at_most(void **state) {
    (void)state;
    moyai_node *other = kit_node(NULL);
    int number = 9;
    moyai_ref *ref = kit_object(node, &cls, &number), *theirs = kit_object(other, &cls, &numbers[1]), *found = NULL;
    struct moyai_error e;
    KIT_OK(moyai_register(ref, "stale"));
    KIT_OK(moyai_register(ref, "stale too"));
    int fd = hold_entry("stale"), fd2 = hold_entry("stale%20too");
    KIT_OK(moyai_object_end(ref));
    for (int i = 0; i < 2; i++) {
        KIT_RC(moyai_lookup(node, "stale", &found), MOYAI_ENOENT);
        moyai_last_error(node, &e);
        KIT_TEXT(e.text, "\"stale\"");
        KIT_TEXT(e.text, "has ended");
        KIT_RC(moyai_register(a, "stale"), MOYAI_EAGAIN);
        moyai_last_error(node, &e);
        KIT_TEXT(e.text, "\"stale\"");
        KIT_TEXT(e.text, "has ended");
    }
    /* Others learn it from the object's node. */
    KIT_OK(moyai_lookup(other, "stale", &found));
    KIT_RC(moyai_call(found, "number", MOYAI_NONE, MOYAI_NONE, NULL), MOYAI_ENOOBJECT);
    moyai_ref_unref(found);
    KIT_RC(moyai_register(theirs, "stale too"), MOYAI_EEXIST);
    close(fd);
    KIT_OK(moyai_register(a, "stale")); /* at once, for the node knows that it may be removed */
    FIBER_ASSERT_INT(number_of("stale"), 1);
    close(fd2);
    int rc = MOYAI_EEXIST; /* without anybody's asking at the node whose object had it */
    KIT_UNTIL(node, (rc = moyai_register(theirs, "stale too")) != MOYAI_EEXIST);
    if (rc != MOYAI_EAGAIN) KIT_OK(rc); /* EAGAIN: at the very moment when it is removed */
    FIBER_ASSERT_INT(number_of("stale"), 1);

    fd = hold_entry("stale"); /* and to the end of the node */
    KIT_OK(moyai_object_end(a));
    moyai_ref_unref(a);
    a = kit_object(node, &cls, &numbers[0]);
    moyai_ref_unref(ref);
    moyai_ref_unref(theirs);
    moyai_node_free(other);
    close_world(NULL);
    close(fd);
    open_world(NULL);
    FIBER_ASSERT_INT(number_of("stale"), 0);
    KIT_OK(moyai_register(a, "stale"));
}

/* ---- without a grid -------------------------------------------------------------------------- */

static void without_a_grid_names_are_the_process_s_own(void **state) {
    (void)state;
    moyai_node *in_grid = node;
    moyai_ref *a_in_grid = a;
    KIT_OK(moyai_register(a, "in the grid"));
    unsetenv("MOYAI_GRID");
    node = kit_node(NULL);
    a = kit_object(node, &cls, &numbers[0]);
    moyai_ref *c = kit_object(node, &cls, &numbers[1]);
    setenv("MOYAI_GRID", kit_grid(), 1);
    FIBER_ASSERT_INT(number_of("in the grid"), 0);
    KIT_OK(moyai_register(c, "in the grid"));
    FIBER_ASSERT_INT(number_of("in the grid"), 2);
    KIT_RC(moyai_register(a, "in the grid"), MOYAI_EEXIST);
    moyai_ref *ref = NULL;
    KIT_RC(moyai_lookup_wait(node, "late", 10 * MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    struct finder f = {.name = "late", .code = 1};
    KIT_OK(moyai_go(node, find, &f));
    kit_settle(node);
    KIT_OK(moyai_register(a, "late"));
    KIT_UNTIL(node, f.code <= 0);
    FIBER_ASSERT(f.found_a);
    KIT_OK(moyai_object_end(a));
    FIBER_ASSERT_INT(number_of("late"), 0);
    KIT_OK(moyai_unregister(c, "in the grid"));
    moyai_ref_unref(a);
    moyai_ref_unref(c);
    moyai_node_free(node);
    node = in_grid;
    a = a_in_grid;
    FIBER_ASSERT_INT(number_of("in the grid"), 1);
}

static void expect_said(moyai_node *n, int code, const char *part) {
    struct moyai_error e = {0};
    moyai_last_error(n, &e);
    FIBER_ASSERT_INT(e.code, code);
    KIT_TEXT(e.text, part);
}

/* Who waits in vain learns whether it was in the wrong place. */
static void a_name_not_found_is_explained(void **state) {
    (void)state;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    char grid[300], want[400];
    snprintf(grid, sizeof grid, "%s/typo", kit_grid());
    snprintf(want, sizeof want,
             "nobody has registered the name \"master\" in time in the grid at \"%s\", in which there is no", grid);
    opts.grid = grid;
    moyai_node *n = kit_node(&opts), *other[2];
    moyai_ref *ref = NULL;
    KIT_RC(moyai_lookup_wait(n, "master", MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    expect_said(n, MOYAI_ETIMEDOUT, want);
    KIT_RC(moyai_lookup(n, "master", &ref), MOYAI_ENOENT);
    expect_said(n, MOYAI_ENOENT, grid);
    other[0] = kit_node(&opts);
    KIT_RC(moyai_lookup_wait(n, "master", MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    expect_said(n, MOYAI_ETIMEDOUT, ", of 1 other node");
    other[1] = kit_node(&opts);
    KIT_RC(moyai_lookup_wait(n, "master", MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    expect_said(n, MOYAI_ETIMEDOUT, ", of 2 other nodes");
    moyai_ref *named = kit_object(other[1], &cls, &numbers[0]);
    KIT_OK(moyai_register(named, "slave"));
    KIT_OK(moyai_register(named, "masters"));
    KIT_RC(moyai_lookup_wait(n, "master", MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    expect_said(n, MOYAI_ETIMEDOUT, ", of 2 other nodes; did you mean \"masters\"?");
    KIT_RC(moyai_lookup_wait(n, "slaving", MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    expect_said(n, MOYAI_ETIMEDOUT, ", of 2 other nodes");
    struct moyai_error e;
    moyai_last_error(n, &e);
    FIBER_ASSERT(!strstr(e.text, "did you mean")); /* nothing is like it */
    moyai_ref_unref(named);
    moyai_node_free(other[0]);
    moyai_node_free(other[1]);
    moyai_node_free(n);

    unsetenv("MOYAI_GRID");
    n = kit_node(NULL);
    setenv("MOYAI_GRID", kit_grid(), 1);
    KIT_RC(moyai_lookup_wait(n, "master", MOYAI_MS, &ref), MOYAI_ETIMEDOUT);
    expect_said(n, MOYAI_ETIMEDOUT, "\"master\" in time: this node is alone, as MOYAI_GRID is not set");
    KIT_RC(moyai_lookup(n, "master", &ref), MOYAI_ENOENT);
    expect_said(n, MOYAI_ENOENT, "\"master\": this node is alone, as MOYAI_GRID is not set");
    moyai_node_free(n);

    pid_t pid = kit_child_quiet("alone", "MOYAI_LOG=warning", NULL);
    FIBER_ASSERT_INT(kit_reap(pid), 0);
    char *said = kit_stderr(pid);
    KIT_TEXT(said, "MOYAI-NAME-ALONE");
    KIT_TEXT(said, "\"master\"");
    free(said);
}

static bool has_said(pid_t pid, const char *part) {
    char *said = kit_stderr(pid);
    bool has = strstr(said, part) != NULL;
    free(said);
    return has;
}

/* Who waits for long says so, also if it would wait for ever; its parent, which has started it only, does not count. */
static void a_long_wait_is_told(void **state) {
    (void)state;
    char grid[300], parent[33], env[2][320], want[400];
    snprintf(grid, sizeof grid, "%s/waiting", kit_grid()); /* with nobody's entry in it who was killed */
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.grid = grid;
    moyai_node *n = kit_node(&opts);
    moyai_ref *ref = kit_object(n, &cls, &numbers[0]);
    moyai_node_id_format(moyai_node_self(n), parent);
    snprintf(env[0], sizeof env[0], "MOYAI_PARENT=%s", parent);
    snprintf(env[1], sizeof env[1], "MOYAI_GRID=%s", grid);
    snprintf(want, sizeof want, "\"mastre\" in the grid at \"%s\", in which there is no other node", grid);
    pid_t pid = kit_child_quiet("waiter", "MOYAI_LOG=warning", env[0], env[1], "mastre", NULL);
    KIT_UNTIL(n, has_said(pid, "MOYAI-NAME-AWAITED"));
    FIBER_ASSERT(has_said(pid, want));
    KIT_OK(moyai_register(ref, "mastre"));
    FIBER_ASSERT_INT(kit_reap(pid), 0); /* it has gone on waiting */
    char *said = kit_stderr(pid);
    FIBER_ASSERT(!strstr(strstr(said, "MOYAI-NAME-AWAITED") + 1, "MOYAI-NAME-AWAITED"));
    free(said);
    moyai_ref_unref(ref);
    moyai_node_free(n);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(a_name_is_found),
        WORLD(a_name_is_taken),
        WORLD(the_owner_is_killed),
        WORLD(one_of_several_gets_it),
        WORLD(a_name_is_waited_for),
        WORLD(names_are_text),
        WORLD(an_object_has_many_names),
        WORLD(names_end_with_their_node),
        WORLD(a_name_that_cannot_be_removed_is_kept),
        WORLD(a_name_outlives_its_object_for_a_while_at_most),
        WORLD(without_a_grid_names_are_the_process_s_own),
        WORLD(a_name_not_found_is_explained),
        WORLD(a_long_wait_is_told),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"named", role_named}, {"racer", role_racer}, {"waiter", role_waiter}, {"alone", role_alone}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
