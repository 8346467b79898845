/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of move_soak: its world, what a node and its callers are (move_caller.c), and homes
 * (move_home.c). */
#ifndef TESTS_SIM_MOVE_WORLD_H
#define TESTS_SIM_MOVE_WORLD_H

#include "base/err.h"
#include "exec/fiber.h"
#include "object/moved.h"
#include "object/refused.h"
#include "sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PLACES_MOST
#define PLACES_MOST 65536u
#endif
#define MS          ((moyai_ns)MOYAI_MS)
#define MOST        256u        /* nodes, those that join included */
#define OBJECTS     400u        /* at most */
#define STACK       (64u << 10) /* of a look-up's fiber; sanitizers need more than it does */
#define NOTICE      (300 * MS)  /* within which all hear of a death */
#define SLOWEST     (400 * MS)  /* a message, more or less */
#define AGAIN_PAUSE (100 * MS)  /* as object/move.c has them */
#define AGAIN_MOST  (3000 * MS)
#define ASTRAY_TIME (10000 * MS)
#define MOVERS      32u
#define QUIET       (2000 * MS) /* after which nothing is said to be nowhere that is not */
#define LASTLY      300u        /* calls then */

enum { HOST, ADOPT, SETTLE, DROP, CLAIM, ANSWER, CLAIMED, REQUEST, REPLY, FAREWELL };
enum { YES, NO, LEAVES }; /* answers; LEAVES: refused by the node, never executed */
enum fate { FLYING, TAKEN, LOST };
enum gone { HERE_STILL, DEAD, LEFT, CLEARED };

struct letter {
    uint32_t from, from_gen, to, to_gen, epoch, object, call;
    uint32_t mine;        /* of a claim: the gen of who claims, when it was asked */
    uint64_t number, ask; /* ask: of a mover; of a call: the attempt */
    int code;
    uint16_t round;
    uint8_t kind, fate;
    bool leaver, unsent; /* unsent: it had ended long before, so no session was opened */
};

struct node;
struct overlay {
    struct node *node;
};

/* Another node, as one knows it. */
struct peer {
    struct node *of;
    uint32_t other, gen, epoch;
    enum gone gone;
    bool late; /* it had ended when it was met first */
    moyai_future *open;
    struct peer *next;
};

struct call {
    moyai_future f;
    uint32_t index, caller, gen, object, begun;
    uint64_t letter, attempt, serial;
    bool oneway, over, ok, never, lastly;
};

struct request {
    struct call *call;
    uint32_t from, from_gen;
    uint64_t attempt;
    uint16_t round;
    bool leaver;
    struct request *next;
};

struct mover;
struct here {
    struct object ob;
    struct request *first, *last;
    struct mover *mover;
    bool named, arrives, departs, claims; /* claims: it does, or is about to */
    uint32_t from, from_gen, mine;        /* mine: the gen of its node, when that was asked */
    uint64_t claim;                       /* what is asked; 0: nothing just now */
    moyai_ns pause;
};

struct mover {
    struct node *node;
    uint32_t object, gen, to, to_gen, tried, start;
    uint8_t asks; /* what is asked, while `ask` is not 0 */
    uint64_t ask, letter, number;
    bool leaving, first, frozen, yours; /* yours: the new home was told so */
    moyai_ns pause;
    struct mover *next;
};

struct fib {
    struct fiber *fiber;
    struct node *node;
    void (*fn)(void *arg);
    void *arg;
    struct blocked *b; /* in block() */
    int result;
    uint64_t waits; /* which wait: what an outdated time-out tells */
    bool woken, runs;
    struct fib *next, *older;
};

struct block {
    struct block *next;
    _Alignas(16) char bytes[];
};

struct node {
    struct moyai_node n; /* first: what moved.c sees */
    struct overlay o;
    struct self_id ids[8];
    struct sim *s;
    uint32_t index, gen, wanted, moves, movers, arrivals, open, seeks, most, asks; /* asks: look-ups under way */
    bool dead, left, shunned, drains, never_leaves, looks;
    moyai_ns ended[8]; /* each of its ids, for others */
    enum gone how[8];
    struct peer *peers;
    struct here **here;
    struct mover *asking;
    uint32_t away[OBJECTS], n_away, asked, n_astray;
    struct astray {
        uint64_t number;
        uint32_t to, gen;
        bool soon;                      /* it may be asked for within ASTRAY_TIME */
    } given[OBJECTS], dropped[OBJECTS]; /* as object/astray.c has them */
};

struct pair {
    uint32_t epoch;
    moyai_ns blocked, last[2];
    moyai_dur delay[2];
};

struct sim {
    struct world w;
    struct moyai_rng rng;
    bool crashes, cuts, located, crowded, lastly, over, trace; /* crowded: one look-up at a time, at each node */
    uint32_t n, objects, calls, letters, letter_cap, call_cap;
    struct node *node[MOST];
    struct pair pair[MOST][MOST]; /* of the smaller and the larger index */
    struct letter *letter;
    struct call **call;
    uint32_t live[OBJECTS], home[OBJECTS], moved[OBJECTS]; /* home: where it was made */
    uint32_t dir[OBJECTS], dir_gen[OBJECTS];               /* node + 1; 0: no entry */
    bool excused[OBJECTS];
    uint64_t *order; /* the latest call begun, by caller and object */
    struct fib *idle, *all, *runs;
    struct fiber main;
    struct block *blocks;
    uint64_t asks, attempts, again, done, failed, lost, left, stays, refused; /* refused: look-ups */
    const char *wrong;
};

extern struct sim *world; /* that is run: for what the object layer calls */

static inline uint64_t drawn(struct sim *s, uint64_t below) {
    return rng_below(&s->rng, below);
}

static inline uint32_t number_of(const uint8_t id[16]) {
    return id[0] | (uint32_t)id[1] << 8;
}

static inline bool alive(const struct node *n) {
    return !n->dead && !n->left;
}

#define TRACE(s, ...)                                                                                                  \
    do {                                                                                                               \
        if ((s)->trace) {                                                                                              \
            printf("%.3f ms: ", (double)(s)->w.now / 1e6);                                                             \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
        }                                                                                                              \
    } while (0)

/* move_caller.c */
void wrong(struct sim *s, const char *what);
void *grown(void *p, uint32_t n, uint32_t *cap, size_t each);
void *kept(struct sim *s, size_t n);
void node_name(uint32_t i, uint32_t gen, uint8_t id[16]);
void object_name(uint32_t o, uint8_t id[16]);
struct pair *pair_of(struct sim *s, uint32_t a, uint32_t b);
struct peer *peer_get(struct node *n, uint32_t other, uint32_t gen);
uint64_t packed(uint32_t i, uint32_t other, uint32_t gen, uint32_t how);
void cut(struct sim *s, uint32_t a, uint32_t b);
uint32_t post(struct node *n, uint32_t to, uint32_t to_gen, struct letter l);
enum moving_say rule(struct node *n, struct here *h, enum moving_event ev, uint64_t number);
void call_new(struct node *n, uint32_t o, bool oneway);
void call_ends(struct call *c, int code, enum moyai_where where, enum moyai_executed executed);
void taken(void *who, uint64_t what);
void name_put(struct node *n, struct here *h);

/* move_home.c */
bool away(struct node *n, struct here *h);
void away_begin(struct node *n, struct here *h);
void arrivals_reborn(struct node *n);
void move_ask(struct node *n, uint32_t o, uint32_t to);
void session_fails(struct node *n, struct peer *p);
void notice_cut(void *who, uint64_t what);
void notice_gone(void *who, uint64_t what);
void spread(struct node *n, enum gone how);
void leave_if_done(struct node *n);
void arrive(void *who, uint64_t what);

#endif
