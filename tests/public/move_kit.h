/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of objects that move share: a class that moves, nodes that take such objects and do with them what
 * they are told, and numbers by which all these wait for each other.
 */
#ifndef TESTS_PUBLIC_MOVE_KIT_H
#define TESTS_PUBLIC_MOVE_KIT_H

#include "tests/public/kit.h"

extern moyai_node *node;
extern _Atomic uint32_t *counts; /* zeros when open_hosts is called */
enum {
    PACKED,
    UNPACKED,
    DESTROYED,
    DONE, /* calls of `hold` that have begun */
    HOOKS,
    LATE,    /* of these, those that ran when something had been packed */
    DIES,    /* 1: in pack; 2: in unpack; 3, 4: fails in these; 5: its node leaves in unpack */
    PACKS,   /* 1: pack takes long, and says so: 2, until 3 */
    UNPACKS, /* likewise, unpack */
    WAITS,   /* 1: the method `quit`, and what else of the hosts waits for it, until 2 */
    BEGUN,   /* calls of these that wait */
    LOAD,    /* requests that `spin` sees at its node, itself among them; 0: it does not run */
    LEAVES,  /* the node of one of these has been told to leave */
    ENDS,    /* 1: on_leave ends the object; then 2 and what that returned, negated; MAKES: it makes another; RESTS: it
              * waits, until 0 */
    COUNTS
};
#define MAKES 1000000u
#define RESTS 1000001u

/*
 * The class Counter:
 *     next(u32) -> int how many before, int pid
 *     add(u32)
 *     get() -> int calls, u32 sum of what it was given, in order, u64 pid where it was made
 *     hold() -> int pid             when it is signalled
 *     take() -> int                 MOYAI_SIGNALLED if a signal is pending, else 0
 *     sum(doubles) -> double, int pid
 *     quit() -> int                 waits, and ends its own object: what that returned
 * Of a host:
 *     make(name) -> Counter; make_big(u8) -> an object of class Big: check() -> u64 bytes that are wrong, u8, int pid
 *     move(object, host) -> int; try(object, host) -> int, text: at once; soon: within half a second
 *     later(host, object, host to have it) -> int: waits, and then has the first move it
 *     end(object) -> int; name(object, name) -> int; unname(object, name) -> int
 *     mark() -> u64 objects there
 *     wait()                        also where its node leaves
 *     visit(object)                 calls it: so that host knows where it is
 *     load(host, object)            calls `hold` of the object, and `bulk` there, which waits and returns BULK bytes
 *     spin()                        computes while WAITS is 1
 *     poke(object) -> int           what a call of it comes to
 *     make_late() -> Counter        when it may, as `wait`
 *     send(object, method, u32, bool)  so many one-way calls of it, with 0, 1 ..., and a signal if it is `add`; waits
 * before fill(u64)                     takes names, or gives them up, until there is room for so many
 */
extern const struct moyai_class host_class;
extern const struct kit_role move_roles[];

enum { HOSTS = 3, BULK = 8 << 20 };
extern moyai_ref *host[HOSTS];
extern pid_t pid[HOSTS];
extern bool wide;      /* a grid of several hosts, on one: each node has a run directory of its own */
extern bool hidden;    /* and of that the first host alone can be connected to, and takes no Counter */
extern bool bare;      /* Counter has no on_leave */
extern char grid[128]; /* not empty: a directory instead of kit_dir() */

void open_hosts(int n); /* and this process's node */
void close_hosts(int n);
pid_t start(const char *name, int at); /* one more, in the place of that number */

moyai_ref *made_at(int i, const char *name);
bool says_that_it_leaves(int i); /* in the grid's directory */
int move(moyai_ref *ref, int from, int to);
moyai_future *begin_move(moyai_ref *ref, int from, int to);
int end_move(moyai_future *f); /* what the move returned; frees it */
uint64_t mark(int i);          /* what was sent to that node is there */

extern uint32_t expected;      /* sum */
extern int called;             /* by call_next */
int call_next(moyai_ref *ref); /* where */
void expect_sum(moyai_ref *ref);

#endif
