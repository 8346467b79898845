/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places, lists and look-ups of the relay machine: where things are, not what they mean.
 *
 * Everything is a reference into a table; lists run through the nodes of what is on them. A place for a path is the
 * lowest that is free, and the generation it counts makes a handle of its last use know that it is outdated. Labels are
 * not given twice before all others were: a late frame under an old label finds nothing.
 */
#include "overlay/relay_internal.h"

#include <string.h>

/* --- configuration and layout ---------------------------------------------------------------------- */

static uint64_t span(moyai_dur d, moyai_dur otherwise) {
    if (d == 0) d = otherwise;
    return d < 1 ? 1 : (uint64_t)d;
}

static size_t up16(size_t n) {
    return (n + 15) & ~(size_t)15;
}

#define COUNT_MOST (1u << 20) /* of links, of pointers and of spare places */
_Static_assert(sizeof(struct relay) + COUNT_MOST * (sizeof(struct relay_link) + 2 * sizeof(struct relay_path)) <
                   UINT32_MAX,
               "the offsets of links, paths and heads fit into 32 bits");

/* Everything but what lives. False: values that cannot work. */
bool relay_layout(struct relay *r, const struct relay_cfg *cfg, size_t *size) {
    *r = (struct relay){
        .memory = cfg->memory ? cfg->memory : 64u << 20,
        .route = span(cfg->route, 5 * MOYAI_SEC),
        .withdraw = span(cfg->withdraw, MOYAI_SEC),
        .links_cap = cfg->links ? cfg->links : 512,
        .pointers = cfg->pointers ? cfg->pointers : 4096,
        .own = cfg->own ? cfg->own : RELAY_OWN,
        .frame = cfg->frame ? cfg->frame
                 : cfg->own ? cfg->own
                            : RELAY_MOST,
        .most = cfg->most ? cfg->most : 1u << 20,
        .hops = cfg->hops ? cfg->hops : 8,
        .tries = cfg->tries ? cfg->tries : 3,
    };
    uint32_t spare = cfg->spare ? cfg->spare : 256;
    memcpy(r->self, cfg->self.b, 16);
    if (r->links_cap > COUNT_MOST || r->pointers > COUNT_MOST || spare > COUNT_MOST || r->hops > 254 || r->tries > 200)
        return false;
    if (r->own <= RELAY_TOLL || r->frame < r->own || r->frame > 1u << 18 || r->most < r->own || r->most > 1u << 24 ||
        id_zero(r->self))
        return false;
    r->paths_cap = r->pointers + spare;
    /* What is queued is covered by credit, at least a toll each, but for one frame of each end, and one that came too
     * late. */
    uint64_t items = (2 * (uint64_t)r->pointers * r->own + r->memory) / RELAY_TOLL + r->paths_cap + 1;
    if (items > UINT32_MAX / 2) return false;
    r->items_cap = (uint32_t)items;
    uint32_t heads = 8;
    while (heads < 2 * r->paths_cap || heads < r->links_cap) heads *= 2;
    r->mask = heads - 1;
    rng_seed(&r->rng, cfg->seed);

    size_t at = up16(sizeof *r);
    r->off_heads = (uint32_t)at; /* touched anywhere: few pages */
    at = up16(at + 3 * (size_t)heads * sizeof(uint32_t));
    r->off_links = (uint32_t)at;
    at = up16(at + r->links_cap * sizeof(struct relay_link));
    r->off_paths = (uint32_t)at;
    at = up16(at + r->paths_cap * sizeof(struct relay_path));
    r->off_items = at;
    at = up16(at + r->items_cap * sizeof(struct relay_item));
    *size = at;
    return true;
}

/* --- look-ups ----------------------------------------------------------------------------------------- */

enum table { LINKS, SIDES, IDS };

static uint32_t *head_of(const struct relay *r, enum table t, uint64_t key) {
    key *= UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 32;
    return (uint32_t *)relay_at(r, r->off_heads) + (size_t)t * (r->mask + 1) + (key & r->mask);
}

static uint64_t side_key(uint32_t link, uint32_t label) {
    return (uint64_t)link << 32 | label;
}

uint32_t relay_link_find(const struct relay *r, uint64_t number) {
    uint32_t ref = *head_of(r, LINKS, number);
    while (ref && relay_link_at(r, ref)->number != number) ref = relay_link_at(r, ref)->chain;
    return ref;
}

uint32_t relay_side_find(const struct relay *r, uint32_t link, uint32_t label) {
    for (uint32_t ref = *head_of(r, SIDES, side_key(link, label)); ref; ref = relay_side_at(r, ref)->chain) {
        const struct relay_side *y = relay_side_at(r, ref);
        if (y->link == link && y->label == label) return ref;
    }
    return 0;
}

struct relay_path *relay_id_find(const struct relay *r, uint64_t id) {
    for (uint32_t ref = *head_of(r, IDS, id); ref; ref = relay_path_at(r, ref)->chain)
        if (relay_path_at(r, ref)->id == id) return relay_path_at(r, ref);
    return NULL;
}

void relay_id_put(struct relay *r, struct relay_path *p, uint64_t id) {
    uint32_t *head = head_of(r, IDS, id);
    p->id = id;
    p->chain = *head;
    *head = relay_path_ref(r, p);
}

void relay_id_drop(struct relay *r, struct relay_path *p) {
    if (!p->id) return;
    uint32_t *at = head_of(r, IDS, p->id), ref = relay_path_ref(r, p);
    while (*at != ref) at = &relay_path_at(r, *at)->chain;
    *at = p->chain;
    p->chain = 0;
    p->id = 0;
}

/* --- lists ---------------------------------------------------------------------------------------------- */

struct relay_list *relay_list_of(struct relay *r, const struct relay_side *y, enum relay_side_list which) {
    return which == ON_LENT ? &r->lents : &relay_link_at(r, y->link)->all[which];
}

/* Put x, whose reference is ref, at the end of a list, or take it off. The nodes of its neighbours are found by `of`.
 */
static void list_put(struct relay_list *l, struct relay_node *x, uint32_t ref, struct relay_node *last) {
    *x = (struct relay_node){.prev = l->last};
    if (last)
        last->next = ref;
    else
        l->first = ref;
    l->last = ref;
}

static void list_drop(struct relay_list *l, struct relay_node *x, struct relay_node *prev, struct relay_node *next) {
    if (prev)
        prev->next = x->next;
    else
        l->first = x->next;
    if (next)
        next->prev = x->prev;
    else
        l->last = x->prev;
    *x = (struct relay_node){0};
}

static struct relay_node *side_node(const struct relay *r, uint32_t ref, enum relay_side_list which) {
    return ref ? &relay_side_at(r, ref)->node[which] : NULL;
}
static struct relay_node *path_node(const struct relay *r, uint32_t ref, enum relay_path_list which) {
    return ref ? &relay_path_at(r, ref)->node[which] : NULL;
}

static void wake(struct relay *r, struct relay_link *k, uint32_t ref) {
    if (k->wake) return;
    k->wake = 1;
    if (r->wakes.last)
        relay_link_at(r, r->wakes.last)->wake_next = ref;
    else
        r->wakes.first = ref;
    r->wakes.last = ref;
    r->draining = 1;
}

bool relay_wake_next(struct relay *r, uint64_t *number) {
    uint32_t ref = r->wakes.first;
    if (!ref) return false;
    struct relay_link *k = relay_link_at(r, ref);
    r->wakes.first = k->wake_next;
    if (!r->wakes.first) r->wakes.last = 0;
    k->wake = 0;
    k->wake_next = 0;
    *number = k->number;
    return true;
}

void relay_side_list(struct relay *r, struct relay_path *p, int s, enum relay_side_list which, bool on) {
    struct relay_side *y = &p->side[s];
    if (((y->on >> which) & 1) == on) return;
    y->on ^= (uint8_t)(1u << which);
    struct relay_list *l = relay_list_of(r, y, which);
    struct relay_node *x = &y->node[which];
    if (on)
        list_put(l, x, relay_side_ref(r, p, s), side_node(r, l->last, which));
    else
        list_drop(l, x, side_node(r, x->prev, which), side_node(r, x->next, which));
    if (!on || which == ON_LINK || which == ON_LENT) return;
    struct relay_link *k = relay_link_at(r, y->link);
    if (!k->idle) return;
    k->idle = 0;
    wake(r, k, y->link);
}

void relay_path_list(struct relay *r, struct relay_path *p, enum relay_path_list which, bool on) {
    if (((p->on >> which) & 1) == on) return;
    p->on ^= (uint8_t)(1u << which);
    struct relay_list *l = which == ON_TELL ? &r->tells : &r->routes;
    struct relay_node *x = &p->node[which];
    if (on)
        list_put(l, x, relay_path_ref(r, p), path_node(r, l->last, which));
    else
        list_drop(l, x, path_node(r, x->prev, which), path_node(r, x->next, which));
}

void relay_tell(struct relay *r, struct relay_path *p, enum relay_tell what) {
    p->tell |= (uint8_t)what;
    relay_path_list(r, p, ON_TELL, true);
    r->draining = 1;
}

void relay_say(struct relay *r, struct relay_path *p, int s, enum relay_say what) {
    p->side[s].say |= (uint16_t)what;
    relay_side_list(r, p, s, ON_SAY, true);
}

void relay_unsay(struct relay *r, struct relay_path *p, int s, uint32_t what) {
    p->side[s].say &= (uint16_t)~what;
    if (p->side[s].where == BY_LINK && !p->side[s].say) relay_side_list(r, p, s, ON_SAY, false);
}

/* --- links ------------------------------------------------------------------------------------------------ */

static bool lower(const struct relay *r, const struct relay_link *k) {
    return id_cmp(r->self, k->id) < 0;
}

uint32_t relay_link_add(struct relay *r, uint64_t number, const uint8_t id[16]) {
    if (r->links_n == r->links_cap) return 0;
    uint32_t ref = 1;
    while (relay_link_at(r, ref)->number) ref++;
    struct relay_link *k = relay_link_at(r, ref);
    uint32_t *head = head_of(r, LINKS, number);
    *k = (struct relay_link){.number = number, .chain = *head, .idle = 1};
    memcpy(k->id, id, 16);
    k->label = lower(r, k) ? 1 : 2;
    *head = ref;
    r->links_n++;
    return ref;
}

void relay_link_remove(struct relay *r, uint32_t link) {
    struct relay_link *k = relay_link_at(r, link);
    uint32_t *at = head_of(r, LINKS, k->number);
    while (*at != link) at = &relay_link_at(r, *at)->chain;
    *at = k->chain;
    *k = (struct relay_link){0};
    r->links_n--;
}

bool relay_label_ours(const struct relay *r, uint32_t link, uint32_t label) {
    return (label & 1) == lower(r, relay_link_at(r, link));
}

uint32_t relay_label_new(struct relay *r, uint32_t link) {
    struct relay_link *k = relay_link_at(r, link);
    uint32_t label;
    do {
        label = k->label;
        k->label = label > UINT32_MAX - 2 ? (lower(r, k) ? 1 : 2) : label + 2;
    } while (relay_side_find(r, link, label));
    return label;
}

/* --- paths and their sides ---------------------------------------------------------------------------------- */

struct relay_path *relay_path_add(struct relay *r) {
    if (r->paths_n == r->paths_cap) return NULL;
    uint32_t ref = r->paths_low + 1;
    while (relay_path_at(r, ref)->state != PATH_FREE) ref++;
    struct relay_path *p = relay_path_at(r, ref);
    p->generation++;
    r->paths_low = ref;
    if (r->paths_top < ref) r->paths_top = ref;
    r->paths_n++;
    return p;
}

void relay_path_remove(struct relay *r, struct relay_path *p) {
    uint32_t ref = relay_path_ref(r, p);
    *p = (struct relay_path){.generation = p->generation};
    if (r->paths_low >= ref) r->paths_low = ref - 1;
    r->paths_n--;
}

struct relay_path *relay_path_find(const struct relay *r, uint64_t handle) {
    uint32_t ref = (uint32_t)handle;
    if (ref == 0 || ref > r->paths_top) return NULL;
    struct relay_path *p = relay_path_at(r, ref);
    bool live = p->state == PATH_ROUTING || p->state == PATH_OPEN;
    return live && relay_handle(r, p) == handle ? p : NULL;
}

void relay_side_put(struct relay *r, struct relay_path *p, int s, uint32_t link, uint32_t label) {
    struct relay_side *y = &p->side[s];
    uint32_t *head = head_of(r, SIDES, side_key(link, label));
    y->where = BY_LINK;
    y->link = link;
    y->label = label;
    y->chain = *head;
    *head = relay_side_ref(r, p, s);
    relay_side_list(r, p, s, ON_LINK, true);
}

void relay_side_drop(struct relay *r, struct relay_path *p, int s) {
    struct relay_side *y = &p->side[s];
    if (y->where == BY_LINK) {
        uint32_t *at = head_of(r, SIDES, side_key(y->link, y->label)), ref = relay_side_ref(r, p, s);
        while (*at != ref) at = &relay_side_at(r, *at)->chain;
        *at = y->chain;
        for (enum relay_side_list which = ON_LINK; which < ON_LENT; which++) relay_side_list(r, p, s, which, false);
    }
    y->where = NOWHERE;
    y->say = y->code = y->blocked = y->deaf = y->used = 0;
    y->link = y->label = y->chain = y->due = y->asked = y->take = y->give = 0;
    y->ahead = 0;
    y->out = y->credit = 0;
    memset(y->who, 0, sizeof y->who);
}

/* ---- reports --------------------------------------------------------------------------------- */

bool relay_path_id(const struct relay *r, uint64_t path, uint64_t *id) {
    const struct relay_path *p = relay_path_find(r, path);
    if (!p) return false;
    *id = p->id;
    return true;
}

bool relay_path_next(const struct relay *r, uint64_t id, const struct moyai_node_id *end, struct moyai_node_id *next) {
    const struct relay_path *p = relay_id_find(r, id);
    if (!p || p->state != PATH_OPEN) return false;
    int s = id_equal(p->to, end->b) ? 1 : 0;
    const struct relay_side *y = &p->side[s];
    if ((s == 0 && !id_equal(p->from, end->b)) || y->where != BY_LINK) return false;
    memcpy(next->b, relay_link_at(r, y->link)->id, 16);
    return true;
}

bool relay_beyond(const struct relay *r, uint64_t link, uint32_t *at, struct moyai_node_id *end) {
    uint32_t i = relay_link_find(r, link);
    if (!i) return false;
    const uint8_t *id = relay_link_at(r, i)->id;
    while (*at < r->paths_top) {
        const struct relay_path *p = relay_path_at(r, ++*at);
        if (p->ends || (p->state != PATH_OPEN && p->state != PATH_ROUTING)) continue;
        bool on = p->side[1].where == BY_LINK && p->side[1].link == i && id_equal(p->to, id);
        bool back = p->side[0].where == BY_LINK && p->side[0].link == i && id_equal(p->from, id);
        if (!on && !back) continue;
        memcpy(end->b, on ? p->from : p->to, 16);
        return true;
    }
    return false;
}

uint32_t relay_left(const struct relay *r) {
    return r->pointers - r->live;
}

bool relay_leads(const struct relay *r, uint64_t link, uint32_t label, struct moyai_node_id *to) {
    uint32_t i = relay_link_find(r, link), ref = i ? relay_side_find(r, i, label) : 0;
    if (!ref || ((ref - 1) & 1) == 0) return false;
    memcpy(to->b, relay_path_of(r, ref)->to, 16);
    return true;
}
