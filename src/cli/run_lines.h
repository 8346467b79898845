/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of many writers merged into one stream: each comes out whole, behind the prefix of its writer.
 *
 * A line is held back until its newline has come, or the end of its writer, which gives it one. A line of more than
 * LINES_MOST bytes is passed on in pieces. Nobody else's line is held up by the rest of it: if one comes in between, it
 * is put on a new line, and the long one goes on after it with its prefix again. With one writer, or none in between,
 * not a byte is added to a long line.
 *
 * To a terminal a carriage return ends a piece, too, so that progress shown in one line moves.
 *
 * Pure. Memory: at most LINES_MOST bytes a writer, besides what the reader of the merged stream leaves in it: who feeds
 * looks at lines_size() and stops feeding.
 */
#ifndef CLI_RUN_LINES_H
#define CLI_RUN_LINES_H

#include <moyai/error.h>

#define LINES_MOST   (64u << 10)
#define LINES_PREFIX 64

struct lines_in;

/* The merged stream. All zero to begin with, then lines_out_done. */
struct lines_out {
    uint8_t *p;
    size_t at, n, cap;           /* p[at..n) waits for its reader */
    const struct lines_in *open; /* whose unfinished line is the last thing in the stream */
    bool returned;               /* and it ended in a carriage return */
    bool terminal;
};

/* One writer. All zero and a prefix to begin with, then lines_in_done. */
struct lines_in {
    char prefix[LINES_PREFIX];
    uint8_t *part; /* a line that has no end yet */
    size_t n, cap;
    bool begun; /* some of it has been passed on */
};

/* Take the next bytes of a writer. 0 or ENOMEM: the bytes are lost. */
int lines_feed(struct lines_out *o, struct lines_in *i, const uint8_t *p, size_t n) MOYAI_MUST_USE;
/* The writer has ended. 0 or ENOMEM. */
int lines_end(struct lines_out *o, struct lines_in *i) MOYAI_MUST_USE;
/* A whole line of one's own, without prefix; text has no newline. 0 or ENOMEM. */
int lines_say(struct lines_out *o, const char *text) MOYAI_MUST_USE;

static inline size_t lines_size(const struct lines_out *o) {
    return o->n - o->at;
}
void lines_take(struct lines_out *o, size_t n); /* the first n bytes have been read */

void lines_out_done(struct lines_out *o);
void lines_in_done(struct lines_out *o, struct lines_in *i);

#endif
