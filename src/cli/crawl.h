/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is in a grid: ask the nodes that the rendezvous knows, those that this one is linked to, and whoever the answers
 * name as linked to them, until nobody new is named. So it finds all nodes of a connected grid, also where a rendezvous
 * gives a sample only, or there is none.
 *
 * Who is known where a grid of several hosts is met, and not found so, may be in a part of the grid that has no link to
 * the one that was found, be stopped, or have ended without a word: it is asked at last, and is one of those found
 * whether it answers or not. A node leaves its entry anew within 45 s, so what is older is not asked.
 *
 * All are asked through their runtime (moyai_node_ref), many at a time. Observers are left out, as are their links:
 * each says so of itself, and who has a link to one says so of it, so that it is not waited for.
 */
#ifndef CLI_CRAWL_H
#define CLI_CRAWL_H

#include "cli/observe.h"
#include <uthash.h>

enum crawl_state {
    CRAWL_UP,     /* info is there */
    CRAWL_SILENT, /* it did not answer in time */
    CRAWL_DEAD,   /* it has died, and the rendezvous had not heard of it */
    CRAWL_FAILED, /* why says what became of asking it */
};

struct crawl_node {
    UT_hash_handle hh;
    char id[33];
    enum crawl_state state;
    bool over;
    bool entry;    /* nobody is linked to it, as far as is known */
    bool observer; /* who is linked to it says so: it is not asked, or not waited for any more */
    moyai_future *asked;
    moyai_ns until;          /* it is waited for */
    struct crawl_node *next; /* of those that are asked again, after that pause, at that time */
    moyai_dur pause;
    moyai_ns at;
    moyai_value *info; /* NULL unless it is up: doc/spec/02-calls.md, 6.3 */
    struct moyai_error why;
    int64_t pid; /* 0: not known. With the title: what others say of it, or it itself */
    char title[128];
};

struct crawl {
    /* Given by who calls crawl(); NULL: nothing. Called on his fiber for each node that is up, as soon as it is known.
     */
    void (*seen)(const struct crawl_node *k, void *arg);
    void *arg;
    bool all_known; /* ask also who is known where the grid is met only: that may take the timeout once more */
    struct crawl_lost lost;
    char self[33];            /* the node that asks */
    struct crawl_node *all;   /* by id */
    struct crawl_node **node; /* those that are there, sorted by site, host, title and pid */
    size_t n;
};

/* A node that does not answer within the timeout is silent; one
 * that cannot be reached is asked again until then. Ends early when the node that asks is asked to stop. c: all
 * zero but for `seen`. 0, ENOMEM, or what the rendezvous says. */
int crawl(struct crawl *c, moyai_node *n, moyai_dur timeout, struct moyai_error *why);
void crawl_done(struct crawl *c);

const struct crawl_node *crawl_find(const struct crawl *c, const char *id);
const char *crawl_state_name(enum crawl_state s); /* "up", "silent", "dead", "failed" */

/* Fields of info; what is not there, or of another type, is "", 0, false or NULL. */
const char *info_text(const moyai_value *info, const char *key);
int64_t info_int(const moyai_value *info, const char *key);
bool info_bool(const moyai_value *info, const char *key);
double info_double(const moyai_value *info, const char *key);

#endif
