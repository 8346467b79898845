/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One framed connection over a stream socket.
 *
 * The link gathers frames and writes them when it is flushed (once a turn, or when enough has
 * gathered), hands whole frames up, and reads the payload of large frames straight to where the layer
 * above wants it. It knows nothing of what frames mean. All functions: node lock held. Callbacks run
 * under the lock on whoever drives the loop.
 */
#ifndef LINK_LINK_H
#define LINK_LINK_H

#include "exec/exec.h"
#include "wire/frame.h"

struct link;
struct tls;

/* Frames of at least this many payload bytes are offered to `place`. */
#define LINK_LARGE 8192u
/* What `place` may look at: heads of layers above are shorter. */
#define LINK_PREFIX 128u

struct link_ops {
    /* A whole frame; payload lives until the return. Not 0: the link goes down with that error. */
    int (*frame)(struct link *l, const struct frame_head *h, uint8_t *payload, struct moyai_error *why);
    /*
     * A large frame begins; its first LINK_PREFIX payload bytes are at prefix. Return how many of these are
     * the layer's own head (at most LINK_PREFIX) and set *dest to where all the others go, or return 0: the
     * link assembles the frame and calls `frame`. dest must stay valid until `placed`, `frame` or `down`,
     * or until link_unplace.
     */
    size_t (*place)(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest);
    int (*placed)(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t *dest,
                  struct moyai_error *why);
    void (*room)(struct link *l); /* what was queued has drained below the mark: there is room again */
    /* The connection has ended: code 0 is end of file. Said once, never from within link_send or
     * link_flush; the link still exists until link_free. */
    void (*down)(struct link *l, const struct moyai_error *why);
};

/*
 * Adopt a non-blocking stream socket: one that is connected, or, with tls, still connecting. tls (may be NULL: in
 * clear) becomes the link's and is freed with it. What is queued waits until the handshake is done; if it fails, the
 * link goes down with the reason, and nothing has been said. NULL: out of memory (fd and tls stay the caller's).
 */
struct link *link_new(struct exec *x, int fd, struct tls *tls, const struct link_ops *ops, void *owner);
const struct tls *link_tls(const struct link *l); /* NULL: in clear */
int link_fd(const struct link *l);                /* its socket, to be waited for by who ends without the loop */
void link_free(struct link *l);                   /* closes the socket once what can be written at once is written */
void *link_owner(const struct link *l);

/* Hold all frames for `delay` and send no more than `rate` bytes a second (0: no limit): for tests and
 * benches that need a slow network. Before the first frame. */
void link_shape(struct link *l, moyai_dur delay, uint64_t rate);

/* What several links send goes over one line, as from a host with one network card: together no more than the rate,
 * which is the same for all. The line is zeroed, and outlives them. After link_shape, before the first frame. */
struct link_line {
    moyai_ns free; /* when all that they gave it is sent */
};
void link_share(struct link *l, struct link_line *line);

/* A piece of payload. small pieces are copied; pieces of LINK_LARGE bytes and more are borrowed until written. */
struct link_piece {
    const uint8_t *p;
    size_t n;
};
/* Queue a frame; h->length must be the sum of the pieces. 0 or MOYAI_ENOMEM (nothing queued). Queued
 * even without room: the caller looks at link_room first. */
int link_send(struct link *l, const struct frame_head *h, const struct link_piece *pieces, size_t n);
/* Space for a frame's payload of exactly h->length bytes inside the link's buffer, to be filled by the
 * caller before anything else is done with the link. NULL: out of memory. */
uint8_t *link_reserve(struct link *l, const struct frame_head *h);
size_t link_room(const struct link *l);   /* bytes that may be queued before it is better to wait */
size_t link_queued(const struct link *l); /* bytes not written yet */
void link_flush(struct link *l);          /* write what the socket takes */
/* The same, but what would not fill a packet stays. link_flush must follow within the turn: until then the kernel may
 * hold back the end of what was written. */
void link_flush_full(struct link *l);

/* What was queued was the last: frames that are sent from now on are dropped. What comes is read as before. */
void link_last(struct link *l);

/* Read once if something is there, outside the loop's order: false if nothing was. As a callback otherwise. */
bool link_look(struct link *l);

/* Borrowed bytes in [p, p + n) are about to change or vanish: copy what is still queued of them.
 * ENOMEM: the link was reset instead (down will be called). */
int link_unborrow(struct link *l, const void *p, size_t n);
/* The destination given by `place` in [p, p + n) is about to vanish: the rest of the frame is read
 * elsewhere and handed to `placed` with that other place. */
void link_unplace(struct link *l, const void *p, size_t n);

/* Give up the connection: down(why) follows from the loop. */
void link_reset(struct link *l, int code, const char *text);

#endif
