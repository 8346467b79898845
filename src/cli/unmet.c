/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unmet.h"

#include "node/node.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define REPORT     2000
#define PAUSE_MOST (3600 * MOYAI_SEC)

/* What the texts of met.c, meet_http.c and dial.c are about is known by words of theirs: tests/cli/unmet_test.c. */
static const char by_key[] = "; compare moyai key show here and there, and copy the grid's key file";
static const char by_silence[] = "; is what listens there stopped, or something else than an endpoint or a member?";
static const char by_nobody[] = "; is the name right? An endpoint that has just begun hears of all nodes within 45 s";
static const char by_tls[] = "; if it is a member, write HOST:PORT, without http://";
static const struct {
    const char *of, *advice;
} advices[] = {
    {"copy the key file", ""}, /* it says so itself */
    {"sealed with", by_key},
    {"it does not take key", by_key},
    {"it has not answered", by_silence},
    {"nothing for", by_silence},
    {"does not answer in time", by_silence},
    {"is no HTTP server", by_tls},
    {"ends the connection without an answer", by_tls},
    {"it answers, and knows nobody", by_nobody}, /* where several places are met, only if nothing else is known */
};

const char *unmet_advice(const char *text) {
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if (strstr(text, advices[i].of))
            return advices[i].advice != by_nobody || strstr(text, "http://") ? advices[i].advice : "";
    return "";
}

void unmet_begin(struct unmet *u, bool alone) {
    *u = (struct unmet){.began = moyai_now(), .pause = UNMET_SILENT, .alone = alone};
}

/* But for numbers: that there are more of the same is not news. */
static bool same(const char *a, const char *b) {
    for (;; a++, b++) {
        while (isdigit((unsigned char)*a)) a++;
        while (isdigit((unsigned char)*b)) b++;
        if (*a != *b) return false;
        if (!*a) return true;
    }
}

/* Of some place nothing is known yet. Descriptors never answer. */
static bool is_silent(const char *report) {
    return (strstr(report, ": it has not answered") || strstr(report, "has said nothing for")) &&
           strncmp(report, "fd:", 3) != 0 && !strstr(report, "; fd:");
}

static bool others_are_hidden(const char *unmet) {
    return strstr(unmet, "sealed with") || strstr(unmet, "does not take key") || strstr(unmet, "is not believed");
}

bool unmet_some(moyai_node *n, const char *grid, char line[UNMET_LINE]) {
    char text[NODE_UNMET];
    (void)node_unmet(n, text);
    if (!others_are_hidden(text)) return false;
    snprintf(line, UNMET_LINE, "not all of the grid at '%.200s' is seen: %s%s", grid, text, unmet_advice(text));
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

/* Say it, unless it was said. key: what it is about. */
static bool news(struct unmet *u, const char *key, bool waits) {
    moyai_ns now = moyai_now();
    if (same(u->said, key) || now < u->next) return false;
    if (u->said[0]) { /* it changes to and fro, perhaps */
        u->next = now + (moyai_ns)u->pause;
        u->pause = u->pause * 2 < PAUSE_MOST ? u->pause * 2 : PAUSE_MOST;
    }
    snprintf(u->said, sizeof u->said, "%s", key);
    u->waits = waits;
    return true;
}

bool unmet_look(struct unmet *u, moyai_node *n, const char *grid, char line[UNMET_LINE]) {
    char text[NODE_UNMET], report[REPORT];
    bool wrong = node_unmet(n, text), late = moyai_now() - u->began >= (moyai_ns)UNMET_SILENT;
    node_report(n, report, sizeof report);
    bool silent = is_silent(report) && !strstr(report, ": it answers");
    if (wrong && (late || !silent)) { /* else another place may still answer */
        if (!news(u, text, true)) return false;
        snprintf(line, UNMET_LINE, "nobody of the grid at '%.200s' could be met: %s%s", grid, text, unmet_advice(text));
        return true;
    }
    if (!wrong && silent) {
        if (!late || !news(u, "silent", true)) return false;
        snprintf(line, UNMET_LINE, "nobody of the grid at '%.200s' could be met yet: %s%s", grid, report,
                 unmet_advice(report));
        return true;
    }
    if (lasts(u, !wrong && others_are_hidden(text))) return news(u, text, false) && unmet_some(n, grid, line);
    if (!wrong && u->waits && news(u, "well", false)) {
        snprintf(line, UNMET_LINE, "the grid at '%.200s' can be met now", grid);
        return true;
    }
    if (u->alone && !u->told_alone && !u->waits && node_is_first(n)) {
        u->told_alone = true;
        snprintf(line, UNMET_LINE, "first node of the grid at '%.200s': nobody else is known there yet", grid);
        return true;
    }
    return false;
}
