/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The death machine.
 *
 * Idea. S0/4.3 takes a broken connection for a broken call. Here a broken link is a question: has the process ended, or
 * only the link? The system closes all connections of a process that ends, at once, so all its neighbours see their
 * links break; a link that breaks alone proves that something is wrong with a path. So each neighbour whose last link
 * to X broke asks X's other neighbours, and X itself should it be reachable.
 *
 *                      END broken: says ENDED to all       complete, 3 on 2 hosts
 *     (no case) ---------------------------> ENDED --------------------------------> dead: DEAD to X's
 *         |                                 ^    |          or refused                neighbours and ours
 *         | ENDED heard,                    |    | UP
 *         | and our link stands             |    v
 *         +------------------------------> ALIVE: objects
 *     every case ends after window + transit without a verdict
 *
 * What is safe about it. A verdict needs the word of *every* neighbour that any of the reporters knows of, and only
 * who has no link any more gives it. One standing link anywhere among them is an objection, or a silence, which is as
 * good. That is why silence must stop a verdict, and why a group of nodes that vanished together over several hosts is
 * not declared by this rule: from outside it cannot be told from a group that was cut off by a router that resets
 * connections; and then both sides would declare each other dead and both live on. Only on X's own host, which can be
 * reset or powered off as one, neighbours may be silent. Groups are declared by their witnesses, or one by one because
 * their sockets refuse.
 *
 * A node whose last link to X was given up for silence objects too: silence is what a stopped process, a full network
 * and a partition have in common.
 *
 * Frames may get lost, and a verdict needs all of them. So who has said ENDED says it again to those of whom nothing
 * was heard, after the window, twice the window, and so on while the case lasts.
 *
 * Nothing is queued (death_internal.h): what is to be said follows from the state, so no list can overflow, and what
 * changed twice before it was fetched is said once.
 */
#include "overlay/death_internal.h"

#include <string.h>

#define LOOKS_MOST 16u /* at a case; the last after 2^15 windows */

static const uint8_t nobody[16];

/* --- configuration and layout --------------------------------------------------------------------- */

static bool span(uint64_t *out, moyai_dur given, moyai_dur otherwise) {
    *out = (uint64_t)(given == 0 ? otherwise : given);
    return given >= 0 && *out <= (uint64_t)MOYAI_SEC * 86400;
}

static size_t layout(struct death *d, const struct death_cfg *c) {
    uint64_t transit;
    *d = (struct death){.host = c->host};
    memcpy(d->self, c->self.b, 16);
    d->links_cap = c->links ? c->links : 512;
    d->cases_cap = c->cases ? c->cases : 32;
    d->members = c->members ? c->members : DEATH_MEMBERS;
    d->dead_cap = c->dead ? c->dead : 1024;
    d->first = c->first ? c->first : 3;
    if (!span(&d->window, c->window, 100 * MOYAI_MS) || !span(&transit, c->transit, 1900 * MOYAI_MS) ||
        !span(&d->keep, c->keep, 30 * MOYAI_SEC))
        return 0;
    d->life = d->window + transit;
    if (id_zero(d->self) || d->links_cap > 65536 || d->cases_cap > 65536 || d->dead_cap > 65536) return 0;
    if (d->members > DEATH_MEMBERS) return 0;
    size_t at = sizeof *d;
    d->off_links = (uint32_t)at;
    d->off_cases = (uint32_t)(at += d->links_cap * sizeof(struct death_link));
    d->off_dead = (uint32_t)(at += d->cases_cap * sizeof(struct death_case));
    d->off_seats = (uint32_t)(at += d->dead_cap * sizeof(struct death_dead));
    at += (size_t)d->cases_cap * d->members * sizeof(struct death_seat);
    return (at + 15) & ~(size_t)15;
}

size_t death_size(const struct death_cfg *cfg) {
    struct death d;
    return layout(&d, cfg);
}

int death_init(struct death *d, const struct death_cfg *cfg) {
    struct death head;
    if (layout(&head, cfg) == 0) return MOYAI_EINVAL;
    *d = head;
    return 0;
}

static uint64_t after(moyai_ns now, uint64_t time) {
    return now > UINT64_MAX - time ? UINT64_MAX : now + time;
}

/* --- tables ---------------------------------------------------------------------------------------- */

struct death_link *death_link_to(const struct death *d, const uint8_t id[16]) {
    for (uint32_t i = 0; i < d->links_n; i++)
        if (id_equal(death_links(d)[i].id, id)) return &death_links(d)[i];
    return NULL;
}

struct death_case *death_case_of(const struct death *d, const uint8_t id[16]) {
    for (uint32_t i = 0; i < d->cases_cap; i++)
        if (id_equal(death_cases(d)[i].id, id)) return &death_cases(d)[i];
    return NULL;
}

struct death_dead *death_dead_of(const struct death *d, const uint8_t id[16]) {
    for (uint32_t i = 0; i < d->dead_n; i++)
        if (id_equal(death_deads(d)[i].id, id)) return &death_deads(d)[i];
    return NULL;
}

enum death_state death_of(const struct death *d, const struct moyai_node_id *id) {
    const struct death_dead *x = death_dead_of(d, id->b);
    if (!x) return DEATH_NOT_KNOWN;
    return x->left ? DEATH_HAS_LEFT : DEATH_IS_DEAD;
}

bool death_likely(const struct death *d, const struct moyai_node_id *id) {
    const struct death_case *c = death_case_of(d, id->b);
    if (!c || c->own != SAID_ENDED || c->objects || c->late) return false;
    for (uint32_t i = 0; i < c->n; i++)
        if (death_seats(d, c)[i].said == SAID_ALIVE) return false;
    return true;
}

void death_link_remove(struct death *d, struct death_link *l) {
    struct death_link *last = &death_links(d)[--d->links_n];
    *l = *last;
    memset(last, 0, sizeof *last);
}

/* Of those that were given up for silence the one that is to be forgotten first; NULL: there are none. */
static struct death_link *silent_first(const struct death *d) {
    struct death_link *l = NULL;
    for (uint32_t i = 0; i < d->links_n; i++) {
        struct death_link *k = &death_links(d)[i];
        if (k->n == 0 && (!l || k->silent < l->silent)) l = k;
    }
    return l;
}

/* What was given up for silence is forgotten: we do not object for its sake any more. */
static void silent_remove(struct death *d, struct death_link *l) {
    struct death_case *c = death_case_of(d, l->id);
    if (c) c->own = SAID_NONE;
    death_link_remove(d, l);
}

static void dead_remove(struct death *d, struct death_dead *x) {
    struct death_dead *last = &death_deads(d)[--d->dead_n];
    *x = *last;
    memset(last, 0, sizeof *last);
}

void death_case_close(struct death *d, struct death_case *c) {
    memset(death_seats(d, c), 0, d->members * sizeof(struct death_seat));
    memset(c, 0, sizeof *c);
}

/* A case about X, new if need be. Where all are taken, the oldest in which we only object gives way; NULL: none. */
static struct death_case *case_open(struct death *d, const uint8_t id[16], uint64_t host, enum death_said own,
                                    moyai_ns now) {
    struct death_case *c = death_case_of(d, id), *old = NULL;
    if (c) return c;
    c = death_case_of(d, nobody);
    for (uint32_t i = 0; !c && i < d->cases_cap; i++) {
        struct death_case *k = &death_cases(d)[i];
        if (k->own != SAID_ENDED && (!old || k->since < old->since)) old = k;
    }
    if (!c && old) death_case_close(d, c = old);
    if (!c) return NULL;
    memcpy(c->id, id, 16);
    c->host = host;
    c->own = own;
    c->since = now;
    return c;
}

struct death_seat *death_seat_of(const struct death *d, const struct death_case *c, const uint8_t id[16]) {
    for (uint32_t i = 0; i < c->n; i++)
        if (id_equal(death_seats(d, c)[i].id, id)) return &death_seats(d, c)[i];
    return NULL;
}

/* A neighbour of the subject, new if need be; NULL: it is none that counts, or there is no room (then nothing follows
 * from what the others say). */
static struct death_seat *seat_add(struct death *d, struct death_case *c, const uint8_t id[16], uint64_t host) {
    struct death_seat *s = death_seat_of(d, c, id);
    if (s) return s;
    if (id_zero(id) || id_equal(id, d->self) || id_equal(id, c->id) || death_dead_of(d, id)) return NULL;
    if (c->n == d->members) {
        c->overflow = 1;
        return NULL;
    }
    s = &death_seats(d, c)[c->n++];
    memcpy(s->id, id, 16);
    s->host = host;
    d->call = 1;
    c->asked = c->silence = 0; /* it is waited for as all others were */
    return s;
}

static void members_add(struct death *d, struct death_case *c, const struct death_member *m, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) (void)seat_add(d, c, m[i].id.b, m[i].host);
}

static bool inside(const struct death_case *c, const struct death_seat *s) {
    return s->host != 0 && s->host == c->host;
}

static void say_to_all(struct death *d, struct death_case *c) {
    for (uint32_t i = 0; i < c->n; i++) death_seats(d, c)[i].say = 1;
}

/* --- whom to tell first ---------------------------------------------------------------------------- */

/* In what order X's neighbours are told: those outside first, then by how close their ids are to X's. */
static int order(const struct death_case *c, const uint8_t a[16], uint64_t a_host, const uint8_t b[16],
                 uint64_t b_host) {
    int a_in = a_host != 0 && a_host == c->host, b_in = b_host != 0 && b_host == c->host;
    if (a_in != b_in) return a_in - b_in;
    for (uint32_t i = 0; i < 16; i++)
        if (a[i] != b[i]) return (a[i] ^ c->id[i]) - (b[i] ^ c->id[i]);
    return 0;
}

/* May it gather what the others say? Not who is dead, or seems to be; nor who has no case of its own. */
static bool may_gather(const struct death *d, const struct death_seat *s) {
    if (s->said == SAID_ALIVE || s->said == SAID_NONE || death_dead_of(d, s->id)) return false;
    const struct death_case *own = death_case_of(d, s->id);
    return !own || own->own != SAID_ENDED;
}

/* The first of X's neighbours, this node among them, as bits of their seats. */
static uint64_t first_of(const struct death *d, const struct death_case *c) {
    const struct death_seat *s = death_seats(d, c);
    uint64_t bits = 0, not = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (!may_gather(d, &s[i])) not |= UINT64_C(1) << i;
    bool self = false;
    for (uint32_t k = 0; k < d->first; k++) {
        uint32_t best = c->n;
        for (uint32_t i = 0; i < c->n; i++) {
            if ((bits | not ) >> i & 1) continue;
            if (best == c->n || order(c, s[i].id, s[i].host, s[best].id, s[best].host) < 0) best = i;
        }
        if (!self && (best == c->n || order(c, d->self, d->host, s[best].id, s[best].host) < 0))
            self = true;
        else if (best < c->n)
            bits |= UINT64_C(1) << best;
    }
    return bits;
}

/* Those that are to be told first, and have not been. */
static void call_first(struct death *d) {
    if (!d->call) return;
    d->call = 0;
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        const struct death_case *c = &death_cases(d)[i];
        if (id_zero(c->id) || c->own != SAID_ENDED || death_dead_of(d, c->id)) continue;
        uint64_t bits = first_of(d, c);
        for (uint32_t k = 0; k < c->n; k++) {
            struct death_seat *s = &death_seats(d, c)[k];
            if ((bits >> k & 1) && !s->told) s->say = 1;
        }
    }
}

static void reply(struct death *d, uint32_t kind, const uint8_t to[16], const uint8_t of[16]) {
    const struct death_dead *x = death_dead_of(d, of);
    d->reply = kind + 1;
    d->reply_cause = !x ? 0 : x->left ? x->left == DEATH_CLEAR : x->cause;
    d->reply_number = x ? x->number : 0;
    memcpy(d->reply_to, to, 16);
    memcpy(d->reply_of, of, 16);
}

/* --- verdicts -------------------------------------------------------------------------------------- */

/* Final. left: 0, 1 or DEATH_CLEAR. hops: to our own links with one less, 0: not to them. all: to its neighbours, as
 * far as we know them, too. */
static void declare(struct death *d, const uint8_t id[16], uint32_t left, uint32_t cause, uint32_t number,
                    uint32_t hops, bool all, moyai_ns now) {
    if (d->dead_n == d->dead_cap) { /* the one that would be forgotten first is */
        struct death_dead *old = NULL;
        for (uint32_t i = 0; i < d->dead_n; i++) {
            struct death_dead *k = &death_deads(d)[i];
            if (!k->news && (!old || k->until < old->until)) old = k;
        }
        if (!old) return; /* all of them are of this very step: the others will tell us again */
        dead_remove(d, old);
    }
    struct death_dead *x = &death_deads(d)[d->dead_n++];
    *x = (struct death_dead){
        .until = after(now, d->keep), .number = number, .cause = (uint8_t)cause, .left = (uint8_t)left};
    x->news = all ? 2 : 1;
    x->hops = (uint8_t)hops;
    memcpy(x->id, id, 16);
    d->call = 1;
    for (uint32_t i = 0; i < d->cases_cap; i++) { /* nobody waits for its word */
        struct death_seat *s = death_seat_of(d, &death_cases(d)[i], id);
        if (!s) continue;
        s->said = SAID_NONE;
        s->say = 0;
    }
}

static uint32_t left_of(bool left, bool cleared) {
    return !left ? 0 : cleared ? DEATH_CLEAR : 1;
}

/* Reporters are on two hosts; those that do not know theirs count as on one. */
static bool two_hosts(const struct death *d, const struct death_case *c) {
    for (uint32_t i = 0; i < c->n; i++) {
        const struct death_seat *s = &death_seats(d, c)[i];
        if (s->said == SAID_ENDED && s->host != d->host) return true;
    }
    return false;
}

/* Whoever has lost all links is perhaps itself the one that is cut off, or was stopped: what others have said is old
 * then, and that nobody objects means nothing. */
static void note_alone(struct death *d) {
    for (uint32_t i = 0; i < d->links_n; i++)
        if (death_links(d)[i].n > 0) return;
    for (uint32_t i = 0; i < d->cases_cap; i++)
        if (death_cases(d)[i].own == SAID_ENDED) death_cases(d)[i].alone = 1;
}

/* How many have said nothing yet: outside, inside. */
struct lacking {
    uint32_t outside, inside;
};
static struct lacking lacking(const struct death *d, const struct death_case *c) {
    struct lacking l = {0};
    for (uint32_t i = 0; i < c->n; i++) {
        const struct death_seat *s = &death_seats(d, c)[i];
        if (s->said != SAID_NOTHING) continue;
        l.outside += !inside(c, s);
        l.inside += inside(c, s);
    }
    return l;
}

/* Is the subject dead? */
static bool verdict(const struct death *d, const struct death_case *c, uint32_t *cause) {
    uint32_t reporters = 1; /* we */
    bool outside = false;   /* of the others one elsewhere */
    if (c->own != SAID_ENDED || c->objects) return false;
    for (uint32_t i = 0; i < c->n; i++) {
        const struct death_seat *s = &death_seats(d, c)[i];
        if (s->said == SAID_ALIVE) return false;
        reporters += s->said == SAID_ENDED;
        outside = outside || (s->said == SAID_ENDED && !inside(c, s));
    }
    const struct lacking l = lacking(d, c);
    bool complete = !c->overflow && l.outside == 0 && (l.inside == 0 || c->silence);
    *cause = c->refused ? DEATH_REFUSED : DEATH_LINKS;
    if (c->refused && (complete || (c->late && outside && !c->alone))) return true;
    return complete && reporters >= 3 && two_hosts(d, c);
}

/* Each verdict may complete other cases. */
static void judge(struct death *d, moyai_ns now) {
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        const struct death_case *c = &death_cases(d)[i];
        uint32_t cause;
        if (id_zero(c->id) || death_dead_of(d, c->id) || !verdict(d, c, &cause)) continue;
        uint32_t before = d->dead_n;
        declare(d, c->id, false, cause, 0, 1, true, now);
        if (d->dead_n == before) return;
        i = UINT32_MAX; /* from the first again */
    }
}

/* When those inside who have said nothing are asked, or are not waited for any more; UINT64_MAX: there are none, or
 * what they say does not matter yet. */
static moyai_ns inside_due(const struct death *d, const struct death_case *c) {
    const struct lacking l = lacking(d, c);
    if (c->own != SAID_ENDED || c->objects || l.outside || l.inside == 0 || c->silence) return UINT64_MAX;
    return c->asked ? after(c->asked, d->window) : after(c->since, d->window / 4);
}

/* Those inside may have died with it, and then their silence must not stop the verdict; but it counts only if they have
 * been asked when it mattered. Most have said ENDED by themselves by then, so they cost nothing. */
static void ask_inside(struct death *d, moyai_ns now) {
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        struct death_case *c = &death_cases(d)[i];
        if (id_zero(c->id) || now < inside_due(d, c)) continue;
        if (c->asked) {
            c->silence = 1;
            continue;
        }
        c->asked = now;
        for (uint32_t k = 0; k < c->n; k++)
            if (death_seats(d, c)[k].said == SAID_NOTHING) death_seats(d, c)[k].say = 1;
    }
}

/* --- events ---------------------------------------------------------------------------------------- */

static void up(struct death *d, const struct death_event *ev) {
    struct death_link *l = death_link_to(d, ev->id.b);
    struct death_case *c = death_case_of(d, ev->id.b);
    const struct death_dead *x = death_dead_of(d, ev->id.b);
    if (x) {
        reply(d, x->left ? DEATH_LEFT : DEATH_DEAD, ev->id.b, ev->id.b);
        return;
    }
    if (!l && d->links_n == d->links_cap) silent_remove(d, silent_first(d));
    if (!l) {
        l = &death_links(d)[d->links_n++];
        memcpy(l->id, ev->id.b, 16);
    }
    l->host = ev->host;
    l->silent = 0;
    l->n++;
    if (c && c->own != SAID_ALIVE) { /* it lives */
        c->own = SAID_ALIVE;
        c->refused = c->alone = c->ask = c->probe = 0;
        say_to_all(d, c);
    }
}

static void end(struct death *d, const struct death_event *ev) {
    struct death_link *l = death_link_to(d, ev->id.b);
    struct death_case *c = death_case_of(d, ev->id.b);
    if (--l->n) return;
    if (l->left) {
        const uint32_t left = l->left;
        death_link_remove(d, l);
        if (c) c->own = SAID_NONE;
        declare(d, ev->id.b, left, DEATH_OTHER, 0, 1, false, ev->now);
        return;
    }
    if (ev->how == DEATH_SILENT) {
        l->silent = after(ev->now, d->keep);
        return;
    }
    uint64_t host = l->host;
    death_link_remove(d, l);
    if (ev->how == DEATH_ORDERLY) {
        if (!c) return;
        c->own = SAID_NONE;
        say_to_all(d, c);
        return;
    }
    bool objected = c; /* and said so, perhaps to any */
    c = case_open(d, ev->id.b, host, SAID_ENDED, ev->now);
    if (!c) return;
    c->host = host;
    c->own = SAID_ENDED;
    c->since = ev->now;
    c->late = c->alone = 0;
    c->asked = c->silence = 0;
    c->ask = c->probe = 1;
    for (uint32_t i = 0; i < c->n; i++) death_seats(d, c)[i].told = 0;
    members_add(d, c, ev->members, ev->n);
    d->call = 1;
    if (objected) say_to_all(d, c);
}

/* It lacks one of those that we tell first, so it has not told them. */
static bool lacks_first(const struct death *d, const struct death_case *c, const uint8_t from[16],
                        const struct death_frame *f) {
    uint64_t bits = first_of(d, c);
    for (uint32_t i = 0; i < c->n; i++) {
        const struct death_seat *s = &death_seats(d, c)[i];
        if (!(bits >> i & 1) || id_equal(s->id, from)) continue;
        uint32_t k = 0;
        while (k < f->n && !id_equal(f->m[k].id.b, s->id)) k++;
        if (k == f->n) return true;
    }
    return false;
}

static void heard_ended(struct death *d, const struct death_event *ev) {
    const struct death_frame *f = ev->frame;
    const uint8_t *from = ev->id.b, *of = f->subject.b;
    const struct death_dead *x = death_dead_of(d, of);
    const struct death_link *l = death_link_to(d, of);
    if (id_equal(of, d->self)) {
        reply(d, DEATH_ALIVE, from, of);
        return;
    }
    if (x) {
        reply(d, x->left ? DEATH_LEFT : DEATH_DEAD, from, of);
        return;
    }
    struct death_case *c = l ? case_open(d, of, l->host, SAID_ALIVE, ev->now) : death_case_of(d, of);
    if (!c) {
        reply(d, l ? DEATH_ALIVE : DEATH_NONE, from, of);
        return;
    }
    struct death_seat *s = seat_add(d, c, from, f->host);
    members_add(d, c, f->m, f->n);
    if (!s) {
        if (c->own != SAID_ENDED) reply(d, c->own == SAID_ALIVE ? DEATH_ALIVE : DEATH_NONE, from, of);
        return;
    }
    if (c->own != SAID_ENDED || (!s->told && (c->late > 1 || lacks_first(d, c, from, f))))
        s->say = 1;
    else if (s->said == SAID_ENDED)
        s->owed = 1;
    if (f->seq > s->seq) {
        s->seq = f->seq;
        s->said = SAID_ENDED;
        s->host = f->host;
    }
}

static void heard_other(struct death *d, const struct death_event *ev) {
    const struct death_frame *f = ev->frame;
    struct death_case *c = death_case_of(d, f->subject.b);
    if (!c) return;
    bool alive = f->kind == DEATH_ALIVE;
    if (alive && id_equal(ev->id.b, f->subject.b)) {
        c->objects = 1;
        return;
    }
    struct death_seat *s = alive ? seat_add(d, c, ev->id.b, f->host) : death_seat_of(d, c, ev->id.b);
    if (!s || f->seq <= s->seq) return;
    s->seq = f->seq;
    s->said = alive ? SAID_ALIVE : SAID_NONE;
    s->host = f->host;
    d->call = 1;
}

/* Who has left says so by a link that stands, behind the last that he has to say: perhaps of another's end. */
static bool says_itself(struct death *d, const struct death_frame *f) {
    struct death_link *l = death_link_to(d, f->subject.b);
    if (f->kind != DEATH_LEFT || !l || l->n == 0) return false;
    l->left = left_of(true, f->cleared);
    return true;
}

static void heard(struct death *d, const struct death_event *ev) {
    const struct death_frame *f = ev->frame;
    const struct death_dead *x = death_dead_of(d, ev->id.b);
    bool of_us = f->kind == DEATH_DEAD && id_equal(f->subject.b, d->self);
    if (x && !of_us) { /* nothing is believed of one who is dead; it is told so */
        if (!x->left) reply(d, DEATH_DEAD, ev->id.b, ev->id.b);
        return;
    }
    if (f->kind == DEATH_ENDED) {
        heard_ended(d, ev);
    } else if (f->kind == DEATH_ALIVE || f->kind == DEATH_NONE) {
        heard_other(d, ev);
    } else if (id_equal(f->subject.b, d->self)) {
        if (f->kind == DEATH_LEFT || d->told) return;
        d->told = 1;
        d->told_cause = f->cause;
        d->told_number = f->number;
    } else if (!death_dead_of(d, f->subject.b) && !says_itself(d, f)) {
        memcpy(d->from, ev->id.b, 16);
        declare(d, f->subject.b, left_of(f->kind == DEATH_LEFT, f->cleared), f->cause, f->number, f->hops, false,
                ev->now);
    }
}

static void witnessed(struct death *d, const struct death_event *ev) {
    if (death_dead_of(d, ev->id.b)) return;
    const struct death_link *l = death_link_to(d, ev->id.b);
    struct death_case *c = ev->n ? case_open(d, ev->id.b, l ? l->host : 0, SAID_NONE, ev->now) : NULL;
    if (c) members_add(d, c, ev->members, ev->n);
    declare(d, ev->id.b, false, ev->cause, ev->number, 2, true, ev->now);
}

/* When a case is looked at next. */
static moyai_ns case_due(const struct death *d, const struct death_case *c) {
    uint64_t time = c->late < LOOKS_MOST ? d->window << c->late : d->life;
    return after(c->since, time < d->life ? time : d->life);
}

static void look(struct death *d, struct death_case *c) {
    if (c->late++ == 0 || c->own != SAID_ENDED) return;
    c->ask = !c->objects;
    for (uint32_t i = 0; i < c->n; i++) {
        struct death_seat *s = &death_seats(d, c)[i];
        if ((s->said == SAID_NOTHING || s->owed || !s->told) && !death_dead_of(d, s->id)) s->say = 1;
        s->owed = 0;
    }
}

/* What was said in a case that is over counts for nothing, though this node looks only now: it was stopped itself, say,
 * and a link that ended meanwhile begins another. */
static void close_over(struct death *d, moyai_ns now) {
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        struct death_case *c = &death_cases(d)[i];
        if (!id_zero(c->id) && now >= after(c->since, d->life)) death_case_close(d, c);
    }
}

static void timers(struct death *d, moyai_ns now) {
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        struct death_case *c = &death_cases(d)[i];
        if (!id_zero(c->id) && c->late < LOOKS_MOST && now >= case_due(d, c)) look(d, c);
    }
    ask_inside(d, now);
    judge(d, now);
    for (uint32_t i = d->links_n; i-- > 0;)
        if (death_links(d)[i].silent && death_links(d)[i].silent <= now) silent_remove(d, &death_links(d)[i]);
    for (uint32_t i = d->dead_n; i-- > 0;)
        if (death_deads(d)[i].until <= now && !death_deads(d)[i].news) dead_remove(d, &death_deads(d)[i]);
}

static int look_at_frame(const struct death_event *ev) {
    const struct death_frame *f = ev->frame;
    if (!f || (uint32_t)f->kind >= DEATH_FRAMES || f->n > DEATH_MEMBERS) return MOYAI_EINVAL;
    if (id_zero(f->subject.b) || f->hops > 1 || f->cause >= DEATH_CAUSES || f->cleared > 1) return MOYAI_EPROTO;
    if (f->kind == DEATH_ENDED && id_equal(f->subject.b, ev->id.b)) return MOYAI_EPROTO;
    return f->kind <= DEATH_NONE && f->seq == 0 ? MOYAI_EPROTO : 0;
}

/* Before anything happens: is it to be refused? */
static int look_at(const struct death *d, const struct death_event *ev) {
    const struct death_link *l;
    bool of_other = !id_zero(ev->id.b) && !id_equal(ev->id.b, d->self);
    if (d->draining || (uint32_t)ev->kind > DEATH_EV_TIMEOUT) return MOYAI_EINVAL;
    if (ev->kind != DEATH_EV_TIMEOUT && !of_other) return MOYAI_EINVAL;
    switch (ev->kind) {
    case DEATH_EV_UP:
        if (d->links_n < d->links_cap || death_link_to(d, ev->id.b) || death_dead_of(d, ev->id.b)) return 0;
        return silent_first(d) ? 0 : MOYAI_EAGAIN;
    case DEATH_EV_END:
        l = death_link_to(d, ev->id.b);
        return !l || l->n == 0 || ev->n > DEATH_MEMBERS || (uint32_t)ev->how > DEATH_SILENT ? MOYAI_EINVAL : 0;
    case DEATH_EV_WITNESSED:
        return (uint32_t)ev->cause >= DEATH_CAUSES || ev->n > DEATH_MEMBERS ? MOYAI_EINVAL : 0;
    case DEATH_EV_FRAME:
        return look_at_frame(ev);
    case DEATH_EV_FAREWELL:
    case DEATH_EV_REFUSED:
    case DEATH_EV_HEARD:
    case DEATH_EV_TIMEOUT:
        break;
    }
    return 0;
}

int death_step(struct death *d, const struct death_event *ev) {
    const int rc = look_at(d, ev);
    if (rc) return rc;
    close_over(d, ev->now);
    struct death_case *c;
    switch (ev->kind) {
    case DEATH_EV_UP:
        up(d, ev);
        break;
    case DEATH_EV_END:
        end(d, ev);
        break;
    case DEATH_EV_FAREWELL:
        if (!death_dead_of(d, ev->id.b))
            declare(d, ev->id.b, left_of(true, ev->cleared), DEATH_OTHER, 0, 1, false, ev->now);
        break;
    case DEATH_EV_WITNESSED:
        witnessed(d, ev);
        break;
    case DEATH_EV_REFUSED:
        c = death_case_of(d, ev->id.b);
        if (c && c->own == SAID_ENDED) c->refused = 1;
        break;
    case DEATH_EV_FRAME:
        heard(d, ev);
        break;
    case DEATH_EV_HEARD:
        if (death_of(d, &ev->id) == DEATH_IS_DEAD) reply(d, DEATH_DEAD, ev->id.b, ev->id.b);
        break;
    case DEATH_EV_TIMEOUT:
        timers(d, ev->now);
        break;
    }
    note_alone(d);
    judge(d, ev->now);
    call_first(d);
    ask_inside(d, ev->now);
    d->draining = 1;
    return 0;
}

moyai_ns death_deadline(const struct death *d) {
    uint64_t at = UINT64_MAX;
    for (uint32_t i = 0; i < d->cases_cap; i++) {
        const struct death_case *c = &death_cases(d)[i];
        if (id_zero(c->id)) continue;
        uint64_t t = case_due(d, c), u = inside_due(d, c);
        if (t < at) at = t;
        if (u < at) at = u;
    }
    for (uint32_t i = 0; i < d->links_n; i++)
        if (death_links(d)[i].silent && death_links(d)[i].silent < at) at = death_links(d)[i].silent;
    for (uint32_t i = 0; i < d->dead_n; i++)
        if (death_deads(d)[i].until < at) at = death_deads(d)[i].until;
    return at;
}
