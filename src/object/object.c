/* SPDX-License-Identifier: Apache-2.0 */
/* Classes, objects, references. */
#include "base/err.h"
#include "base/near.h"
#include "object/drain.h"
#include "object/move.h"
#include "object/moved.h"

#include <stdlib.h>

/* ---- classes --------------------------------------------------------------------------------- */

/* The constant table of a class, hashed: calls name their method. Lives as long as the node has objects of the class,
 * for so long only is the class itself there. */
struct klass {
    UT_hash_handle hh;
    const struct moyai_class *cls;
    size_t users;
    uint32_t mask;
    struct {
        const struct moyai_method *m;
        uint32_t hash;
        uint8_t len;
    } slot[];
};

static uint32_t name_hash(const char *s, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)s[i]) * 16777619u;
    return h;
}

const struct moyai_method *klass_find(const struct klass *k, const char *name, size_t n) {
    uint32_t h = name_hash(name, n);
    for (uint32_t i = h & k->mask; k->slot[i].m; i = (i + 1) & k->mask)
        if (k->slot[i].hash == h && k->slot[i].len == n && memcmp(k->slot[i].m->name, name, n) == 0)
            return k->slot[i].m;
    return NULL;
}

const char *klass_name(const struct klass *k) {
    return k->cls->name;
}

const struct moyai_class *klass_class(const struct klass *k) {
    return k->cls;
}

/* Programs may have been compiled when classes had fewer members. */
#define HAS(cls, member) ((cls)->size >= offsetof(struct moyai_class, member) + sizeof(cls)->member && (cls)->member)

moyai_leave_fn klass_on_leave(const struct klass *k) {
    return HAS(k->cls, on_leave) ? k->cls->on_leave : NULL;
}

bool class_moves(const struct moyai_class *cls) {
    return HAS(cls, pack) && HAS(cls, unpack);
}

/* The methods it has, as many as there is room for, and which of them was meant: "; did you mean 'give'? It has: add,
 * give, ...". */
void klass_list(const struct klass *k, const char *wanted, char *out, size_t cap) {
    const struct moyai_method *m;
    const char *nearest = NULL;
    size_t least = SIZE_MAX, at = 0;
    for (m = k->cls->methods; m->name; m++)
        if (near_is(wanted, m->name, &least)) nearest = m->name;
    if (nearest) at = (size_t)snprintf(out, cap, "; did you mean '%s'? It has: ", nearest);
    if (!nearest) at = (size_t)snprintf(out, cap, k->cls->methods->name ? "; it has: " : ", nor any other");
    for (m = k->cls->methods; m->name && at < cap; m++) {
        static const char more[] = ", ...";
        size_t n = strlen(m->name) + (m > k->cls->methods ? 2 : 0), rest = m[1].name ? sizeof more - 1 : 0;
        if (at + n + rest >= cap) {
            snprintf(out + at, cap - at, "%s", m > k->cls->methods ? more : more + 2);
            return;
        }
        at += (size_t)snprintf(out + at, cap - at, "%s%s", m > k->cls->methods ? ", " : "", m->name);
    }
}

/* One more user of it, to be taken back with klass_leave. */
static struct klass *klass_get(moyai_node *n, const struct moyai_class *cls, struct moyai_error *reterr) {
    struct klass *k;
    HASH_FIND_PTR(n->klasses, &cls, k);
    if (k) {
        k->users++;
        return k;
    }
    const bool sized = cls->size == sizeof *cls || cls->size == offsetof(struct moyai_class, pack) ||
                       cls->size == offsetof(struct moyai_class, on_leave);
    if (!sized || !cls->name || !cls->methods) {
        err_set(reterr, MOYAI_EINVAL,
                "a class is made with MOYAI_CLASS(name, methods, destroy), none of them but destroy NULL");
        return NULL;
    }
    uint32_t count = 0;
    for (const struct moyai_method *m = cls->methods; m->name; m++) {
        size_t len = strlen(m->name);
        if (len < 1 || len > 255 || !m->fn) {
            err_set(reterr, MOYAI_EINVAL, "class %s: method %u needs a name of 1 to 255 bytes and a function",
                    cls->name, count);
            return NULL;
        }
        count++;
    }
    uint32_t size = 4;
    while (size < 2 * count + 1) size *= 2;
    k = calloc(1, sizeof *k + size * sizeof k->slot[0]);
    if (!k) goto nomem;
    k->cls = cls;
    k->users = 1;
    k->mask = size - 1;
    for (const struct moyai_method *m = cls->methods; m->name; m++) {
        size_t len = strlen(m->name);
        if (klass_find(k, m->name, len)) {
            err_set(reterr, MOYAI_EINVAL, "class %s has two methods named %s", cls->name, m->name);
            free(k);
            return NULL;
        }
        uint32_t h = name_hash(m->name, len), i = h & k->mask;
        while (k->slot[i].m) i = (i + 1) & k->mask;
        k->slot[i].m = m;
        k->slot[i].hash = h;
        k->slot[i].len = (uint8_t)len;
    }
    HASH_ADD_PTR(n->klasses, cls, k);
    if (k->hh.tbl) return k;
nomem:
    free(k);
    err_set(reterr, MOYAI_ENOMEM, "out of memory for a class");
    return NULL;
}

static void klass_leave(moyai_node *n, struct klass *k) {
    if (--k->users > 0) return;
    HASH_DEL(n->klasses, k);
    free(k);
}

/* ---- objects --------------------------------------------------------------------------------- */

struct object *object_find(moyai_node *n, const uint8_t id[16]) {
    struct object *ob;
    HASH_FIND(hh, n->objects, id, 16, ob);
    return ob;
}

struct object *object_of(const moyai_ref *ref) {
    if (!moyai_ref_is_local(ref) && !object_moves(ref->object)) return NULL;
    struct object *ob = object_find(ref->node, ref->object);
    return ob && !ob->ended ? ob : NULL;
}

int object_make(moyai_node *n, const struct moyai_class *cls, void *self, const uint8_t *id, struct object **ret,
                struct moyai_error *e) {
    struct klass *k = klass_get(n, cls, e);
    struct object *ob = k ? calloc(1, sizeof *ob) : NULL;
    if (!k) return e->code;
    if (ob) {
        if (id)
            memcpy(ob->id, id, sizeof ob->id);
        else
            rng_bytes(&n->rng, ob->id, sizeof ob->id);
        ob->id[15] = (uint8_t)((ob->id[15] & ~1u) | class_moves(cls)); /* object_moves */
        ob->ref = ref_new(n, ob->id, node_id(n)->b);
        if (ob->ref) HASH_ADD(hh, n->objects, id, 16, ob);
    }
    if (!ob || !ob->hh.tbl) {
        if (ob) moyai_ref_unref(ob->ref);
        free(ob);
        klass_leave(n, k);
        return err_set(e, MOYAI_ENOMEM, "out of memory for an object");
    }
    ob->number = ++n->last_number;
    ob->at.state = MOVING_HERE;
    ob->node = n;
    ob->klass = k;
    ob->self = self;
    n->n_objects++;
    *ret = ob;
    return 0;
}

int moyai_object_new(moyai_node *n, const struct moyai_class *cls, void *self, moyai_ref **ret,
                     struct moyai_error *reterr) {
    if (!n || !cls || !ret) {
        err_set(reterr, MOYAI_EINVAL, "%s must not be NULL", n ? cls ? "ret" : "the class" : "the node");
        if (n && !exec_forked(n->x))
            (void)api_refuse(n, MOYAI_EINVAL, "%s must not be NULL", cls ? "ret" : "the class");
        return MOYAI_EINVAL;
    }
    if (exec_forked(n->x)) return err_set(reterr, MOYAI_EFORK, "the node belongs to the parent process");
    struct moyai_error e = {0};
    exec_lock(n->x);
    int rc = n->ending ? err_set(&e, MOYAI_ESTATE, "the node is ending") : 0;
    struct object *ob;
    if (rc == 0) rc = object_make(n, cls, self, NULL, &ob, &e);
    if (rc == 0) *ret = moyai_ref_ref(ob->ref);
    if (rc == 0) drain_object(ob);
    if (rc < 0) (void)api_error(n, &e);
    exec_unlock(n->x);
    if (rc < 0 && reterr) *reterr = e;
    return rc;
}

/* Free an ended object that nobody is in. The state's destroy is user code. */
static void object_free(struct object *ob) {
    moyai_node *n = ob->node;
    HASH_DEL(n->objects, ob);
    n->n_objects--;
    void (*destroy)(void *) = ob->klass->cls->destroy;
    void *self = ob->self;
    klass_leave(n, ob->klass);
    moyai_ref_unref(ob->ref);
    free(ob);
    if (!destroy) return;
    if (exec_on_node_thread(n->x)) {
        exec_user_enter(n->x);
        destroy(self);
        user_leave(n);
    } else { /* of a node that has ended */
        exec_unlock(n->x);
        destroy(self);
        exec_lock(n->x);
    }
}

static void run_free(struct exec_task *t) {
    struct object *ob = (struct object *)((char *)t - offsetof(struct object, task));
    moyai_node *n = ob->node;
    struct context c;
    n->active++;
    fiber_begin(n, &c);
    object_free(ob);
    fiber_end(n, &c);
}

/* destroy is the user's code: it runs on a fiber. Who comes here may be the driver, or another thread. */
static void free_soon(struct object *ob) {
    if (!ob->klass->cls->destroy) {
        object_free(ob);
        return;
    }
    ob->task.run = run_free;
    exec_submit(ob->node->x, &ob->task);
}

void object_leave(struct object *ob) {
    if (--ob->users == 0 && ob->ended) free_soon(ob);
}

int moyai_object_end(moyai_ref *ref) {
    if (!ref) return MOYAI_EINVAL;
    moyai_node *n = ref->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    api_enter(n);
    struct object *ob = object_of(ref);
    int rc = 0;
    if (ob && move_is_under_way(ob)) {
        rc = api_fail(n, MOYAI_ESTATE, "the object moves just now");
    } else if (!ob) {
        rc = api_fail(n, MOYAI_ENOOBJECT, "the object has ended or is not of this node");
    } else {
        ob->ended = true;
        ob->users++; /* the lock is given away between names */
        names_remove(ob);
        object_leave(ob);
    }
    api_leave(n);
    return rc;
}

void objects_end_all(moyai_node *n) {
    struct object *ob, *tmp;
    HASH_ITER (hh, n->objects, ob, tmp) {
        ob->ended = true; /* all first: a destroy may try to end another */
        names_remove(ob);
        ob->users = 0; /* their fibers are abandoned */
    }
    while (n->objects) object_free(n->objects);
}

/* ---- references ------------------------------------------------------------------------------ */

static void refs_get(const moyai_ref *ref, uint8_t out[32]) {
    const uint8_t *home = ref_home(ref);
    memcpy(out, id_equal(ref->object, ref->home) ? home : ref->object, 16); /* the node itself, or an object of it */
    memcpy(out + 16, home, 16);
}

static const struct codec_ref_ops ref_ops = {refs_get, moyai_ref_ref, moyai_ref_unref};

moyai_ref *ref_new(moyai_node *n, const uint8_t object[16], const uint8_t home[16]) {
    moyai_ref *r = malloc(sizeof *r);
    if (!r) return NULL;
    r->head.ops = &ref_ops;
    atomic_init(&r->refs, 1);
    r->node = n;
    memcpy(r->object, object, 16);
    memcpy(r->home, home, 16);
    return r;
}

moyai_ref *moyai_ref_ref(moyai_ref *r) {
    if (r) atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void moyai_ref_unref(moyai_ref *r) {
    if (r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) free(r);
}

bool moyai_ref_equal(const moyai_ref *a, const moyai_ref *b) {
    return a == b || (a && b && id_equal(a->object, b->object));
}

uint64_t moyai_ref_hash(const moyai_ref *r) {
    return r ? id_hash(r->object) : 0;
}

void moyai_ref_format(const moyai_ref *r, char text[MOYAI_REF_TEXT]) {
    if (!r) {
        strcpy(text, "moyai:none");
        return;
    }
    memcpy(text, "moyai:", 6);
    id_format(id_equal(r->object, r->home) ? ref_home(r) : r->object, text + 6);
    text[38] = '@';
    id_format(ref_home(r), text + 39);
}

int moyai_ref_parse(moyai_node *n, const char *text, moyai_ref **ret) {
    uint8_t object[16], home[16];
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    exec_lock(n->x);
    int rc = 0;
    if (!ret) {
        rc = api_fail(n, MOYAI_EINVAL, "ret must not be NULL");
    } else if (!text || strlen(text) != MOYAI_REF_TEXT - 1 || memcmp(text, "moyai:", 6) != 0 || text[38] != '@' ||
               !id_parse(text + 6, 32, object) || !id_parse(text + 39, 32, home)) {
        rc = api_fail(n, MOYAI_EINVAL, "not a reference (moyai:OBJECT@NODE, each 32 hex digits): \"%.80s\"",
                      text ? text : "");
    } else {
        moyai_ref *r = ref_new(n, object, home);
        if (r)
            *ret = r;
        else
            rc = api_fail(n, MOYAI_ENOMEM, "out of memory for a reference");
    }
    exec_unlock(n->x);
    return rc;
}

struct moyai_object_id moyai_ref_object(const moyai_ref *r) {
    struct moyai_object_id id = {{0}};
    if (r) memcpy(id.b, id_equal(r->object, r->home) ? ref_home(r) : r->object, 16);
    return id;
}

struct moyai_node_id moyai_ref_home(const moyai_ref *r) {
    struct moyai_node_id id = {{0}};
    if (r) memcpy(id.b, ref_home(r), 16);
    return id;
}

bool moyai_ref_is_local(const moyai_ref *r) {
    return r && node_is(r->node, r->home);
}

static moyai_ref *refs_make(void *ctx, const uint8_t in[32]) {
    return ref_new(ctx, in, in + 16);
}

const struct codec_refs object_refs_template = {refs_get, refs_make, NULL};
