/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a grid is to be met: the rendezvous addresses of MOYAI_GRID and --grid, one or several with white space
 * between them.
 *
 *   file:/dir, /dir         a directory; its path is absolute, since those who meet there have begun in others
 *   http://host:port/GRID   a server (moyai endpoint)
 *   host:port               any member
 *   fd:R,W                  descriptors: what is written to W can be read at every member's R
 *
 * All places of a grid serve at once. A directory alone, without a key, makes a grid of one host (rendezvous.h): its
 * nodes are joined by Unix sockets, and it is its owner's. With a key, or one of several places, it is a place like the
 * others (meet.h), in which no nodes of a grid of one host may live.
 *
 * places_kind and places_may_be_grid look into the directory, and write nothing; all else is pure. Any thread.
 */
#ifndef OVERLAY_IO_PLACES_H
#define OVERLAY_IO_PLACES_H

#include <moyai/error.h>

#define PLACES_MOST 8u /* of each kind; of file: and fd: one */

struct places {
    char *file; /* file:/dir; NULL: none */
    char *http[PLACES_MOST], *member[PLACES_MOST];
    size_t n_http, n_member;
    int in, out; /* -1: none */
};

/* EINVAL: the text names the address and what is wrong with it. ENOMEM. Nothing is kept on failure. */
int places_parse(struct places *p, const char *text, struct moyai_error *reterr) MOYAI_MUST_USE;
const char *places_path(const char *url); /* of file:/dir or file:///dir; NULL: it is neither */
void places_done(struct places *p);

/* What is wrong with a word that is none of these; NULL: nothing more can be said. It lives as long as scratch. */
const char *places_reason(const char *word, struct moyai_error *scratch);

/* A file in a directory that keeps it a grid of one host, whatever keys there are: moyai run makes it in its own. */
#define PLACES_ONE_HOST "one-host"

/* Is it a directory in which a grid may be met: one's own, or empty, or not there yet? What else a directory is for
 * shall not be littered by a mistyped name. */
bool places_may_be_grid(const char *dir);

/* Is it a grid of several hosts? key: its name; NULL or "": none was given. EPERM: it is one, and needs a key; or nodes
 * live in its directory that have begun without, for a grid of one host. */
int places_kind(const struct places *p, const char *key, bool *wide, struct moyai_error *reterr) MOYAI_MUST_USE;

#endif
