/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of a run write: read from their pipes, merged by lines (run_lines.h), written to our standard
 * output and standard error, and to files.
 *
 * A reader of ours that stops makes the processes wait: above OUTPUT_HIGH bytes not yet written, their pipes are not
 * read. A reader that has gone is the processes' to notice: their pipes are closed, so that the next write gives them
 * SIGPIPE, as if they wrote to that reader themselves.
 *
 * Node lock held, everywhere.
 */
#ifndef CLI_RUN_OUTPUT_H
#define CLI_RUN_OUTPUT_H

#include "exec/exec.h"

#define OUTPUT_HIGH (256u << 10)

struct output;
struct output_pair; /* one process's standard output and standard error */

struct output_cfg {
    bool prefix;
    bool color;      /* where the output is a terminal */
    const char *dir; /* also DIR/GROUP.INDEX.out and .err; NULL: no files. Borrowed */
    /* Something has ended or was written: look at output_done(). On the driver, never from within a call. */
    void (*changed)(void *arg);
    void *arg;
};

/* Makes dir if it is missing. ENOMEM, and what that says. */
int output_new(struct output **ret, struct exec *x, const struct output_cfg *cfg, struct moyai_error *reterr);
void output_free(struct output *o); /* pairs are freed with it; what is not written is lost. NULL is fine */

/* A process is to be started: fd[0] and fd[1] are for its descriptors 1 and 2, the caller's to close once it is. */
int output_open(struct output *o, struct output_pair **ret, unsigned group, unsigned index, int fd[2],
                struct moyai_error *reterr);
/* The same for a process elsewhere, whose output is given with output_give. host: stands in the prefix, too. room(arg)
 * is called when there is room again after output_give has said that there is none; not from within a call. */
int output_open_given(struct output *o, struct output_pair **ret, unsigned group, unsigned index, const char *host,
                      void (*room)(void *arg), void *arg, struct moyai_error *reterr);
enum output_given { OUTPUT_TAKEN, OUTPUT_FULL, OUTPUT_UNWANTED };
/* n bytes of its standard output (which: 1) or standard error (2): all are taken, but with OUTPUT_FULL no more should
 * be given before room is called. OUTPUT_UNWANTED: there is no reader any more. */
enum output_given output_give(struct output_pair *p, int which, const void *bytes, size_t n);
/* It has ended. */
void output_close_given(struct output_pair *p);
/* Its process has ended: pass on what it has written up to now, as far as there is room. */
void output_drain(struct output_pair *p);

/* A line of our own on standard error. */
void output_say(struct output *o, const char *fmt, ...) MOYAI_PRINTF(2, 3);

/* Nothing is left to read: every process and whoever has its pipes has ended; and nothing to be written. */
bool output_done(const struct output *o);
/* Whoever could write has ended: what is in the pipes is all. */
void output_finish(struct output *o);
/* Has the reader of our standard output gone? */
bool output_unread(const struct output *o);
/* Why one of our two outputs cannot be written (errno; a full disk): its writers have been cut off. 0: both can. */
int output_unwritable(const struct output *o);
/* Was something lost: could not be written (a full disk), or no memory? It has been said. */
bool output_failed(const struct output *o);

#endif
