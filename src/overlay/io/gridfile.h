/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid file: the few links that somebody has to name, because both hosts refuse what comes from without and only
 * ssh gets through. One line each, moyai-grid-file(5):
 *
 *   forward HOST1 HOST2 [reverse] [user=USER] [port=PORT] [jump=HOST,...] [listen=PORT] [to=[HOST:]PORT]
 *
 * A node of HOST1 connects to one of HOST2. ssh is run by HOST1 (-L), or, with `reverse`, by HOST2 (-R). The same file
 * serves all hosts: each takes of it what concerns itself.
 *
 * All words end up as arguments of ssh, so they are made of characters that mean nothing to it or to a shell; brackets
 * stand around an IPv6 address of jump= only. Pure.
 */
#ifndef OVERLAY_IO_GRIDFILE_H
#define OVERLAY_IO_GRIDFILE_H

#include <moyai/error.h>

#define GRIDFILE_LINES 64u
#define GRIDFILE_MOST  (64u * 1024) /* bytes */
#define GRIDFILE_TO    26922u       /* where nodes of HOST2 listen for it, without to= */

struct gridfile_line {
    unsigned number;  /* in the file, from 1 */
    char host[2][64]; /* HOST1, HOST2 */
    bool reverse;
    char user[64], jump[256]; /* "": not given */
    uint16_t port;            /* of the ssh server; 0: not given */
    uint16_t listen;          /* at the connecting host; 0: any that is free */
    char to_host[64];         /* as HOST2 calls it; "127.0.0.1": HOST2 itself */
    uint16_t to;
};

struct gridfile {
    struct gridfile_line line[GRIDFILE_LINES];
    size_t n;
};

/* path: what texts call it. EINVAL: they name the line, what is wrong, and what is accepted. */
int gridfile_parse(struct gridfile *g, const char *path, const char *text, size_t n,
                   struct moyai_error *reterr) MOYAI_MUST_USE;

/* Is that name of the file the host with this name? Either may be without its domain. */
bool gridfile_is_host(const char *name, const char *host);

/* The same for lines that say the same, capitals or not, whatever their numbers. */
uint64_t gridfile_hash(const struct gridfile_line *l);

#endif
