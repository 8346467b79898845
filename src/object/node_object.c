/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node as an object (doc/spec/02-calls.md, 6): what it is, what it holds, whom it is linked to.
 *
 * Its id is the node's own id, so that references to different nodes are different, and no number is reserved. Calls of
 * it are answered by whoever drives the loop, at once and without a fiber: also while user code computes, and when all
 * fibers are in use. Hence it may do nothing that takes long. What one call may cost has limits: its arguments
 * ARGS_MOST, the links it lists LINKS_MOST, the objects PAGE_MOST with NAMES_MOST names each. A caller that leaves its
 * answers untaken is refused, as nobody can be held back who is answered at once.
 */
#include "object/node_object.h"

#include "base/err.h"
#include "link/hello.h"
#include "object/drain.h"
#include "object/move.h"
#include "overlay/io/leaving.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#define ARGS_MOST  1024u
#define LINKS_MOST 4096u
#define LINES_MOST 64u
#define PAGE_MOST  256u
#define NAMES_MOST 8u
#define TEXT_MOST  256u  /* with its NUL: longer ones are cut, but ... */
#define WHY_MOST   1024u /* ... what went wrong with a line, which has the last words of its ssh */

/* ---- values ---------------------------------------------------------------------------------- */

/* The fields of a map as they come. A field that is NULL makes the map NULL. */
struct fields {
    const char *key[32];
    moyai_value *item[32];
    size_t n;
};

static void put(struct fields *f, const char *key, moyai_value *item) {
    f->key[f->n] = key;
    f->item[f->n++] = item;
}

static void put_uint(struct fields *f, const char *key, uint64_t x) {
    put(f, key, moyai_value_new((struct moyai_arg){.tag = MOYAI_T_UINT, .v.u = x}));
}

static void put_double(struct fields *f, const char *key, double x) {
    put(f, key, moyai_value_new((struct moyai_arg){.tag = MOYAI_T_DOUBLE, .v.d = x}));
}

static void put_bool(struct fields *f, const char *key, bool x) {
    put(f, key, moyai_value_new((struct moyai_arg){.tag = MOYAI_T_BOOL, .v.b = x}));
}

/* What programs and hosts call themselves may be anything. */
static moyai_value *clean_value(char *clean, size_t cap, const char *text) {
    hello_text(clean, cap, text);
    return moyai_value_new(moyai_text(clean, strlen(clean)));
}

static moyai_value *text_value(const char *text) {
    char clean[TEXT_MOST];
    return clean_value(clean, sizeof clean, text);
}

static void put_text(struct fields *f, const char *key, const char *text) {
    put(f, key, text_value(text));
}

static void put_id(struct fields *f, const char *key, const uint8_t id[16]) {
    char text[33];
    id_format(id, text);
    put_text(f, key, text);
}

static moyai_value *map_of(const struct fields *f) {
    return moyai_value_map(f->key, f->item, f->n);
}

/* ---- info ------------------------------------------------------------------------------------ */

/* Pages that are this process's alone: a number the kernel has at hand, unlike the sum of its maps. */
static uint64_t private_memory(void) {
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    unsigned long long resident, shared;
    if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident) return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint64_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t can name */
    return n > 0 ? (uint64_t)n : 1;
}

struct links {
    moyai_value **item;
    size_t n, cap;
    moyai_ns now;
};

static double seconds(moyai_ns since, moyai_ns now) {
    return now > since ? (double)(now - since) * 1e-9 : 0;
}

static bool add_link(const struct overlay_link_info *l, void *ctx) {
    struct links *all = ctx;
    struct fields f = {.n = 0};
    put_id(&f, "peer", l->peer);
    put_text(&f, "title", l->title);
    put_text(&f, "kind", l->kind);
    put_bool(&f, "outgoing", l->outgoing);
    put_bool(&f, "direct", l->direct);
    put_bool(&f, "observer", l->observer);
    put_double(&f, "up", seconds(l->up, all->now));
    put_uint(&f, "queued", l->queued);
    all->item[all->n++] = map_of(&f);
    return all->n < all->cap;
}

static moyai_value *links_of(moyai_node *n, moyai_ns now) {
    size_t most = overlay_links(n->o);
    struct links all = {.cap = most < LINKS_MOST ? most : LINKS_MOST, .now = now};
    if (all.cap > 0) {
        all.item = calloc(all.cap, sizeof(moyai_value *));
        if (!all.item) return NULL;
        overlay_each_link(n->o, add_link, &all);
    }
    moyai_value *list = moyai_value_list(all.item, all.n);
    free(all.item);
    return list;
}

void node_object_agent(moyai_node *n, moyai_ref *ref, uint64_t slots, uint64_t used) {
    n->agent.ref = ref;
    n->agent.slots = slots;
    n->agent.used = used;
}

static moyai_value *agent_of(const moyai_node *n) {
    struct fields f = {.n = 0};
    put(&f, "ref", moyai_value_new((struct moyai_arg){.tag = MOYAI_T_REF, .v.p = n->agent.ref}));
    put_uint(&f, "slots", n->agent.slots);
    put_uint(&f, "used", n->agent.used);
    return map_of(&f);
}

static bool add_line(const struct overlay_line *l, void *ctx) {
    struct links *all = ctx;
    struct fields f = {.n = 0};
    char why[WHY_MOST];
    put_text(&f, "file", l->file);
    put_uint(&f, "line", l->number);
    put(&f, "why", clean_value(why, sizeof why, l->why));
    all->item[all->n++] = map_of(&f);
    return all->n < all->cap;
}

/* Of its grid file, those through which it is to connect, and has no link. */
static void put_lines(struct fields *f, const moyai_node *n) {
    moyai_value *item[LINES_MOST];
    struct links all = {.item = item, .cap = LINES_MOST};
    overlay_each_line(n->o, add_line, &all);
    if (all.n > 0) put(f, "lines", moyai_value_list(item, all.n));
}

/* Whom it has told to leave, too. */
static moyai_value *told_of(const moyai_node *n) {
    moyai_value *list = NULL, **item = calloc(n->drain.n_told, sizeof(moyai_value *));
    for (size_t i = 0; item && i < n->drain.n_told; i++) {
        struct fields f = {.n = 0};
        char who[PEER_NAME];
        put_id(&f, "node", n->drain.dependant[i].id.b);
        drain_name(n, &n->drain.dependant[i].id, who);
        put_text(&f, "called", who);
        item[i] = map_of(&f);
    }
    if (item) list = moyai_value_list(item, n->drain.n_told);
    free(item);
    return list;
}

static moyai_value *info(moyai_node *n) {
    struct overlay_self self;
    struct utsname host;
    double load[3] = {0, 0, 0};
    moyai_ns now = moyai_now();
    overlay_self(n->o, &self);
    if (uname(&host) < 0) memset(&host, 0, sizeof host);
    if (getloadavg(load, 3) < 0) memset(load, 0, sizeof load);
    struct fields f = {.n = 0};
    put_id(&f, "node", node_id(n)->b);
    put_text(&f, "title", self.title);
    put_uint(&f, "pid", (uint64_t)getpid());
    put_text(&f, "host", host.nodename);
    put_id(&f, "host_id", self.host);
    put_text(&f, "site", self.site);
    put_text(&f, "machine", host.machine);
    put_text(&f, "version", moyai_version());
    put_bool(&f, "observer", n->observer);
    put_double(&f, "uptime", seconds(n->started, now));
    put(&f, "load", moyai_value_new(moyai_doubles(load, 3)));
    put_uint(&f, "processors", processors());
    put_uint(&f, "memory", private_memory());
    put_uint(&f, "objects", n->n_objects);
    put_uint(&f, "names", HASH_COUNT(n->names));
    put_uint(&f, "calls_made", n->calls_made);
    put_uint(&f, "calls_served", n->calls_served);
    put_uint(&f, "calls_open", n->calls_open);
    put_uint(&f, "fibers", n->active);
    if (n->agent.ref) put(&f, "agent", agent_of(n));
    if (n->drain.begun) put_uint(&f, "leaving", n->wanted + n->drain.hooks);
    if (n->drain.begun) put_uint(&f, "on_leave", n->drain.hooks);
    if (n->drain.cut_off > 0) {
        char who[CUT_OFF_TEXT];
        put_uint(&f, "cut_off", drain_cut_off(n, who, sizeof who));
        put_text(&f, "waits_for", who);
    }
    if (n->drain.n_told > 0) put(&f, "told", told_of(n));
    put_lines(&f, n);
    put_uint(&f, "locating", self.locating);
    put_uint(&f, "forwarded", self.forwarded);
    put_uint(&f, "n_links", overlay_links(n->o));
    put(&f, "links", links_of(n, now));
    return map_of(&f);
}

/* ---- objects --------------------------------------------------------------------------------- */

/*
 * Where a page ended: its last object by id, and its number, by which the place is found if it has ended meanwhile.
 * Objects are listed in the order in which they were made, so one that is there throughout is listed exactly once.
 */
#define PLACE_BYTES 24u

static moyai_value *place_after(const struct object *ob) {
    uint8_t bytes[PLACE_BYTES];
    struct cursor_out c = cursor_out(bytes, sizeof bytes);
    cursor_put_bytes(&c, ob->id, 16);
    cursor_put_u64(&c, ob->number);
    return moyai_value_new(moyai_bytes(bytes, sizeof bytes));
}

static struct object *next_of(const struct object *ob) {
    return ob->hh.next;
}

static struct object *object_after(moyai_node *n, const uint8_t place[PLACE_BYTES]) {
    struct cursor_in c = cursor_in(place + 16, 8);
    uint64_t number = cursor_get_u64(&c);
    struct object *ob = object_find(n, place);
    if (ob && ob->number == number) return next_of(ob);
    for (ob = n->objects; ob && ob->number <= number; ob = next_of(ob)) {
    }
    return ob;
}

static moyai_value *names_of(const struct object *ob) {
    moyai_value *item[NAMES_MOST];
    size_t n = 0;
    for (const struct object_name *m = ob->names; m && n < NAMES_MOST; m = m->next) item[n++] = text_value(m->text);
    return moyai_value_list(item, n);
}

static moyai_value *object_value(const struct object *ob) {
    struct fields f = {.n = 0};
    put(&f, "ref", moyai_value_new((struct moyai_arg){.tag = MOYAI_T_REF, .v.p = ob->ref}));
    put_text(&f, "class", klass_name(ob->klass));
    put(&f, "names", names_of(ob));
    put_uint(&f, "calls", ob->users);
    return map_of(&f);
}

static moyai_value *objects(moyai_node *n, struct object *from, size_t most) {
    moyai_value *item[PAGE_MOST];
    size_t k = 0;
    const struct object *last = NULL;
    struct object *ob = from;
    for (; ob && k < most; ob = next_of(ob)) {
        if (ob->ended) continue;
        item[k++] = object_value(ob);
        last = ob;
    }
    while (ob && ob->ended) ob = next_of(ob); /* so that no empty page follows */
    struct fields f = {.n = 0};
    put(&f, "objects", moyai_value_list(item, k));
    put(&f, "next", ob && last ? place_after(last) : moyai_value_new(moyai_null()));
    put_uint(&f, "count", n->n_objects);
    return map_of(&f);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* A copy, so that reading may write into it. */
struct arguments {
    uint8_t bytes[ARGS_MOST + 1];
    size_t n;
    struct codec_arena *arena;
};

static int get(moyai_node *n, struct arguments *a, const struct moyai_into *into, struct moyai_error *no) {
    int rc = codec_get_into(a->bytes, a->n, into, &n->refs, moyai_ref_unref, &a->arena, no);
    if (rc < 0 && no->code == 0) err_set(no, rc, "%s", moyai_strerror(rc));
    return rc;
}

static size_t count_values(const struct arguments *a) {
    size_t n = 0, len;
    for (size_t at = 0; at < a->n && codec_skip(a->bytes + at, a->n - at, &len) == 0; at += len) n++;
    return n;
}

static moyai_value *do_info(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    static const struct moyai_into none = {NULL, 0};
    return get(n, a, &none, no) < 0 ? NULL : info(n);
}

/* objects([after [, most]]) */
static moyai_value *do_objects(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    moyai_value *after = NULL, *page = NULL;
    uint64_t most = PAGE_MOST;
    size_t given = count_values(a);
    const void *place = NULL;
    size_t size = 0;
    static const struct moyai_into none = {NULL, 0};
    int rc = given == 0   ? get(n, a, &none, no)
             : given == 1 ? get(n, a, MOYAI_INTO(&after), no)
                          : get(n, a, MOYAI_INTO(&after, &most), no);
    if (rc < 0) return NULL;
    bool begin = !after || moyai_value_kind(after) == MOYAI_K_NULL;
    if (!begin && (moyai_value_get(after, moyai_into_bytes(&place, &size)) < 0 || size != PLACE_BYTES))
        err_set(no, MOYAI_ETYPE, "objects(after, most): after is null, or what an earlier answer gave as \"next\"");
    else if (most < 1 || most > PAGE_MOST)
        err_set(no, MOYAI_ERANGE, "objects(after, most): most is from 1 to %u", PAGE_MOST);
    else
        page = objects(n, begin ? n->objects : object_after(n, place), (size_t)most);
    moyai_value_free(after);
    return page;
}

/* ping(): true, for whoever measures how long that takes. */
static moyai_value *do_ping(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    static const struct moyai_into none = {NULL, 0};
    return get(n, a, &none, no) < 0 ? NULL : moyai_value_new((struct moyai_arg){.tag = MOYAI_T_BOOL, .v.b = true});
}

/* way(end [, path]): where messages to that node go next from here. */
static moyai_value *do_way(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    const char *text = NULL;
    uint64_t path = 0;
    struct moyai_node_id end;
    struct overlay_way way;
    int rc = count_values(a) > 1 ? get(n, a, MOYAI_INTO(&text, &path), no) : get(n, a, MOYAI_INTO(&text), no);
    if (rc < 0) return NULL;
    if (!id_parse(text, strlen(text), end.b)) {
        err_set(no, MOYAI_EARGS, "way(node, path): node is an id of 32 hexadecimal digits");
        return NULL;
    }
    if (!overlay_way(n->o, &end, path, &way)) return moyai_value_new(moyai_null());
    struct fields f = {.n = 0};
    put_id(&f, "next", way.next.b);
    put_uint(&f, "path", way.path);
    put_text(&f, "kind", way.kind);
    return map_of(&f);
}

static int told(moyai_node *n, double s, struct moyai_error *no) {
    if (!(s >= 0)) return err_set(no, MOYAI_ERANGE, "a time is not negative");
    const bool far = s * 1e9 >= (double)MOYAI_FOREVER;
    const moyai_dur most = s == 0 ? n->config.leave_deadline : far ? MOYAI_FOREVER : (moyai_dur)(s * 1e9) + 1;
    /* Who runs this process may have been told so at the same time, and kills it when that is over. */
    drain_begin(n, n->config.parent && !n->drain.told ? drain_before(most) : most);
    return 0;
}

/* In how many seconds it has left at the latest; infinity: it takes its time. */
static moyai_value *left(const moyai_node *n) {
    const double s = n->drain.until == UINT64_MAX ? INFINITY : seconds(moyai_now(), n->drain.until);
    return moyai_value_new((struct moyai_arg){.tag = MOYAI_T_DOUBLE, .v.d = s});
}

/* Not one that arrives, nor one that may have gone already. */
static bool is_its_home(moyai_node *n, const moyai_ref *ref) {
    const struct object *ob = object_find(n, ref->object);
    return ob && !ob->ended && (ob->at.state == MOVING_HERE || ob->at.state == MOVING_OFFERED);
}

/* leave([seconds [, force [, asker [, object]]]]): as moyai_leave; force: with those that depend on it. asker: an
 * object whose method `cut` is called if something is cut short. object: only if it is here. */
static moyai_value *do_leave(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    double s = 0;
    bool force = false;
    moyai_ref *asker = NULL, *object = NULL;
    static const struct moyai_into none = {NULL, 0};
    const size_t given = count_values(a);
    int rc = given == 0   ? get(n, a, &none, no)
             : given == 1 ? get(n, a, MOYAI_INTO(&s), no)
             : given == 2 ? get(n, a, MOYAI_INTO(&s, &force), no)
             : given == 3 ? get(n, a, MOYAI_INTO(&s, &force, &asker), no)
                          : get(n, a, MOYAI_INTO(&s, &force, &asker, &object), no);
    if (rc == 0 && object && !is_its_home(n, object))
        rc = err_set(no, MOYAI_ENOOBJECT, "the object is not here (any more), or is about to go");
    if (rc == 0) rc = told(n, s, no);
    if (rc == 0 && force) drain_force(n);
    if (rc == 0 && asker) drain_asked(n, asker);
    moyai_ref_unref(asker);
    moyai_ref_unref(object);
    return rc < 0 ? NULL : left(n);
}

/* depend(seconds, node): leave, since this node has no way to that one but by the caller, who leaves; and so on. */
static moyai_value *do_depend(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    double s = 0;
    const char *text = NULL;
    struct moyai_node_id from;
    if (get(n, a, MOYAI_INTO(&s, &text), no) < 0) return NULL;
    if (!id_parse(text, strlen(text), from.b)) {
        err_set(no, MOYAI_EARGS, "depend(seconds, node): node is an id of 32 hexadecimal digits");
        return NULL;
    }
    if (s >= 0) overlay_depends(n->o, from.b); /* before it says that it leaves: to whom it is to have a way */
    if (told(n, s, no) < 0) return NULL;
    drain_force(n);
    return left(n);
}

/* move(object, node, seconds, asker): as moyai_move; of the object `asker` the method `moved` is called when it is
 * over. */
static moyai_value *do_move(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    moyai_ref *ref = NULL, *asker = NULL;
    const char *text = NULL;
    double s = 0;
    struct moyai_node_id to;
    int rc = get(n, a, MOYAI_INTO(&ref, &text, &s, &asker), no);
    if (rc == 0 && (!ref || !asker || !id_parse(text, strlen(text), to.b) || !(s >= 0)))
        rc = err_set(no, MOYAI_EARGS, "move(object, node, seconds, asker): node is an id of 32 hexadecimal digits");
    const moyai_dur most = s * 1e9 >= (double)MOYAI_FOREVER ? MOYAI_FOREVER : (moyai_dur)(s * 1e9);
    if (rc == 0) rc = move_asked(n, ref, to, most, asker, no);
    moyai_ref_unref(ref);
    moyai_ref_unref(asker);
    return rc < 0 ? NULL : moyai_value_new((struct moyai_arg){.tag = MOYAI_T_BOOL, .v.b = true});
}

/* host(class): to whom objects of that class are given that are to move here. */
static moyai_value *do_host(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    const char *cls = NULL;
    if (get(n, a, MOYAI_INTO(&cls), no) < 0) return NULL;
    const bool leaves = n->drain.begun || n->drain.ends;
    moyai_ref *host = leaves ? NULL : host_of(n, cls);
    if (host) return moyai_value_new((struct moyai_arg){.tag = MOYAI_T_REF, .v.p = host});
    if (leaves)
        err_set(no, MOYAI_ELEAVING, "that node leaves");
    else
        err_set(no, MOYAI_ENOENT, "that node does not take objects of class \"%.60s\"", cls);
    return NULL;
}

/* claim(object, number, id): asked by who had that id when it was offered the object, by that move. */
static moyai_value *do_claim(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    const void *object = NULL, *id = NULL;
    size_t object_n = 0, id_n = 0;
    uint64_t number = 0;
    if (get(n, a, MOYAI_INTO(moyai_into_bytes(&object, &object_n), &number, moyai_into_bytes(&id, &id_n)), no) < 0)
        return NULL;
    if (object_n != 16 || id_n != 16) {
        err_set(no, MOYAI_EARGS, "claim(object, number, id): ids have 16 bytes");
        return NULL;
    }
    return moyai_value_new((struct moyai_arg){.tag = MOYAI_T_INT, .v.i = move_claimed(n, object, number, id)});
}

#define NEAR_MOST 64u

struct near {
    uint8_t id[NEAR_MOST][16];
    size_t n;
};

static bool add_near(const struct overlay_link_info *l, void *ctx) {
    struct near *all = ctx;
    if (!l->observer) memcpy(all->id[all->n++], l->peer, 16);
    return all->n < NEAR_MOST;
}

/* near(): whom it is linked to, for one that looks for a node of some kind. */
static moyai_value *do_near(moyai_node *n, struct arguments *a, struct moyai_error *no) {
    struct near all = {.n = 0};
    if (get(n, a, MOYAI_NONE, no) < 0) return NULL;
    overlay_each_link(n->o, add_near, &all);
    return moyai_value_new(moyai_bytes(all.id, 16 * all.n));
}

/* By name, as ENOMETHOD lists them; each has its place in moyai_node_ref(3). */
static const struct {
    const char *name;
    moyai_value *(*run)(moyai_node *n, struct arguments *a, struct moyai_error *no);
} methods[] = {{"claim", do_claim}, {"depend", do_depend}, {"host", do_host}, {"info", do_info},
               {"leave", do_leave}, {"move", do_move},     {"near", do_near}, {"objects", do_objects},
               {"ping", do_ping},   {"way", do_way}};

#define N_METHODS (sizeof methods / sizeof methods[0])

static int no_such_method(const struct request_head *h, struct moyai_error *no) {
    char list[16 * N_METHODS];
    size_t n = 0;
    for (size_t i = 0; i < N_METHODS && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s'%s'",
                              i == 0               ? ""
                              : i + 1 == N_METHODS ? " and "
                                                   : ", ",
                              methods[i].name);
    return failure_set(no, MOYAI_ENOMETHOD, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "a node has no method '%.*s', but %s",
                       h->method_len, h->method, list);
}

int node_object_call(moyai_node *n, const struct peer *p, const struct request_head *h, const uint8_t *bytes,
                     size_t len, struct codec_out *out, uint8_t *buf, size_t cap, struct moyai_error *no) {
    size_t m = 0;
    while (m < N_METHODS &&
           (strlen(methods[m].name) != h->method_len || memcmp(methods[m].name, h->method, h->method_len) != 0))
        m++;
    if (m == N_METHODS) return no_such_method(h, no);
    if (p && overlay_owes_much(p))
        return failure_set(no, MOYAI_EBUSY, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED,
                           "its caller does not take earlier answers");
    struct arguments a = {.n = len - h->size};
    if (a.n > ARGS_MOST)
        return failure_set(no, MOYAI_ETOOBIG, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED,
                           "arguments of %zu bytes; a node's own methods take %u", a.n, ARGS_MOST);
    memcpy(a.bytes, bytes + h->size, a.n);
    struct moyai_error why = {0};
    moyai_value *v = methods[m].run(n, &a, &why);
    codec_arena_free(a.arena);
    if (!v) {
        if (why.code == 0) err_set(&why, MOYAI_ENOMEM, "out of memory for an answer");
        /* Whoever moves an object has called none: what is said to him is the reason alone. */
        if (methods[m].run != do_host && methods[m].run != do_move) err_prefix(&why, "%s", methods[m].name);
        return failure_set(no, why.code, MOYAI_AT_METHOD, MOYAI_NEVER_EXECUTED, "%s", why.text);
    }
    codec_out_init(out, buf, cap, SIZE_MAX, n->max_message);
    int rc = codec_reserve(out, REPLY_HEAD);
    if (rc == 0) {
        out->n = REPLY_HEAD;
        rc = codec_put_args(out, MOYAI_ARGS(v), &n->refs, &why);
    }
    moyai_value_free(v);
    if (rc == 0) return 0;
    codec_out_done(out);
    return failure_set(no, rc, MOYAI_AT_PEER, MOYAI_NEVER_EXECUTED, "%s: %s", methods[m].name, moyai_strerror(rc));
}

/* ---- references to it ------------------------------------------------------------------------ */

int moyai_node_ref(moyai_node *n, struct moyai_node_id id, moyai_ref **ret) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    exec_lock(n->x);
    int rc = 0;
    moyai_ref *r = ret ? ref_new(n, id.b, id.b) : NULL;
    if (r)
        *ret = r;
    else if (ret)
        rc = api_fail(n, MOYAI_ENOMEM, "out of memory for a reference");
    else
        rc = api_fail(n, MOYAI_EINVAL, "ret must not be NULL");
    exec_unlock(n->x);
    return rc;
}
