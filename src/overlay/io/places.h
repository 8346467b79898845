/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a grid is to be met: the rendezvous addresses of MOYAI_GRID and --grid, one or several with white space
 * between them.
 *
 *   file:/dir               a directory
 *   http://host:port/GRID   a server (moyai endpoint)
 *   host:port               any member
 *   fd:R,W                  descriptors: what is written to W can be read at every member's R
 *
 * Pure; any thread.
 */
#ifndef OVERLAY_IO_PLACES_H
#define OVERLAY_IO_PLACES_H

#include <moyai/error.h>

#define PLACES_MOST 8u /* of each kind; of file: and fd: one */

struct places {
    char *file; /* the whole address; NULL: none */
    char *http[PLACES_MOST], *member[PLACES_MOST];
    size_t n_http, n_member;
    int in, out; /* -1: none */
};

/* EINVAL: the text names the address and what is wrong with it. ENOMEM. Nothing is kept on failure. */
int places_parse(struct places *p, const char *text, struct moyai_error *reterr) MOYAI_MUST_USE;
const char *places_path(const char *url); /* of file:/dir or file:///dir; NULL: it is neither */
void places_done(struct places *p);

/* Only a directory: its nodes are all of one host. */
static inline bool places_local(const struct places *p) {
    return p->file && p->n_http + p->n_member == 0 && p->in < 0;
}

#endif
