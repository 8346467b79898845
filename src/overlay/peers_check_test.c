/* SPDX-License-Identifier: Apache-2.0 */
/* Each invariant is one: break it in a block that is right, and peers_check says so. */
#include "overlay/peers_testkit.h"

static struct tested *right(void) {
    struct tested *t = tested_new((struct peers_cfg){.degree = 3, .most = 4, .rescue = 1, .known = 12});
    (void)step(t, EV(START));
    for (uint32_t i = 1; i <= 3; i++) joins(t, i, i, i == 1 ? 3 : 0);
    struct peers_endpoint e = open_node(4);
    (void)from(t, 4, &e, PEERS_OFFER, 0, PEERS_DIRECT, 0);
    e = open_node(5);
    (void)from(t, 5, &e, PEERS_OFFER, 1, PEERS_MESH, 0); /* a guest: somebody is asked */
    e = open_node(6);
    (void)from(t, 6, &e, PEERS_OFFER, 0, PEERS_MESH, PEERS_LAST);
    (void)step(t, EV(UP, .link = 7, .id = node(7), .what = PEERS_LINE)); /* offered */
    for (uint32_t i = 20; i < 22; i++) knows(t, at_site(i, 1, false));
    struct peers_dial *d = &peers_dials(t->p)[t->p->dials_n++];
    *d = (struct peers_dial){.until = t->now + SEC};
    memcpy(d->id, node(40).b, 16);
    struct moyai_error why;
    assert_true(peers_check(t->p, &why));
    assert_true(t->p->guests == 1 && t->p->rescued == 1 && t->p->offered == 1 && t->p->direct == 1);
    assert_true(t->p->known_n >= 5 && t->p->near_n == 2);
    return t;
}

#define BREAKS(change)                                                                                                 \
    do {                                                                                                               \
        struct tested *t = right();                                                                                    \
        struct peers *p = t->p;                                                                                        \
        struct peers_link *l = peers_links(p);                                                                         \
        struct peers_known *k = peers_knowns(p);                                                                       \
        struct peers_dial *d = peers_dials(p);                                                                         \
        struct moyai_error why = {0};                                                                                  \
        (void)l, (void)k, (void)d;                                                                                     \
        change;                                                                                                        \
        if (peers_check(p, &why)) fail_msg("%s goes unseen", #change);                                                 \
        assert_true(why.code == MOYAI_EINTERNAL && why.text[0]);                                                       \
        tested_free(t);                                                                                                \
    } while (0)

static uint32_t find(const struct peers *p, uint32_t flag) {
    for (uint32_t i = 0; i < p->links_n; i++)
        if (peers_links(p)[i].flags & flag) return i;
    fail();
    return 0;
}

static void test_links(void **state) {
    (void)state;
    BREAKS(l[0].link = 0);
    BREAKS(memset(l[0].id, 0, 16));
    BREAKS(memcpy(l[0].id, p->self, 16));
    BREAKS(l[0].state = 0);
    BREAKS(l[0].state = 3);
    BREAKS(l[0].kind = 3);
    BREAKS(l[0].link = l[1].link);
    BREAKS(memcpy(l[0].id, l[1].id, 16));
    BREAKS(p->links_n = p->links_cap + 1);
    BREAKS(p->dials_n = p->dials_cap + 1);
    BREAKS(l[6].flags |= LINK_ACCEPTS);
    BREAKS(l[6].due = 0);
    BREAKS((l[0].flags |= LINK_EXTRA, p->extra = 2));
    BREAKS((l[0].flags & LINK_YIELD) ? (l[1].due = 1) : (l[0].due = 1));
    BREAKS(l[find(p, LINK_YIELD)].due = 0);
    BREAKS(l[find(p, LINK_YIELD)].kind = PEERS_LINE);
    BREAKS({
        l[find(p, LINK_YIELD)].due = 0;
        l[find(p, LINK_YIELD)].flags &= (uint8_t)~LINK_YIELD;
    });
    BREAKS(memcpy(d[0].id, l[0].id, 16));
    BREAKS(memcpy(d[0].id, p->self, 16));
    BREAKS((p->dials_n = 2, d[1] = d[0]));
    BREAKS(d[0].extra = 1);
    BREAKS(p->extra = 2);
    BREAKS(p->offered++);
    BREAKS(p->mesh--);
    BREAKS(p->far--);
    BREAKS(p->direct++);
    BREAKS(p->guests = 0);
    BREAKS(p->rescued = 0);
    BREAKS(p->looking[0] = 1);
    BREAKS(p->looking[1] = 1);
    BREAKS((l[find(p, LINK_RESCUED)].flags |= LINK_LOOKS, p->looking[1] = 1));
    BREAKS((p->rescue = 0));
    BREAKS(p->most = 6);
    BREAKS(p->most = 2);
    BREAKS(p->leaving = 1);
    BREAKS(l[p->links_n].since = 1);
    BREAKS(l[p->links_cap - 1].here = 1);
    BREAKS(d[1].until = 1);
    BREAKS(d[3].extra = 1);
}

static void test_known(void **state) {
    (void)state;
    BREAKS(memcpy(k[0].id, p->self, 16));
    BREAKS(memset(k[0].id, 0, 16));
    BREAKS(k[0].n_text = 0);
    BREAKS(k[0].n_text = 257);
    BREAKS(k[0].n_text = 5);
    BREAKS(k[0].n_text = 6);
    BREAKS(peers_text(p, 0)[1] = ' ');
    BREAKS(peers_text(p, 0)[255] = 1);
    BREAKS((k[0].site = 1));
    BREAKS((k[0].near = 1, p->near_n++));
    BREAKS(k[0].accepts = 0);
    BREAKS(k[0].until = p->expire_at - 1);
    BREAKS(p->expire_at = UINT64_MAX);
    BREAKS(memcpy(k[1].id, k[0].id, 16));
    BREAKS(p->near_n--);
    BREAKS(p->known_n = 13);
    BREAKS(p->known_cap = 6);
    BREAKS((k[p->known_n].fails = 1));
    BREAKS((k[11].near = 1));
    BREAKS(peers_text(p, p->known_n)[0] = 1);
    BREAKS(peers_text(p, 11)[255] = 1);
    BREAKS(p->now = 1);
    BREAKS(peers_fxs(p)[0].n = 1);
    BREAKS(peers_fxs(p)[p->fx_cap - 1].n = 1);
    BREAKS(p->fx_n = p->fx_cap + 1);
    BREAKS(p->fx_at = 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_links), cmocka_unit_test(test_known)};
    return cmocka_run_group_tests_name("peers check", tests, NULL, NULL);
}
