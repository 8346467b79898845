/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/listen.h"

#include "base/err.h"
#include "link/tls.h"
#include "overlay/peers_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE  (200 * MOYAI_MS) /* with those that have shown nothing, when others wait */
#define PATIENCE2 (500 * MOYAI_MS) /* with those that claim to hold a key */
#define SAY_EVERY (60 * MOYAI_SEC)

static void on_accept_later(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct listener *l = (struct listener *)((char *)t - offsetof(struct listener, timer));
    exec_fd_events(l->watched, UV_READABLE);
}

/*
 * Who goes when all places are taken; NULL: nobody yet. A member sends its whole hello, with which it shows that it
 * holds a key, behind its connection, and so has shown it when its turn comes to be listened to, be it one of a
 * thousand behind one address. So it is those who have shown nothing that go; crowd.h chooses. Patience with them lets
 * in no more than 1,280 of them a second, which is what they can cost a node that has work. If they are the fewer, it
 * is one of those that have sent a good hello and nothing further, as who has seen another's can.
 */
static struct olink *victim(struct overlay *o, moyai_ns now) {
    for (unsigned i = 0; i < 2; i++) {
        struct crowd_member *m;
        while ((m = crowd_victim(&o->half[i]))) {
            struct olink *k = (struct olink *)((char *)m - offsetof(struct olink, stranger));
            if (tls_shown(link_tls(k->link)) <= (i ? TLS_CLAIM : TLS_NOTHING)) {
                if (now - m->since >= (moyai_ns)(i ? PATIENCE2 : PATIENCE)) return k;
                if (o->half[0].n > o->half[1].n) return NULL;
                break;
            }
            uint64_t source = m->source;
            crowd_remove(&o->half[i], m);
            k->claims = true;
            if (i == 0) crowd_add(&o->half[1], m, source, now);
        }
    }
    return NULL;
}

static void show_out(struct listeners *w, struct olink *k, moyai_ns now) {
    if (!w->said || now - w->said >= (moyai_ns)SAY_EVERY)
        log_warning(w->o->cfg.log, "link", "MOYAI-LINK-STRANGERS",
                    "all places for connections that have not said hello are taken: those that have shown no key make "
                    "room for others, as one from %s does",
                    k->at);
    if (!w->said || now - w->said >= (moyai_ns)SAY_EVERY) w->said = now;
    olink_end(k);
}

static void wait_a_little(struct listener *l, moyai_dur wait) {
    exec_fd_events(l->watched, 0);
    exec_timer_set(l->all->o->x, &l->timer, moyai_now() + (moyai_ns)wait);
}

static void on_accept(struct exec_fd *f, int events, void *arg) {
    (void)f, (void)events;
    struct listener *l = arg;
    struct listeners *w = l->all;
    struct overlay *o = w->o;
    w->before(w->arg);
    for (unsigned i = 0; i < 16; i++) {
        int fd;
        struct tcp_addr from;
        struct moyai_error why = {0};
        moyai_ns now = moyai_now();
        bool full = o->n_half_tcp >= w->half_most;
        struct olink *other = full ? victim(o, now) : NULL;
        if (full && !other) {
            wait_a_little(l, ACCEPT_FIRST);
            return;
        }
        int rc = tcp_accept(l->fd, &fd, &from, &why);
        if (rc == MOYAI_EAGAIN) {
            l->wait = 0;
            return;
        }
        if (rc < 0) {
            if ((other = victim(o, now))) show_out(w, other, now); /* it has a descriptor */
            if (!l->wait) log_error(o->cfg.log, "link", "MOYAI-LINK-ACCEPT", "%s", why.text);
            l->wait = l->wait ? l->wait * 2 : ACCEPT_FIRST;
            if (l->wait > ACCEPT_MOST) l->wait = ACCEPT_MOST;
            wait_a_little(l, l->wait);
            return;
        }
        l->wait = 0;
        if (other) show_out(w, other, now);
        struct tls *tls = tls_new(w->tls, fd, true, 0);
        struct olink *k = tls ? olink_new(o, fd, tls, NULL, 0) : NULL;
        if (!k) {
            tls_free(tls);
            close(fd);
            continue;
        }
        tcp_format(&from, k->at);
        crowd_add(&o->half[0], &k->stranger, tcp_source((struct sockaddr *)&from.ss), now);
    }
}

bool listen_from_afar(const struct olink *k) {
    struct tcp_addr from;
    return k->tcp && tcp_parse(k->at, &from, NULL) == 0 && !tcp_is_near(&from);
}

/* where NULL: any address. */
static int listen_on(struct listeners *w, const struct tcp_addr *where, uint16_t first, uint16_t last,
                     struct tcp_addr *at, struct moyai_error *reterr) {
    struct listener *l = &w->l[w->n];
    int rc = tcp_listen(&l->fd, where, first, last, at, reterr);
    if (rc < 0) return rc;
    l->all = w;
    exec_timer_init(&l->timer, on_accept_later);
    l->watched = exec_fd_new(w->o->x, l->fd, UV_READABLE, on_accept, l);
    if (!l->watched) {
        close(l->fd);
        return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    w->n++;
    return 0;
}

int listen_besides(struct listeners *w, const struct tcp_addr *at, struct moyai_error *reterr) {
    struct tcp_addr got;
    if (w->n == LISTENERS + LINE_PORTS)
        return err_set(reterr, MOYAI_ELIMIT, "no more than %u ports of the grid file lead to one node", LINE_PORTS);
    return listen_on(w, at, 0, 0, &got, reterr);
}

/* "any", or addresses of this host with or without a port. *blame: the option that is at fault. */
static int listen_at(struct listeners *w, const char *text, uint16_t first, uint16_t last, struct tcp_addr *at,
                     enum config_index *blame, struct moyai_error *reterr) {
    *blame = CONFIG_listen;
    if (w->n == LISTENERS) return err_set(reterr, MOYAI_EINVAL, "more than %u addresses to listen at", LISTENERS);
    struct tcp_addr where;
    bool any = strcmp(text, "any") == 0;
    int rc = any ? 0 : tcp_parse(text, &where, reterr);
    if (rc < 0) return rc;
    rc = listen_on(w, any ? NULL : &where, first, last, at, reterr);
    if (rc == MOYAI_EEXIST && first && (any || !tcp_port(&where))) *blame = CONFIG_port_range; /* it is used up */
    return rc;
}

static void advertise(struct listeners *w, const struct tcp_addr *a) {
    char text[TCP_TEXT];
    tcp_format(a, text);
    (void)peers_address_put(w->text, PEERS_TEXT, w->n_text, text);
}

/* Each word of a text. */
static int each_word(const char *text,
                     int (*fn)(struct listeners *w, const char *word, void *arg, struct moyai_error *e),
                     struct listeners *w, void *arg, struct moyai_error *reterr) {
    int rc = 0;
    while (rc == 0) {
        text += strspn(text, " \t\n,");
        size_t n = strcspn(text, " \t\n,");
        if (n == 0) break;
        char *word = strndup(text, n);
        text += n;
        rc = word ? fn(w, word, arg, reterr) : err_set(reterr, MOYAI_ENOMEM, "out of memory");
        free(word);
    }
    return rc;
}

struct listening {
    uint16_t first, last, port; /* port: of the first listener */
    bool advertise;
};

static int listen_word(struct listeners *w, const char *word, void *arg, struct moyai_error *reterr) {
    struct listening *s = arg;
    struct tcp_addr at;
    enum config_index blame;
    int rc = listen_at(w, word, s->first, s->last, &at, &blame, reterr);
    if (rc < 0) {
        (void)config_blame(reterr, w->o->cfg.config, blame);
        return rc;
    }
    if (!s->port) s->port = tcp_port(&at);
    if (!s->advertise) return 0;
    if (!tcp_is_all(&at)) {
        advertise(w, &at);
        return 0;
    }
    struct tcp_addr own[PEERS_ADDRESSES];
    size_t n = tcp_own_addresses(own, PEERS_ADDRESSES);
    for (size_t i = 0; i < n; i++) {
        if (at.ss.ss_family == AF_INET && own[i].ss.ss_family != AF_INET) continue;
        tcp_set_port(&own[i], tcp_port(&at));
        advertise(w, &own[i]);
    }
    return 0;
}

static int advertise_word(struct listeners *w, const char *word, void *arg, struct moyai_error *reterr) {
    const struct listening *s = arg;
    char host[TCP_HOST], full[TCP_HOST + 8];
    uint16_t port;
    struct moyai_error why = {0};
    int rc = tcp_split(word, false, host, &port, &why);
    if (rc < 0) return err_set(reterr, rc, "%s: %s", config_called(w->o->cfg.config, CONFIG_advertise), why.text);
    snprintf(full, sizeof full, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port ? port : s->port);
    if (!peers_address_put(w->text, PEERS_TEXT, w->n_text, full))
        return err_set(reterr, MOYAI_EINVAL, "%s: \"%.80s\" is longer than %u characters, or one too many",
                       config_called(w->o->cfg.config, CONFIG_advertise), full, PEERS_ADDRESS);
    return 0;
}

int listen_all(struct listeners *w, uint8_t *text, uint32_t *n_text, struct moyai_error *reterr) {
    w->text = text;
    w->n_text = n_text;
    const struct overlay_cfg *c = &w->o->cfg;
    struct listening s = {.advertise = !c->advertise};
    if (c->port_range) {
        struct moyai_error why = {0};
        int rc = tcp_parse_range(c->port_range, &s.first, &s.last, &why);
        if (rc < 0) return err_set(reterr, rc, "%s: %s", config_called(c->config, CONFIG_port_range), why.text);
    }
    int rc = each_word(c->listen ? c->listen : "any", listen_word, w, &s, reterr);
    if (rc == 0 && c->advertise) rc = each_word(c->advertise, advertise_word, w, &s, reterr);
    return rc;
}

void listen_close(struct listeners *w) {
    for (size_t i = 0; i < w->n; i++) {
        exec_timer_clear(w->o->x, &w->l[i].timer);
        exec_fd_free(w->l[i].watched, true, NULL);
    }
    w->n = 0;
}
