/* SPDX-License-Identifier: Apache-2.0 */
/* The node as an object: node_object.c. Node lock held. */
#ifndef OBJECT_NODE_OBJECT_H
#define OBJECT_NODE_OBJECT_H

#include "object/message.h"

/* Is this request for the node itself? n bytes of a request, at least its fixed head. */
static inline bool node_object_is(const moyai_node *node, const uint8_t *bytes, size_t n) {
    return n >= REQUEST_HEAD && node_is(node, bytes + 16);
}

/*
 * Do what the request asks of the node: 0, and the results are in *out, which the caller ends, from REPLY_HEAD on; its
 * first bytes are in buf. Else *no says what is wrong, and *out is not to be touched. p: who asks; NULL: this node.
 * bytes: the whole request.
 */
int node_object_call(moyai_node *n, const struct peer *p, const struct request_head *h, const uint8_t *bytes,
                     size_t len, struct codec_out *out, uint8_t *buf, size_t cap, struct moyai_error *no);

/* This node runs commands for others: what info() says of it. The reference is borrowed until this is called again;
 * NULL: none does any more. */
void node_object_agent(moyai_node *n, moyai_ref *ref, uint64_t slots, uint64_t used);

#endif
