/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold between any two events of the leave machine, as far as one node can see. What holds between several
 * is for who sees them all: tests/sim/explore_leave.c.
 */
#include "member/leave_internal.h"

#include "base/err.h"

static const char *port_check(const struct leave *l, const struct leave_port *p) {
    if (p->link == 0) return "a port to nobody";
    for (const struct leave_port *q = l->p; q < p; q++)
        if (q->link == p->link) return "two ports of one channel";
    const uint64_t all = PORT_OPENING | PORT_LEAVING | PORT_ASKED | PORT_ACKED;
    if (p->flags & ~all) return "a flag that there is not";
    if (leave_is(p, PORT_OPENING) && p->flags != PORT_OPENING) return "a channel is used before it is open";
    if ((leave_is(p, PORT_OPENING) || leave_is(p, PORT_ACKED)) && (p->mine || p->req))
        return "a question on a channel that is not open";
    if (p->req && !leave_is(p, PORT_LEAVING)) return "a question of a node that stays";
    if (leave_is(p, PORT_ASKED) && (!p->req || l->phase != LEAVE_ATTACHED))
        return "passed up what is not, or by nobody";
    if (l->phase == LEAVE_NORMAL && (p->mine || p->req || leave_is(p, PORT_ACKED))) return "who stays asks, or closes";
    if (l->phase == LEAVE_SEEKING && !p->mine && !leave_is(p, PORT_OPENING) && !leave_is(p, PORT_ACKED))
        return "who seeks does not ask everybody";
    if (l->phase == LEAVE_CLOSING && !leave_is(p, PORT_ACKED)) return "who closes leaves a channel open";
    return NULL;
}

static const char *whole_check(const struct leave *l) {
    if (l->phase > LEAVE_DONE) return "no phase";
    if (l->n > l->cap || l->fx_n || l->fx_at) return "too many ports, or effects that were not fetched";
    if ((l->parent != 0) != (l->phase == LEAVE_ATTACHED)) return "a parent in the wrong phase";
    bool asked = false;
    for (uint32_t i = 0; i < l->n; i++) {
        const char *no = port_check(l, &l->p[i]);
        if (no) return no;
        asked = asked || leave_is(&l->p[i], PORT_ASKED);
    }
    const struct leave_port *up = l->parent ? leave_find(l, l->parent) : NULL;
    if (l->parent && (!up || up->flags & ~(uint64_t)PORT_LEAVING || up->req)) return "a parent that is none"; /* I2 */
    if (asked && !up->mine) return "children wait for an answer that nobody has asked for";
    if (l->held && (l->phase == LEAVE_NORMAL || l->phase > LEAVE_ATTACHED))
        return "messages are held by who has to do with them";             /* I3 */
    if (l->phase == LEAVE_DONE && l->n) return "done, with open channels"; /* I3 */
    for (uint32_t i = l->n; i < l->cap; i++)
        if (l->p[i].link || l->p[i].mine || l->p[i].req || l->p[i].flags) return "a free port is not zero";
    for (uint32_t i = 0; i < l->fx_cap; i++) {
        const struct leave_effect *fx = &leave_fxs(l)[i];
        if (fx->kind || fx->frame || fx->link || fx->n) return "an effect of before is not zero";
    }
    return NULL;
}

bool leave_check(const struct leave *l, struct moyai_error *why) {
    const char *no = whole_check(l);
    if (no) err_set(why, MOYAI_EINTERNAL, "leave: %s", no);
    return !no;
}
