/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How any set of nodes goes at once, and no message is lost (S2, section 3; corrected: doc/spec/09-leave.md).
 *
 * A pure machine, one for each node. Nodes are joined by *channels*: reliable, in order, both ways. Of each, this node
 * has one end, its *port*, named by the number of the link. Messages of users (DATA) go over one channel, and are taken
 * by whichever node that stays gets them; a node that leaves passes them on.
 *
 * A leaver asks its neighbours for a way out (SEEK). Only a node that stays may originate the answer (ROOT); a leaver
 * that has a parent passes the question up to it, and the answer down. So an answer certifies that, after the question
 * was asked, there was a way from the answering neighbour to a node that stayed, and parents form trees that are rooted
 * at nodes that stay. Data move up them; leaves close first (ACK both ways).
 *
 *                  WANT               ROOT               all other ports closed or spare, nothing held
 *      NORMAL ------------> SEEKING ----------> ATTACHED --------------------------------> CLOSING ----> DONE
 *                              ^                   |                                        all ports closed
 *                              +-------------------+
 *                        the parent leaves, or its channel breaks
 *
 * What is held (DATA that came while there was no way on) is the driver's, in order; the machine has its number.
 */
#ifndef MEMBER_LEAVE_H
#define MEMBER_LEAVE_H

#include <moyai/error.h>

struct leave; /* one flat block of leave_size(cfg) bytes, offsets only, unused bytes zero */

struct leave_cfg {
    uint32_t ports; /* channels at once; 0: 512 */
};

enum leave_phase { LEAVE_NORMAL, LEAVE_SEEKING, LEAVE_ATTACHED, LEAVE_CLOSING, LEAVE_DONE };

enum leave_frame_kind {
    LEAVE_SEEK, /* n: I leave, and have no root for me or a child: can you lead me to one? No more DATA to you, unless
                   you become my parent */
    LEAVE_ROOT, /* n: yes, to your SEEK(n). And no more DATA to you */
    LEAVE_ACK,  /* my last frame on this channel */
    LEAVE_FRAMES,
};

enum leave_event_kind {
    LEAVE_EV_OPENING, /* link: this node, which stays, opens a channel; it may not be open yet, or never be */
    LEAVE_EV_OPEN,    /* link: it is open; or another node has opened one, and this node, which stays, has agreed */
    LEAVE_EV_REFUSED, /* link: it comes to nothing */
    LEAVE_EV_RESET,   /* link: the channel has broken, or its node died. What was under way in it is lost */
    LEAVE_EV_WANT,    /* to leave */
    LEAVE_EV_FRAME,   /* link, frame, n */
    LEAVE_EV_DATA,    /* link: a message of a user has come */
    LEAVE_EV_SAY,     /* link: this node's user sends one: over that channel, if it stays, else where there is a way */
    LEAVE_EV_PASS,    /* the parent's channel can take one of those held */
    LEAVE_EVENTS,
};

struct leave_event {
    enum leave_event_kind kind;
    enum leave_frame_kind frame;
    uint64_t link; /* not 0 */
    uint32_t n;    /* SEEK, ROOT: its number */
};

enum leave_effect_kind {
    LEAVE_FX_FRAME,   /* send frame, with n, over link */
    LEAVE_FX_DATA,    /* send what this node's user has said over link */
    LEAVE_FX_PASS,    /* send the oldest of those held over link */
    LEAVE_FX_DELIVER, /* what has come is for this node to deal with */
    LEAVE_FX_HOLD,    /* keep what has come, or what the user has said, behind those held */
    LEAVE_FX_CLOSE,   /* link has had its last frame both ways: close it. The machine has forgotten it */
    LEAVE_FX_DONE,    /* this node may end */
};

struct leave_effect {
    enum leave_effect_kind kind;
    enum leave_frame_kind frame;
    uint64_t link;
    uint32_t n;
};

size_t leave_size(const struct leave_cfg *cfg);                              /* 0: the configuration cannot work */
int leave_init(struct leave *l, const struct leave_cfg *cfg) MOYAI_MUST_USE; /* of zeroed bytes, aligned to 16 */

/* 0; EINVAL: no such event now, as the driver should know; EAGAIN: SAY, while others are held (say it again after a
 * PASS); EPROTO: the peer of this link breaks the rules, and the link is to be reset. Then nothing has changed. All
 * effects are to be fetched before the next step. */
int leave_step(struct leave *l, const struct leave_event *ev) MOYAI_MUST_USE;
bool leave_next(struct leave *l, struct leave_effect *out);

enum leave_phase leave_phase(const struct leave *l);
uint64_t leave_parent(const struct leave *l);           /* its link; 0: none */
uint32_t leave_held(const struct leave *l);             /* messages */
bool leave_knows(const struct leave *l, uint64_t link); /* a port that is not closed */
/* The peer of this link owes an answer: to our question, or our ACK. */
bool leave_waits(const struct leave *l, uint64_t link);
/* SEEKING, and each neighbour leaves as well, as far as it has said; or there is none. */
bool leave_alone(const struct leave *l);
bool leave_may_send(const struct leave *l,
                    uint64_t link); /* NORMAL: may DATA go there? Its node stays, as far as known */

/* What must hold between any two events; for tests and simulations. */
bool leave_check(const struct leave *l, struct moyai_error *why);

#endif
