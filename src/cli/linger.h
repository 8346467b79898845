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
};
/* Lock not held; may switch fibers. */
void linger(struct lingering *l, moyai_node *n, const char *title, moyai_dur patience);
/* Its end is asked for at once. False: it does not linger. Lock held. */
bool linger_hurry(struct lingering *l);
/* How long it may, told to leave by then (UINT64_MAX: any time; 0: nobody has said when). */
moyai_dur linger_time(moyai_ns until);

#endif
