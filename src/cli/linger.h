/* SPDX-License-Identifier: Apache-2.0 */
/* What a verb's node does that was told to end when all else has: it leaves the grid as any node does, and is there for
 * those that have no other way, which is said. */
#ifndef CLI_LINGER_H
#define CLI_LINGER_H

#include "node/node.h"

#define LINGER_TIME (10 * MOYAI_SEC) /* where nobody has said how long */

struct lingering {
    struct exec_timer timer;
    moyai_node *node;
    const char *title;
    bool on, said;
    bool asked; /* a signal has asked the process to end, before or meanwhile: then it takes LINGER_TIME at most */
};
/* Lock not held; may switch fibers. Nothing of *l is set before but `asked`. */
void linger(struct lingering *l, moyai_node *n, const char *title, moyai_dur patience);
/* Its end is asked for at once; nothing if it does not linger. Lock held. */
void linger_hurry(struct lingering *l);
/* A signal has come, the first one or another: that ends it at once. Nothing if it does not linger. Lock held. */
void linger_signal(struct lingering *l, int sig, bool again);
/* How long it may, told to leave by then (UINT64_MAX: any time; 0: nobody has said when). */
moyai_dur linger_time(moyai_ns until);

#endif
