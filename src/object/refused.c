/* SPDX-License-Identifier: Apache-2.0 */
#include "object/refused.h"

#include "object/moved.h"

#include <stdlib.h>

#define REFUSED_MOST 65536u /* the oldest goes then: its callers have heard of it long ago */

struct refused {
    UT_hash_handle hh;
    struct {
        uint8_t caller[16], object[16];
    } key;
    uint16_t round;
};

static struct refused *find(const moyai_node *n, const uint8_t caller[16], const uint8_t object[16]) {
    struct refused *r, key;
    memcpy(key.key.caller, caller, 16);
    memcpy(key.key.object, object, 16);
    HASH_FIND(hh, n->refused, &key.key, sizeof key.key, r);
    return r;
}

static void drop(moyai_node *n, struct refused *r) {
    HASH_DEL(n->refused, r);
    free(r);
}

bool refused_before(moyai_node *n, const uint8_t caller[16], const uint8_t object[16], uint16_t round) {
    struct refused *r = find(n, caller, object);
    if (!r) return false;
    if (r->round == round) return true;
    drop(n, r);
    return false;
}

int refused_note(moyai_node *n, const uint8_t caller[16], const uint8_t object[16], uint16_t round) {
    struct refused *r = find(n, caller, object);
    if (!r) {
        if (HASH_COUNT(n->refused) >= REFUSED_MOST) drop(n, n->refused);
        r = calloc(1, sizeof *r);
        if (!r) return MOYAI_ENOMEM;
        memcpy(r->key.caller, caller, 16);
        memcpy(r->key.object, object, 16);
        HASH_ADD(hh, n->refused, key, sizeof r->key, r);
        if (!r->hh.tbl) {
            free(r);
            return MOYAI_ENOMEM;
        }
    }
    r->round = round;
    return 0;
}

void refused_elsewhere(const moyai_request *rq, const uint8_t caller[16], const uint8_t object[16], uint16_t round) {
    if (rq->peer && object_moves(object) && refused_note(rq->node, caller, object, round) < 0)
        overlay_break(rq->peer, "out of memory for an answer");
}

void refused_done(moyai_node *n) {
    while (n->refused) drop(n, n->refused);
}
