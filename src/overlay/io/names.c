/* SPDX-License-Identifier: Apache-2.0 */
/* Names of grids without a directory: the locating machine knows them by a hash of 16 bytes, their text stays here. */
#include "base/err.h"
#include "overlay/io/route_internal.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

void overlay_name_key(const char *name, uint8_t key[16]) {
    uint8_t digest[32];
    unsigned n = sizeof digest;
    (void)EVP_Digest(name, strlen(name), digest, &n, EVP_sha256(), NULL);
    memcpy(key, digest, 16);
}

bool overlay_locates(const struct overlay *o) {
    return o->route && !o->rdv;
}

int overlay_name_find(struct overlay *o, const char *name, moyai_ns until, struct name_ask *a) {
    struct route *t = o->route;
    struct locate_event ev = {
        .kind = until ? LOCATE_EV_WAIT : LOCATE_EV_LOOKUP, .key_kind = LOCATE_NAME, .until = until};
    overlay_name_key(name, ev.key);
    if (o->closing) return MOYAI_ECLOSED; /* nobody would answer */
    struct find *f = calloc(1, sizeof *f);
    if (!f) return MOYAI_ENOMEM;
    f->ask = a;
    f->until = until;
    memcpy(f->key, ev.key, 16);
    f->token = ev.token = a->token = ++t->last_token;
    HASH_ADD(hh, t->finds, token, sizeof f->token, f);
    int rc = f->hh.tbl ? route_locate(t, &ev) : MOYAI_ENOMEM;
    if (rc < 0) {
        if (f->hh.tbl) HASH_DEL(t->finds, f);
        free(f);
        a->token = 0;
    }
    route_run(t);
    return rc;
}

static struct name_ask *find_take(struct route *t, uint64_t token) {
    struct find *f;
    HASH_FIND(hh, t->finds, &token, sizeof token, f);
    if (!f) return NULL;
    struct name_ask *a = f->ask;
    HASH_DEL(t->finds, f);
    free(f);
    a->token = 0;
    return a;
}

void names_found(struct route *t, const struct locate_effect *fx) {
    struct name_ask *a = find_take(t, fx->token);
    if (!a) return;
    bool found = fx->kind == LOCATE_FX_FOUND;
    a->told(a,
            found        ? 0
            : fx->unsure ? MOYAI_EBUSY
                         : MOYAI_ENOENT,
            found ? fx->object.b : NULL, found ? fx->node.b : NULL);
}

static struct claim *claim_find(struct route *t, const uint8_t key[16]) {
    struct claim *c;
    HASH_FIND(hh, t->claims, key, 16, c);
    return c;
}

static void claim_free(struct route *t, struct claim *c) {
    HASH_DEL(t->claims, c);
    free(c);
}

int overlay_name_claim(struct overlay *o, const char *name, const uint8_t object[16], struct name_ask *a) {
    struct route *t = o->route;
    struct locate_event ev = {.kind = LOCATE_EV_NAME_ADD, .moved = !a};
    overlay_name_key(name, ev.key);
    memcpy(ev.object.b, object, 16);
    if (o->closing) return MOYAI_ECLOSED;
    if (claim_find(t, ev.key)) return MOYAI_EEXIST;
    struct claim *c = calloc(1, sizeof *c);
    if (!c) return MOYAI_ENOMEM;
    memcpy(c->key, ev.key, 16);
    c->object = ev.object;
    c->ask = a;
    HASH_ADD(hh, t->claims, key, 16, c);
    if (!c->hh.tbl) {
        free(c);
        return MOYAI_ENOMEM;
    }
    if (a) a->token = ++t->last_token;
    int rc = route_locate(t, &ev);
    if (rc < 0) {
        if (a) a->token = 0;
        claim_free(t, c);
    }
    route_run(t);
    return rc;
}

void names_claimed(struct route *t, const struct locate_effect *fx) {
    struct claim *c = claim_find(t, fx->key);
    if (!c) return;
    struct name_ask *a = c->ask;
    bool held = fx->kind == LOCATE_FX_NAME_HELD;
    c->ask = NULL;
    if (!held) claim_free(t, c);
    if (a) {
        a->token = 0;
        a->told(a, held ? 0 : MOYAI_EEXIST, fx->object.b, fx->node.b);
    } else if (!held && t->o->ops->name_lost) {
        t->o->ops->name_lost(t->o->ctx, fx->key);
    }
}

size_t overlay_name_room(const struct overlay *o) {
    if (!overlay_locates(o)) return SIZE_MAX;
    const size_t most = locate_names_most(o->route->l), has = HASH_COUNT(o->route->claims);
    return has < most ? most - has : 0;
}

void overlay_name_drop(struct overlay *o, struct name_ask *a) {
    struct route *t = o->route;
    if (!a->token) return;
    struct locate_event ev = {.kind = LOCATE_EV_CANCEL, .token = a->token};
    if (find_take(t, ev.token)) {
        (void)route_locate(t, &ev);
    } else {
        for (struct claim *c = t->claims; c; c = c->hh.next)
            if (c->ask == a) c->ask = NULL;
    }
    a->token = 0;
    route_run(t);
}

void overlay_name_release(struct overlay *o, const char *name) {
    struct route *t = o->route;
    struct locate_event ev = {.kind = LOCATE_EV_NAME_REMOVE};
    overlay_name_key(name, ev.key);
    struct claim *c = claim_find(t, ev.key);
    if (!c) return;
    if (c->ask) {
        struct name_ask *a = c->ask;
        a->token = 0;
        claim_free(t, c);
        a->told(a, MOYAI_ECANCELED, NULL, NULL);
    } else {
        claim_free(t, c);
    }
    (void)route_locate(t, &ev);
    route_run(t);
}

void names_repeat(struct route *t) {
    struct claim *c, *next;
    HASH_ITER (hh, t->claims, c, next) { /* there is room for those that had room before */
        struct locate_event ev = {.kind = LOCATE_EV_NAME_ADD, .object = c->object};
        memcpy(ev.key, c->key, 16);
        (void)route_locate(t, &ev);
    }
    struct find *f, *tmp;
    HASH_ITER (hh, t->finds, f, tmp) {
        struct locate_event ev = {.kind = f->until ? LOCATE_EV_WAIT : LOCATE_EV_LOOKUP,
                                  .key_kind = LOCATE_NAME,
                                  .token = f->token,
                                  .until = f->until};
        memcpy(ev.key, f->key, 16);
        (void)route_locate(t, &ev);
    }
}

void names_close(struct route *t) {
    struct find *f, *tmp;
    HASH_ITER (hh, t->finds, f, tmp) {
        struct name_ask *a = find_take(t, f->token);
        a->told(a, MOYAI_ECLOSED, NULL, NULL);
    }
    struct claim *c, *next;
    HASH_ITER (hh, t->claims, c, next) {
        struct name_ask *a = c->ask;
        claim_free(t, c);
        if (!a) continue;
        a->token = 0;
        a->told(a, MOYAI_ECLOSED, NULL, NULL);
    }
}
