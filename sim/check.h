/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law of sessions, as seen from outside both ends: what was given, what came out, what was reported.
 *
 * One flow is one direction: its messages are numbered from 1 in the order in which they were given, and
 * their numbers are the machine's tokens. The flow watches what the sender's machine puts into frames, what
 * the receiver's delivers and what the sender's reports, and knows with certainty what both ends can only
 * conclude. All calls return NULL, or the law that was broken.
 *
 *  - A byte is delivered once, at its place, and is the byte that was given (chunks carry token and offset
 *    through the simulated wire, where a real wire would carry the bytes).
 *  - Messages begin in the order in which they were given.
 *  - Each message is reported exactly once. ACKED: it was delivered whole. NEVER: it was not, and never will
 *    be; and said whenever the sender can know that the last byte did not arrive. MAY HAVE: only otherwise.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "overlay/session.h"

enum check_fate { CHECK_UNTOLD, CHECK_ACKED, CHECK_NEVER, CHECK_MAYBE };

struct check_message {
    uint64_t length;
    uint64_t got;    /* bytes delivered */
    uint32_t stream; /* on which it arrives; while it does */
    uint8_t fate;    /* enum check_fate */
    uint8_t flying;  /* its last byte was sent, and no count of the peer's excludes it */
    uint8_t begun, whole, aborted;
    uint8_t zero[3];
};

#define CHECK_STREAMS 64

/* Flat, with its messages behind it, so that explored worlds can hold it. */
struct check_flow {
    uint32_t given, room;
    uint32_t last_begun;                  /* number of the message that was last seen to begin */
    uint32_t told;                        /* messages reported */
    uint32_t arriving[CHECK_STREAMS + 1]; /* on each stream: number of a message */
    struct check_message m[];
};

size_t check_flow_size(uint32_t messages);
void check_flow_init(struct check_flow *f, uint32_t messages); /* memory of that size, zeroed here */

const char *check_given(struct check_flow *f, uint64_t token, uint64_t length);
/* What a chunk takes of a frame's room and a path's credit: its head and its bytes. */
uint64_t check_bytes(const struct session_chunk *c);
/* The sender pulled a DATA frame; `payload` is what it may hold. */
const char *check_pulled(struct check_flow *f, const struct session_frame *frame, uint64_t payload);
/* Will the machine take this frame, and does it count what the peer has taken, for good? Then what is not in the count
 * has not arrived and will not: to be said of the flow that this machine sends, before the effects of the step. */
bool check_counts(const struct session *s, const struct session_frame *f);
void check_counted(struct check_flow *f);
/* The receiver's machine said DELIVER or ABORTED for a chunk of this frame. */
const char *check_delivered(struct check_flow *f, const struct session_frame *frame, const struct session_effect *fx);
/* The sender's machine said ACKED or DROPPED. */
const char *check_reported(struct check_flow *f, const struct session_effect *fx);
/* The sender's machine ended: all has been reported. */
const char *check_ended(const struct check_flow *f);

#endif
