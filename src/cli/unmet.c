/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unmet.h"

#include "base/log.h"
#include "exec/child.h"
#include "node/node.h"
#include "overlay/io/met.h"
#include "overlay/io/overlay.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define REPORT     2000
#define FRESH      (60 * MOYAI_SEC) /* nodes say anew where they are within 45 s */
#define PAUSE_MOST (3600 * MOYAI_SEC)

static const char by_key[] = "; compare moyai key show here and there, and copy the grid's key file";
static const char by_silence[] =
    "; is the address right, its host up, a firewall between? Or is what listens there stopped, or "
    "something else than an endpoint or a member?";
static const char by_stopped[] =
    "; members are known there, but none answers: are they stopped, did they end without a word, or is a firewall "
    "between, and no member known that all can connect to?";
#define BY_YOUNG "n endpoint that has just begun hears of all nodes within 45 s"
#define BY_UNREACHED                                                                                                   \
    "; of the nodes that are known there none can be connected to from here: if they have not ended, a member is "     \
    "missing to which all can connect (an endpoint is none; see moyai(7))"
static const char by_unreached[] = BY_UNREACHED, by_young_unreached[] = BY_UNREACHED "; a" BY_YOUNG;
static const char by_nobody[] = "; is the name right? A" BY_YOUNG;
static const char by_http[] = "; if it is a member, write HOST:PORT, without http://";
static const struct {
    unsigned what;
    const char *advice;
} advices[] = {
    {MET_KEY_TOLD, ""},          {MET_KEY, by_key},
    {MET_KNOWN, by_stopped},     {MET_UNREACHED, by_unreached},
    {MET_YOUNG, "; a" BY_YOUNG}, {MET_NOT_YET | MET_SILENT, by_silence},
    {MET_NO_ENDPOINT, by_http},  {MET_EMPTY, by_nobody},
};

const char *unmet_advice(unsigned what) {
    const unsigned first = MET_KEY_TOLD | MET_KEY | MET_KNOWN;
    if (what & MET_UNREACHED && what & MET_YOUNG && !(what & first)) return by_young_unreached;
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if (what & advices[i].what) return advices[i].advice;
    return "";
}

void unmet_begin(struct unmet *u, enum unmet_who who) {
    *u = (struct unmet){.began = moyai_now(), .pause = UNMET_SILENT, .who = who};
}

/* But for numbers: that there are more of the same is not news. */
static void without_numbers(char *out, size_t cap, const char *text, size_t n) {
    static const char many[] = "entries there are", one[] = "entry there is";
    size_t at = 0;
    for (size_t i = 0; i < n && at + 1 < cap; i++) {
        if (strncmp(text + i, many, sizeof many - 1) == 0) {
            at += (size_t)snprintf(out + at, cap - at, "%s", one);
            i += sizeof many - 2;
        } else if (!isdigit((unsigned char)text[i])) {
            out[at++] = text[i];
        }
    }
    out[at < cap ? at : cap - 1] = 0;
}

static bool same(const char *said, const char *text) {
    char a[UNMET_TEXT], b[UNMET_TEXT];
    without_numbers(a, sizeof a, said, strlen(said));
    without_numbers(b, sizeof b, text, strlen(text));
    return strcmp(a, b) == 0;
}

static bool others_are_hidden(unsigned what) {
    return what & (MET_KEY | MET_KEY_TOLD | MET_CLOCK);
}

bool unmet_some(const struct overlay *o, const char *grid, char line[UNMET_LINE]) {
    char text[OVERLAY_UNMET];
    unsigned about;
    (void)overlay_unmet(o, text, &about);
    if (!others_are_hidden(about)) return false;
    snprintf(line, UNMET_LINE, "not all of the grid at '%.200s' is seen: %s%s", grid, text, unmet_advice(about));
    return true;
}

/* While keys are replaced all over a grid that passes by itself. */
static bool lasts(struct unmet *u, bool now_so) {
    moyai_ns now = moyai_now();
    if (!now_so)
        u->hidden = 0;
    else if (!u->hidden)
        u->hidden = now;
    return now_so && (now - u->hidden >= (moyai_ns)UNMET_LASTS || u->hidden - u->began < (moyai_ns)UNMET_LASTS);
}

static bool was_said(const struct unmet *u, const char *key) {
    for (unsigned i = 0; i < UNMET_SAID && i < u->n_said; i++)
        if (same(u->said[i], key)) return true;
    return false;
}

static bool is_time(struct unmet *u) {
    moyai_ns now = moyai_now();
    if (now < u->next) return false;
    if (u->spoke) { /* it changes to and fro, perhaps */
        u->next = now + (moyai_ns)u->pause;
        u->pause = u->pause * 2 < PAUSE_MOST ? u->pause * 2 : PAUSE_MOST;
    }
    u->spoke = true;
    return true;
}

/* Say it, unless it was said. */
static bool news(struct unmet *u, const char *text, unsigned what) {
    if (was_said(u, text) || !is_time(u)) return false;
    snprintf(u->said[u->n_said++ % UNMET_SAID], sizeof u->said[0], "%s", text);
    u->advice = unmet_advice(what);
    u->needs_link |= others_are_hidden(what);
    return true;
}

bool unmet_was_said(const struct unmet *u, const char *grid, const char *report) {
    char part[UNMET_TEXT], said[UNMET_TEXT];
    if (!*report) return false;
    for (const char *end; *report; report = end) {
        end = strstr(report, "; ");
        end = end ? end : report + strlen(report);
        size_t n = strlen(grid); /* a place that is the only one is not named */
        if (strncmp(report, grid, n) == 0 && strncmp(report + n, ": ", 2) == 0) report += n + 2;
        without_numbers(part, sizeof part, report, (size_t)(end - report));
        bool found = false;
        for (unsigned i = 0; i < UNMET_SAID && i < u->n_said && !found; i++) {
            without_numbers(said, sizeof said, u->said[i], strlen(u->said[i]));
            found = strstr(said, part) != NULL;
        }
        if (!found) return false;
        if (*end) end += 2;
    }
    return true;
}

static bool all_is_well(struct unmet *u, const char *grid, char line[UNMET_LINE]) {
    if (!is_time(u)) return false;
    snprintf(line, UNMET_LINE,
             u->waits ? "the grid at '%.200s' can be met now"
                      : "all of the grid at '%.200s' is seen now, as far as is known",
             grid);
    u->n_said = 0;
    u->waits = u->some = u->silent = u->needs_link = false;
    return true;
}

/* ---- is anybody else there? ------------------------------------------------------------------ */

/* Nodes that this one is linked to, without those that only look. */
struct linked {
    size_t started, others; /* by this process */
};

static bool count_linked(const struct overlay_link_info *l, void *ctx) {
    struct linked *k = ctx;
    const bool ours = l->pid > 0 && exec_has_started((pid_t)l->pid);
    k->started += !l->observer && ours;
    k->others += !l->observer && !ours;
    return true;
}

static struct linked linked(const struct overlay *o) {
    struct linked k = {0};
    overlay_each_link(o, count_linked, &k);
    return k;
}

/* Who has said where he is, and is not linked yet. */
static bool look_known(const struct overlay_known *known, void *ctx) {
    bool *more = ctx;
    *more = !known->linked && known->age < FRESH;
    return !*more;
}

/* In a grid of several hosts, without a link, since the places where that is met know of nobody. */
static bool is_first(const struct overlay *o) {
    return overlay_links(o) == 0 && overlay_settled(o, true);
}

/* What a run has started is no other, and is met where the others would be. So that nobody else is there when the
 * places have answered, and some time has passed, in which whoever was there would have been met. */
static bool is_alone(const struct unmet *u, const struct overlay *o, const struct linked *k) {
    if (is_first(o)) return true;
    if (u->who == UNMET_AGENT || !overlay_heard(o) || moyai_now() - u->began < (moyai_ns)UNMET_SILENT) return false;
    bool more = k->others > 0;
    if (!more) overlay_each_known(o, look_known, &more);
    return !more && k->started > 0;
}

/* That nobody else is there, and that there is. */
static bool look_alone(struct unmet *u, const struct overlay *o, const char *grid, char line[UNMET_LINE]) {
    const bool agent = u->who == UNMET_AGENT, named = strstr(grid, "http://") != NULL;
    if (u->told_others) return false;
    const struct linked k = linked(o);
    if (!u->told_alone && !u->waits && (agent || (u->who == UNMET_RUN && named)) && is_alone(u, o, &k)) {
        u->told_alone = true;
        snprintf(line, UNMET_LINE,
                 agent ? "first node of the grid at '%.200s': nobody else is known there yet"
                 : k.started
                     ? "nobody but what this run has started is known at '%.200s' yet; is the name right? Others are "
                       "looked for"
                     : "nobody else is known at '%.200s' yet; is the name right? Others are looked for",
                 grid);
        return true;
    }
    u->told_others = u->told_alone && (k.others > 0 || (agent && k.started > 0));
    snprintf(line, UNMET_LINE, "the grid at '%.200s': others are there now", grid);
    return u->told_others;
}

/* To members that it has not started by itself; but what an agent starts are members. */
static bool is_linked(const struct unmet *u, const struct overlay *o) {
    const struct linked k = linked(o);
    return k.others > 0 || (u->who == UNMET_AGENT && k.started > 0);
}

/* Members are known, and none of them could be connected to: they are behind what lets nothing in, as this may be. Who
 * has been linked and is not any more is told so by the library; who looks says it
 * at his end. */
static bool look_unlinked(struct unmet *u, const struct overlay *o, const char *grid, char line[UNMET_LINE]) {
    char report[REPORT];
    bool more = false;
    if (u->who == UNMET_LOOKS || u->linked || u->told_known || moyai_now() - u->began < (moyai_ns)UNMET_KNOWN)
        return false;
    overlay_each_known(o, look_known, &more);
    const unsigned what = overlay_report(o, report, sizeof report);
    if (!more || !news(u, report, what)) return false;
    u->told_known = u->waits = u->needs_link = true;
    snprintf(line, UNMET_LINE, "no link to the grid at '%.200s' yet: %s%s", grid, report, u->advice);
    return true;
}

/* Others were met, and have no place for this node: it is linked to nobody. */
static bool is_left_out(const struct overlay *o, unsigned about) {
    const struct linked k = linked(o);
    return about & MET_FULL && k.started + k.others == 0;
}

/* Who is left out says so where he is; what is to be done can be done here as well. */
static bool look_full(struct unmet *u, const struct overlay *o, const char *grid, char line[UNMET_LINE]) {
    if (u->who != UNMET_AGENT || u->told_full || overlay_turned_away(o) == 0) return false;
    u->told_full = true;
    snprintf(line, UNMET_LINE,
             "the grid at '%.200s': this node is full, and one that has no other link had to be turned away: let more "
             "nodes listen (MOYAI_LOG=warning says of each)",
             grid);
    return true;
}

bool unmet_split(struct unmet *u, moyai_node *n, char line[UNMET_LINE]) {
    char text[MOYAI_ERROR_TEXT];
    if (u->told_split || !overlay_split(node_overlay(n), text)) return false;
    u->told_split = true;
    snprintf(line, UNMET_LINE, "warning: %s", text);
    return !log_wants(node_log(n), LOG_LEVEL_WARNING, "overlay");
}

bool unmet_look(struct unmet *u, const struct overlay *o, const char *grid, char line[UNMET_LINE]) {
    char text[OVERLAY_UNMET], report[REPORT];
    unsigned about;
    if (look_full(u, o, grid, line)) return true;
    const bool now_linked = is_linked(u, o);
    u->linked |= now_linked;
    bool wrong = overlay_unmet(o, text, &about), late = moyai_now() - u->began >= (moyai_ns)UNMET_SILENT;
    const unsigned what = overlay_report(o, report, sizeof report);
    bool silent = what & MET_NOT_YET && !(what & MET_ANSWERS);
    if (wrong && (late || !silent)) { /* else another place may still answer */
        if (!news(u, text, about)) return false;
        u->waits = true;
        snprintf(line, UNMET_LINE, "nobody of the grid at '%.200s' could be met: %s%s", grid, text, u->advice);
        return true;
    }
    if (!wrong && silent) {
        if (!late || u->silent || !news(u, report, what)) return false;
        u->waits = u->silent = true;
        snprintf(line, UNMET_LINE, "nobody of the grid at '%.200s' could be met yet: %s%s", grid, report, u->advice);
        return true;
    }
    if (!wrong && late && is_left_out(o, about)) {
        if (!news(u, text, about)) return false;
        u->waits = true;
        snprintf(line, UNMET_LINE, "no link to the grid at '%.200s' yet: %s%s", grid, text, u->advice);
        return true;
    }
    if (lasts(u, !wrong && others_are_hidden(about))) {
        if (!news(u, text, about)) return false;
        u->waits = !u->linked; /* whose end is a link */
        u->some = true;
        return unmet_some(o, grid, line);
    }
    if (!wrong && look_unlinked(u, o, grid, line)) return true;
    if (!wrong && (u->waits || (u->some && !u->hidden)) && (now_linked || !u->needs_link))
        return all_is_well(u, grid, line);
    return look_alone(u, o, grid, line);
}
