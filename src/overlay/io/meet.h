/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Meeting places: rendezvous servers that are asked by HTTP, and directories that several hosts see
 * (doc/spec/07-rendezvous.md). Each place has a thread that does the asking, made at the first look, so that a name
 * server, a proxy or a file server that is slow holds nobody up, nor one place the others. libcurl is loaded then, not
 * before: programs that never leave their host do not pay for it. Proxies are taken from the environment, as curl(1)
 * does.
 *
 * All functions: node lock held. The callbacks come from the threads, with the node lock held.
 */
#ifndef OVERLAY_IO_MEET_H
#define OVERLAY_IO_MEET_H

#include "exec/exec.h"
#include "link/key.h"

#define MEET_PLACES    16u
#define MEET_ENTRY_MAX 3900u /* bytes of an entry before it is sealed */

/* What a text about meeting others is of, so that nobody need look for words in it. One bit each: a text about several
 * places, or about all of meeting, is of all these. */
enum met_what {
    MET_KEY = 1,          /* others have no key that we have; what to do is not said */
    MET_KEY_TOLD = 2,     /* the same, and the text says what to do */
    MET_CLOCK = 4,        /* an entry is not believed, be it ours */
    MET_NOT_YET = 8,      /* there is no answer yet */
    MET_SILENT = 16,      /* there was none in time */
    MET_NO_ENDPOINT = 32, /* what answers by HTTP's port does not speak HTTP */
    MET_ANSWERS = 64,     /* a place has answered, or others have come by one ... */
    MET_EMPTY = 128,      /* and an endpoint knows nobody ... */
    MET_YOUNG = 256,      /* or has just begun, and may not know of all */
    MET_FULL = 512,       /* one who was met has no place for us */
    MET_KNOWN = 1024,     /* nodes are known, and none has answered yet, be it by a refusal */
    MET_REFUSED = 4096,   /* nobody listens there: each address refuses the connection, or there is no way to it */
    MET_OTHER = 2048,     /* whatever else the text says */
    MET_UNREACHED = 8192, /* nodes are known, all of them were tried, and none can be connected to */
};

struct meet;

struct meet_ops {
    /* What somebody has left: unsealed, so it is a member's; it may be old, or this node's own. */
    void (*entry)(void *ctx, const uint8_t *p, size_t n);
    /* The place of that number has been asked: code 0, or why not: EUNREACHABLE, EPROTO, EPERM (it does not take our
     * entry), ESYS (libcurl is missing: the text says what to install), ENOSPC ... Text with 0: why not all may have
     * left their entries there yet; else "". what: of the text. */
    void (*asked)(void *ctx, size_t place, const char *url, int code, enum met_what what, const char *text);
    /* Before that: so many entries were there that no key of ours opens. */
    void (*foreign)(void *ctx, size_t place, const char *url, size_t n);
    /* All places have been asked for this time. */
    void (*done)(void *ctx);
};

/* urls: n of them, "http://host:port/GRID" or "file:/dir", copied. looks: the node only looks at the grid, and makes no
 * directory. keys: borrowed; looked into with the node lock
 * held. EINVAL (not such an address: the text says what is wrong), ENOMEM. */
int meet_new(struct meet **ret, struct exec *x, const struct keyfile *keys, const char *const *urls, size_t n,
             bool looks, const struct meet_ops *ops, void *ctx, struct moyai_error *reterr) MOYAI_MUST_USE;

/* What to leave under this id, from the next look on, for how long. n <= MEET_ENTRY_MAX; n == 0: nothing. ENOMEM. */
int meet_entry(struct meet *m, const uint8_t id[16], const uint8_t *p, size_t n, moyai_dur lifetime) MOYAI_MUST_USE;

/* Leave the entry at each place and take a sample of the others'. If it is being done, once more afterwards. ELIMIT (no
 * thread for any of them): `done` will not be called. Nothing is called from within. */
int meet_look(struct meet *m, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The end: no callback comes after it. Takes back the entry if that can be done within a second. Releases the node lock
 * while it waits for the threads. */
void meet_free(struct meet *m);

#endif
