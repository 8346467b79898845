/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/crawl.h"

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "node/node.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW     256u             /* asked at once: each takes a link */
#define MOST       1000000          /* nodes: what others name is taken no further */
#define FRESH      (60 * MOYAI_SEC) /* an entry of a node that may be there */
#define AGAIN      (100 * MOYAI_MS) /* after it could not be reached; doubled each time, up to */
#define AGAIN_MOST (500 * MOYAI_MS)
#define LOAD_ONE   0 /* of three load averages, that of a minute */

/* ---- info ------------------------------------------------------------------------------------ */

const char *info_text(const moyai_value *info, const char *key) {
    const char *text = NULL;
    const moyai_value *v = moyai_value_find(info, key);
    return v && moyai_value_get(v, MOYAI_INTO(&text)->v[0]) == 0 ? text : "";
}

int64_t info_int(const moyai_value *info, const char *key) {
    int64_t x = 0;
    const moyai_value *v = moyai_value_find(info, key);
    return v && moyai_value_get(v, MOYAI_INTO(&x)->v[0]) == 0 ? x : 0;
}

double info_double(const moyai_value *info, const char *key) {
    double x = 0;
    const double *p = NULL;
    size_t n = 0;
    const moyai_value *v = moyai_value_find(info, key);
    if (!v || moyai_value_get(v, MOYAI_INTO(&x)->v[0]) == 0) return x;
    return moyai_value_get(v, moyai_into_doubles(&p, &n)) == 0 && n > LOAD_ONE ? p[LOAD_ONE] : 0;
}

bool info_bool(const moyai_value *info, const char *key) {
    bool x = false;
    const moyai_value *v = moyai_value_find(info, key);
    return v && moyai_value_get(v, MOYAI_INTO(&x)->v[0]) == 0 && x;
}

const char *crawl_state_name(enum crawl_state s) {
    switch (s) {
    case CRAWL_UP:
        return "up";
    case CRAWL_SILENT:
        return "silent";
    case CRAWL_DEAD:
        return "dead";
    case CRAWL_FAILED:
        return "failed";
    }
    return "?";
}

/* ---- the nodes known ------------------------------------------------------------------------- */

struct work {
    struct crawl *c;
    moyai_node *n;
    moyai_set *set;
    moyai_dur timeout;
    struct crawl_node *next;  /* to be asked: of the table, in the order in which they were added */
    struct crawl_node *again; /* to be asked once more, when it is time */
    bool no_memory;
    char host[33]; /* this one's id; all zero: in no grid */
};

static struct crawl_node *add(struct work *w, const char *text, const char *title, int64_t pid, bool entry) {
    struct crawl_node *k;
    uint8_t bits[16];
    char id[33];
    if (!id_parse(text, strlen(text), bits)) return NULL;
    id_format(bits, id); /* there is one way to write it */
    if (strcmp(id, w->c->self) == 0 || HASH_COUNT(w->c->all) >= MOST) return NULL;
    HASH_FIND_STR(w->c->all, id, k);
    if (k) k->entry &= entry;
    if (k) return k;
    k = calloc(1, sizeof *k);
    if (!k) {
        w->no_memory = true;
        return NULL;
    }
    memcpy(k->id, id, sizeof k->id);
    clean_cut(k->title, sizeof k->title, title);
    k->pid = pid;
    k->entry = entry;
    HASH_ADD_STR(w->c->all, id, k);
    if (!w->next) w->next = k;
    return k;
}

/* It has left, or is there to look as we are. */
static void leave_out(struct crawl_node *k) {
    moyai_value_free(k->info);
    k->info = NULL;
    k->over = false;
}

/* Somebody who is linked to it says that it only looks: it may be stopped or gone, and nobody misses it. */
static void pass_over(struct crawl_node *k) {
    if (k->observer || (k->over && k->state == CRAWL_UP)) return;
    k->observer = true;
    if (k->asked) moyai_future_cancel(k->asked);
    leave_out(k);
}

static void add_links(struct work *w, const moyai_value *info) {
    const moyai_value *links = moyai_value_find(info, "links");
    for (size_t i = 0; i < moyai_value_count(links); i++) {
        const moyai_value *l = moyai_value_at(links, i);
        struct crawl_node *k = add(w, info_text(l, "peer"), info_text(l, "title"), 0, false);
        if (k && info_bool(l, "observer")) pass_over(k);
    }
}

static bool add_known(const struct rdv_node *node, const struct moyai_error *bad, void *ctx) {
    char id[33];
    if (bad) return true; /* an entry that cannot be read: of what node is not known */
    id_format(node->id.b, id);
    (void)add(ctx, id, node->title, node->pid, false);
    return true;
}

static bool add_entry(const struct overlay_known *known, void *ctx) {
    char id[33];
    id_format(known->id, id);
    if (known->age < FRESH) (void)add(ctx, id, "", 0, true);
    return true;
}

/* Meanwhile it may have been found out that it is not there, or is another now. */
static bool add_lost(const struct overlay_known *known, void *ctx) {
    struct work *w = ctx;
    struct crawl_lost *l = &w->c->lost;
    struct crawl_node *k;
    char id[33];
    id_format(known->id, id);
    HASH_FIND_STR(w->c->all, id, k);
    if (!k || !k->entry || !k->over || k->state == CRAWL_UP || k->state == CRAWL_DEAD) return true;
    if (l->n < CRAWL_LOST) {
        memcpy(l->of[l->n].id, id, sizeof id);
        snprintf(l->of[l->n].at, sizeof l->of[l->n].at, "%s", known->at);
    }
    l->n++;
    return true;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ask(struct work *w, struct crawl_node *k) {
    struct moyai_node_id id;
    moyai_ref *ref = NULL;
    (void)id_parse(k->id, 32, id.b);
    if (moyai_node_ref(w->n, id, &ref) < 0) {
        w->no_memory = true;
        return;
    }
    moyai_future *f = moyai_call_async(ref, "info", MOYAI_NONE);
    moyai_ref_unref(ref);
    moyai_future_set_user(f, k);
    if (moyai_set_add(w->set, f) < 0) {
        moyai_future_free(f);
        w->no_memory = true;
        return;
    }
    if (!k->until) k->until = moyai_now() + (moyai_ns)w->timeout;
    const moyai_ns now = moyai_now();
    moyai_future_deadline(f, k->until > now ? (moyai_dur)(k->until - now) : 0);
    k->asked = f;
}

/* There was no way to it, or that broke, as when many look at once and it has no place for all: there may be another
 * soon. So long as it would be waited for. */
static bool ask_again(struct work *w, struct crawl_node *k, int rc) {
    const moyai_ns now = moyai_now();
    if (rc == MOYAI_ETIMEDOUT || rc == MOYAI_EDEAD || rc == MOYAI_ECLOSED || rc == MOYAI_ENOMEM) return false;
    k->pause = !k->pause ? AGAIN : 2 * k->pause < AGAIN_MOST ? 2 * k->pause : AGAIN_MOST;
    k->at = now + (moyai_ns)k->pause;
    if (k->at >= k->until) return false;
    log_info(node_log(w->n), "cli", "MOYAI-CLI-AGAIN", "node %.8s cannot be reached, and is asked again: %s", k->id,
             k->why.text);
    k->next = w->again;
    w->again = k;
    return true;
}

static void ask_those(struct work *w) {
    const moyai_ns now = moyai_now();
    for (struct crawl_node **q = &w->again, *k; (k = *q);) {
        if (k->at > now && !k->observer) {
            q = &k->next;
            continue;
        }
        *q = k->next;
        if (!k->observer) ask(w, k);
    }
}

static void take(struct work *w, struct crawl_node *k, moyai_future *f) {
    int rc = moyai_future_get(f, MOYAI_INTO(&k->info));
    k->asked = NULL;
    k->over = true;
    if (k->observer) {
        leave_out(k);
        return;
    }
    if (rc < 0) {
        k->state = rc == MOYAI_ETIMEDOUT ? CRAWL_SILENT : rc == MOYAI_EDEAD ? CRAWL_DEAD : CRAWL_FAILED;
        moyai_last_error(w->n, &k->why);
        if (rc == MOYAI_ECLOSED || ask_again(w, k, rc)) leave_out(k);
        return;
    }
    if (info_bool(k->info, "observer")) {
        leave_out(k);
        return;
    }
    k->state = CRAWL_UP;
    clean_cut(k->title, sizeof k->title, info_text(k->info, "title"));
    k->pid = info_int(k->info, "pid");
    add_links(w, k->info);
    if (w->c->seen) w->c->seen(k, w->c->arg);
}

/* This node's own links: the beginning where there is no directory. */
static void add_own_links(struct work *w) {
    moyai_ref *ref = NULL;
    moyai_value *info = NULL;
    if (moyai_node_ref(w->n, moyai_node_self(w->n), &ref) == 0 &&
        moyai_call(ref, "info", MOYAI_NONE, MOYAI_INTO(&info), NULL) == 0)
        add_links(w, info);
    snprintf(w->host, sizeof w->host, "%s", info_text(info, "host_id"));
    moyai_value_free(info);
    moyai_ref_unref(ref);
}

static void ask_all(struct work *w) {
    bool stopped = false;
    while (!w->no_memory && (moyai_set_count(w->set) > 0 || w->next || w->again) && !stopped) {
        ask_those(w);
        while (w->next && moyai_set_count(w->set) < WINDOW && !w->no_memory) {
            struct crawl_node *k = w->next;
            w->next = k->hh.next;
            if (!k->observer) ask(w, k);
        }
        int rc = moyai_wait(w->set, 100 * MOYAI_MS); /* who does not answer must not hold up who is asked to stop */
        if (rc < 0 && rc != MOYAI_ETIMEDOUT) break;
        for (moyai_future *f; (f = moyai_set_next(w->set)); moyai_future_free(f)) take(w, moyai_future_user(f), f);
        stopped = moyai_node_stopping(w->n);
    }
    /* Given up: the rest is cancelled with the node, and nobody is told of. */
    for (moyai_future *f; (f = moyai_set_next(w->set));) moyai_future_free(f);
}

static void each_known(struct work *w, bool (*fn)(const struct overlay_known *k, void *ctx)) {
    exec_lock(node_exec(w->n));
    overlay_each_known(node_overlay(w->n), fn, w);
    exec_unlock(node_exec(w->n));
}

/* ---- the result ------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
    const struct crawl_node *x = *(struct crawl_node *const *)a, *y = *(struct crawl_node *const *)b;
    int c = strcmp(info_text(x->info, "site"), info_text(y->info, "site"));
    if (c == 0) c = strcmp(info_text(x->info, "host"), info_text(y->info, "host"));
    if (c == 0) c = strcmp(x->title, y->title);
    if (c == 0) c = x->pid < y->pid ? -1 : x->pid > y->pid;
    return c ? c : strcmp(x->id, y->id);
}

static void count_silent(struct crawl_lost *l, const struct crawl_node *k) {
    if (k->entry || k->state == CRAWL_UP || k->state == CRAWL_DEAD) return;
    if (l->silent < CRAWL_LOST) memcpy(l->silent_id[l->silent], k->id, sizeof k->id);
    l->silent++;
}

/* Where a node of this host runs ssh, who looks leaves the lines to it, and does not know of them himself. */
static void add_lines(struct crawl_lost *l, const char *host, const struct crawl_node *k) {
    const moyai_value *lines = moyai_value_find(k->info, "lines");
    if (!lines || strspn(host, "0") == strlen(host) || strcmp(info_text(k->info, "host_id"), host) != 0) return;
    for (size_t i = 0; i < moyai_value_count(lines); i++) {
        const moyai_value *one = moyai_value_at(lines, i);
        const char *why = info_text(one, "why");
        const size_t at = strlen(l->lines);
        snprintf(l->lines + at, sizeof l->lines - at, "%s\"%s\", line %lld has no link yet in node %.8s%s%s",
                 at ? "; " : "", info_text(one, "file"), (long long)info_int(one, "line"), k->id, *why ? ": " : "",
                 why);
    }
}

int crawl(struct crawl *c, moyai_node *n, moyai_dur timeout, struct moyai_error *why) {
    struct work w = {.c = c, .n = n, .timeout = timeout};
    moyai_node_id_format(moyai_node_self(n), c->self);
    int rc = moyai_set_new(n, &w.set);
    if (rc < 0) return err_set(why, rc, "%s", moyai_strerror(rc));
    rc = node_known(n, add_known, &w, why);
    if (rc == 0) {
        add_own_links(&w);
        ask_all(&w);
    }
    if (rc == 0 && c->all_known) {
        each_known(&w, add_entry);
        ask_all(&w);
        each_known(&w, add_lost);
    }
    moyai_set_free(w.set);
    if (rc < 0) return rc;
    if (!w.no_memory) c->node = calloc(HASH_COUNT(c->all) + 1, sizeof *c->node);
    if (!c->node) return err_set(why, MOYAI_ENOMEM, "out of memory for %u nodes", HASH_COUNT(c->all));
    struct crawl_node *k, *tmp;
    HASH_ITER (hh, c->all, k, tmp)
        if (k->over && (!k->entry || k->state != CRAWL_DEAD)) c->node[c->n++] = k;
    qsort(c->node, c->n, sizeof *c->node, compare);
    for (size_t i = 0; i < c->n; i++) {
        count_silent(&c->lost, c->node[i]);
        add_lines(&c->lost, w.host, c->node[i]);
    }
    return 0;
}

void crawl_done(struct crawl *c) {
    struct crawl_node *k, *tmp;
    HASH_ITER (hh, c->all, k, tmp) {
        HASH_DEL(c->all, k);
        moyai_value_free(k->info);
        free(k);
    }
    free(c->node);
}

const struct crawl_node *crawl_find(const struct crawl *c, const char *id) {
    struct crawl_node *k;
    HASH_FIND_STR(c->all, id, k);
    return k && k->over ? k : NULL;
}
