/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The death machine inside: its block. Tests and the explorer include it.
 *
 *   links   death_link[links]   nodes this one has links to, or has given up for silence; in no order
 *   cases   death_case[cases]   free ones have no id
 *   seats   death_seat[cases][members]   the neighbours of each case's subject
 *   dead    death_dead[dead]    in no order
 *
 * Effects are not queued: they are what flags ask for (a member to be told, a death to be made known), found again by
 * death_next.
 */
#ifndef OVERLAY_DEATH_INTERNAL_H
#define OVERLAY_DEATH_INTERNAL_H

#include "base/id.h"
#include "overlay/death.h"

enum death_said { SAID_NOTHING, SAID_ENDED, SAID_ALIVE, SAID_NONE };

struct death_link {
    uint8_t id[16];
    uint64_t host;
    uint64_t silent; /* given up for silence: until when that is remembered; else 0 */
    uint32_t n;      /* links */
    uint32_t left;   /* others say that it has left: 1 or DEATH_CLEAR. It is so when its link ends, however it does */
};

struct death_seat { /* a neighbour of the subject */
    uint8_t id[16];
    uint64_t host, seq;
    uint32_t said; /* enum death_said */
    uint16_t say;  /* it is to be told where we stand */
    uint8_t told;  /* it was, since our own link ended */
    uint8_t owed;  /* it has said ENDED again, so it has not heard us: at the next look it is told again */
};

struct death_case {
    uint8_t id[16]; /* all zero: free */
    uint64_t host;
    uint64_t since;                      /* our own link's end, or when we first heard */
    uint32_t own;                        /* what we say: SAID_ENDED, SAID_ALIVE, SAID_NONE */
    uint32_t refused, overflow, objects; /* objects: the subject itself says it lives */
    uint16_t ask, probe;                 /* the subject itself is to be told */
    uint32_t alone;                      /* since our own link's end we have been without any: nobody could object */
    uint32_t n, late; /* late: looks taken: after the window, twice the window, and so on; 0: it has not passed */
    uint64_t asked;   /* when those inside who have said nothing were asked; 0: not yet */
    uint64_t silence; /* 1: a window has passed since, and their silence counts */
};

#define DEATH_CLEAR 2u

struct death_dead {
    uint8_t id[16];
    uint64_t until;
    uint32_t number;
    uint8_t cause, left, news; /* left: 2: cleared. news: is to be made known; 2: also to its neighbours */
    uint8_t hops;              /* to our links: with this less 1; 0: not to them */
};

struct death {
    /* configuration */
    uint8_t self[16];
    uint64_t host, window, life, keep;
    uint32_t links_cap, cases_cap, members, dead_cap;
    uint32_t first, call; /* call: whom the cases are told first is to be found anew */
    uint32_t off_links, off_cases, off_seats, off_dead;

    uint64_t seq;
    uint32_t links_n, dead_n;
    /* effects */
    uint32_t draining, told; /* told: TOLD is due, 2: was told */
    uint32_t stage, at;      /* of the death that is made known */
    uint32_t told_cause, told_number;
    uint32_t reply, reply_cause, reply_number, zero; /* reply: DEATH_ALIVE, _NONE or _DEAD or _LEFT, + 1 */
    uint8_t reply_to[16], reply_of[16];
    uint8_t from[16]; /* whose frame this is: it need not be told what it says */
};

static inline void *death_at(const struct death *d, uint32_t off) {
    return (char *)(uintptr_t)d + off;
}
static inline struct death_link *death_links(const struct death *d) {
    return death_at(d, d->off_links);
}
static inline struct death_case *death_cases(const struct death *d) {
    return death_at(d, d->off_cases);
}
static inline struct death_seat *death_seats(const struct death *d, const struct death_case *c) {
    return (struct death_seat *)death_at(d, d->off_seats) + (size_t)(c - death_cases(d)) * d->members;
}
static inline struct death_dead *death_deads(const struct death *d) {
    return death_at(d, d->off_dead);
}

struct death_link *death_link_to(const struct death *d, const uint8_t id[16]);
struct death_case *death_case_of(const struct death *d, const uint8_t id[16]);
struct death_dead *death_dead_of(const struct death *d, const uint8_t id[16]);
struct death_seat *death_seat_of(const struct death *d, const struct death_case *c, const uint8_t id[16]);
void death_link_remove(struct death *d, struct death_link *l);
void death_case_close(struct death *d, struct death_case *c);

#endif
