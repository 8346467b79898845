/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of meeting places only: what a kind of place (meet_http.c, meet_dir.c) has of the whole. */
#ifndef OVERLAY_IO_MEET_INTERNAL_H
#define OVERLAY_IO_MEET_INTERNAL_H

#include "link/seal.h"
#include "overlay/io/meet.h"

#include <pthread.h>

#define MEET_SEALED_MAX 4096u
#define MEET_SAMPLE     128u /* entries taken at one look */

struct place;

/* All on the place's thread, without any lock. */
struct place_kind {
    /* Leave the entry, take others. 0, or why not: the rest was done all the same, as far as it went. */
    int (*ask)(struct place *p, struct moyai_error *why);
    void (*goodbye)(struct place *p); /* take the entry back; within a second where that can be said */
    void (*wake)(struct place *p);    /* the node ends: from another thread, once `multi` is there. May be NULL */
    void (*done)(struct place *p);    /* free what is the kind's; no thread runs */
};

struct place {
    struct meet *m;
    const struct place_kind *kind;
    char *url;                      /* as it was given, without a '/' at the end */
    char purpose[SEAL_PURPOSE + 1]; /* of the entries that are sealed there */
    pthread_t thread;
    bool started, wanted; /* under the mutex */
    bool left;            /* something of ours may be there; the thread's own, as all below */
    size_t foreign;       /* entries of this look that no key of ours opens */
    enum met_what what;   /* of the text that the look will end with */
    void *multi;          /* http; set by place_multi */
    uint8_t *answer;
    struct http_socket *sockets; /* node lock */
    bool node_locked;            /* the node's thread does the rest */
};

struct meet {
    struct exec *x;
    const struct keyfile *keys;
    const struct meet_ops *ops;
    void *ctx;
    bool looks; /* nothing is made where there is nothing */
    size_t n;
    struct place place[MEET_PLACES];

    /* Between the node and the threads, under the mutex; the node lock is taken before it. */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool busy, again, stop; /* a look is under way; another one is to follow; the node ends */
    size_t asking;          /* threads that have not done with this look */

    /* Node lock. */
    uint8_t id[16];
    uint8_t *entry;
    size_t n_entry;
    moyai_dur lifetime;
};

/* The entry, sealed with the first key as of now; n == 0: there is none to leave. */
struct place_entry {
    char id[33];
    uint8_t sealed[MEET_ENTRY_MAX + SEAL_MORE];
    size_t n;
    moyai_dur lifetime;
};
void place_entry(struct place *p, struct place_entry *e);
void place_withdrawal(struct place *p, struct place_entry *e); /* what takes it back */
/* What somebody has left, anything. All of it is first counted, so that whoever is soon done with looking at the grid
 * knows that there are some with another key, and then taken; place_counted tells it, once a look. */
void place_count(struct place *p, const uint8_t *sealed, size_t n);
void place_counted(struct place *p);
void place_take(struct place *p, const uint8_t *sealed, size_t n);
bool place_stopping(struct place *p);
void place_multi(struct place *p, void *multi);

int meet_http_check(const char *url, struct moyai_error *reterr);
const char *meet_http_grid(const char *url); /* of an address that is one */
int meet_http_ask(struct place *p, struct moyai_error *why);
void meet_http_goodbye(struct place *p);
void meet_http_wake(struct place *p);
void meet_http_done(struct place *p);

int meet_dir_ask(struct place *p, struct moyai_error *why);
void meet_dir_goodbye(struct place *p);

#endif
