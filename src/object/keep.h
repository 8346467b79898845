/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fiber of ours has while it waits. A node that ends abandons its fibers (node.h): what they keep is freed then.
 */
#ifndef MOYAI_OBJECT_KEEP_H
#define MOYAI_OBJECT_KEEP_H

#include "object/internal.h"

/* On the fiber's stack, which outlives the list. Its owner sets and clears these; each may be NULL. */
struct keep {
    moyai_value *value, *names;
    moyai_ref *ref;
    moyai_set *set;
    struct keep *next, **at;
};

/* Lock not held, of all but the last. */
void keep_begin(moyai_node *n, struct keep *k);
void keep_clear_values(struct keep *k);
void keep_clear(struct keep *k);
void keep_end(moyai_node *n, struct keep *k); /* frees what it has */
void keep_done(moyai_node *n);                /* the node ends; the futures have gone */

#endif
