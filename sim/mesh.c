/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mesh.h"

#include "base/id.h"
#include "overlay/peers_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mail { /* a frame, or the end of a link, on its way */
    struct mesh *m;
    uint64_t link;
    int to;
    size_t n;
    uint8_t type, p[];
};

struct call { /* a connection being made */
    struct mesh *m;
    uint32_t from, to;
    uint64_t serial;
    uint32_t what;
};

static void act(struct mesh_node *h, struct peers_event *ev);

/* --- nodes and their driver ------------------------------------------------------------------------ */

static void fail(struct mesh *m, const char *text) {
    if (m->broken) return;
    m->broken = true;
    snprintf(m->why.text, sizeof m->why.text, "%s", text);
}

static uint32_t index_of(const struct moyai_node_id *id) {
    uint32_t i;
    memcpy(&i, id->b + 8, 4);
    return i;
}

static moyai_dur some_delay(struct mesh *m) {
    return 1 + (moyai_dur)rng_below(&m->rng, (uint64_t)m->cfg.delay);
}

static bool reaches(const struct mesh *m, const struct mesh_node *a, const struct mesh_node *b) {
    if (m->cut && a->part != b->part) return false;
    if (a->site == b->site) return true;
    return m->site[b->site] == SITE_OPEN && m->site[a->site] != SITE_BLOCKED;
}

static struct peers_endpoint endpoint_of(const struct mesh_node *h, uint32_t lifetime) {
    return (struct peers_endpoint){.id = h->id,
                                   .site = h->site + 1,
                                   .accepts = h->m->site[h->site] == SITE_OPEN,
                                   .lifetime = lifetime,
                                   .n_text = h->n_text,
                                   .text = h->text};
}

static void tick(void *who, uint64_t when) {
    struct mesh_node *h = who;
    if (!h->p || h->timer != when) return;
    h->timer = 0;
    act(h, &(struct peers_event){.kind = PEERS_EV_TIMEOUT});
}

static void set_timer(struct mesh_node *h) {
    moyai_ns at = peers_deadline(h->p);
    if (at == UINT64_MAX || (h->timer && h->timer <= at)) return;
    if (at < h->m->w->now) at = h->m->w->now;
    h->timer = at;
    world_at(h->m->w, at, tick, h, at);
}

static void list_add(struct mesh_node *h, uint64_t link) {
    if (h->links_n == h->links_cap) {
        h->links_cap = h->links_cap ? 2 * h->links_cap : 16;
        h->links = realloc(h->links, h->links_cap * sizeof *h->links);
        if (!h->links) abort();
    }
    h->links[h->links_n++] = link;
}

static void list_remove(struct mesh_node *h, uint64_t link) {
    for (uint32_t i = 0; i < h->links_n; i++)
        if (h->links[i] == link) h->links[i--] = h->links[--h->links_n];
}

static int end_of(const struct mesh *m, uint64_t link, const struct mesh_node *h) {
    return m->link[link - 1].node[1] == h->index;
}

static void close_end(struct mesh *m, uint64_t link, int end) {
    struct mesh_link *l = &m->link[link - 1];
    if (!l->open[end]) return;
    l->open[end] = l->used[end] = false;
    list_remove(&m->node[l->node[end]], link);
}

/* --- links ----------------------------------------------------------------------------------------- */

static void lost(struct mesh *m, uint64_t link, int end) {
    struct mesh_link *l = &m->link[link - 1];
    struct mesh_node *h = &m->node[l->node[end]];
    if (!l->open[end]) return;
    close_end(m, link, end);
    if (h->p) act(h, &(struct peers_event){.kind = PEERS_EV_LOST, .link = link});
}

static void arrive(void *who, uint64_t what) {
    struct mail *mail = who;
    struct mesh *m = mail->m;
    struct mesh_link *l = &m->link[mail->link - 1];
    struct mesh_node *h = &m->node[l->node[mail->to]];
    (void)what;
    if (l->open[mail->to] && h->p && mail->n == 0) {
        lost(m, mail->link, mail->to);
    } else if (l->open[mail->to] && h->p) {
        struct peers_frame f;
        struct peers_event ev = {.kind = PEERS_EV_FRAME, .link = mail->link, .frame = &f};
        ev.id = m->node[l->node[1 - mail->to]].id;
        if (peers_wire_get(mail->type, mail->p, mail->n, &f, &m->why) < 0) m->broken = true;
        act(h, &ev);
    }
    free(mail);
}

/* n = 0: the link's end. It comes after all that was sent before. */
static void post(struct mesh *m, uint64_t link, int to, const struct peers_frame *f) {
    struct mesh_link *l = &m->link[link - 1];
    size_t n = f ? peers_wire_size(f) : 0;
    struct mail *mail = malloc(sizeof *mail + n);
    if (!mail) abort();
    *mail = (struct mail){.m = m, .link = link, .to = to, .n = n};
    if (f) {
        mail->type = (uint8_t)(FRAME_PEERS + f->kind);
        peers_wire_put(mail->p, f);
        m->frames++;
        m->bytes += n;
    }
    moyai_ns at = m->w->now + (moyai_ns)l->delay;
    if (at <= l->last[to]) at = l->last[to] + 1;
    l->last[to] = at;
    world_at(m->w, at, arrive, mail, 0);
}

static uint64_t new_link(struct mesh *m, uint32_t from, uint32_t to) {
    if (m->links_n == m->links_cap) {
        m->links_cap = m->links_cap ? 2 * m->links_cap : 1024;
        m->link = realloc(m->link, m->links_cap * sizeof *m->link);
        if (!m->link) abort();
    }
    m->link[m->links_n] = (struct mesh_link){.node = {from, to}, .open = {true, true}, .delay = some_delay(m)};
    uint64_t link = ++m->links_n;
    list_add(&m->node[from], link);
    list_add(&m->node[to], link);
    return link;
}

/* --- connecting ------------------------------------------------------------------------------------ */

static int dial_slot(const struct mesh_node *h, uint32_t to) {
    for (int i = 0; i < 64; i++)
        if (h->dialling[i] && h->dial_to[i] == to) return i;
    return -1;
}

static void answered(void *who, uint64_t reached) {
    struct call c = *(struct call *)who;
    struct mesh_node *h = &c.m->node[c.from], *to = &c.m->node[c.to];
    free(who);
    if (c.what == PEERS_MESH) {
        int slot = dial_slot(h, c.to);
        if (!h->p || slot < 0 || h->dialling[slot] != c.serial) return;
        h->dialling[slot] = 0;
    }
    if (!h->p) return;
    struct peers_event ev = {.kind = PEERS_EV_FAILED, .id = to->id, .what = c.what};
    if (reached && to->p && reaches(c.m, h, to)) {
        ev.kind = PEERS_EV_UP;
        ev.link = new_link(c.m, c.from, c.to);
    } else if (c.what != PEERS_MESH) {
        return;
    }
    act(h, &ev);
}

static void knock(void *who, uint64_t delay) {
    struct call *c = who;
    struct mesh_node *h = &c->m->node[c->from], *to = &c->m->node[c->to];
    bool reached = c->what == PEERS_LINE || reaches(c->m, h, to);
    if (!reached && c->m->cfg.silent) {
        free(c);
        return;
    }
    if (reached) {
        moyai_ns second = c->m->w->now / (moyai_ns)MOYAI_SEC;
        if (to->p && h->site != to->site && c->what == PEERS_MESH)
            act(to, &(struct peers_event){.kind = PEERS_EV_REACHED});
        if (to->second != second) to->calls = 0;
        to->second = second;
        if (++to->calls > c->m->calls_most) c->m->calls_most = to->calls;
        c->m->calls++;
    }
    world_in(c->m->w, (moyai_dur)delay, answered, c, reached && to->p != NULL);
}

static void dial(struct mesh_node *h, uint32_t to, uint32_t what) {
    struct call *c = malloc(sizeof *c);
    if (!c) abort();
    *c = (struct call){h->m, h->index, to, ++h->m->serial, what};
    for (int i = 0; what == PEERS_MESH; i++) {
        if (i == 64) abort();
        if (h->dialling[i]) continue;
        h->dialling[i] = c->serial;
        h->dial_to[i] = to;
        break;
    }
    moyai_dur delay = some_delay(h->m);
    world_in(h->m->w, delay, knock, c, (uint64_t)delay);
}

/* --- the rendezvous -------------------------------------------------------------------------------- */

static void look(void *who, uint64_t what) {
    struct mesh_node *h = who;
    struct mesh *m = h->m;
    (void)what;
    if (!h->p) return;
    uint32_t told = 0;
    if (!m->no_rendezvous) {
        h->until = m->w->now + (moyai_ns)m->cfg.entry;
        uint32_t first = (uint32_t)rng_below(&m->rng, m->n), stride = 1;
        if (m->n > 4 * m->cfg.answer) stride = 1 + (uint32_t)rng_below(&m->rng, m->n / m->cfg.answer / 2);
        for (uint32_t k = 0; k < m->n && told < m->cfg.answer; k++) {
            const struct mesh_node *o = &m->node[(first + (uint64_t)k * stride) % m->n];
            if (o == h || o->until <= m->w->now) continue;
            const struct peers_endpoint e = endpoint_of(o, (uint32_t)((o->until - m->w->now) / (moyai_ns)MOYAI_SEC));
            act(h, &(struct peers_event){.kind = PEERS_EV_ENTRY, .endpoint = &e});
            told++;
        }
        /* and some of its own site */
        for (uint32_t k = 0, near = 0; k < m->n && near < 16; k++) {
            const struct mesh_node *o = &m->node[(first + k) % m->n];
            if (o == h || o->site != h->site || o->until <= m->w->now) continue;
            const struct peers_endpoint e = endpoint_of(o, (uint32_t)((o->until - m->w->now) / (moyai_ns)MOYAI_SEC));
            act(h, &(struct peers_event){.kind = PEERS_EV_ENTRY, .endpoint = &e});
            near++;
        }
    }
    act(h, &(struct peers_event){.kind = PEERS_EV_LOOKED, .entries = told});
}

/* --- effects --------------------------------------------------------------------------------------- */

static void effect(struct mesh_node *h, const struct peers_effect *fx) {
    struct mesh *m = h->m;
    int slot;
    switch (fx->kind) {
    case PEERS_FX_CONNECT:
        dial(h, index_of(&fx->endpoint.id), PEERS_MESH);
        break;
    case PEERS_FX_CANCEL:
        slot = dial_slot(h, index_of(&fx->id));
        if (slot >= 0) h->dialling[slot] = 0;
        break;
    case PEERS_FX_SEND:
        m->refused += fx->frame.kind == PEERS_REFUSE;
        if (m->link[fx->link - 1].open[end_of(m, fx->link, h)]) post(m, fx->link, !end_of(m, fx->link, h), &fx->frame);
        break;
    case PEERS_FX_USE:
        m->link[fx->link - 1].used[end_of(m, fx->link, h)] = true;
        break;
    case PEERS_FX_DROP:
        close_end(m, fx->link, end_of(m, fx->link, h));
        post(m, fx->link, !end_of(m, fx->link, h), NULL);
        break;
    case PEERS_FX_PROBE:
        if (!m->link[fx->link - 1].open[!end_of(m, fx->link, h)]) post(m, fx->link, end_of(m, fx->link, h), NULL);
        break;
    case PEERS_FX_LOOK:
        world_in(m->w, 2 * some_delay(m), look, h, 0);
        break;
    }
}

static const char *const kinds[] = {"CONNECT", "CANCEL", "SEND", "USE", "DROP", "PROBE", "LOOK"};

static void act(struct mesh_node *h, struct peers_event *ev) {
    struct mesh *m = h->m;
    struct peers_effect fx;
    if (m->broken) return;
    ev->now = m->w->now;
    int rc = peers_step(h->p, ev);
    m->steps++;
    if (rc < 0 && !(rc == MOYAI_EINVAL && ev->kind == PEERS_EV_LOST)) { /* the link was never offered */
        char text[128];
        snprintf(text, sizeof text, "node %" PRIu32 ": event %d (frame %d): %s", h->index, (int)ev->kind,
                 ev->frame ? (int)ev->frame->kind : -1, moyai_err_name(rc));
        fail(m, text);
    }
    while (h->p && peers_next(h->p, &fx)) {
        if (m->trace && h->index < 1000000)
            trace_line(m->trace, m->w->now, "",
                       "%" PRIu32 " %s link %" PRIu64 " node %" PRIu32 " frame %d what %" PRIu32, h->index,
                       kinds[fx.kind], fx.link, index_of(fx.kind == PEERS_FX_CONNECT ? &fx.endpoint.id : &fx.id),
                       (int)fx.frame.kind, fx.what);
        effect(h, &fx);
    }
    if (m->cfg.check && !m->broken && !peers_check(h->p, &m->why)) m->broken = true;
    set_timer(h);
}

/* --- the world ------------------------------------------------------------------------------------- */

void mesh_init(struct mesh *m, struct world *w, const struct mesh_cfg *cfg, uint32_t nodes,
               const enum mesh_site_kind *site, uint32_t sites) {
    *m = (struct mesh){.w = w, .cfg = *cfg, .n = nodes, .sites = sites};
    rng_fork(&w->rng, "mesh", 0, &m->rng);
    m->node = sim_alloc(nodes * sizeof *m->node);
    m->site = sim_alloc(sites * sizeof *m->site);
    memcpy(m->site, site, sites * sizeof *site);
    for (uint32_t i = 0; i < nodes; i++) {
        struct mesh_node *h = &m->node[i];
        char text[24];
        h->m = m;
        h->index = i;
        rng_bytes(&m->rng, h->id.b, 16);
        memcpy(h->id.b + 8, &i, 4);
        snprintf(text, sizeof text, "10.%" PRIu32 ".%" PRIu32 ":7", i / 256, i % 256);
        (void)peers_address_put(h->text, sizeof h->text, &h->n_text, text);
    }
}

void mesh_done(struct mesh *m) {
    m->broken = true; /* nobody acts any more; what is under way arrives and is freed */
    (void)world_run(m->w, NULL, NULL, m->w->now + 60 * (moyai_ns)MOYAI_SEC);
    for (uint32_t i = 0; i < m->n; i++) {
        free(m->node[i].p);
        free(m->node[i].links);
    }
    free(m->node);
    free(m->site);
    free(m->link);
    *m = (struct mesh){0};
}

static void start(void *who, uint64_t what) {
    struct mesh_node *h = who;
    (void)what;
    if (h->p || h->m->broken) return;
    struct peers_cfg cfg = h->m->cfg.peers;
    cfg.self = endpoint_of(h, cfg.self.lifetime);
    cfg.seed = rng_next(&h->m->rng);
    size_t n = peers_size(&cfg);
    h->p = calloc(1, n); /* untouched, most of it costs nothing */
    if (!h->p || peers_init(h->p, &cfg) < 0) abort();
    act(h, &(struct peers_event){.kind = PEERS_EV_START});
}

void mesh_start(struct mesh *m, uint32_t i, uint32_t site, moyai_dur in) {
    m->node[i].site = site;
    world_in(m->w, in, start, &m->node[i], 0);
}

void mesh_crash(struct mesh *m, uint32_t i) {
    struct mesh_node *h = &m->node[i];
    if (!h->p) return;
    while (h->links_n) {
        uint64_t link = h->links[0];
        int end = end_of(m, link, h);
        close_end(m, link, end);
        post(m, link, !end, NULL);
    }
    free(h->p);
    h->p = NULL;
    h->timer = 0;
    memset(h->dialling, 0, sizeof h->dialling);
}

struct line {
    struct mesh *m;
    uint32_t from, to;
};

static void hold_line(void *who, uint64_t what) {
    struct line *l = who;
    struct mesh *m = l->m;
    struct mesh_node *a = &m->node[l->from], *b = &m->node[l->to];
    (void)what;
    if (m->broken) {
        free(l);
        return;
    }
    bool have = false;
    for (uint32_t i = 0; i < a->links_n; i++) {
        const struct mesh_link *k = &m->link[a->links[i] - 1];
        have = have || k->node[0] == l->to || k->node[1] == l->to;
    }
    if (a->p && b->p && !have) {
        struct peers_event ev = {.kind = PEERS_EV_UP, .id = b->id, .what = PEERS_LINE};
        ev.link = new_link(m, l->from, l->to);
        act(a, &ev);
    }
    world_in(m->w, 5 * MOYAI_SEC, hold_line, l, 0);
}

void mesh_line(struct mesh *m, uint32_t from, uint32_t to) {
    struct line *l = sim_alloc(sizeof *l);
    *l = (struct line){m, from, to};
    world_in(m->w, MOYAI_SEC, hold_line, l, 0);
}

void mesh_cut(struct mesh *m, bool cut) {
    m->cut = cut;
    for (uint64_t link = 1; cut && link <= m->links_n; link++) {
        struct mesh_link *l = &m->link[link - 1];
        if (m->node[l->node[0]].part == m->node[l->node[1]].part) continue;
        for (int end = 0; end < 2; end++) lost(m, link, end);
    }
}

static uint32_t root(uint32_t *up, uint32_t i) {
    while (up[i] != i) i = up[i] = up[up[i]];
    return i;
}

struct mesh_view mesh_look(struct mesh *m) {
    struct mesh_view v = {.least = UINT32_MAX, .known = UINT32_MAX};
    uint32_t *up = sim_alloc(m->n * sizeof *up);
    for (uint32_t i = 0; i < m->n; i++) up[i] = i;
    for (uint64_t k = 0; k < m->links_n; k++) {
        const struct mesh_link *l = &m->link[k];
        if (l->used[0] && l->used[1]) up[root(up, l->node[0])] = root(up, l->node[1]);
        v.half += l->used[0] != l->used[1];
    }
    for (uint32_t i = 0; i < m->n; i++) {
        if (!m->node[i].p) continue;
        struct peers_count c = peers_count(m->node[i].p);
        v.live++;
        v.parts += root(up, i) == i;
        if (c.mesh < v.least) v.least = c.mesh;
        if (c.mesh > v.most) v.most = c.mesh;
        if (c.known < v.known) v.known = c.known;
        v.mean += c.mesh;
    }
    v.mean /= v.live ? v.live : 1;
    free(up);
    return v;
}
