/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by wide.c and wide_look.c only. */
#ifndef OVERLAY_IO_WIDE_INTERNAL_H
#define OVERLAY_IO_WIDE_INTERNAL_H

#include "overlay/io/alone.h"
#include "overlay/io/dial.h"
#include "overlay/io/listen.h"
#include "overlay/io/meet.h"
#include "overlay/io/meet_fd.h"
#include "overlay/io/met.h"
#include "overlay/io/wide.h"
#include "overlay/peers.h"

/* A connection being made: for the machine, or to a member whose address was given. */
struct making {
    struct making *next;
    struct wide *w;
    struct dial *dial;
    uint8_t id[16];
    const char *place; /* the member's address; NULL: for the machine, or a session */
    bool direct;       /* for a session */
};

struct wide {
    struct overlay *o;
    struct keyfile *keys;
    int64_t keys_at;     /* looked at last; seconds since 1970 */
    moyai_ns keys_until; /* one has ended or was withdrawn: links are looked at for theirs until then */
    struct tls_ctx *tls;
    struct places places;
    struct peers_cfg cfg;
    struct listeners listeners;
    struct peers *peers;
    struct peers_endpoint self;
    uint8_t text[PEERS_TEXT];
    struct exec_timer timer;
    struct meet *meet;
    struct met met;
    struct alone alone;
    struct {
        uint8_t id[16]; /* who was met there last */
        bool answered, away;
    } member[PLACES_MOST];
    size_t at_member, at_fd; /* the first of them there; before them those of `meet` */
    char fd_place[32];       /* what the latter is called */
    struct meet_fd *fds;
    struct making *making;
    struct making *failed; /* whose failure the machine is still to hear */
    unsigned looking;      /* places that have not answered yet */
    uint32_t entries;
    int64_t made; /* the last entry; seconds since 1970 */
    bool looked;  /* the machine is still to hear that all have */
    bool stepping, closing;
    bool waits; /* the machine is still to hear that a session does */
    /* Large, and of one step at a time. */
    struct peers_effect fx;
    struct peers_event later;
    struct peers_frame frame;
};

/* ev NULL: only what the machine is still to hear. Returns what it says to ev; EINVAL: of what was dropped meanwhile.
 */
int wide_step(struct wide *w, struct peers_event *ev);
void wide_keys_look(struct wide *w);    /* has the key file changed, have keys ended? */
void wide_has_answered(struct wide *w); /* one of the places that are looked at */
struct making *wide_making_new(struct wide *w, const char *const *places, size_t n);

/* wide_look.c */
extern const struct meet_ops wide_meet_ops;
extern const struct meet_fd_ops wide_fd_ops;
void wide_look(struct wide *w); /* within a step: what is told at once is told after it */

#endif
