/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames through a node: queues, credit, loans, and whose turn it is.
 *
 * Of what comes by a link under a label, limit = own + lent bytes may be here or on their way: out (the neighbour may
 * still send it) + the queue + due (free again, not yet said). `own` is there for every path and always, which is why
 * nothing can be stuck: who holds `own` may send any frame, who holds less is given credit again as soon as frames
 * leave, and the last hop takes at once whatever comes. So of the frames under way on any path the one nearest to its
 * end can always move. That holds whatever other paths do, and needs no memory but `own`.
 *
 * How much is lent. Idea: a limit is too small exactly if its sender runs out of it while we have little to do. So a
 * sender that waits for credit says so (BLOCKED, once for each credit it got), and the limit is doubled if less than
 * half of it waits here: then more than half of it was on the way, that is, it is less than twice rate times round
 * trip. A path that is held up by the link behind us has most of its limit in our queue, and gets no more. No clock is
 * needed, and no path is measured that does not ask. (Dropped: measuring how much comes within a round trip. It needs
 * the clock of each credit, and cannot tell a sender that has no more from one that may not.)
 *
 * Loans come from cfg.memory. While it lasts each path gets what it can use; then nobody grows beyond memory / lenders,
 * who has more gives it back as his frames leave, and a path that asks in vain makes us look at sixteen lenders, the
 * longest not looked at first: who has not used his loan since the last look gives back all of it, others what they
 * have above the share. What such a sender still holds must be asked for (TAKE), as nothing else would ever move it; it
 * answers at once (GIVE) by what it has above `own`.
 *
 * Ends need no loan: what comes for us is handed up at once. They grant cfg.most and the frames are never here.
 */
#include "overlay/relay_internal.h"

#include <string.h>

#define FIRST_LOAN 3u  /* times own */
#define LOOKS      16u /* lenders looked at when somebody asks in vain */

static inline uint32_t min32(uint64_t a, uint64_t b) {
    return (uint32_t)(a < b ? a : b);
}

/* --- frames that are held ------------------------------------------------------------------------------ */

static uint32_t item_new(struct relay *r, uint64_t token, uint32_t what) {
    uint32_t ref = r->items_free;
    if (ref)
        r->items_free = relay_item_at(r, ref)->next;
    else
        ref = ++r->items_top;
    r->items_n++;
    *relay_item_at(r, ref) = (struct relay_item){.token = token, .what = what};
    return ref;
}

static void item_free(struct relay *r, uint32_t ref) {
    *relay_item_at(r, ref) = (struct relay_item){.next = r->items_free};
    r->items_free = ref;
    if (--r->items_n == 0) {
        memset(relay_item_at(r, 1), 0, (size_t)r->items_top * sizeof(struct relay_item));
        r->items_free = r->items_top = 0;
    }
}

static inline uint32_t item_charge(const struct relay *r, uint32_t ref) {
    return relay_charge(relay_item_at(r, ref)->what >> 1);
}

static void queue_put(struct relay *r, struct relay_side *y, const struct relay_event *ev) {
    uint32_t ref = item_new(r, ev->token, ev->bytes << 1 | (ev->class_ == 2));
    if (y->last)
        relay_item_at(r, y->last)->next = ref;
    else
        y->first = ref;
    y->last = ref;
    y->n++;
    y->bytes += relay_charge(ev->bytes);
}

static struct relay_item queue_take(struct relay *r, struct relay_side *y) {
    uint32_t ref = y->first;
    struct relay_item i = *relay_item_at(r, ref);
    y->first = i.next;
    if (!y->first) y->last = 0;
    y->n--;
    y->bytes -= relay_charge(i.what >> 1);
    item_free(r, ref);
    return i;
}

void relay_queue_free(struct relay *r, struct relay_side *y) {
    if (!y->first) return;
    if (r->freed.last)
        relay_item_at(r, r->freed.last)->next = y->first;
    else
        r->freed.first = y->first;
    r->freed.last = y->last;
    y->first = y->last = y->n = y->bytes = 0;
    r->draining = 1;
}

void relay_token_free(struct relay *r, uint64_t token) {
    struct relay_side only = {0};
    queue_put(r, &only, &(struct relay_event){.token = token});
    relay_queue_free(r, &only);
}

bool relay_freed_next(struct relay *r, uint64_t *token) {
    uint32_t ref = r->freed.first;
    if (!ref) return false;
    *token = relay_item_at(r, ref)->token;
    r->freed.first = relay_item_at(r, ref)->next;
    if (!r->freed.first) r->freed.last = 0;
    item_free(r, ref);
    return true;
}

/* --- loans ------------------------------------------------------------------------------------------------ */

static void loan_add(struct relay *r, struct relay_path *p, int s, uint32_t bytes) {
    if (!bytes) return;
    struct relay_side *y = &p->side[s];
    r->lenders += y->lent == 0;
    y->lent += bytes;
    r->lent += bytes;
    relay_side_list(r, p, s, ON_LENT, true);
}

static void loan_cut(struct relay *r, struct relay_path *p, int s, uint32_t bytes) {
    if (!bytes) return;
    struct relay_side *y = &p->side[s];
    y->lent -= bytes;
    r->lent -= bytes;
    if (y->lent) return;
    r->lenders--;
    relay_side_list(r, p, s, ON_LENT, false);
}

void relay_loan_end(struct relay *r, struct relay_path *p, int s) {
    if (p->ends)
        p->side[s].lent = 0;
    else
        loan_cut(r, p, s, p->side[s].lent);
}

static bool scarce(const struct relay *r) {
    return r->memory - r->lent < r->memory / 8;
}

static uint32_t share_of(const struct relay *r, const struct relay_side *y) {
    uint64_t users = r->lenders + (y->lent == 0);
    return min32(r->memory / users, UINT32_MAX);
}

/* One lender gives back what it has above `keep`, as far as it is free; the rest is asked for. */
static void loan_take(struct relay *r, struct relay_path *p, int s, uint32_t keep) {
    struct relay_side *y = &p->side[s];
    if (y->asked || y->take || y->lent <= keep) return;
    uint32_t over = y->lent - keep, now = min32(over, y->due);
    y->due -= now;
    if (!y->due) relay_unsay(r, p, s, RELAY_SAY_CREDIT);
    loan_cut(r, p, s, now);
    over -= now;
    if (!over || y->where != BY_LINK) return;
    y->take = over;
    relay_say(r, p, s, RELAY_SAY_TAKE);
}

static void reclaim(struct relay *r, const struct relay_side *asks, uint32_t share) {
    uint32_t most = r->lenders < LOOKS ? r->lenders : LOOKS;
    for (uint32_t n = 0; n < most && r->lents.first; n++) {
        struct relay_path *p = relay_path_of(r, r->lents.first);
        int s = (int)((r->lents.first - 1) & 1);
        struct relay_side *y = &p->side[s];
        relay_side_list(r, p, s, ON_LENT, false); /* to the end of the list */
        relay_side_list(r, p, s, ON_LENT, true);
        if (y == asks) continue;
        bool used = (y->used & RELAY_USED) || y->bytes;
        y->used &= (uint8_t)~RELAY_USED;
        loan_take(r, p, s, used ? share : 0);
    }
}

/* The neighbour at side s waits for credit, and not because of what waits here. */
static void grow(struct relay *r, struct relay_path *p, int s) {
    struct relay_side *y = &p->side[s];
    uint32_t limit = relay_limit(r, y), share = share_of(r, y);
    uint32_t want = limit > r->most ? 0 : min32(limit, r->most - limit);
    uint64_t left = r->memory - r->lent;
    bool tight = scarce(r) || left < want;
    if (tight) want = min32(want, share > y->lent ? share - y->lent : 0);
    if (tight) reclaim(r, y, share);
    left = r->memory - r->lent;
    want = min32(want, left);
    loan_add(r, p, s, want);
    y->due += want;
}

/* --- credit --------------------------------------------------------------------------------------------------- */

/* Credit is said when there is a quarter of the limit to say, or the neighbour may lack it for his next frame. */
void relay_owe(struct relay *r, struct relay_path *p, int s) {
    const struct relay_side *y = &p->side[s];
    if (y->where != BY_LINK || y->deaf || !y->due || p->state == PATH_ENDING) return;
    if (y->out < (int32_t)r->own || y->due >= relay_limit(r, y) / 4) relay_say(r, p, s, RELAY_SAY_CREDIT);
}

/* With no more than `own` each frame, however small, takes a CREDIT before the next: a frame and a wake-up more for
 * every message of a path that has one under way at a time. So, while there is plenty, who sends small ones gets more
 * before he has asked. */
static void first_loan(struct relay *r, struct relay_path *p, int s, uint32_t charge) {
    struct relay_side *y = &p->side[s];
    uint32_t want = min32(FIRST_LOAN * (uint64_t)r->own, r->most - r->own);
    if (charge > r->own / 4 || p->ends || y->lent || y->out >= (int32_t)r->own || y->asked || y->take || y->deaf ||
        p->state != PATH_OPEN)
        return;
    if (r->memory - r->lent < r->memory / 2 || want > share_of(r, y)) return;
    loan_add(r, p, s, want);
    y->due += want;
}

/* A frame that came by side s has left. */
static void returned(struct relay *r, struct relay_path *p, int s, uint32_t charge) {
    struct relay_side *y = &p->side[s];
    if (y->where != BY_LINK) return;
    if (!p->ends && y->lent && scarce(r)) {
        uint32_t share = share_of(r, y), cut = y->lent > share ? min32(charge, y->lent - share) : 0;
        loan_cut(r, p, s, cut);
        charge -= cut;
    }
    y->due += charge;
    first_loan(r, p, s, charge);
    relay_owe(r, p, s);
}

static void blocked(struct relay *r, struct relay_path *p, int s) {
    if (p->side[s].blocked) return;
    p->side[s].blocked = 1;
    relay_say(r, p, s, RELAY_SAY_BLOCKED);
}

void relay_schedule(struct relay *r, struct relay_path *p, int s) {
    struct relay_side *y = &p->side[s];
    const struct relay_side *x = &p->side[1 - s];
    if (y->where != BY_LINK || p->state != PATH_OPEN) return;
    bool held = x->first != 0, can = held && relay_covers(r, y->credit, item_charge(r, x->first));
    bool bulk = can && (relay_item_at(r, x->first)->what & 1);
    relay_side_list(r, p, s, ON_BULK, bulk);
    relay_side_list(r, p, s, ON_SMALL, can && !bulk);
    if (held && !can) blocked(r, p, s);
    if (!held && relay_drains(p, s)) relay_say(r, p, s, RELAY_SAY_CLOSE);
}

void relay_room(struct relay *r, struct relay_path *p) {
    int h = p->side[1].where == HERE, o = 1 - h;
    if (!p->wants || p->state != PATH_OPEN || p->side[h].n) return;
    if (p->side[o].credit < (int32_t)r->own) {
        blocked(r, p, o);
        return;
    }
    p->wants = 0;
    relay_tell(r, p, RELAY_TELL_ROOM);
}

/* --- in --------------------------------------------------------------------------------------------------------- */

int relay_receive(struct relay *r, const struct relay_event *ev) {
    uint32_t link = relay_link_find(r, ev->link), charge = relay_charge(ev->bytes);
    if (!link || !ev->label || ev->bytes >= 1u << 30) return MOYAI_EINVAL;
    uint32_t ref = relay_side_find(r, link, ev->label);
    if (!ref) {
        relay_token_free(r, ev->token);
        return 0;
    }
    struct relay_path *p = relay_path_of(r, ref);
    int s = (int)((ref - 1) & 1);
    struct relay_side *y = &p->side[s];
    if (!relay_covers(r, y->out, charge) || charge > r->frame) return MOYAI_EPROTO;
    y->out -= (int32_t)charge;
    if (p->state == PATH_ENDING || y->deaf) {
        relay_token_free(r, ev->token);
        return 0;
    }
    y->used |= relay_short(r) ? RELAY_USED | RELAY_USED_PLACE : RELAY_USED;
    if (p->side[1 - s].where == HERE) {
        r->deliver = relay_handle(r, p);
        r->deliver_token = ev->token;
        r->draining = 1;
        y->due += charge;
    } else {
        queue_put(r, y, ev);
        relay_schedule(r, p, 1 - s);
    }
    relay_owe(r, p, s);
    return 0;
}

static int receive_give(struct relay *r, struct relay_path *p, int s, uint32_t bytes) {
    struct relay_side *y = &p->side[s];
    if (!y->asked || bytes > y->asked || (bytes && (int64_t)bytes > y->out)) return MOYAI_EPROTO;
    y->asked = 0;
    y->out -= (int32_t)bytes;
    if (p->state == PATH_ENDING || y->deaf) return 0;
    uint32_t cut = min32(bytes, y->lent);
    loan_cut(r, p, s, cut);
    y->due += bytes - cut;
    relay_owe(r, p, s);
    return 0;
}

static int receive_take(struct relay *r, struct relay_path *p, int s, uint32_t bytes) {
    struct relay_side *y = &p->side[s];
    if (y->say & RELAY_SAY_GIVE) return MOYAI_EPROTO;
    if (p->state == PATH_ENDING) return 0;
    int32_t above = y->credit - (int32_t)r->own;
    y->give = above > 0 ? min32(bytes, (uint32_t)above) : 0;
    y->credit -= (int32_t)y->give;
    relay_say(r, p, s, RELAY_SAY_GIVE);
    return 0;
}

static int receive_credit(struct relay *r, struct relay_path *p, int s, uint32_t bytes) {
    struct relay_side *y = &p->side[s];
    if (bytes > INT32_MAX || y->credit > INT32_MAX - (int32_t)bytes) return MOYAI_EPROTO;
    if (p->state == PATH_ENDING) return 0;
    y->credit += (int32_t)bytes;
    y->blocked = 0;
    relay_unsay(r, p, s, RELAY_SAY_BLOCKED);
    relay_schedule(r, p, s);
    relay_room(r, p);
    return 0;
}

static int receive_blocked(struct relay *r, struct relay_path *p, int s) {
    struct relay_side *y = &p->side[s];
    if (p->state != PATH_OPEN || y->deaf) return 0;
    if (!p->ends && !y->asked && !y->take && y->bytes <= relay_limit(r, y) / 2) grow(r, p, s);
    if (y->due) relay_say(r, p, s, RELAY_SAY_CREDIT);
    return 0;
}

int relay_flow_frame(struct relay *r, struct relay_path *p, int s, const struct relay_frame *f) {
    switch (f->kind) {
    case RELAY_CREDIT:
        return receive_credit(r, p, s, f->amount);
    case RELAY_BLOCKED:
        return receive_blocked(r, p, s);
    case RELAY_TAKE:
        return receive_take(r, p, s, f->amount);
    case RELAY_GIVE:
        return receive_give(r, p, s, f->amount);
    case RELAY_PATH:
    case RELAY_ERROR:
    case RELAY_CLOSE:
    case RELAY_KINDS:
        break;
    }
    return MOYAI_EPROTO;
}

/* --- from here ---------------------------------------------------------------------------------------------------- */

int relay_want(struct relay *r, uint64_t path) {
    struct relay_path *p = relay_path_find(r, path);
    if (!p || (p->side[0].where != HERE && p->side[1].where != HERE)) return MOYAI_EINVAL;
    p->wants = 1;
    relay_room(r, p);
    return 0;
}

int relay_send(struct relay *r, const struct relay_event *ev) {
    struct relay_path *p = relay_path_find(r, ev->path);
    int h = p && p->side[1].where == HERE;
    if (!p || p->side[h].where != HERE || p->state != PATH_OPEN || p->side[h].n) return MOYAI_EINVAL;
    if (ev->bytes >= 1u << 30 || relay_charge(ev->bytes) > r->frame) return MOYAI_EINVAL;
    queue_put(r, &p->side[h], ev);
    relay_schedule(r, p, 1 - h);
    return 0;
}

/* --- out ------------------------------------------------------------------------------------------------------------
 */

static void pull_frame(struct relay *r, uint32_t ref, struct relay_out *out) {
    struct relay_path *p = relay_path_of(r, ref);
    int s = (int)((ref - 1) & 1);
    struct relay_side *y = &p->side[s];
    struct relay_item i = queue_take(r, &p->side[1 - s]);
    uint32_t charge = relay_charge(i.what >> 1);
    *out = (struct relay_out){.label = y->label, .class_ = i.what & 1 ? 2 : 1, .token = i.token};
    y->credit -= (int32_t)charge;
    y->ahead += charge > r->own ? charge - r->own : 0;
    relay_side_list(r, p, s, ON_SMALL, false); /* to the end of its list */
    relay_side_list(r, p, s, ON_BULK, false);
    relay_schedule(r, p, s);
    returned(r, p, 1 - s, charge);
    relay_room(r, p);
}

static struct relay_frame say_path(const struct relay *r, struct relay_path *p, struct relay_side *y) {
    struct relay_frame f = {.kind = RELAY_PATH, .hops = p->hops, .id = p->id, .amount = (uint32_t)y->out};
    memcpy(f.to.b, p->to, 16);
    memcpy(f.from.b, p->from, 16);
    (void)r;
    return f;
}

/* The first that is due of what is to be said on this side. */
static struct relay_frame say_next(struct relay *r, struct relay_path *p, int s) {
    struct relay_side *y = &p->side[s];
    struct relay_frame f = {.kind = RELAY_CLOSE};
    uint32_t bit = y->say & (uint32_t) - (int32_t)y->say;
    relay_unsay(r, p, s, bit);
    switch ((enum relay_say)bit) {
    case RELAY_SAY_PATH:
        f = say_path(r, p, y);
        break;
    case RELAY_SAY_GIVE:
        f = (struct relay_frame){.kind = RELAY_GIVE, .amount = y->give};
        y->give = 0;
        break;
    case RELAY_SAY_CREDIT:
        f = (struct relay_frame){.kind = RELAY_CREDIT, .amount = y->due};
        y->out += (int32_t)y->due;
        y->due = 0;
        break;
    case RELAY_SAY_TAKE:
        f = (struct relay_frame){.kind = RELAY_TAKE, .amount = y->take};
        y->asked = y->take;
        y->take = 0;
        break;
    case RELAY_SAY_BLOCKED:
        f.kind = RELAY_BLOCKED;
        break;
    case RELAY_SAY_WARN:
        f = (struct relay_frame){.kind = RELAY_ERROR, .code = RELAY_LEAVING};
        memcpy(f.node.b, y->who, 16);
        break;
    case RELAY_SAY_ERROR:
        f = (struct relay_frame){.kind = RELAY_ERROR, .code = (enum relay_code)y->code};
        memcpy(f.node.b, y->who, 16);
        break;
    case RELAY_SAY_SHORT:
        f.kind = RELAY_CREDIT;
        break;
    case RELAY_SAY_CLOSE:
        break;
    }
    f.label = y->label;
    if (bit == RELAY_SAY_ERROR || bit == RELAY_SAY_CLOSE) relay_said_last(r, p, s);
    return f;
}

/* Whose turn it is. Who has sent a long frame lets others go first until they have sent as much. */
static uint32_t turn(struct relay *r, struct relay_link *k, enum relay_side_list which) {
    for (;;) {
        uint32_t ref = k->all[which].first;
        struct relay_side *y = ref ? relay_side_at(r, ref) : NULL;
        if (!y || !y->ahead) return ref;
        y->ahead -= min32(y->ahead, r->own);
        relay_side_list(r, relay_path_of(r, ref), (int)((ref - 1) & 1), which, false);
        relay_side_list(r, relay_path_of(r, ref), (int)((ref - 1) & 1), which, true);
    }
}

bool relay_pull(struct relay *r, uint64_t link, struct relay_out *out) {
    uint32_t ref = relay_link_find(r, link);
    if (!ref) return false;
    struct relay_link *k = relay_link_at(r, ref);
    uint32_t say = k->all[ON_SAY].first;
    bool small = k->all[ON_SMALL].first, bulk = k->all[ON_BULK].first;
    if (say) {
        struct relay_path *p = relay_path_of(r, say);
        int s = (int)((say - 1) & 1);
        relay_side_list(r, p, s, ON_SAY, false); /* to the end of the list */
        relay_side_list(r, p, s, ON_SAY, true);
        *out = (struct relay_out){.control = true, .frame = say_next(r, p, s)};
        return true;
    }
    if (!small && !bulk) {
        k->idle = 1;
        k->smalls = 0;
        return false;
    }
    bool first = small && !(bulk && k->smalls >= RELAY_TURN);
    k->smalls = first && bulk ? k->smalls + 1 : 0;
    pull_frame(r, turn(r, k, first ? ON_SMALL : ON_BULK), out);
    return true;
}
