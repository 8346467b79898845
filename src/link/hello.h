/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello: what two nodes tell each other first on every link, so that what does not fit is refused on both
 * sides, loudly, before anything else is believed.
 *
 * Payload of one FRAME_HELLO: a CBOR map from small unsigned integers (the table in hello.c) to values, at most
 * HELLO_MAX bytes. A reader skips keys it does not know, so fields can be added without a new protocol version. The
 * version range keeps its place and form in all versions: a hello of a version too new to be understood is decoded
 * as far as that, and then refused by hello_accept with both versions in the text.
 *
 * Pure; any thread.
 */
#ifndef LINK_HELLO_H
#define LINK_HELLO_H

#include <moyai/error.h>

#define HELLO_PROTO_MIN 1 /* link protocol versions this build speaks */
#define HELLO_PROTO_MAX 1
#define HELLO_LEAVE     1 /* version of the leave protocol */

#define HELLO_MAX       4096u /* bytes of an encoded hello */
#define HELLO_TEXT      128u  /* bytes of a text with its NUL */
#define HELLO_ENDPOINTS 8u
#define HELLO_MIN_FRAME 4096u /* nobody may take less than this in a frame */

struct link_hello {
    uint32_t proto_min, proto_max;
    char version[32]; /* of the library, for people */
    struct moyai_node_id node;
    uint8_t host[16]; /* rundir_host(); all zero: shares a host with nobody */
    int64_t pid;
    bool big_endian;
    uint8_t pointer_bits;   /* 32 or 64 */
    char machine[32];       /* "x86_64" */
    uint32_t max_frame;     /* payload bytes the sender of the hello takes in a frame */
    uint64_t max_message;   /* bytes it takes in a message */
    char title[HELLO_TEXT]; /* what people call the process */
    uint32_t n_endpoints;
    char endpoints[HELLO_ENDPOINTS][HELLO_TEXT]; /* where it can be reached from elsewhere */
    bool observer;                               /* it looks at others, and soon goes */
    uint32_t leave; /* version of the leave protocol it speaks (doc/spec/09-leave.md); 0: none */
};

/* This process's hello, without endpoints. title may be NULL; it is cut and cleaned to fit. */
void hello_fill(struct link_hello *h, const struct moyai_node_id *node, const uint8_t host[16], const char *title,
                uint32_t max_frame, uint64_t max_message);

/* Copy text so that it may stand in a hello: cut to cap - 1 bytes between characters; control characters and what
 * is not UTF-8 become '?'. */
void hello_text(char *dst, size_t cap, const char *src);

/* Bytes written to out, or a negative error: EINVAL names the field that may not be sent. */
int hello_encode(const struct link_hello *h, uint8_t out[HELLO_MAX], struct moyai_error *reterr) MOYAI_MUST_USE;

/* Any bytes. 0, or ETOOBIG, EDATA, EDEPTH, ENOMEM with the reason; *ret is touched only on success. */
int hello_decode(const uint8_t *p, size_t n, struct link_hello *ret, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The version to speak with `theirs` (> 0): the highest both know. Else EVERSION (no common one; the text names both
 * ranges and both releases), or EPROTO (it carries this node's own id: the node has reached itself). */
int hello_accept(const struct link_hello *mine, const struct link_hello *theirs,
                 struct moyai_error *reterr) MOYAI_MUST_USE;

#endif
