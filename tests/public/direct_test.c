/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two nodes that have one link each, to a third, and much to say to each other: they get a link of their own, whichever
 * of them can be connected to, and have it no longer than they need it. Each has a run directory, so a host, of its
 * own.
 */
#include "link/key.h"
#include "tests/public/kit.h"
#include "tests/support/port.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE (1u << 20)

struct server {
    int64_t calls, bytes;
};

static int m_take(moyai_request *rq, void *self) {
    struct server *s = self;
    const void *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n))));
    s->bytes += (int64_t)n;
    return moyai_return(rq, MOYAI_ARGS(++s->calls));
}

static const struct moyai_method methods[] = {{"take", m_take}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Server", methods, NULL);

static int role_server(int argc, char **argv) {
    struct server s = {0};
    FIBER_ASSERT_INT(argc, 1);
    return kit_serve(NULL, &cls, &s, argv[0]);
}

/* ---- the grid -------------------------------------------------------------------------------- */

static char key[128], place[40];
static int round_;

static void begin_grid(void) {
    snprintf(place, sizeof place, "127.0.0.1:%u", test_free_port());
    struct keyring r = {.n = 1};
    KIT_OK(key_new(&r.key[0], NULL));
    snprintf(key, sizeof key, "%s/key%d", kit_dir(), ++round_);
    KIT_OK(keyfile_write(&r, key, false, NULL));
}

/* listen_at NULL: nobody can connect to it. */
static pid_t start(const char *name, const char *listen_at) {
    char grid[64], file[160], dir[160], at[80] = "MOYAI_OUTBOUND_ONLY=yes";
    snprintf(grid, sizeof grid, "MOYAI_GRID=%s", place);
    snprintf(file, sizeof file, "MOYAI_KEY_FILE=%s", key);
    snprintf(dir, sizeof dir, "MOYAI_RUN_DIR=%s/%s%d", kit_dir(), name, round_);
    if (listen_at) snprintf(at, sizeof at, "MOYAI_LISTEN=%s", listen_at);
    return kit_child("server", grid, file, dir, at, "MOYAI_DEGREE=1", name, NULL);
}

static moyai_node *join(const char *listen_at) {
    char dir[160];
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    snprintf(dir, sizeof dir, "%s/caller%d", kit_dir(), round_);
    setenv("MOYAI_DEGREE", "1", 1);
    setenv("MOYAI_SESSION_IDLE", "200ms", 1);
    opts.grid = place;
    opts.run_dir = dir;
    opts.key_file = key;
    opts.listen = listen_at;
    opts.outbound_only = !listen_at;
    return kit_node(&opts);
}

/* Has the node a link that was made for a session? *outgoing: by itself? */
static bool has_direct(moyai_ref *node, bool *outgoing) {
    moyai_value *info = NULL;
    bool found = false;
    KIT_OK(moyai_call(node, "info", MOYAI_NONE, MOYAI_INTO(&info), NULL));
    const moyai_value *links = moyai_value_find(info, "links");
    for (size_t i = 0; i < moyai_value_count(links); i++) {
        bool direct = false;
        KIT_OK(moyai_value_get(moyai_value_find(moyai_value_at(links, i), "direct"), MOYAI_DEST(&direct)));
        if (!direct) continue;
        found = true;
        KIT_OK(moyai_value_get(moyai_value_find(moyai_value_at(links, i), "outgoing"), MOYAI_DEST(outgoing)));
    }
    moyai_value_free(info);
    return found;
}

static void get_one(bool caller_listens, bool server_listens) {
    begin_grid();
    pid_t relay = start("relay", place), server = start("server", server_listens ? "127.0.0.1" : NULL);
    moyai_node *n = join(caller_listens ? "127.0.0.1" : NULL);
    moyai_ref *ref = kit_lookup(n, "server"), *self = NULL;
    KIT_OK(moyai_node_ref(n, moyai_node_self(n), &self));
    static uint8_t bytes[LARGE];
    int64_t calls = 0, took = 0;
    bool outgoing = false;
    for (int i = 0; i < 4; i++) { /* with little it is content as it is */
        KIT_OK(moyai_call(ref, "take", MOYAI_ARGS(moyai_bytes(bytes, 1)), MOYAI_INTO(&took), NULL));
        FIBER_ASSERT_INT(took, ++calls);
    }
    FIBER_ASSERT(!has_direct(self, &outgoing));
    do {
        KIT_OK(moyai_call(ref, "take", MOYAI_ARGS(moyai_bytes(bytes, LARGE)), MOYAI_INTO(&took), NULL));
        FIBER_ASSERT_INT(took, ++calls); /* whatever it moves to, each is executed once */
    } while (!has_direct(self, &outgoing));
    if (caller_listens != server_listens) FIBER_ASSERT_INT(outgoing, server_listens);
    for (int i = 0; i < 20; i++) {
        KIT_OK(moyai_call(ref, "take", MOYAI_ARGS(moyai_bytes(bytes, LARGE)), MOYAI_INTO(&took), NULL));
        FIBER_ASSERT_INT(took, ++calls);
    }
    moyai_ref_unref(ref);
    KIT_UNTIL(n, !has_direct(self, &outgoing)); /* the session ends for want of use */
    moyai_ref_unref(self);
    moyai_node_free(n);
    kit_end(server);
    kit_end(relay);
}

static void the_caller_connects(void **state) {
    (void)state;
    get_one(false, true);
}

static void the_callee_connects(void **state) {
    (void)state;
    get_one(true, false);
}

static void either_connects(void **state) {
    (void)state;
    get_one(true, true);
}

static int tests(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_caller_connects),
        cmocka_unit_test(the_callee_connects),
        cmocka_unit_test(either_connects),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"server", role_server}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
