/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many of a kind: thousands of names of one object, of fibers that wait for names, and of pings that nobody answered.
 * What one of them costs must not grow with the others, and nobody must be kept from the node by work on all of them.
 */
#include "tests/public/kit.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { NAMES = 5000, WAITS = 2000, PINGS = 5000 };

static int m_number(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(*(int *)self));
}

/* count(from, to): how many of these names somebody has. */
static int m_count(moyai_request *rq, void *self) {
    (void)self;
    int from, to, found = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&from, &to)));
    for (int i = from; i < to; i++) {
        char name[40];
        moyai_ref *ref = NULL;
        snprintf(name, sizeof name, "many-%d", i);
        int rc = moyai_lookup(moyai_request_node(rq), name, &ref);
        if (rc < 0) KIT_RC(rc, MOYAI_ENOENT);
        if (rc == 0) found++;
        moyai_ref_unref(ref);
    }
    return moyai_return(rq, MOYAI_ARGS(found));
}

static const struct moyai_method methods[] = {{"number", m_number}, {"count", m_count}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Many", methods, NULL);

static int role_other(int argc, char **argv) {
    (void)argc, (void)argv;
    int number = 7;
    return kit_serve(NULL, &cls, &number, "other");
}

static int files(const char *sub) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", kit_dir(), sub);
    DIR *d = opendir(path);
    FIBER_ASSERT(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* ---- names ----------------------------------------------------------------------------------- */

struct visitor {
    moyai_node *n;
    atomic_bool ending, stop;
    atomic_int visits; /* while the object was ending */
};

static void *visit(void *arg) {
    struct visitor *v = arg;
    while (!atomic_load(&v->stop)) {
        struct moyai_node_stats s = {.size = sizeof s};
        bool before = atomic_load(&v->ending);
        moyai_node_stats(v->n, &s);
        if (before && atomic_load(&v->ending)) v->visits++;
    }
    return NULL;
}

static void an_object_with_thousands_of_names(void **state) {
    (void)state;
    int numbers[2] = {1, 2}, found;
    pid_t pid = kit_child("other", NULL);
    moyai_node *n = kit_node(NULL);
    moyai_ref *other = kit_lookup(n, "other"), *ref = NULL;
    moyai_ref *a = kit_object(n, &cls, &numbers[0]), *b = kit_object(n, &cls, &numbers[1]);
    char name[40];
    KIT_OK(moyai_register(b, "b"));
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        KIT_OK(moyai_register(a, name));
    }
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        KIT_OK(moyai_lookup(n, name, &ref));
        FIBER_ASSERT(moyai_ref_equal(ref, a));
        moyai_ref_unref(ref);
    }
    KIT_OK(moyai_call(other, "count", MOYAI_ARGS(0, NAMES + 10), MOYAI_INTO(&found), NULL));
    FIBER_ASSERT_INT(found, NAMES);

    KIT_RC(moyai_register(b, "many-17"), MOYAI_EEXIST);
    KIT_OK(moyai_unregister(a, "many-17"));
    KIT_RC(moyai_unregister(a, "many-17"), MOYAI_ENOENT);
    KIT_RC(moyai_lookup(n, "many-17", &ref), MOYAI_ENOENT);
    KIT_OK(moyai_call(other, "count", MOYAI_ARGS(0, NAMES), MOYAI_INTO(&found), NULL));
    FIBER_ASSERT_INT(found, NAMES - 1);
    KIT_OK(moyai_register(b, "many-17"));

    /* Others get at the node between the names. */
    struct visitor v = {.n = n};
    pthread_t t;
    FIBER_ASSERT_INT(pthread_create(&t, NULL, visit, &v), 0);
    atomic_store(&v.ending, true);
    KIT_OK(moyai_object_end(a));
    atomic_store(&v.ending, false);
    atomic_store(&v.stop, true);
    pthread_join(t, NULL);
    FIBER_ASSERT(v.visits > 10);

    KIT_RC(moyai_lookup(n, "many-1", &ref), MOYAI_ENOENT);
    KIT_OK(moyai_call(other, "count", MOYAI_ARGS(0, NAMES), MOYAI_INTO(&found), NULL));
    FIBER_ASSERT_INT(found, 1);
    FIBER_ASSERT_INT(files("m"), 3); /* "other", "b" and "many-17" */
    KIT_OK(moyai_register(b, "many-18"));
    moyai_ref_unref(a);
    moyai_ref_unref(b);
    moyai_ref_unref(other);
    moyai_node_free(n);
    FIBER_ASSERT_INT(files("m"), 1);
    kit_end(pid);
}

/* ---- waiting for names ----------------------------------------------------------------------- */

struct wait {
    moyai_node *n;
    char name[40];
    int rc;
    bool over;
};

static void wait_for_it(void *arg) {
    struct wait *w = arg;
    moyai_ref *ref = NULL;
    w->rc = moyai_lookup_wait(w->n, w->name, 240 * MOYAI_SEC, &ref);
    moyai_ref_unref(ref);
    w->over = true;
}

/* Of a name or of a name each, with the names made in this process or in another. */
static void thousands_wait_for_names(void **state) {
    (void)state;
    static struct wait w[WAITS];
    int number = 1;
    moyai_node *n = kit_node(NULL);
    moyai_ref *a = kit_object(n, &cls, &number);
    for (int distinct = 0; distinct < 2; distinct++) {
        for (int i = 0; i < WAITS; i++) {
            w[i] = (struct wait){.n = n};
            snprintf(w[i].name, sizeof w[i].name, distinct ? "many-%d" : "other", i);
            KIT_OK(moyai_go(n, wait_for_it, &w[i]));
        }
        kit_settle(n);
        for (int i = 0; i < WAITS; i++) FIBER_ASSERT(!w[i].over);
        pid_t pid = distinct ? 0 : kit_child("other", NULL);
        for (int i = 0; distinct && i < WAITS; i++) {
            KIT_OK(moyai_register(a, w[i].name));
            if (i == WAITS / 2) {
                kit_settle(n);
                FIBER_ASSERT(w[i].over && !w[i + 1].over);
            }
        }
        for (int i = 0; i < WAITS; i++) {
            KIT_UNTIL(n, w[i].over);
            KIT_OK(w[i].rc);
        }
        FIBER_ASSERT_INT(files("w"), 0);
        if (pid) kit_end(pid);
    }
    moyai_ref *ref = NULL;
    KIT_RC(moyai_lookup_wait(n, "nobody's", 1, &ref), MOYAI_ETIMEDOUT);
    FIBER_ASSERT_INT(files("w"), 0); /* who gives up leaves nothing either */
    moyai_ref_unref(a);
    moyai_node_free(n);
}

/* ---- pings ----------------------------------------------------------------------------------- */

static void thousands_of_pings_that_nobody_answered(void **state) {
    (void)state;
    pid_t pid = kit_child("other", NULL);
    moyai_node *n = kit_node(NULL);
    moyai_ref *other = kit_lookup(n, "other");
    int x;
    KIT_OK(moyai_ping(n, moyai_ref_home(other), MOYAI_FOREVER));
    kit_stop(pid);
    for (int i = 0; i < PINGS; i++) KIT_RC(moyai_ping(n, moyai_ref_home(other), 0), MOYAI_ETIMEDOUT);
    kit_cont(pid);
    for (int i = 0; i < 10; i++) KIT_OK(moyai_ping(n, moyai_ref_home(other), MOYAI_FOREVER));
    KIT_OK(moyai_call(other, "number", MOYAI_NONE, MOYAI_INTO(&x), NULL));
    FIBER_ASSERT_INT(x, 7);
    kit_stop(pid);
    KIT_RC(moyai_ping(n, moyai_ref_home(other), 0), MOYAI_ETIMEDOUT);
    kit_kill(pid);
    KIT_RC(moyai_ping(n, moyai_ref_home(other), MOYAI_FOREVER), MOYAI_EDEAD);
    moyai_ref_unref(other);
    moyai_node_free(n);
}

static int tests(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(an_object_with_thousands_of_names),
        cmocka_unit_test(thousands_wait_for_names),
        cmocka_unit_test(thousands_of_pings_that_nobody_answered),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"other", role_other}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
