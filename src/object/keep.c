/* SPDX-License-Identifier: Apache-2.0 */
#include "object/keep.h"

#include <stdlib.h>

void keep_begin(moyai_node *n, struct keep *k) {
    exec_lock(n->x);
    *k = (struct keep){.next = n->kept, .at = &n->kept};
    if (k->next) k->next->at = &k->next;
    n->kept = k;
    exec_unlock(n->x);
}

void keep_clear_values(struct keep *k) {
    moyai_value_free(k->value);
    moyai_value_free(k->names);
    k->value = k->names = NULL;
}

void keep_clear(struct keep *k) {
    keep_clear_values(k);
    moyai_ref_unref(k->ref);
    k->ref = NULL;
    moyai_set_free(k->set);
    k->set = NULL;
}

void keep_end(moyai_node *n, struct keep *k) {
    exec_lock(n->x);
    *k->at = k->next;
    if (k->next) k->next->at = k->at;
    exec_unlock(n->x);
    keep_clear(k);
}

void keep_done(moyai_node *n) {
    for (; n->kept; n->kept = n->kept->next) {
        free(n->kept->set); /* its futures have gone */
        n->kept->set = NULL;
        keep_clear(n->kept);
    }
}
