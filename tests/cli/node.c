/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of a run that is a node.
 *
 *   cli_node serve NAME   an object under that name, until asked to end
 *   cli_node hooked NAME  the same, whose on_leave never returns
 *   cli_node move NAME    the same, of one that moves, to nodes of such
 *   cli_node both NAME    that, and one that does not move, under the name NAME-too
 *   cli_node once         a node that ends at once, in order
 *   cli_node master       does what standard input says, one line each, and writes one line to say how it went:
 *       wait NAME         look it up, waiting for it
 *       call NAME         its process id
 *       learn NAME OTHER  have NAME look up OTHER
 *       try NAME          have NAME call the OTHER it has learnt: what becomes of it
 *       block NAME        call a method that never returns: what becomes of it
 *       links             number of links this node has
 */
#include <moyai.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct server {
    moyai_ref *other;
};

static int get_pid(moyai_request *rq, void *self) {
    (void)self;
    return moyai_return(rq, MOYAI_ARGS((int)getpid()));
}

static int learn(moyai_request *rq, void *self) {
    struct server *s = self;
    const char *name;
    int rc = moyai_args(rq, MOYAI_INTO(&name));
    if (rc == 0) rc = moyai_lookup_wait(moyai_request_node(rq), name, MOYAI_FOREVER, &s->other);
    return rc < 0 ? moyai_raise(rq, rc, "learn") : 0;
}

static int try_other(moyai_request *rq, void *self) {
    struct server *s = self;
    int pid = 0;
    char text[400];
    int rc = moyai_call(s->other, "pid", MOYAI_NONE, MOYAI_INTO(&pid), NULL);
    struct moyai_error e;
    moyai_last_error(moyai_request_node(rq), &e);
    snprintf(text, sizeof text, "%s %s", rc < 0 ? moyai_err_name(rc) : "ok", rc < 0 ? e.text : "");
    return moyai_return(rq, MOYAI_ARGS(text));
}

static int block(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep(moyai_request_node(rq), MOYAI_FOREVER);
}

/* Hears of nothing: it is cut short. */
static int stay(moyai_request *rq, void *self) {
    (void)self;
    return moyai_sleep_masked(moyai_request_node(rq), MOYAI_FOREVER);
}

/* So many seconds, whoever is to leave. */
static int nap(moyai_request *rq, void *self) {
    (void)self;
    double seconds = 0;
    int rc = moyai_args(rq, MOYAI_INTO(&seconds));
    printf("naps\n");
    fflush(stdout);
    if (rc == 0) rc = moyai_sleep_masked(moyai_request_node(rq), (moyai_dur)(seconds * (double)MOYAI_SEC));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(seconds));
}

static int echo(moyai_request *rq, void *self) {
    (void)self;
    moyai_value *v = NULL;
    int rc = moyai_args(rq, MOYAI_INTO(&v));
    if (rc == 0) rc = moyai_return(rq, MOYAI_ARGS(v));
    moyai_value_free(v);
    return rc;
}

/* What C programs send and take: an array, bytes, text, a reference; three results. */
static int mixed(moyai_request *rq, void *self) {
    (void)self;
    const double *x;
    const void *bytes;
    const char *text;
    moyai_ref *ref = NULL;
    size_t n, k;
    int rc = moyai_args(rq, MOYAI_INTO(moyai_into_doubles(&x, &n), moyai_into_bytes(&bytes, &k), &text, &ref));
    double sum = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) sum += x[i];
    if (rc == 0) rc = moyai_return(rq, MOYAI_ARGS(sum, moyai_bytes(bytes, k), moyai_ref_equal(ref, moyai_self(rq))));
    moyai_ref_unref(ref);
    return rc;
}

/* What needs its own form in JSON. */
static int sum(moyai_request *rq, void *self) {
    (void)self;
    const double *x;
    size_t n;
    double all = 0;
    int rc = moyai_args(rq, MOYAI_INTO(moyai_into_doubles(&x, &n)));
    for (size_t i = 0; rc == 0 && i < n; i++) all += x[i];
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(all));
}

static int half(moyai_request *rq, void *self) {
    (void)self;
    float x;
    int rc = moyai_args(rq, MOYAI_INTO(&x));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS((double)x / 2));
}

static int small(moyai_request *rq, void *self) {
    (void)self;
    int8_t x;
    int rc = moyai_args(rq, MOYAI_INTO(&x));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x));
}

static int fail_below(moyai_request *rq, void *self) {
    (void)self;
    moyai_future *f = moyai_call_async(moyai_self(rq), "nonsense", MOYAI_NONE);
    (void)moyai_future_get(f, MOYAI_NONE);
    int rc = moyai_raise_from(rq, f, -1234, "cannot do it");
    moyai_future_free(f);
    return rc;
}

/* Says that it was here: of a one-way call nobody hears. */
static int note(moyai_request *rq, void *self) {
    (void)self;
    const void *bytes;
    size_t n;
    int rc = moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&bytes, &n)));
    printf("noted %zu\n", n);
    fflush(stdout);
    return rc;
}

static const struct moyai_method methods[] = {{"echo", echo},     {"mixed", mixed}, {"fail_below", fail_below},
                                              {"note", note},     {"pid", get_pid}, {"learn", learn},
                                              {"try", try_other}, {"block", block}, {"sum", sum},
                                              {"half", half},     {"small", small}, {"stay", stay},
                                              {"nap", nap},       {NULL, NULL}};
static const struct moyai_class server_class = MOYAI_CLASS("Server", methods, NULL);

static void on_leave(moyai_node *n, moyai_ref *ref, void *self) {
    (void)ref, (void)self;
    (void)moyai_sleep_masked(n, MOYAI_FOREVER);
}

static const struct moyai_class hooked_class = MOYAI_CLASS_LEAVING("Hooked", methods, NULL, on_leave);

/* What moves: it has no state but where it began. */
static int pack(moyai_node *n, void *self, moyai_value **state) {
    (void)n;
    *state = moyai_value_new((struct moyai_arg){.tag = MOYAI_T_UINT, .v.u = *(const uint64_t *)self});
    return *state ? 0 : MOYAI_ENOMEM;
}

static int unpack(moyai_node *n, moyai_ref *ref, const moyai_value *state, void **self) {
    (void)n, (void)ref;
    uint64_t *began = malloc(sizeof *began);
    if (!began) return MOYAI_ENOMEM;
    *self = began;
    return moyai_value_get(state, MOYAI_INTO(began)->v[0]);
}

static int get_began(moyai_request *rq, void *self) {
    return moyai_return(rq, MOYAI_ARGS(*(const uint64_t *)self));
}

static const struct moyai_method mover_methods[] = {
    {"pid", get_pid}, {"began", get_began}, {"stay", stay}, {"block", block}, {NULL, NULL}};
static const struct moyai_class mover_class = MOYAI_CLASS_MOVING("Mover", mover_methods, free, NULL, pack, unpack);

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "cli_node: %s: %s\n", what, why);
    exit(1);
}

static moyai_node *join(bool signals) {
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    struct moyai_error why;
    moyai_node *n;
    o.signals = signals;
    if (moyai_node_new(&n, &o, &why) < 0) die("cannot join", why.text);
    return n;
}

static void serve_too(moyai_node *n, struct server *s, const char *name) {
    char too[80];
    moyai_ref *ref;
    struct moyai_error why;
    snprintf(too, sizeof too, "%s-too", name);
    if (moyai_object_new(n, &server_class, s, &ref, &why) < 0) die("object", why.text);
    int rc = moyai_register(ref, too);
    if (rc < 0) die("register", moyai_strerror(rc));
    moyai_ref_unref(ref);
}

static int serve(const char *name, bool moves, bool too, const struct moyai_class *cls) {
    moyai_node *n = join(true);
    struct server s = {0};
    moyai_ref *ref;
    struct moyai_error why;
    uint64_t *began = malloc(sizeof *began);
    if (!began) die("object", "out of memory");
    *began = (uint64_t)getpid();
    if (moves && moyai_accept(n, &mover_class) < 0) die("accept", name);
    int made = moyai_object_new(n, cls, moves ? (void *)began : &s, &ref, &why);
    if (made < 0) die("object", why.text);
    if (!moves) free(began);
    int rc = moyai_register(ref, name);
    if (rc < 0) die("register", moyai_strerror(rc));
    if (too) serve_too(n, &s, name);
    printf("serving %s\n", name);
    fflush(stdout);
    moyai_node_serve(n, MOYAI_FOREVER);
    moyai_ref_unref(s.other);
    moyai_ref_unref(ref);
    moyai_node_free(n);
    printf("ended %s\n", name);
    return 0;
}

enum { KNOWN = 16 };
struct known {
    char name[64];
    moyai_ref *ref;
};

/* Looked up once: the reference stays, whatever becomes of the object and its name. */
static moyai_ref *find(moyai_node *n, struct known known[KNOWN], const char *name) {
    for (int i = 0; i < KNOWN; i++) {
        struct known *k = &known[i];
        if (k->ref && strcmp(k->name, name) == 0) return k->ref;
        if (k->ref) continue;
        snprintf(k->name, sizeof k->name, "%s", name);
        int rc = moyai_lookup_wait(n, name, MOYAI_FOREVER, &k->ref);
        if (rc < 0) die(name, moyai_strerror(rc));
        return k->ref;
    }
    die(name, "too many names");
}

static void report(moyai_node *n, const char *what, int rc, const char *text) {
    struct moyai_error e;
    moyai_last_error(n, &e);
    if (rc < 0)
        printf("%s: %s %s\n", what, moyai_err_name(rc), e.text);
    else
        printf("%s: %s\n", what, text);
    fflush(stdout);
}

static int master(void) {
    moyai_node *n = join(false);
    struct known known[KNOWN] = {0};
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        char verb[16] = "", a[64] = "", b[64] = "", text[400] = "";
        if (sscanf(line, "%15s %63s %63s", verb, a, b) < 1) continue;
        line[strcspn(line, "\n")] = 0;
        if (strcmp(verb, "links") == 0) {
            struct moyai_node_stats st = {.size = sizeof st};
            moyai_node_stats(n, &st);
            snprintf(text, sizeof text, "%llu", (unsigned long long)st.links);
            report(n, line, 0, text);
            continue;
        }
        moyai_ref *ref = find(n, known, a);
        int rc = 0, pid = 0;
        const char *got = "ok";
        moyai_future *f = NULL;
        if (strcmp(verb, "call") == 0) {
            rc = moyai_call(ref, "pid", MOYAI_NONE, MOYAI_INTO(&pid), NULL);
            snprintf(text, sizeof text, "%d", pid);
            got = text;
        } else if (strcmp(verb, "learn") == 0) {
            rc = moyai_call(ref, "learn", MOYAI_ARGS(b), MOYAI_NONE, NULL);
        } else if (strcmp(verb, "try") == 0) {
            f = moyai_call_async(ref, "try", MOYAI_NONE);
            rc = moyai_future_get(f, MOYAI_INTO(&got));
        } else if (strcmp(verb, "block") == 0) {
            rc = moyai_call(ref, "block", MOYAI_NONE, MOYAI_NONE, NULL);
        }
        report(n, line, rc, got);
        moyai_future_free(f);
    }
    for (int i = 0; i < KNOWN; i++) moyai_ref_unref(known[i].ref);
    moyai_node_free(n);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) return serve(argv[2], false, false, &server_class);
    if (argc == 3 && strcmp(argv[1], "hooked") == 0) return serve(argv[2], false, false, &hooked_class);
    if (argc == 3 && strcmp(argv[1], "move") == 0) return serve(argv[2], true, false, &mover_class);
    if (argc == 3 && strcmp(argv[1], "both") == 0) return serve(argv[2], true, true, &mover_class);
    if (argc == 2 && strcmp(argv[1], "master") == 0) return master();
    if (argc == 2 && strcmp(argv[1], "once") == 0) {
        moyai_node_free(join(false));
        return 0;
    }
    return 98;
}
