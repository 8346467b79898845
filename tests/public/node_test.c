/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node as an object: what it says of itself and of what it holds, whoever asks, whatever its user code does
 * meanwhile, and what it refuses.
 */
#include "tests/public/kit.h"

#include <unistd.h>

/* ---- objects --------------------------------------------------------------------------------- */

static int m_nothing(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    return 0;
}

/* compute(): without a call of the library, until it is told to stop. self: two words that all processes see. */
static int m_compute(moyai_request *rq, void *self) {
    (void)rq;
    _Atomic uint32_t *words = self;
    words[0] = 1;
    while (!words[1]) {
    }
    return 0;
}

static const struct moyai_method methods[] = {{"nothing", m_nothing}, {"compute", m_compute}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Thing", methods, NULL);
static const struct moyai_class odd = MOYAI_CLASS("Odd \xff class", methods, NULL);

static int role_other(int argc, char **argv) {
    (void)argc;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.title = "the other";
    o.max_fibers = 1;
    return kit_serve(&o, &cls, (void *)(uintptr_t)kit_shared(argv[0], 2), argv[0]);
}

/* ---- the world ------------------------------------------------------------------------------- */

static moyai_node *node;

static int open_world(void **state) {
    (void)state;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.title = "the test";
    o.site = "a place";
    node = kit_node(&o);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    moyai_node_free(node);
    return 0;
}

static moyai_ref *ref_of(struct moyai_node_id id) {
    moyai_ref *ref = NULL;
    KIT_OK(moyai_node_ref(node, id, &ref));
    return ref;
}

static moyai_value *info_of(moyai_ref *ref) {
    moyai_value *v = NULL;
    KIT_OK(moyai_call(ref, "info", MOYAI_NONE, MOYAI_INTO(&v), NULL));
    FIBER_ASSERT_INT(moyai_value_kind(v), MOYAI_K_MAP);
    return v;
}

static int64_t number(const moyai_value *map, const char *key) {
    int64_t x = -1;
    const moyai_value *v = moyai_value_find(map, key);
    if (!v) FIBER_FAIL("no field %s", key);
    KIT_OK(moyai_value_get(v, MOYAI_INTO(&x)->v[0]));
    return x;
}

static double real(const moyai_value *map, const char *key) {
    double x = -1;
    const moyai_value *v = moyai_value_find(map, key);
    if (!v) FIBER_FAIL("no field %s", key);
    KIT_OK(moyai_value_get(v, MOYAI_INTO(&x)->v[0]));
    return x;
}

static const char *text(const moyai_value *map, const char *key) {
    const char *t = NULL;
    const moyai_value *v = moyai_value_find(map, key);
    if (!v) FIBER_FAIL("no field %s", key);
    KIT_OK(moyai_value_get(v, MOYAI_INTO(&t)->v[0]));
    return t;
}

#define EXPECT_TEXT(map, key, want)                                                                                    \
    do {                                                                                                               \
        const char *got_ = text(map, key);                                                                             \
        if (strcmp(got_, want) != 0) FIBER_FAIL("%s: %s is \"%s\", not \"%s\"", __func__, key, got_, want);            \
    } while (0)

/* ---- info ------------------------------------------------------------------------------------ */

static void says_what_it_is(void **state) {
    (void)state;
    char hex[33], host[256] = "";
    moyai_node_id_format(moyai_node_self(node), hex);
    struct moyai_node_id read = {{1}};
    KIT_OK(moyai_node_id_parse(hex, &read));
    FIBER_ASSERT(moyai_node_id_equal(read, moyai_node_self(node)));
    static const char *const no_ids[] = {"", "0", "moyai:0", "0123456789abcdef0123456789abcdeg",
                                         "0123456789abcdef0123456789abcdef0"};
    for (size_t i = 0; i < sizeof no_ids / sizeof no_ids[0]; i++)
        KIT_RC(moyai_node_id_parse(no_ids[i], &read), MOYAI_EINVAL);
    KIT_RC(moyai_node_id_parse(NULL, &read), MOYAI_EINVAL);
    KIT_RC(moyai_node_id_parse(hex, NULL), MOYAI_EINVAL);
    FIBER_ASSERT(moyai_node_id_equal(read, moyai_node_self(node))); /* untouched */
    gethostname(host, sizeof host - 1);
    moyai_ref *self = ref_of(moyai_node_self(node)), *thing = kit_object(node, &cls, NULL);
    KIT_OK(moyai_register(thing, "a thing"));
    KIT_OK(moyai_register(thing, "the thing"));
    moyai_value *v = info_of(self);
    EXPECT_TEXT(v, "node", hex);
    EXPECT_TEXT(v, "title", "the test");
    EXPECT_TEXT(v, "host", host);
    EXPECT_TEXT(v, "site", "a place");
    EXPECT_TEXT(v, "version", moyai_version());
    FIBER_ASSERT_INT(number(v, "pid"), getpid());
    FIBER_ASSERT(strlen(text(v, "host_id")) == 32);
    FIBER_ASSERT(strlen(text(v, "machine")) > 0);
    FIBER_ASSERT(real(v, "uptime") >= 0 && real(v, "uptime") < 3600);
    FIBER_ASSERT(number(v, "processors") >= 1);
    FIBER_ASSERT(number(v, "memory") > 4096);
    FIBER_ASSERT_INT(number(v, "objects"), 1);
    FIBER_ASSERT_INT(number(v, "names"), 2);
    FIBER_ASSERT_INT(number(v, "calls_served"), 0); /* by methods: none of ours has run */
    FIBER_ASSERT_INT(number(v, "n_links"), 0);
    FIBER_ASSERT_INT(number(v, "locating"), 0); /* there is nobody */
    FIBER_ASSERT_INT(number(v, "forwarded"), 0);
    FIBER_ASSERT_INT(moyai_value_count(moyai_value_find(v, "links")), 0);
    FIBER_ASSERT_INT(moyai_value_kind(moyai_value_find(v, "load")), MOYAI_K_ARRAY);
    const double *load;
    size_t n;
    KIT_OK(moyai_value_get(moyai_value_find(v, "load"), moyai_into_doubles(&load, &n)));
    FIBER_ASSERT_INT(n, 3);
    moyai_value_free(v);

    KIT_OK(moyai_unregister(thing, "a thing"));
    v = info_of(self);
    FIBER_ASSERT_INT(number(v, "names"), 1);
    moyai_value_free(v);
    KIT_OK(moyai_object_end(thing));
    moyai_ref_unref(thing);
    v = info_of(self);
    FIBER_ASSERT_INT(number(v, "objects"), 0);
    FIBER_ASSERT_INT(number(v, "names"), 0);
    FIBER_ASSERT(number(v, "calls_made") >= 2);
    moyai_value_free(v);
    moyai_ref_unref(self);
}

/* Also when its only fiber computes: it is the runtime that answers. */
static void answers_while_it_computes(void **state) {
    (void)state;
    _Atomic uint32_t *words = kit_shared("busy", 2);
    pid_t pid = kit_child("other", "busy", NULL);
    moyai_ref *busy = kit_lookup(node, "busy"), *other = ref_of(moyai_ref_home(busy));
    moyai_future *f = moyai_call_async(busy, "compute", MOYAI_NONE);
    KIT_UNTIL(node, words[0]);
    char hex[33];
    moyai_node_id_format(moyai_ref_home(busy), hex);
    for (int i = 0; i < 20; i++) {
        moyai_value *v = info_of(other);
        EXPECT_TEXT(v, "node", hex);
        EXPECT_TEXT(v, "title", "the other");
        FIBER_ASSERT_INT(number(v, "pid"), pid);
        FIBER_ASSERT_INT(number(v, "fibers"), 1);
        FIBER_ASSERT_INT(number(v, "calls_served"), 1);
        moyai_value_free(v);
    }
    FIBER_ASSERT(!moyai_future_ready(f));
    words[1] = 1;
    KIT_OK(moyai_future_get(f, MOYAI_NONE));
    moyai_future_free(f);
    moyai_ref_unref(busy);
    moyai_ref_unref(other);
    kit_end(pid);
}

static void lists_its_links(void **state) {
    (void)state;
    char mine[33], theirs[33];
    pid_t pid = kit_child("other", "linked", NULL);
    moyai_ref *thing = kit_lookup(node, "linked"), *other = ref_of(moyai_ref_home(thing)),
              *self = ref_of(moyai_node_self(node));
    moyai_node_id_format(moyai_node_self(node), mine);
    moyai_node_id_format(moyai_ref_home(thing), theirs);
    for (int i = 0; i < 2; i++) {
        moyai_value *v = info_of(i == 0 ? other : self);
        const moyai_value *links = moyai_value_find(v, "links");
        FIBER_ASSERT_INT(number(v, "n_links"), 1);
        FIBER_ASSERT_INT(moyai_value_count(links), 1);
        const moyai_value *l = moyai_value_at(links, 0);
        EXPECT_TEXT(l, "peer", i == 0 ? mine : theirs);
        EXPECT_TEXT(l, "title", i == 0 ? "the test" : "the other");
        EXPECT_TEXT(l, "kind", "unix");
        FIBER_ASSERT(number(l, "queued") >= 0 && real(l, "up") >= 0 && real(l, "up") < 3600);
        bool outgoing;
        KIT_OK(moyai_value_get(moyai_value_find(l, "outgoing"), MOYAI_INTO(&outgoing)->v[0]));
        FIBER_ASSERT_INT(outgoing, i == 1);
        moyai_value_free(v);
    }
    moyai_ref_unref(self);
    moyai_ref_unref(thing);

    /* It dies: a call of it says so, as for any object of that node. */
    kit_kill(pid);
    moyai_future *f = moyai_call_async(other, "info", MOYAI_NONE);
    KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_EDEAD);
    moyai_future_free(f);
    moyai_ref_unref(other);
}

/* ---- objects --------------------------------------------------------------------------------- */

enum { MANY = 600 };

/* One page: marks the objects that are in it, and returns where the next begins, or NULL. */
static moyai_value *page(moyai_ref *self, moyai_value *after, int most, moyai_ref *const *refs, int *seen, int *last) {
    moyai_value *v = NULL;
    KIT_OK(moyai_call(self, "objects", MOYAI_ARGS(after, most), MOYAI_INTO(&v), NULL));
    const moyai_value *list = moyai_value_find(v, "objects");
    FIBER_ASSERT((int)moyai_value_count(list) <= most);
    for (size_t i = 0; i < moyai_value_count(list); i++) {
        const moyai_value *one = moyai_value_at(list, i);
        moyai_ref *ref = NULL;
        KIT_OK(moyai_value_get(moyai_value_find(one, "ref"), MOYAI_INTO(&ref)->v[0]));
        int k = 0;
        while (k < MANY && (!refs[k] || !moyai_ref_equal(refs[k], ref))) k++;
        FIBER_ASSERT(k < MANY);
        seen[k]++;
        *last = k;
        EXPECT_TEXT(one, "class", k == 3 ? "Odd ? class" : "Thing");
        FIBER_ASSERT_INT(number(one, "calls"), 0);
        FIBER_ASSERT_INT(moyai_value_count(moyai_value_find(one, "names")), k == 5 ? 1 : 0);
        moyai_ref_unref(ref);
    }
    const moyai_value *next = moyai_value_find(v, "next");
    moyai_value *place = NULL;
    if (moyai_value_kind(next) != MOYAI_K_NULL) {
        FIBER_ASSERT_INT(moyai_value_count(list), most); /* only the last page is short */
        place = moyai_value_ref((moyai_value *)(uintptr_t)next);
    }
    moyai_value_free(v);
    return place;
}

static void lists_its_objects(void **state) {
    (void)state;
    static moyai_ref *refs[MANY];
    moyai_ref *self = ref_of(moyai_node_self(node));
    moyai_value *none = moyai_value_new(moyai_null());
    for (int i = 0; i < MANY; i++) refs[i] = kit_object(node, i == 3 ? &odd : &cls, NULL);
    KIT_OK(moyai_register(refs[5], "five"));
    /* Of what is there throughout each is listed once, though the last of a page and the first of the next end. */
    for (int most = 1; most <= 256; most = most * 4 + 1) {
        int seen[MANY] = {0}, last = 0, ended = 0;
        moyai_value *at = moyai_value_ref(none);
        for (int pages = 0; at; pages++) {
            moyai_value *next = page(self, at, most, refs, seen, &last);
            moyai_value_free(at);
            at = next;
            if (pages % 3 != 1 || last + 1 >= MANY) continue;
            for (int k = last; k <= last + 1; k++)
                if (k != 3 && k != 5 && ended < 40) {
                    KIT_OK(moyai_object_end(refs[k]));
                    moyai_ref_unref(refs[k]);
                    refs[k] = NULL;
                    ended++;
                }
        }
        for (int k = 0; k < MANY; k++)
            if (refs[k]) FIBER_ASSERT_INT(seen[k], 1);
        for (int k = 0; k < MANY; k++)
            if (!refs[k]) refs[k] = kit_object(node, &cls, NULL);
    }
    /* Without arguments: the first page. */
    moyai_value *v = NULL;
    KIT_OK(moyai_call(self, "objects", MOYAI_NONE, MOYAI_INTO(&v), NULL));
    FIBER_ASSERT_INT(moyai_value_count(moyai_value_find(v, "objects")), 256);
    FIBER_ASSERT_INT(number(v, "count"), MANY);
    moyai_value_free(v);
    KIT_OK(moyai_call(self, "objects", MOYAI_ARGS(none), MOYAI_INTO(&v), NULL));
    FIBER_ASSERT_INT(moyai_value_count(moyai_value_find(v, "objects")), 256);
    moyai_value_free(v);
    moyai_value_free(none);
    for (int i = 0; i < MANY; i++) {
        KIT_OK(moyai_object_end(refs[i]));
        moyai_ref_unref(refs[i]);
    }
    v = NULL;
    KIT_OK(moyai_call(self, "objects", MOYAI_NONE, MOYAI_INTO(&v), NULL));
    FIBER_ASSERT_INT(moyai_value_count(moyai_value_find(v, "objects")), 0);
    FIBER_ASSERT_INT(moyai_value_kind(moyai_value_find(v, "next")), MOYAI_K_NULL);
    moyai_value_free(v);
    moyai_ref_unref(self);
}

/* ---- what it refuses ------------------------------------------------------------------------- */

static void expect(moyai_ref *ref, const char *method, const struct moyai_args *args, int code, const char *part) {
    moyai_future *f = moyai_call_async(ref, method, args);
    struct moyai_error e = {0};
    KIT_RC(moyai_future_get(f, MOYAI_NONE), code);
    FIBER_ASSERT_INT(moyai_future_error(f, 0, &e), code);
    FIBER_ASSERT_INT(e.executed, MOYAI_NEVER_EXECUTED);
    KIT_TEXT(e.text, part);
    moyai_future_free(f);
}

static void refuses(void **state) {
    (void)state;
    static uint8_t bytes[128 * 1024];
    pid_t pid = kit_child("other", "strict", NULL);
    moyai_ref *thing = kit_lookup(node, "strict");
    moyai_ref *refs[2] = {ref_of(moyai_node_self(node)), ref_of(moyai_ref_home(thing))};
    for (int i = 0; i < 2; i++) {
        expect(refs[i], "nothing", MOYAI_NONE, MOYAI_ENOMETHOD, "'nothing'");
        expect(refs[i], "inf", MOYAI_NONE, MOYAI_ENOMETHOD, "'inf'");
        expect(refs[i], "info", MOYAI_ARGS(1), MOYAI_EARGS, "info");
        expect(refs[i], "info", MOYAI_ARGS(moyai_bytes(bytes, 2000)), MOYAI_ETOOBIG, "1024");
        expect(refs[i], "info", MOYAI_ARGS(moyai_bytes(bytes, 5000)), MOYAI_ETOOBIG, "");
        expect(refs[i], "info", MOYAI_ARGS(moyai_bytes(bytes, sizeof bytes)), MOYAI_ETOOBIG, "");
        KIT_RC(moyai_call(refs[i], "info", MOYAI_ARGS(moyai_bytes(bytes, sizeof bytes)), MOYAI_NONE, NULL),
               MOYAI_ETOOBIG);
        expect(refs[i], "objects", MOYAI_ARGS("text"), MOYAI_ETYPE, "next");
        expect(refs[i], "objects", MOYAI_ARGS(moyai_bytes(bytes, 3)), MOYAI_ETYPE, "next");
        expect(refs[i], "objects", MOYAI_ARGS(moyai_null(), 0), MOYAI_ERANGE, "256");
        expect(refs[i], "objects", MOYAI_ARGS(moyai_null(), 257), MOYAI_ERANGE, "most is from 1 to 256");
        expect(refs[i], "objects", MOYAI_ARGS(moyai_null(), -1), MOYAI_ERANGE, "objects");
        expect(refs[i], "objects", MOYAI_ARGS(moyai_null(), "x"), MOYAI_ETYPE, "objects");
        expect(refs[i], "objects", MOYAI_ARGS(moyai_null(), 1, 2), MOYAI_EARGS, "objects");
        moyai_future *f = moyai_signal_async(refs[i]);
        KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ENOOBJECT);
        moyai_future_free(f);
        KIT_RC(moyai_register(refs[i], "a node"), MOYAI_ENOOBJECT);
        KIT_RC(moyai_object_end(refs[i]), MOYAI_ENOOBJECT);
        KIT_OK(moyai_call_oneway(refs[i], "info", MOYAI_NONE));
        moyai_value_free(info_of(refs[i]));
        bool there = false;
        KIT_OK(moyai_call(refs[i], "ping", MOYAI_NONE, MOYAI_INTO(&there), NULL));
        FIBER_ASSERT(there);
        expect(refs[i], "ping", MOYAI_ARGS(1), MOYAI_EARGS, "ping");
    }
    FIBER_ASSERT(!moyai_ref_equal(refs[0], refs[1]));
    char line[MOYAI_REF_TEXT];
    moyai_ref *again = NULL;
    moyai_ref_format(refs[1], line);
    KIT_OK(moyai_ref_parse(node, line, &again));
    FIBER_ASSERT(moyai_ref_equal(refs[1], again));
    moyai_value_free(info_of(again));
    moyai_ref_unref(again);
    for (int i = 0; i < 2; i++) moyai_ref_unref(refs[i]);
    moyai_ref_unref(thing);
    kit_end(pid);
}

static int role_slow(int argc, char **argv) {
    (void)argc, (void)argv;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.queue_bytes = 64 * 1024;
    return kit_serve(&o, &cls, NULL, "slow");
}

/* One whose answers are not taken keeps a bounded number of bytes of them, and says why it refuses more. */
static void keeps_few_answers(void **state) {
    (void)state;
    enum { N = 2000 };
    static moyai_future *f[N];
    pid_t pid = kit_child("slow", "MOYAI_LINK_RATE=100kB", NULL);
    moyai_ref *thing = kit_lookup(node, "slow"), *other = ref_of(moyai_ref_home(thing));
    for (int i = 0; i < N; i++) f[i] = moyai_call_async(other, "info", MOYAI_NONE);
    int good = 0, refused = 0;
    for (int i = 0; i < N; i++) {
        int rc = moyai_future_get(f[i], MOYAI_NONE);
        if (rc < 0) {
            KIT_RC(rc, MOYAI_EBUSY);
            KIT_FAILED(f[i], MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED);
        }
        good += rc == 0;
        refused += rc < 0;
        moyai_future_free(f[i]);
    }
    FIBER_ASSERT(good > 0 && refused > 0);
    moyai_value_free(info_of(other)); /* all is taken: it answers again */
    moyai_ref_unref(thing);
    moyai_ref_unref(other);
    kit_end(pid);
}

/* Without a grid, too. */
static int role_alone(int argc, char **argv) {
    (void)argc, (void)argv;
    unsetenv("MOYAI_GRID");
    node = kit_node(NULL);
    moyai_ref *self = ref_of(moyai_node_self(node));
    moyai_value *v = info_of(self);
    EXPECT_TEXT(v, "host_id", "00000000000000000000000000000000");
    FIBER_ASSERT_INT(moyai_value_count(moyai_value_find(v, "links")), 0);
    moyai_value_free(v);
    moyai_ref_unref(self);
    moyai_node_free(node);
    return 0;
}

static void alone(void **state) {
    (void)state;
    FIBER_ASSERT_INT(kit_reap(kit_child("alone", NULL)), 0);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(says_what_it_is), WORLD(answers_while_it_computes), WORLD(lists_its_links), WORLD(lists_its_objects),
        WORLD(refuses),         WORLD(keeps_few_answers),         WORLD(alone),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {
        {"other", role_other}, {"slow", role_slow}, {"alone", role_alone}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
