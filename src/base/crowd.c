/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crowd.h"

/* Where the first of that source is noted, or would be. */
static struct crowd_member **find(struct crowd *c, uint64_t source) {
    struct crowd_member **at = &c->first;
    while (*at && (*at)->source != source) at = &(*at)->other;
    return at;
}

void crowd_add(struct crowd *c, struct crowd_member *m, uint64_t source, moyai_ns now) {
    struct crowd_member **at = find(c, source), *first = *at;
    *m = (struct crowd_member){.source = source, .since = now, .in = true};
    if (first) {
        m->prev = first->last;
        first->last->next = m;
        first->last = m;
        first->n++;
    } else {
        m->last = m;
        m->n = 1;
        *at = m;
    }
    c->n++;
}

void crowd_remove(struct crowd *c, struct crowd_member *m) {
    if (!m->in) return;
    struct crowd_member **at = find(c, m->source), *first = *at;
    if (m != first) {
        m->prev->next = m->next;
        if (m->next)
            m->next->prev = m->prev;
        else
            first->last = m->prev;
        first->n--;
    } else if (m->next) {
        struct crowd_member *heir = m->next;
        heir->prev = NULL;
        heir->last = m->last;
        heir->other = m->other;
        heir->n = m->n - 1;
        *at = heir;
    } else {
        *at = m->other;
    }
    c->n--;
    *m = (struct crowd_member){0};
}

struct crowd_member *crowd_victim(const struct crowd *c) {
    struct crowd_member *v = c->first;
    for (struct crowd_member *m = v; m; m = m->other)
        if (m->n > v->n || (m->n == v->n && m->since < v->since)) v = m;
    return v;
}

struct crowd_member *crowd_before(const struct crowd *c, moyai_ns when) {
    struct crowd_member *m = c->first;
    while (m && m->since >= when) m = m->other;
    return m;
}
