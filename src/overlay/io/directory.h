/* SPDX-License-Identifier: Apache-2.0 */
/* Grids of one host, which are met in a directory: directory.c. Node lock held. */
#ifndef OVERLAY_IO_DIRECTORY_H
#define OVERLAY_IO_DIRECTORY_H

#include "overlay/io/entry.h"

struct overlay;

/* That the directory is that of several hosts, which cannot be: one who is of another. */
struct split {
    int64_t looked[2];           /* when what is there had changed, as its time says */
    char text[MOYAI_ERROR_TEXT]; /* "": none was found */
};

/* Open the directory of a grid of one host (url NULL: another kind), and choose the run directory. */
int directory_open(struct overlay *o, const char *url, struct moyai_error *reterr);
bool directory_is_dead(struct overlay *o, const struct moyai_node_id *id);
/* It may live, and cannot be reached, as its socket is in another run directory. */
bool directory_elsewhere(struct overlay *o, const struct moyai_node_id *id, struct moyai_error *why);
/* An entry that was read: if it is of another host that is kept, and said once. */
void directory_note(struct overlay *o, const struct rdv_node *e);

#endif
