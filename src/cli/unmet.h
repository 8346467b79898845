/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said, and when, of the places where a grid of several hosts is met, while others are waited for:
 *
 *   what is wrong with them, if nobody can be met anywhere: as soon as that is known, and again when it is another
 *     thing;
 *   a place that does not answer: after UNMET_SILENT;
 *   that nobody else is there: when the places have said so twice (to an agent, and to a run that is met by name), or
 *     know of nobody but the nodes that the run has started, after UNMET_SILENT; and when others come;
 *   that entries are sealed with keys that we do not have, or a clock is wrong: even if somebody else was met, but
 *     then, if it was not so at the beginning, after UNMET_LASTS;
 *   that members are known and none of them could be connected to: after UNMET_KNOWN without any link
 *     (not of who looks, who gives up then and says so);
 *   that another is left out, for this node has no place for it: to an agent;
 *   that all is well, if something else had been said; what was due to keys, or to members that are known, takes a link
 *     to a member for that: who ends is not there any more, but has not been met.
 *
 * Nothing is said twice before all was well, and then after ever longer times. What to do about it, if that is known,
 * comes with it.
 */
#ifndef CLI_UNMET_H
#define CLI_UNMET_H

#include <moyai.h>

struct overlay;

#define UNMET_FIRST  (300 * MOYAI_MS) /* a good time for the first look, and ... */
#define UNMET_LOOK   MOYAI_SEC        /* ... for others */
#define UNMET_SILENT (3 * MOYAI_SEC)
#define UNMET_KNOWN  (10 * MOYAI_SEC) /* as long as who looks waits: the first attempts to connect are over */
#define UNMET_LASTS  (60 * MOYAI_SEC)
#define UNMET_LINE   2600u

#define UNMET_SAID 4u    /* texts that are remembered, and ... */
#define UNMET_TEXT 1000u /* ... bytes of each */

enum unmet_who { UNMET_LOOKS, UNMET_AGENT, UNMET_RUN };

struct unmet {
    moyai_ns began, next, hidden; /* next: not before; hidden: since when some are, 0: none is */
    moyai_dur pause;
    enum unmet_who who;
    bool told_alone, told_others, told_full, told_split;
    bool waits, some, silent; /* it was said that: nobody can be met; not all is seen; some place is silent */
    bool linked;              /* it has been, to a member */
    bool told_known;
    bool needs_link; /* all is not well without */
    bool spoke;
    const char *advice; /* the last that was given */
    unsigned n_said;    /* since all was well */
    char said[UNMET_SAID][UNMET_TEXT];
};

void unmet_begin(struct unmet *u, enum unmet_who who);
/* Lock held. Is there a line to say? */
bool unmet_look(struct unmet *u, const struct overlay *o, const char *grid, char line[UNMET_LINE]);

/* "" or "; " and what to do, of a text of the library's about meeting others: of what it is (enum met_what). */
const char *unmet_advice(unsigned what);

/* Has all of this report been said? */
bool unmet_was_said(const struct unmet *u, const char *grid, const char *report);

/* Lock held. In the directory of a grid of one host another is found: once, unless the log has said it. */
bool unmet_split(struct unmet *u, moyai_node *n, char line[UNMET_LINE]);

/* Lock held. Must who looks at all nodes believe that there are some which he cannot see? out: why, and what to do. */
bool unmet_some(const struct overlay *o, const char *grid, char line[UNMET_LINE]);

#endif
