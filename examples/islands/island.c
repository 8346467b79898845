/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The island's object: equals that call each other, without any master.
 *
 * Places. An island takes the first place k whose name "islands/INSTANCE/k" nobody living has. Names are all that
 * islands need to meet: the next and the previous living place, round and round, are an island's neighbours. It looks
 * them up again every second and whenever a call to one has failed, so newcomers are found and the dead are left out.
 * How far the places go (`highest`) travels with every exchange: places beyond a gap are known from there.
 *
 * Exchange. run() breeds in slices, a generation each unless that is long, and yields between two, so that calls of
 * others are served. Every EXCHANGE generations it sends each neighbour its best and a random individual,
 * asynchronously; the answer brings the neighbour's. Whatever comes from outside is first judged by the checker.
 *
 * The end. Each island comes to its own end, prints its best, and stays for the others a while. The one at the lowest
 * place of those that have ended asks all round the ring: when it finds that all have ended, or after its patience, it
 * prints the best of all and goes round once more to say so, and all that have ended leave. If it dies in between, the
 * next one finds itself the lowest. Islands that still breed take no notice.
 *
 * No method of an island blocks, but run().
 */
#include "island.h"

#include "examples/flowshop/check.h"
#include "genetic.h"

#include <moyai.h>
#include <stdarg.h>
#include <stdio.h>

#define EXCHANGE 50 /* generations */
#define GUESTS   4  /* the most individuals in a message */
#define REFRESH  MOYAI_SEC
#define ANSWER   (2 * MOYAI_SEC) /* patience with one call: an island's process may be stopped */
#define STAY     (5 * MOYAI_SEC) /* patience with islands that have not ended */
#define STAY_OUT MOYAI_SEC       /* the same, if this one was asked to end */

struct neighbour {
    moyai_ref *ref; /* NULL: none on this side */
    int k;
    moyai_future *f; /* of the exchange on its way, or NULL */
};

struct island {
    const struct island_opts *o;
    moyai_node *node;
    moyai_ref *self;
    struct genetic *g;
    int k, highest;           /* own place; the highest heard of */
    struct neighbour near[2]; /* next, previous */
    moyai_ns refresh;         /* when the neighbours are looked up again */
    uint64_t exchange;        /* the generation of the next exchange */
    bool ended, agreed;       /* this island; the archipelago */
    bool complained;
};

static moyai_ns after(moyai_dur d) {
    return moyai_now() + (moyai_ns)d;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    fflush(stdout);
}

/* ---- individuals that travel ----------------------------------------------------------------- */

struct guests {
    const uint16_t *perms; /* borrowed from the message */
    const int32_t *makespans;
    size_t n_perms, n;
};

/* All are right and taken in, or none: -1, and *f says why. */
static int take_in(struct island *is, const struct guests *them, struct fail *f) {
    size_t n = (size_t)is->o->in->n;
    if (them->n > GUESTS || them->n_perms != them->n * n)
        return fail_set(f, "%zu makespans and %zu jobs", them->n, them->n_perms);
    for (size_t i = 0; i < them->n; i++)
        if (check_solution(is->o->in, them->perms + i * n, n, them->makespans[i], f)) return -1;
    for (size_t i = 0; i < them->n; i++) genetic_admit(is->g, them->perms + i * n, them->makespans[i]);
    return 0;
}

/* What came back from the island at place k. False: not what it should be; said once. */
static bool welcome(struct island *is, const struct guests *them, int k) {
    struct fail f;
    if (take_in(is, them, &f) == 0) return true;
    if (!is->complained) fprintf(stderr, "islands: island %d sent no solution: %s\n", k, f.text);
    is->complained = true;
    return false;
}

static void hear_of(struct island *is, int place) {
    if (place > is->highest && place < ISLAND_PLACES) is->highest = place;
}

/* ---- methods --------------------------------------------------------------------------------- */

/* exchange(highest, permutations, makespans) -> the same */
static int exchange(moyai_request *rq, void *self) {
    struct island *is = self;
    int highest;
    struct guests in;
    struct fail f;
    if (moyai_args(rq, MOYAI_INTO(&highest, moyai_into_u16s(&in.perms, &in.n_perms),
                                  moyai_into_i32s(&in.makespans, &in.n))) < 0)
        return moyai_raise(rq, MOYAI_EARGS, "exchange(highest, permutations, makespans)");
    if (take_in(is, &in, &f)) return moyai_raise(rq, MOYAI_EDATA, "%s", f.text);
    hear_of(is, highest);
    uint16_t perms[2 * INSTANCE_MAX_JOBS];
    size_t n = (size_t)is->o->in->n;
    int32_t makespans[2] = {genetic_best(is->g, perms), genetic_any(is->g, perms + n)};
    return moyai_return(rq, MOYAI_ARGS(is->highest, moyai_u16s(perms, 2 * n), moyai_i32s(makespans, 2)));
}

/* best(agreed) -> has it ended?, permutation, makespan */
static int best(moyai_request *rq, void *self) {
    struct island *is = self;
    bool agreed;
    if (moyai_args(rq, MOYAI_INTO(&agreed)) < 0) return moyai_raise(rq, MOYAI_EARGS, "best(agreed)");
    if (agreed && is->ended) {
        is->agreed = true;
        moyai_signal(is->self);
    }
    uint16_t perm[INSTANCE_MAX_JOBS];
    int32_t makespan = genetic_best(is->g, perm);
    return moyai_return(rq, MOYAI_ARGS(is->ended, moyai_u16s(perm, (size_t)is->o->in->n), moyai_i32s(&makespan, 1)));
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void place_name(const struct island *is, int k, char name[64]) {
    snprintf(name, 64, "islands/%s/%d", is->o->in->name, k);
}

/* Who lives at a place? NULL: nobody. The reference is the caller's. */
static moyai_ref *at_place(struct island *is, int k) {
    char name[64];
    moyai_ref *ref;
    place_name(is, k, name);
    return moyai_lookup(is->node, name, &ref) == 0 ? ref : NULL;
}

static int settle(struct island *is) {
    for (is->k = 0; is->k < ISLAND_PLACES; is->k++) {
        char name[64];
        place_name(is, is->k, name);
        int rc = moyai_register(is->self, name);
        if (rc == 0) hear_of(is, is->k);
        if (rc != MOYAI_EEXIST && rc != MOYAI_EAGAIN) return rc;
    }
    return MOYAI_EEXIST;
}

static void explore(struct island *is) {
    for (int k; (k = is->highest + 1) < ISLAND_PLACES;) {
        moyai_ref *ref = at_place(is, k);
        if (!ref) return;
        moyai_ref_unref(ref);
        hear_of(is, k);
    }
}

static moyai_ref *nearest(struct island *is, int step, int *k) {
    int places = is->highest + 1;
    for (*k = (is->k + step + places) % places; *k != is->k; *k = (*k + step + places) % places) {
        moyai_ref *ref = at_place(is, *k);
        if (ref) return ref;
    }
    return NULL;
}

static void part(struct neighbour *b) {
    moyai_future_free(b->f);
    moyai_ref_unref(b->ref);
    *b = (struct neighbour){.k = -1};
}

static void look_around(struct island *is) {
    bool news = false;
    is->refresh = after(REFRESH);
    explore(is);
    for (int side = 0; side < 2; side++) {
        struct neighbour *b = &is->near[side];
        int k;
        moyai_ref *ref = nearest(is, side == 0 ? 1 : -1, &k);
        if (ref && side == 1 && k == is->near[0].k) { /* there are but two of us */
            moyai_ref_unref(ref);
            ref = NULL;
        }
        if (ref ? b->ref && moyai_ref_equal(ref, b->ref) : !b->ref) {
            moyai_ref_unref(ref);
            continue;
        }
        part(b);
        if (ref) *b = (struct neighbour){.ref = ref, .k = k};
        news = true;
    }
    if (!news) return;
    if (is->near[1].ref)
        say("island %d: between %d and %d\n", is->k, is->near[1].k, is->near[0].k);
    else if (is->near[0].ref)
        say("island %d: beside %d\n", is->k, is->near[0].k);
    else
        say("island %d: alone\n", is->k);
}

static void talk(struct island *is, struct neighbour *b, bool due) {
    if (b->f && moyai_future_ready(b->f)) {
        int highest;
        struct guests in;
        int rc = moyai_future_get_masked(
            b->f, MOYAI_INTO(&highest, moyai_into_u16s(&in.perms, &in.n_perms), moyai_into_i32s(&in.makespans, &in.n)));
        if (rc == 0 && welcome(is, &in, b->k))
            hear_of(is, highest);
        else
            is->refresh = 0;
        moyai_future_free(b->f);
        b->f = NULL;
    }
    if (!b->ref || b->f || !due) return;
    uint16_t perms[2 * INSTANCE_MAX_JOBS];
    size_t n = (size_t)is->o->in->n;
    int32_t makespans[2] = {genetic_best(is->g, perms), genetic_any(is->g, perms + n)};
    b->f = moyai_call_async(b->ref, "exchange",
                            MOYAI_ARGS(is->highest, moyai_u16s(perms, 2 * n), moyai_i32s(makespans, 2)));
    moyai_future_deadline(b->f, ANSWER);
}

/* ---- the end --------------------------------------------------------------------------------- */

struct census {
    int islands;    /* living, this one among them */
    int lowest;     /* place of one that has ended */
    bool all_ended; /* no living one breeds */
};

/* Asks all round the ring for their best, which is taken in; agreed tells them to leave if they have ended. */
static struct census ask_ring(struct island *is, bool agreed) {
    struct census c = {.islands = 1, .lowest = is->k, .all_ended = true};
    moyai_future *calls[ISLAND_PLACES] = {NULL};
    explore(is);
    int last = is->highest;
    for (int k = 0; k <= last; k++) {
        moyai_ref *ref = k == is->k ? NULL : at_place(is, k);
        if (!ref) continue;
        calls[k] = moyai_call_async(ref, "best", MOYAI_ARGS(agreed));
        moyai_future_deadline(calls[k], ANSWER);
        moyai_ref_unref(ref);
    }
    for (int k = 0; k <= last; k++) {
        bool ended;
        struct guests in;
        if (!calls[k]) continue;
        int rc = moyai_future_get_masked(calls[k], MOYAI_INTO(&ended, moyai_into_u16s(&in.perms, &in.n_perms),
                                                              moyai_into_i32s(&in.makespans, &in.n)));
        if (rc == 0 && welcome(is, &in, k)) {
            c.islands++;
            c.all_ended &= ended;
            if (ended && k < c.lowest) c.lowest = k;
        }
        moyai_future_free(calls[k]);
    }
    return c;
}

static void agree(struct island *is) {
    moyai_ns patience = after(moyai_node_stopping(is->node) ? STAY_OUT : STAY);
    say("island %d: best %d\n", is->k, genetic_best(is->g, NULL));
    is->ended = true;
    while (!is->agreed) {
        struct census c = ask_ring(is, false);
        bool lowest = c.lowest == is->k;
        if (lowest && !is->agreed && (c.all_ended || moyai_now() >= patience)) {
            say("%s: best %d over %d islands\n", is->o->in->name, genetic_best(is->g, NULL), c.islands);
            ask_ring(is, true);
            return;
        }
        moyai_sleep(is->node, lowest ? 20 * MOYAI_MS : 200 * MOYAI_MS); /* "agreed" ends it */
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool wait_for_others(struct island *is) {
    for (int k = 0; k < is->o->islands && !moyai_node_stopping(is->node);) {
        char name[64];
        moyai_ref *ref;
        place_name(is, k, name);
        if (moyai_lookup_wait(is->node, name, 100 * MOYAI_MS, &ref) < 0) continue;
        moyai_ref_unref(ref);
        k++;
    }
    return !moyai_node_stopping(is->node);
}

static bool enough(const struct island *is, moyai_ns end) {
    const struct island_opts *o = is->o;
    return genetic_best(is->g, NULL) <= o->target || (o->generations && genetic_generation(is->g) >= o->generations) ||
           moyai_now() >= end || moyai_node_stopping(is->node);
}

static int run(moyai_request *rq, void *self) {
    struct island *is = self;
    const struct island_opts *o = is->o;
    int rc = settle(is);
    if (rc < 0) return moyai_raise(rq, rc, "no place for an island: %s", moyai_strerror(rc));
    is->g = genetic_new(o->in, o->population, o->seed + (uint64_t)is->k * 0x9e3779b97f4a7c15u);
    if (!is->g) return moyai_raise(rq, MOYAI_ENOMEM, "out of memory for a population");
    if (wait_for_others(is)) {
        moyai_ns end = o->seconds > 0 ? after((moyai_dur)(o->seconds * 1e9)) : UINT64_MAX;
        for (; !enough(is, end); moyai_yield(is->node)) {
            if (moyai_now() >= is->refresh) look_around(is);
            bool due = genetic_generation(is->g) >= is->exchange;
            if (due) is->exchange += EXCHANGE;
            for (int side = 0; side < 2; side++) talk(is, &is->near[side], due);
            genetic_step(is->g);
        }
    }
    agree(is);
    return 0;
}

static const struct moyai_method methods[] = {{"exchange", exchange}, {"best", best}, {"run", run}, {NULL, NULL}};
static const struct moyai_class island_class = MOYAI_CLASS("Island", methods, NULL);

int island_main(const struct island_opts *o) {
    struct island is = {.o = o, .near = {{.k = -1}, {.k = -1}}};
    struct moyai_node_opts opts = MOYAI_NODE_OPTS_INIT;
    opts.title = "islands";
    opts.signals = true;
    struct moyai_error e;
    int rc = moyai_node_new(&is.node, &opts, &e);
    if (rc == 0) rc = moyai_object_new(is.node, &island_class, &is, &is.self, &e);
    if (rc == 0) {
        rc = moyai_call(is.self, "run", MOYAI_NONE, MOYAI_NONE, NULL);
        if (rc < 0) moyai_last_error(is.node, &e);
    }
    if (rc < 0) fprintf(stderr, "islands: %s\n", e.text);
    for (int side = 0; side < 2; side++) part(&is.near[side]);
    moyai_ref_unref(is.self);
    moyai_node_free(is.node);
    genetic_free(is.g);
    return rc < 0 ? 1 : 0;
}
