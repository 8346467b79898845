/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: what travels on a link. A fixed header of 16 bytes, little-endian, then the payload:
 *
 *   0 version (1)   1 type   2 class   3 hops left   4..7 label   8..11 payload length   12..15 zero
 *
 * A decoder looks at the length before anything else is believed: a frame over FRAME_MAX is refused.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <moyai/error.h>

#define FRAME_VERSION 1
#define FRAME_HEAD    16
#define FRAME_MAX     (1u << 20) /* payload bytes */

enum frame_type {
    FRAME_HELLO = 1,    /* CBOR map, link/hello.h */
    FRAME_FAREWELL = 2, /* the peer leaves in order: what follows is end of file. label: FAREWELL_... */
    FRAME_PING = 3,     /* 8 bytes, answered by PONG with the same bytes */
    FRAME_PONG = 4,
    FRAME_DEAD = 5,     /* evidence of death: member/evidence.h */
    FRAME_SESSION = 16, /* 16 + enum session_frame_kind, overlay/session_wire.h */
    FRAME_SESSION_LAST = 25,
    FRAME_RELAY = 32, /* 32 + enum relay_kind, overlay/relay_wire.h */
    FRAME_RELAY_LAST = 38,
    FRAME_LOCATE = 40, /* 40 + enum locate_frame_kind, overlay/locate_wire.h */
    FRAME_LOCATE_LAST = 47,
    FRAME_PEERS = 48, /* 48 + enum peers_frame_kind, overlay/peers_wire.h */
    FRAME_PEERS_LAST = 59,
    FRAME_DEATH = 64, /* 64 + enum death_frame_kind, overlay/death_wire.h */
    FRAME_DEATH_LAST = 68,
    FRAME_DIRECT_ASK = 70, /* forwarded only: overlay/io/direct.h */
    FRAME_DIRECT_TELL = 71,
    FRAME_FORWARD = 72, /* to another node: its id (16), the sender's (16), type (1), zero (7), payload of that type */
    FRAME_LEAVE = 73,   /* 73 + enum leave_frame_kind: member/leave.h, overlay/io/depart.c */
    FRAME_LEAVE_LAST = 75,
};

#define FAREWELL_CLEARED 1u /* what it has not answered it has not executed */
#define FAREWELL_COUNTED 2u /* nor what it has not acknowledged in the session over this link */

enum frame_class {
    FRAME_CONTROL = 0, /* small, never waits for credit */
    FRAME_SMALL = 1,
    FRAME_BULK = 2,
};

struct frame_head {
    uint8_t type, class_, hops;
    uint32_t label;
    uint32_t length;
};

void frame_put_head(uint8_t out[FRAME_HEAD], const struct frame_head *h);
/* 0; EVERSION; EPROTO (reserved bytes not zero, unknown class); ETOOBIG. reterr says what was found. */
int frame_get_head(const uint8_t in[FRAME_HEAD], struct frame_head *h, struct moyai_error *reterr);

#endif
