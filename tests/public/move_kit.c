/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/public/move_kit.h"

#include "link/key.h"
#include "object/internal.h"
#include "overlay/io/rendezvous.h"
#include "tests/support/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

moyai_node *node;
_Atomic uint32_t *counts;
moyai_ref *host[HOSTS];
pid_t pid[HOSTS];
bool wide, hidden, bare;
char grid[128];
uint32_t expected;
int called;

/* ---- what moves: a counter that remembers in which order it was called ----------------------- */

struct counter {
    int n;                 /* calls of `next` */
    uint64_t pid;          /* of the process where it was made */
    uint32_t sum, signals; /* of what it was given, in order */
};

static int m_next(moyai_request *rq, void *self) {
    struct counter *c = self;
    uint32_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    c->sum = c->sum * 31 + x;
    return moyai_return(rq, MOYAI_ARGS(c->n++, (int)getpid()));
}

static int m_add(moyai_request *rq, void *self) {
    struct counter *c = self;
    uint32_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    c->sum = c->sum * 31 + x;
    c->n++;
    return 0;
}

static int m_get(moyai_request *rq, void *self) {
    struct counter *c = self;
    return moyai_return(rq, MOYAI_ARGS(c->n, c->sum, c->pid));
}

/* Returns when it is signalled. */
static int m_hold(moyai_request *rq, void *self) {
    struct counter *c = self;
    counts[DONE]++;
    int rc = moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
    if (rc == MOYAI_ELEAVING) rc = moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
    KIT_RC(rc, MOYAI_SIGNALLED);
    c->signals++;
    return moyai_return(rq, MOYAI_ARGS((int)getpid()));
}

static int m_take(moyai_request *rq, void *self) {
    (void)self;
    return moyai_return(rq, MOYAI_ARGS(moyai_sleep(moyai_request_node(rq), 1)));
}

static void wait_for(_Atomic uint32_t *what, uint32_t value) {
    for (; *what != value; (void)!moyai_sleep_masked(node, MOYAI_MS))
        if (moyai_leaving(node)) counts[LEAVES] = 1;
}

static int m_quit(moyai_request *rq, void *self) {
    (void)self;
    counts[BEGUN]++;
    wait_for(&counts[WAITS], 2);
    return moyai_return(rq, MOYAI_ARGS(moyai_object_end(moyai_self(rq))));
}

/* A large argument comes as it was sent. */
static int m_sum(moyai_request *rq, void *self) {
    (void)self;
    const double *p;
    size_t n;
    double sum = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_doubles(&p, &n))));
    for (size_t i = 0; i < n; i++) sum += p[i];
    return moyai_return(rq, MOYAI_ARGS(sum, (int)getpid()));
}

static int pack(moyai_node *n, void *self, moyai_value **state) {
    const struct counter *c = self;
    (void)n;
    counts[PACKED]++;
    if (counts[DIES] == 1) _exit(9);
    if (counts[DIES] == 3) return MOYAI_ENOSPC;
    uint64_t v[] = {(uint64_t)c->n, c->pid, c->sum, c->signals};
    *state = moyai_value_new(moyai_u64s(v, 4));
    if (counts[PACKS] == 1) {
        counts[PACKS] = 2;
        wait_for(&counts[PACKS], 3);
    }
    return 0;
}

static void leave_now(void *arg) {
    KIT_OK(moyai_leave(arg, MOYAI_FOREVER));
}

static int unpack(moyai_node *n, moyai_ref *ref, const moyai_value *state, void **self) {
    const uint64_t *v;
    size_t k;
    FIBER_ASSERT(n == node && moyai_ref_is_local(ref));
    if (counts[DIES] == 2) _exit(9);
    if (counts[DIES] == 4) return MOYAI_EDATA;
    if (counts[DIES] == 5) { /* the node leaves, when the object is there, and not settled */
        counts[DIES] = 0;
        KIT_OK(moyai_go(n, leave_now, n));
    }
    KIT_OK(moyai_value_get(state, MOYAI_INTO(moyai_into_u64s(&v, &k))->v[0]));
    FIBER_ASSERT_INT(k, 4);
    struct counter *c = calloc(1, sizeof *c);
    FIBER_ASSERT(c);
    *c = (struct counter){(int)v[0], v[1], (uint32_t)v[2], (uint32_t)v[3]};
    *self = c;
    counts[UNPACKED]++;
    while (counts[UNPACKS] == 1 || counts[UNPACKS] == 2) { /* whatever it is told */
        counts[UNPACKS] = 2;
        (void)!moyai_sleep_masked(n, 5 * MOYAI_MS);
    }
    return 0;
}

static void destroy(void *self) {
    free(self);
    counts[DESTROYED]++;
}

static moyai_ref *make(const char *name);

static void on_leave(moyai_node *n, moyai_ref *ref, void *self) {
    (void)n, (void)self;
    counts[HOOKS]++;
    counts[LATE] += counts[PACKED] > 0;
    if (counts[ENDS] == MAKES) {
        moyai_ref_unref(make(""));
        (void)!moyai_sleep_masked(n, MOYAI_MS);
    }
    if (counts[ENDS] == RESTS) wait_for(&counts[ENDS], 0);
    if (counts[ENDS] == 1) counts[ENDS] = 2 + (uint32_t)-moyai_object_end(ref);
}

static const struct moyai_method methods[] = {{"next", m_next}, {"add", m_add}, {"get", m_get},   {"hold", m_hold},
                                              {"take", m_take}, {"sum", m_sum}, {"quit", m_quit}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS_MOVING("Counter", methods, destroy, on_leave, pack, unpack);
static const struct moyai_class bare_cls = MOYAI_CLASS_MOVING("Counter", methods, destroy, NULL, pack, unpack);

static const struct moyai_class *counter_class(void) {
    return getenv("BARE") ? &bare_cls : &cls;
}

static moyai_ref *make(const char *name) {
    struct counter *c = calloc(1, sizeof *c);
    FIBER_ASSERT(c);
    c->pid = (uint64_t)getpid();
    moyai_ref *ref = kit_object(node, counter_class(), c);
    if (*name) KIT_OK(moyai_register(ref, name));
    return ref;
}

/* ---- what moves with much: its state is a number and what follows from it -------------------- */

static size_t big_size(void) {
    return getenv("BIG") ? (size_t)16 << 20 : (size_t)2 << 20; /* of 64: 1 GiB, 128 MiB */
}

struct big {
    uint8_t seed, *p;
};

static struct big *big_new(uint8_t seed) {
    struct big *b = calloc(1, sizeof *b);
    FIBER_ASSERT(b && (b->p = malloc(big_size())));
    b->seed = seed;
    for (size_t i = 0; i < big_size(); i++) b->p[i] = (uint8_t)(seed + i / 4096);
    return b;
}

static int m_check(moyai_request *rq, void *self) {
    const struct big *b = self;
    size_t wrong = 0;
    for (size_t i = 0; i < big_size(); i++) wrong += b->p[i] != (uint8_t)(b->seed + i / 4096);
    return moyai_return(rq, MOYAI_ARGS((uint64_t)wrong, b->seed, (int)getpid()));
}

static int big_pack(moyai_node *n, void *self, moyai_value **state) {
    const struct big *b = self;
    (void)n;
    *state = moyai_value_new(moyai_bytes(b->p, big_size()));
    return *state ? 0 : MOYAI_ENOMEM;
}

static int big_unpack(moyai_node *n, moyai_ref *ref, const moyai_value *state, void **self) {
    const void *p;
    size_t size;
    (void)n, (void)ref;
    KIT_OK(moyai_value_get(state, MOYAI_INTO(moyai_into_bytes(&p, &size))->v[0]));
    FIBER_ASSERT_INT(size, big_size());
    struct big *b = calloc(1, sizeof *b);
    if (!b || !(b->p = malloc(size))) return MOYAI_ENOMEM;
    memcpy(b->p, p, size);
    b->seed = b->p[0];
    *self = b;
    return 0;
}

static void big_free(void *self) {
    struct big *b = self;
    free(b->p);
    free(b);
}

static const struct moyai_method big_methods[] = {{"check", m_check}, {NULL, NULL}};
static const struct moyai_class big_class =
    MOYAI_CLASS_MOVING("Big", big_methods, big_free, NULL, big_pack, big_unpack);

static int m_make_big(moyai_request *rq, void *self) {
    (void)self;
    uint8_t seed;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&seed)));
    moyai_ref *ref = kit_object(node, &big_class, big_new(seed));
    int rc = moyai_return(rq, MOYAI_ARGS(ref));
    moyai_ref_unref(ref);
    return rc;
}

/* ---- a node that takes such objects, and moves what it has on ------------------------------- */

static int m_make(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name)));
    moyai_ref *ref = make(name);
    int rc = moyai_return(rq, MOYAI_ARGS(ref));
    moyai_ref_unref(ref);
    return rc;
}

/* move(object, host that is to have it) */
static int m_move(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL, *to = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &to)));
    int rc = moyai_move(ref, moyai_ref_home(to), MOYAI_FOREVER);
    moyai_ref_unref(ref);
    moyai_ref_unref(to);
    return moyai_return(rq, MOYAI_ARGS(rc));
}

/* try(object, host): if no method of it is in progress. The code, and its text. */
static int move_within(moyai_request *rq, moyai_dur most) {
    moyai_ref *ref = NULL, *to = NULL;
    struct moyai_error e = {.code = 0};
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &to)));
    const int rc = moyai_move(ref, moyai_ref_home(to), most);
    if (rc < 0) moyai_last_error(node, &e);
    moyai_ref_unref(ref);
    moyai_ref_unref(to);
    return moyai_return(rq, MOYAI_ARGS(rc, e.text));
}

static int m_try(moyai_request *rq, void *self) {
    (void)self;
    return move_within(rq, 0);
}

static int m_soon(moyai_request *rq, void *self) {
    (void)self;
    return move_within(rq, 500 * MOYAI_MS);
}

static int m_later(moyai_request *rq, void *self) {
    (void)self;
    int rc = 1;
    moyai_ref *by = NULL, *ref = NULL, *to = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&by, &ref, &to)));
    counts[BEGUN]++;
    wait_for(&counts[WAITS], 2);
    KIT_OK(moyai_call(by, "move", MOYAI_ARGS(ref, to), MOYAI_INTO(&rc), NULL));
    moyai_ref_unref(by);
    moyai_ref_unref(ref);
    moyai_ref_unref(to);
    counts[WAITS] = 3;
    return moyai_return(rq, MOYAI_ARGS(rc));
}

static int m_end(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    const int rc = moyai_object_end(ref);
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(rc));
}

static int names(moyai_request *rq, int (*does)(moyai_ref *ref, const char *name)) {
    moyai_ref *ref = NULL;
    const char *name;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref, &name)));
    const int rc = does(ref, name);
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(rc));
}

static int m_name(moyai_request *rq, void *self) {
    (void)self;
    return names(rq, moyai_register);
}

static int m_unname(moyai_request *rq, void *self) {
    (void)self;
    return names(rq, moyai_unregister);
}

static int m_mark(moyai_request *rq, void *self) {
    (void)self;
    struct moyai_node_stats s = {.size = sizeof s};
    moyai_node_stats(node, &s);
    return moyai_return(rq, MOYAI_ARGS(s.objects));
}

static int m_wait(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    counts[BEGUN]++;
    wait_for(&counts[WAITS], 2);
    return 0;
}

/* More than a node may owe who calls it. */
static int m_bulk(moyai_request *rq, void *self) {
    (void)self;
    counts[BEGUN]++;
    wait_for(&counts[WAITS], 2);
    char *p = calloc(1, BULK);
    FIBER_ASSERT(p);
    counts[BEGUN]++;
    const int rc = moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, BULK)));
    free(p);
    return rc;
}

static int m_visit(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    KIT_OK(moyai_call(ref, "take", MOYAI_NONE, MOYAI_NONE, NULL));
    moyai_ref_unref(ref);
    return 0;
}

static int m_poke(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&ref)));
    const int rc = moyai_call(ref, "take", MOYAI_NONE, MOYAI_NONE, NULL);
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(rc));
}

static int m_load(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *to = NULL, *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&to, &ref)));
    moyai_future *held = moyai_call_async(ref, "hold", MOYAI_NONE);
    moyai_future *bulk = moyai_call_async(to, "bulk", MOYAI_NONE);
    KIT_OK(moyai_future_get(bulk, MOYAI_NONE));
    KIT_OK(moyai_future_get(held, MOYAI_NONE));
    moyai_future_free(bulk);
    moyai_future_free(held);
    moyai_ref_unref(to);
    moyai_ref_unref(ref);
    return 0;
}

static int m_make_late(moyai_request *rq, void *self) {
    (void)self;
    counts[BEGUN]++;
    wait_for(&counts[WAITS], 2);
    moyai_ref *ref = make("");
    const int rc = moyai_return(rq, MOYAI_ARGS(ref));
    moyai_ref_unref(ref);
    return rc;
}

static int m_send(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *to = NULL;
    const char *method;
    uint32_t times;
    bool waits;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&to, &method, &times, &waits)));
    counts[BEGUN]++;
    if (waits) wait_for(&counts[WAITS], 2);
    for (uint32_t i = 0; i < times; i++) KIT_OK(moyai_call_oneway(to, method, MOYAI_ARGS(i)));
    if (strcmp(method, "add") == 0) KIT_OK(moyai_signal(to));
    moyai_ref_unref(to);
    return 0;
}

static void filler(char name[32], uint64_t k) {
    snprintf(name, 32, "filler-%" PRIu64, k);
}

static int m_fill(moyai_request *rq, void *self) {
    static const uint8_t nobody[16] = {1};
    static uint64_t names;
    char name[32];
    uint64_t left;
    int rc = 0;
    (void)self;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&left)));
    exec_lock(node->x);
    for (; rc == 0 && overlay_name_room(node->o) > left; names++) {
        filler(name, names);
        rc = overlay_name_claim(node->o, name, nobody, NULL);
    }
    while (overlay_name_room(node->o) < left && names > 0) {
        filler(name, --names);
        overlay_name_release(node->o, name);
    }
    exec_unlock(node->x);
    KIT_OK(rc);
    return 0;
}

/* Nothing else runs here meanwhile, but what comes is taken. */
static int m_spin(moyai_request *rq, void *self) {
    (void)rq, (void)self;
    struct moyai_node_stats s = {.size = sizeof s};
    while (counts[WAITS] == 1) {
        moyai_node_stats(node, &s);
        counts[LOAD] = (uint32_t)s.fibers;
    }
    counts[LOAD] = 0;
    return 0;
}

static const struct moyai_method host_methods[] = {
    {"make", m_make}, {"make_big", m_make_big}, {"move", m_move},           {"try", m_try},   {"later", m_later},
    {"end", m_end},   {"name", m_name},         {"unname", m_unname},       {"mark", m_mark}, {"wait", m_wait},
    {"bulk", m_bulk}, {"visit", m_visit},       {"load", m_load},           {"spin", m_spin}, {"fill", m_fill},
    {"send", m_send}, {"poke", m_poke},         {"make_late", m_make_late}, {"soon", m_soon}, {NULL, NULL}};
const struct moyai_class host_class = MOYAI_CLASS("Host", host_methods, NULL);

static int role_host(int argc, char **argv) {
    (void)argc;
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.signals = true;
    opts.outbound_only = getenv("HIDDEN") != NULL;
    counts = kit_shared(getenv("COUNTS"), COUNTS);
    node = kit_node(&opts);
    for (int i = 0; i < 2 && !getenv("TAKES_NONE"); i++) KIT_OK(moyai_accept(node, counter_class()));
    KIT_OK(moyai_accept(node, &big_class));
    moyai_ref *ref = kit_object(node, &host_class, NULL);
    KIT_OK(moyai_register(ref, argv[0]));
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    moyai_ref_unref(ref);
    moyai_node_free(node);
    return 0;
}

const struct kit_role move_roles[] = {{"host", role_host}, {NULL, NULL}};

/* ---- the tests' side ------------------------------------------------------------------------- */

/* Where it is wide, this process cannot be connected to. */
static char places[100], place[HOSTS][24], key[128];

static moyai_node *join(void) {
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    char dir[128];
    snprintf(dir, sizeof dir, "%s/client", kit_dir());
    if (*grid) opts.grid = grid;
    if (!wide) return kit_node(&opts);
    opts.grid = places;
    opts.run_dir = dir;
    opts.key_file = key;
    opts.outbound_only = true;
    return kit_node(&opts);
}

bool says_that_it_leaves(int i) {
    struct rdv *r = NULL;
    struct rdv_node n;
    struct moyai_node_id id = moyai_ref_home(host[i]);
    KIT_OK(rdv_open(&r, kit_grid(), NULL));
    const int rc = rdv_get_node(r, &id, &n, NULL);
    rdv_close(r);
    if (rc == MOYAI_ENOENT) return true; /* it has left meanwhile */
    KIT_OK(rc);
    return n.leaving;
}

pid_t start(const char *name, int at) {
    char at_grid[160], file[160], dir[160], listens[160];
    snprintf(at_grid, sizeof at_grid, "MOYAI_GRID=%s", wide ? places : *grid ? grid : kit_grid());
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/%s", kit_dir(), name);
    snprintf(listens, sizeof listens, "MOYAI_LISTEN=%s", place[at]);
    if (hidden && at > 0) return kit_child("host", at_grid, file, dir, "HIDDEN=yes", name, NULL);
    if (hidden) return kit_child("host", at_grid, file, dir, listens, "TAKES_NONE=yes", name, NULL);
    return wide ? kit_child("host", at_grid, file, dir, listens, name, NULL) : kit_child("host", at_grid, name, NULL);
}

static void choose_places(void) {
    struct keyring r = {.n = 1};
    places[0] = 0;
    for (int i = 0; i < HOSTS; i++) {
        snprintf(place[i], sizeof place[i], "127.0.0.1:%u", test_free_port());
        if (i) strcat(places, " ");
        strcat(places, place[i]);
    }
    snprintf(key, sizeof key, "%s/key", kit_dir());
    unlink(key);
    KIT_OK(key_new(&r.key[0], NULL));
    KIT_OK(keyfile_write(&r, key, false, NULL));
}

void open_hosts(int n) {
    char path[128];
    snprintf(path, sizeof path, "%s/counts", kit_dir());
    setenv("COUNTS", path, 1);
    counts = kit_shared(path, COUNTS);
    for (int i = 0; i < COUNTS; i++) counts[i] = 0;
    if (bare)
        setenv("BARE", "yes", 1);
    else
        unsetenv("BARE");
    called = 0, expected = 0;
    if (wide) choose_places();
    node = wide ? NULL : join();
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "host%d", i);
        pid[i] = start(name, i);
        if (!node) node = join();
        host[i] = kit_lookup(node, name);
    }
}

void close_hosts(int n) {
    for (int i = 0; i < n; i++) {
        if (pid[i]) kit_end(pid[i]);
        moyai_ref_unref(host[i]);
        pid[i] = 0;
        host[i] = NULL;
    }
    moyai_node_free(node);
}

moyai_ref *made_at(int i, const char *name) {
    moyai_ref *ref = NULL;
    KIT_OK(moyai_call(host[i], "make", MOYAI_ARGS(name), MOYAI_INTO(&ref), NULL));
    return ref;
}

moyai_future *begin_move(moyai_ref *ref, int from, int to) {
    return moyai_call_async(host[from], "move", MOYAI_ARGS(ref, host[to]));
}

int end_move(moyai_future *f) {
    int rc = 1;
    KIT_OK(moyai_future_get(f, MOYAI_INTO(&rc)));
    moyai_future_free(f);
    return rc;
}

int move(moyai_ref *ref, int from, int to) {
    return end_move(begin_move(ref, from, to));
}

uint64_t mark(int i) {
    uint64_t objects = 0;
    KIT_OK(moyai_call(host[i], "mark", MOYAI_NONE, MOYAI_INTO(&objects), NULL));
    return objects;
}

int call_next(moyai_ref *ref) {
    int at = 0, where = 0;
    const uint32_t x = (uint32_t)called + 7;
    expected = expected * 31 + x;
    KIT_OK(moyai_call(ref, "next", MOYAI_ARGS(x), MOYAI_INTO(&at, &where), NULL));
    FIBER_ASSERT_INT(at, called);
    called++;
    return where;
}

void expect_sum(moyai_ref *ref) {
    int n = 0;
    uint32_t sum = 0;
    uint64_t made = 0;
    KIT_OK(moyai_call(ref, "get", MOYAI_NONE, MOYAI_INTO(&n, &sum, &made), NULL));
    FIBER_ASSERT_INT(n, called);
    FIBER_ASSERT(sum == expected);
}
