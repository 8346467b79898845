/* SPDX-License-Identifier: Apache-2.0 */
/* What route.c, route_ways.c, route_hand.c and names.c share. */
#ifndef OVERLAY_IO_ROUTE_INTERNAL_H
#define OVERLAY_IO_ROUTE_INTERNAL_H

#include "overlay/io/route.h"
#include "overlay/locate.h"
#include "overlay/relay.h"

#define TOKEN_KINDS 2u /* of which some are kept */

/* A session frame on its way (token.c). */
struct token {
    uint8_t *p;          /* its payload: in bytes, or lent */
    struct token **lent; /* set to NULL when it is freed */
    struct token *next;  /* of those kept for the next frame */
    uint32_t n;
    uint8_t type;
    uint8_t bytes[];
};

/* A path that ends here. */
struct end {
    uint64_t path; /* 0: none */
    struct peer *p;
    struct token *refusal; /* to be sent before all else */
    bool wanted;           /* WANT was said, ROOM has not come */
};

/* Which link a path was last sent over: when it fails, that way is bad. Small, and forgets. */
struct hop {
    uint64_t path;
    uint32_t slot;
};

/* Links by which paths to a node have failed of late, as bits of their slots. Small, and forgets. */
struct bad {
    uint8_t id[16];
    locate_set slots;
    moyai_ns until;
};

/* Whose path to a node has broken here, where the link to that node has ended. */
struct owed {
    uint8_t to[16], of[16];
    moyai_ns until;
};

/* By which link a forwarded frame of a node has come. Small, and forgets. */
struct back {
    uint8_t id[16];
    uint64_t link; /* 0: none */
};

/* Somebody waits for the locating machine. */
struct asker {
    UT_hash_handle hh;
    uint64_t token;
    uint64_t path; /* to be ROUTED; 0: for pings */
    uint8_t id[16];
    locate_set avoid;
    bool own; /* the path begins here */
};

struct effect {
    bool of_relay;
    union {
        struct locate_effect l;
        struct relay_effect r;
    };
};

struct route {
    struct overlay *o;
    struct locate *l;
    struct relay *r;
    struct exec_timer l_timer, r_timer;
    struct olink *slot[LOCATE_LINKS];
    struct olink *flush; /* what was put on these is to be written */
    struct effect *queue;
    size_t first, n, cap;
    bool acting, closing;
    bool relayed;     /* the relay machine has moved since its timer was set */
    bool lack_slots;  /* of links that are up one may be in no slot */
    struct end *ends; /* by relay_index */
    size_t n_ends;
    /* In one block (ways_new). */
    struct hop *hops;
    struct bad *bad;
    struct back *back;
    struct owed *owed;
    uint32_t n_hops, n_bad, n_back, n_owed, owed_next;
    struct asker *askers;
    struct find *finds;
    struct claim *claims;
    uint64_t last_token;
    uint64_t locating, forwarded; /* frames sent */
    struct token *kept[TOKEN_KINDS];
    uint32_t n_kept[TOKEN_KINDS];
};

/* Somebody waits for a name to be found. */
struct find {
    UT_hash_handle hh;
    uint64_t token;
    struct name_ask *ask;
    uint8_t key[16];
    moyai_ns until; /* 0: who has it now */
};

/* A name of this node. */
struct claim {
    UT_hash_handle hh;
    uint8_t key[16];
    struct moyai_object_id object;
    struct name_ask *ask; /* who waits for it to be held */
};

/* A step of the locating machine; its effects wait until route_run. Errors as of locate_step. */
int route_locate(struct route *t, struct locate_event *ev);
int route_relay(struct route *t, struct relay_event *ev); /* the same of the other, errors as of relay_step */
void route_flush_later(struct route *t, struct olink *k); /* what was put on it leaves in this turn (route_flush) */
void route_run(struct route *t);                          /* after every step from outside: do what the machines say */

/* token.c. A token's n bytes are its own, until others are lent to it; these stay where they are until it is freed
 * (*lent is NULL then) or keeps a copy. */
struct token *token_new(struct route *t, uint8_t type, uint32_t n); /* NULL: out of memory */
void token_lend(struct token *b, uint8_t *p, struct token **lent);
void token_keep(struct token *b);
void token_free(struct route *t, struct token *b);
void tokens_free(struct route *t); /* those kept for later */

/* route_hand.c: any link of the mesh but those to be avoided; NULL: there is none. */
struct olink *route_any_link(struct route *t, locate_set avoid);

/* route_ways.c */
void ways_find(struct route *t, const struct relay_effect *fx);          /* RELAY_FX_ROUTE */
void ways_located(struct route *t, const struct locate_effect *fx);      /* a look-up has ended */
void ways_hop_bad(struct route *t, uint64_t path, const uint8_t id[16]); /* what it was sent over does not lead there */
void ways_error(struct route *t, const struct olink *k, const struct relay_frame *f); /* it has come by that link */
void ways_link_ends(struct route *t, const struct olink *k); /* before the relay machine knows */
void ways_link_new(struct route *t, uint32_t slot);          /* another has that number now */
void ways_make_place(struct route *t); /* where places are short: end a session that nobody needs */
void ways_short(const struct end *e);  /* RELAY_FX_SHORT */
bool ways_new(struct route *t);        /* false: out of memory */
void ways_forget(struct route *t);     /* all of it */

/* names.c */
void names_found(struct route *t, const struct locate_effect *fx);
void names_claimed(struct route *t, const struct locate_effect *fx);
void names_close(struct route *t);
void names_repeat(struct route *t); /* all that stands and all that waits, to a machine that has just begun */

#endif
