/* SPDX-License-Identifier: Apache-2.0 */
/* The time by which a run, or an agent, has ended: --wall-time, or that of the job of a batch system. */
#ifndef CLI_WALL_H
#define CLI_WALL_H

#include "cli/cli.h"

#define WALL_REST (3 * MOYAI_SEC) /* before: what was not asked in vain is killed; then what is to be said is said */

struct wall {
    moyai_ns until; /* 0: there is none */
    const char *of; /* whose it is, for a message: "its wall time", "the job's time" */
};

/* The value of --wall-time; exits with a usage hint. wall_check, when --grace is known, too. */
moyai_dur wall_option(const struct argp_state *state, const char *text);
void wall_check(const struct argp_state *state, moyai_dur wall_time, moyai_dur grace);

/* From now on. wall_time 0: not given; then that of the batch system counts, which is said. */
void wall_begin(struct wall *w, moyai_dur wall_time, moyai_dur grace, const char *title);
/* When all are told to end, and when who has not is killed. */
moyai_ns wall_tells(const struct wall *w, moyai_dur grace);
moyai_ns wall_kills(const struct wall *w);
/* That time, or less: so that a node that does something for so long, and leaves then, has gone by the wall time. */
moyai_dur wall_most(const struct wall *w, moyai_dur d);
/* "the job's time is over in 8.0 s" */
void wall_text(const struct wall *w, char out[100]);

#endif
