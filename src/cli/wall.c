/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch system kills what is still there when the time of its job is over. So all are told to end as long before as
 * ending may take: --grace, and WALL_REST for what comes after.
 *
 * Of Slurm that time is known from the environment. Others name a job's length there at most, and not since when.
 */
#include "cli/wall.h"

#include "base/config.h"
#include "base/dur.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SLURM_END "SLURM_JOB_END_TIME" /* seconds since 1970 */

#define LONG_AGO   (366 * 86400)     /* seconds: longer ago it is no time of a job at all */
#define LAST_WORDS (2500 * MOYAI_MS) /* of WALL_REST: a node that leaves closes its links so long at most */
#define LEAST      (100 * MOYAI_MS)

static moyai_ns add(moyai_ns t, moyai_dur d) {
    moyai_ns sum;
    return __builtin_add_overflow(t, (moyai_ns)d, &sum) || sum > INT64_MAX ? INT64_MAX : sum;
}

static moyai_dur lead(moyai_dur grace) {
    return grace > MOYAI_FOREVER - WALL_REST ? MOYAI_FOREVER : grace + WALL_REST;
}

moyai_dur wall_option(const struct argp_state *state, const char *text) {
    moyai_dur d = cli_duration(state, "wall-time", text);
    if (d <= 0) cli_usage(state, "--wall-time: '%s' is no time at all", text);
    return d;
}

void wall_check(const struct argp_state *state, moyai_dur wall_time, moyai_dur grace) {
    if (wall_time && wall_time <= lead(grace))
        cli_usage(state, "--wall-time: %s is not more than ending may take, which is --grace (%s) and %s: give %s",
                  DUR(wall_time), DUR(grace), DUR(WALL_REST), wall_time > WALL_REST ? "less --grace" : "more time");
}

/* "in 1.9 h, at 2026-11-30 14:03:20" */
static void format_time(time_t at, moyai_dur in, char out[80]) {
    struct tm tm;
    char text[40] = "";
    if (localtime_r(&at, &tm)) (void)strftime(text, sizeof text, ", at %F %T", &tm);
    snprintf(out, 80, "in %s%s", DUR(in), text);
}

static void from_batch_system(struct wall *w, moyai_dur grace, const char *title) {
    const char *text = getenv(SLURM_END);
    int64_t at = 0;
    struct timespec now;
    char when[80];
    if (!text || !*text) return;
    if (config_parse_integer(text, &at) < 0) {
        cli_say(title,
                "warning: " SLURM_END " is '%.40s', not seconds since 1970, so it is not known when the job ends: "
                "give --wall-time",
                text);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    if (at <= now.tv_sec) {
        char ago[60] = "";
        if (at > now.tv_sec - LONG_AGO) snprintf(ago, sizeof ago, ", %s ago", DUR((now.tv_sec - at) * MOYAI_SEC));
        cli_say(title,
                "warning: " SLURM_END
                " is %lld%s, which is not when a job ends that runs, so it is not known when this "
                "one does: give --wall-time",
                (long long)at, ago);
        return;
    }
    if (at - now.tv_sec > MOYAI_FOREVER / MOYAI_SEC) return; /* never */
    const moyai_dur left = (at - now.tv_sec) * MOYAI_SEC - now.tv_nsec;
    *w = (struct wall){.until = add(moyai_now(), left), .of = "the job's time"};
    format_time((time_t)at, left, when);
    if (left > lead(grace))
        cli_say(title,
                "the job's time is over %s (" SLURM_END "): to end %s before that; --wall-time sets another time", when,
                DUR(lead(grace)));
    else
        cli_say(title,
                "the job's time is over %s (" SLURM_END "), and ending may take %s: to end at once; --wall-time sets "
                "another time",
                when, DUR(lead(grace)));
}

void wall_begin(struct wall *w, moyai_dur wall_time, moyai_dur grace, const char *title) {
    *w = (struct wall){.of = "its wall time"};
    if (wall_time)
        w->until = add(moyai_now(), wall_time);
    else
        from_batch_system(w, grace, title);
}

moyai_ns wall_tells(const struct wall *w, moyai_dur grace) {
    const moyai_ns before = (moyai_ns)lead(grace);
    return w->until > before ? w->until - before : 1;
}

moyai_ns wall_kills(const struct wall *w) {
    return w->until > (moyai_ns)WALL_REST ? w->until - (moyai_ns)WALL_REST : 1;
}

static moyai_dur until(moyai_ns when) {
    const moyai_ns now = moyai_now();
    return when > now ? (moyai_dur)(when - now) : 0;
}

moyai_dur wall_most(const struct wall *w, moyai_dur d) {
    if (!w->until) return d;
    const moyai_dur most = until(w->until) - LAST_WORDS;
    if (d <= most) return d;
    return most > LEAST ? most : LEAST;
}

void wall_text(const struct wall *w, char out[100]) {
    snprintf(out, 100, "%s is over in %s", w->of, DUR(until(w->until)));
}
