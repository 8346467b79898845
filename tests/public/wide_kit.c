/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/public/wide_kit.h"

#include "link/key.h"
#include "tests/support/port.h"

#include <stdio.h>

/* ---- the servers ----------------------------------------------------------------------------- */

static int m_add(moyai_request *rq, void *self) {
    struct server *s = self;
    int64_t x;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&x)));
    s->calls++;
    s->sum += x;
    return moyai_return(rq, MOYAI_ARGS(x + 1));
}

static int m_counts(moyai_request *rq, void *self) {
    struct server *s = self;
    return moyai_return(rq, MOYAI_ARGS(s->calls, s->sum));
}

static int m_echo(moyai_request *rq, void *self) {
    (void)self;
    const void *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n))));
    return moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
}

/* add_at(name, x): of that object, by this one. */
static int m_add_at(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    int64_t x, y = 0;
    moyai_ref *ref = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&name, &x)));
    KIT_OK(moyai_lookup_wait(moyai_request_node(rq), name, MOYAI_FOREVER, &ref));
    KIT_OK(moyai_call(ref, "add", MOYAI_ARGS(x), MOYAI_INTO(&y), NULL));
    moyai_ref_unref(ref);
    return moyai_return(rq, MOYAI_ARGS(y));
}

/* linked(n): when this node has so many links. */
static int m_linked(moyai_request *rq, void *self) {
    (void)self;
    int64_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&n)));
    moyai_node *node = moyai_request_node(rq);
    struct moyai_node_stats s = {.size = sizeof s};
    for (;;) {
        moyai_node_stats(node, &s);
        if (s.links >= (uint64_t)n) return 0;
        (void)moyai_sleep_masked(node, MOYAI_MS);
    }
}

static int m_sleep(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

static const struct moyai_method methods[] = {{"add", m_add},       {"counts", m_counts}, {"echo", m_echo},
                                              {"add_at", m_add_at}, {"sleep", m_sleep},   {"linked", m_linked},
                                              {NULL, NULL}};
const struct moyai_class cls = MOYAI_CLASS("Server", methods, NULL);

int role_server(int argc, char **argv) {
    struct server s = {0};
    FIBER_ASSERT_INT(argc, 1);
    return kit_serve(NULL, &cls, &s, argv[0]);
}

/* ---- the grid -------------------------------------------------------------------------------- */

char places[OPEN_MOST * 24 + 1];
char place[OPEN_MOST][24];

static void choose_places(int n) {
    places[0] = 0;
    for (int i = 0; i < n; i++) {
        snprintf(place[i], sizeof place[i], "127.0.0.1:%u", test_free_port());
        if (i) strcat(places, " ");
        strcat(places, place[i]);
    }
}

void make_key(const char *name, char path[128]) {
    struct keyring r = {.n = 1};
    KIT_OK(key_new(&r.key[0], NULL));
    snprintf(path, 128, "%s/%s", kit_dir(), name);
    KIT_OK(keyfile_write(&r, path, false, NULL));
}

char key[128];

void begin_grid(int n_open) {
    choose_places(n_open);
    make_key("key", key);
}

pid_t start_as(const char *role, const char *name, int open, const char *how) {
    char grid[160], file[160], dir[160], at[160];
    snprintf(grid, sizeof grid, "MOYAI_GRID=%s", places);
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/%s", kit_dir(), name);
    snprintf(at, sizeof at, open < 0 ? "MOYAI_OUTBOUND_ONLY=yes" : "MOYAI_LISTEN=%s", open < 0 ? "" : place[open]);
    return kit_child(role, grid, file, dir, at, name, how, NULL);
}

pid_t start(const char *name, int open) {
    return start_as("server", name, open, NULL);
}

moyai_node *join_at(const char *dir, const char *key_file) {
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.grid = places;
    opts.run_dir = dir;
    opts.key_file = key_file;
    opts.outbound_only = true;
    return kit_node(&opts);
}

moyai_node *join_with(const char *key_file) {
    static int n;
    char dir[128];
    snprintf(dir, sizeof dir, "%s/client%d", kit_dir(), n++);
    return join_at(dir, key_file);
}

moyai_node *join(void) {
    return join_with(key);
}

void add_much(moyai_node *n, moyai_ref *ref, int calls) {
    enum { AT_ONCE = 20 };
    moyai_future *f[AT_ONCE] = {0};
    (void)n;
    for (int i = 0; i < calls + AT_ONCE; i++) {
        moyai_future **at = &f[i % AT_ONCE];
        int64_t y = 0;
        if (*at) {
            KIT_OK(moyai_future_get(*at, MOYAI_INTO(&y)));
            FIBER_ASSERT_INT(y, i - AT_ONCE + 1);
            moyai_future_free(*at);
        }
        *at = i < calls ? moyai_call_async(ref, "add", MOYAI_ARGS(i)) : NULL;
    }
}

int64_t counted(moyai_node *n, struct moyai_node_id id, const char *key_) {
    moyai_ref *ref = NULL;
    moyai_value *v = NULL;
    int64_t x = -1;
    KIT_OK(moyai_node_ref(n, id, &ref));
    KIT_OK(moyai_call(ref, "info", MOYAI_NONE, MOYAI_INTO(&v), NULL));
    FIBER_ASSERT(moyai_value_find(v, key_));
    KIT_OK(moyai_value_get(moyai_value_find(v, key_), MOYAI_INTO(&x)->v[0]));
    moyai_value_free(v);
    moyai_ref_unref(ref);
    return x;
}
