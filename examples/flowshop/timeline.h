/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture (SVG) of a run: how many workers there were over time and what they did, with events marked.
 * Self-contained, no scripts; light or dark as the viewer prefers.
 */
#ifndef FLOWSHOP_TIMELINE_H
#define FLOWSHOP_TIMELINE_H

#include "bytes.h"
#include "fail.h"

#include <stddef.h>

struct timeline_sample {
    double seconds; /* since the begin of the run; the counts hold from here to the next sample */
    int workers;
    int greedy, running; /* of them looking for a start value, and in the search; the rest is idle */
};

enum timeline_kind { TIMELINE_NOTE, TIMELINE_LOST };

struct timeline_event {
    double seconds;
    const char *label;       /* UTF-8, a few words: "w3 joined", "w1 lost", "ta011: optimum 1582 proved" */
    enum timeline_kind kind; /* LOST: a worker was killed or has left, which is to be seen at first sight */
};

/* What is drawn where, UTF-8, a few words; NULL: as of flowshop. */
struct timeline_names {
    const char *workers, *greedy, *running, *lost; /* in the legend; running alone: there is no greedy */
    const char *axis;
};

struct timeline {
    const char *title;                     /* UTF-8, one line */
    double seconds;                        /* length of the run; less than the last sample or event: up to that */
    const struct timeline_sample *samples; /* in order of time */
    size_t n_samples;
    const struct timeline_event *events; /* in order of time */
    size_t n_events;
    struct timeline_names names;
};

/* Appends the picture to *out (see out->failed). Labels that find no room are shown when pointed at. */
void timeline_draw(const struct timeline *t, struct bytes *out);

/* Draws into a file, which is replaced only by a whole picture. -1: *f, and no file is left behind. */
int timeline_write(const struct timeline *t, const char *path, struct fail *f);

#endif
