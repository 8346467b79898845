/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai leave: tell nodes to leave the grid in order, and see them go. Each is given an object of this node's, which it
 * calls if something is cut short; and whom it has told to leave, as they depend on it, is looked after as well.
 */
#include "base/dur.h"
#include "base/err.h"
#include "base/id.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/crawl.h"
#include "cli/seek.h"
#include "cli/value_json.h"
#include "node/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGETS   256u
#define LOOK      (100 * MOYAI_MS)
#define LAST_WORD (50 * MOYAI_MS)
#define AGAIN     (20 * MOYAI_MS)  /* an object is between two nodes */
#define SILENT    (2 * MOYAI_SEC)  /* who has answered nothing for so long may not be heard any more when it ends */
#define MARGIN    (10 * MOYAI_SEC) /* beyond a node's own time: what passes through it is withdrawn, its program ends */

enum { KEY_HOST = 0x100, KEY_SITE, KEY_DEADLINE, KEY_FORCE };

struct request {
    struct observe_opts o;
    const char *target[TARGETS], *host, *site;
    size_t n_targets;
    moyai_dur deadline; /* 0: each node's own */
    bool force;         /* with those that depend on them */
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *q = state->input;
    cli_help(key, state);
    if (observe_option(key, arg, state, &q->o)) return 0;
    switch (key) {
    case KEY_HOST:
        cli_filled(state, "--host", arg);
        q->host = arg;
        return 0;
    case KEY_SITE:
        if (!*arg) /* many nodes have none */
            cli_usage(state,
                      "--site: it is empty; is a variable not set? Nodes that have no site are told by --host, or "
                      "by their ids");
        q->site = arg;
        return 0;
    case KEY_DEADLINE:
        q->deadline = cli_duration(state, "deadline", arg);
        if (q->deadline < MOYAI_MS)
            cli_usage(state, "--deadline: a node needs some time to leave in order: 1ms is the least");
        return 0;
    case KEY_FORCE:
        q->force = true;
        return 0;
    case ARGP_KEY_ARG:
        if (q->n_targets == TARGETS) cli_usage(state, "more than %u nodes: --host and --site name many", TARGETS);
        cli_filled(state, "the name of a node", arg);
        q->target[q->n_targets++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (q->n_targets == 0 && !q->host && !q->site)
            cli_usage(state, "who is to leave? Name nodes, or a --host or --site");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- those who are to go --------------------------------------------------------------------- */

enum state { GOES, GONE, DIED, LOST, STAYS, UNTOLD };
static const char *const states[] = {"leaving", "left", "died", "lost", "stays", "not told"};

struct leaver {
    char id[33], called[160];
    moyai_ref *ref;
    moyai_future *asked;
    bool told;
    enum state state;
    int64_t in_progress; /* as was said last; -1: nothing was. Calls, and ... */
    int64_t hooks;       /* ... on_leave of objects, which count as well */
    int64_t cut_off;     /* nodes that depend on it */
    size_t by;           /* 1 + whom it depends on, who has told it; 0: it was named */
    moyai_future *intro; /* for what it is called, before anything is said of it: who has told it knows neither all of
                            that nor always any */
    moyai_ref *judge;    /* told what is cut short */
    uint64_t cut, left;  /* that: so many calls and the like; and nodes that it alone connected with the grid */
    uint64_t unheard;    /* nodes of which it does not know whether they are such */
    char what[400], who[200], silent[200];
    moyai_ns until, began, ended; /* ended: 0: not that it was seen */
    moyai_ns heard;               /* when it answered last */
    bool doubt;                   /* it may have cut something short */
    double seconds;
    struct moyai_error why;
};

/* An object that may move, which names the node where it is when that is told. */
struct named {
    const char *target;
    moyai_ref *object;
    struct moyai_node_id at; /* where it was when it was looked for last */
};

/* A node that is asked what it calls itself. */
struct asked {
    const char *target; /* what its user calls it */
    struct moyai_node_id at;
    moyai_ref *home;
    moyai_future *f;
};

struct leave {
    struct exec_hook hook; /* first */
    struct observer *o;
    const struct request *q;
    struct leaver **all;
    size_t n;
    struct named by[TARGETS];
    struct asked asked[TARGETS];
    size_t n_by, n_asked;
    int unseen; /* not CLI_OK: not all nodes of the grid could be asked of which host or site they are */
    bool none;  /* nobody seen is of it */
};

static void put_more(char *text, size_t cap, const char *more) {
    size_t n = strlen(text);
    if (n > 0 && n + 2 < cap) strcat(text, ", ");
    n = strlen(text);
    clean_cut(text + n, cap - n, more);
}

/* The node says so before it says farewell; what it cuts short comes as one text, or in several parts. */
static int on_cut(moyai_request *rq, void *self) {
    struct leaver *k = self;
    const char *what, *who;
    uint64_t cut, left;
    int rc = moyai_args(rq, MOYAI_INTO(&cut, &what, &left, &who));
    if (rc < 0) return rc;
    if (cut > 0) put_more(k->what, sizeof k->what, what);
    if (left > 0) put_more(k->who, sizeof k->who, who);
    k->cut += cut;
    k->left += left;
    return 0;
}

/* Nor may it know who depends on it, if its time is short. */
static int on_unheard(moyai_request *rq, void *self) {
    struct leaver *k = self;
    const char *who;
    uint64_t unheard;
    int rc = moyai_args(rq, MOYAI_INTO(&unheard, &who));
    if (rc < 0) return rc;
    put_more(k->silent, sizeof k->silent, who);
    k->unheard += unheard;
    return 0;
}

static const struct moyai_method judge_methods[] = {{"cut", on_cut}, {"unheard", on_unheard}, {NULL, NULL}};
static const struct moyai_class judge_class = MOYAI_CLASS("moyai leave", judge_methods, NULL);

static struct leaver *leaver_of(const struct leave *l, const char *id) {
    for (size_t i = 0; i < l->n; i++)
        if (l->all[i]->state != UNTOLD && strcmp(l->all[i]->id, id) == 0) return l->all[i];
    return NULL;
}

static void call_it(struct leaver *k, const char *title, const char *host) {
    char t[64], h[65]; /* no host's name is longer */
    clean_cut(t, sizeof t, title);
    clean_cut(h, sizeof h, host);
    const bool any = *t || *h;
    snprintf(k->called, sizeof k->called, "node %.8s%s%s%s%s%s", k->id, any ? " (" : "", t, *t && *h ? ", " : "", h,
             any ? ")" : "");
}

/* The list is looked at by whoever drives the loop (on_turn). */
static bool put(struct leave *l, struct leaver *k) {
    exec_lock(node_exec(l->o->node));
    struct leaver **more = realloc(l->all, (l->n + 1) * sizeof(struct leaver *));
    if (more) {
        l->all = more;
        more[l->n++] = k;
    }
    exec_unlock(node_exec(l->o->node));
    return more;
}

static void leaver_free(struct leaver *k) {
    moyai_future_free(k->asked);
    moyai_future_free(k->intro);
    moyai_ref_unref(k->ref);
    if (k->judge) (void)moyai_object_end(k->judge); /* it is about k */
    moyai_ref_unref(k->judge);
    free(k);
}

static bool add(struct leave *l, const char *id, const char *title, const char *host) {
    struct moyai_node_id node;
    if (leaver_of(l, id)) return true;
    if (!id_parse(id, 32, node.b)) return false;
    struct leaver *k = malloc(sizeof *k); /* its place is its object's state */
    if (!k) return false;
    *k = (struct leaver){.in_progress = -1, .began = moyai_now()};
    snprintf(k->id, sizeof k->id, "%s", id);
    call_it(k, title, host);
    if (moyai_node_ref(l->o->node, node, &k->ref) < 0 ||
        moyai_object_new(l->o->node, &judge_class, k, &k->judge, NULL) < 0 || !put(l, k)) {
        leaver_free(k);
        return false;
    }
    return true;
}

static struct leaver *last(const struct leave *l) {
    return l->all[l->n - 1];
}

static void drop_last(struct leave *l) {
    exec_lock(node_exec(l->o->node));
    struct leaver *k = l->all[--l->n];
    exec_unlock(node_exec(l->o->node));
    leaver_free(k);
}

static int ask_name(const struct leave *l, struct asked *a, struct moyai_error *why) {
    if (moyai_node_ref(l->o->node, a->at, &a->home) < 0) return err_set(why, MOYAI_ENOMEM, "out of memory");
    a->f = moyai_call_async(a->home, "info", MOYAI_NONE);
    moyai_future_deadline(a->f, l->q->o.timeout);
    return 0;
}

static void asked_free(struct asked *a) {
    moyai_future_free(a->f);
    moyai_ref_unref(a->home);
    *a = (struct asked){0};
}

static int add_asked(struct leave *l, struct asked *a, struct moyai_error *why) {
    moyai_value *info = NULL;
    char id[33];
    moyai_node_id_format(a->at, id);
    int rc = moyai_future_get(a->f, MOYAI_INTO(&info));
    if (rc < 0) (void)moyai_future_error(a->f, 0, why);
    if (rc < 0) seek_unanswered(l->o, a->target, a->at, l->q->o.timeout, why);
    asked_free(a);
    if (rc == 0 && !add(l, id, info_text(info, "title"), info_text(info, "host")))
        rc = err_set(why, MOYAI_ENOMEM, "out of memory");
    moyai_value_free(info);
    return rc;
}

static int add_node(struct leave *l, struct moyai_node_id node, const char *target, struct moyai_error *why) {
    struct asked a = {.target = target, .at = node};
    char id[33];
    moyai_node_id_format(node, id);
    if (leaver_of(l, id)) return 0;
    const int rc = ask_name(l, &a, why);
    return rc < 0 ? rc : add_asked(l, &a, why);
}

static int add_named(struct leave *l, const char *target, struct moyai_error *why) {
    struct named *k = &l->by[l->n_by];
    *k = (struct named){.target = target};
    const int rc = seek_node(l->o, target, l->q->o.timeout, &k->at, &k->object, why);
    if (rc < 0) return rc;
    if (!k->object) {
        struct asked *a = &l->asked[l->n_asked++]; /* all at once: one that is stopped holds up none */
        *a = (struct asked){.target = target, .at = k->at};
        return ask_name(l, a, why);
    }
    l->n_by++; /* it may move until all have been found */
    return 0;
}

static bool is_wanted(const struct request *q, const struct crawl_node *k) {
    return k->state == CRAWL_UP && (q->host || q->site) &&
           (!q->host || strcmp(info_text(k->info, "host"), q->host) == 0) &&
           (!q->site || strcmp(info_text(k->info, "site"), q->site) == 0);
}

static int add_matching(struct leave *l, struct moyai_error *why) {
    struct crawl c = {.all_known = true};
    observer_await_lines(l->o);
    int rc = crawl(&c, l->o->node, l->q->o.timeout, why);
    l->o->lost = c.lost; /* who does not answer may be one of them */
    bool any = false;    /* perhaps one that was named as well */
    for (size_t i = 0; rc == 0 && i < c.n; i++) {
        if (!is_wanted(l->q, c.node[i])) continue;
        any = true;
        if (!add(l, c.node[i]->id, info_text(c.node[i]->info, "title"), info_text(c.node[i]->info, "host")))
            rc = err_set(why, MOYAI_ENOMEM, "out of memory");
    }
    l->unseen = l->q->o.json && any ? observer_doubt(l->o, &c.lost) : observer_doubts(l->o);
    l->none = rc == 0 && !any;
    if (l->none)
        rc = err_set(why, MOYAI_ENOENT, "no node of %s%.200s%s%s%.200s' %s: moyai ps shows hosts and sites",
                     l->q->host ? "host '" : "", l->q->host ? l->q->host : "", l->q->host && l->q->site ? "' and " : "",
                     l->q->site ? "site '" : "", l->q->site ? l->q->site : "",
                     l->unseen ? "is among those that are seen" : "is in the grid");
    crawl_done(&c);
    return rc;
}

/* ---- telling them, and looking --------------------------------------------------------------- */

static void say(const struct leave *l, const struct leaver *k, const char *fmt, ...) MOYAI_PRINTF(3, 4);
static void say(const struct leave *l, const struct leaver *k, const char *fmt, ...) {
    char text[MOYAI_ERROR_TEXT + 100];
    va_list ap;
    if (l->q->o.json) return;
    va_start(ap, fmt);
    text[utf8_printed(text, sizeof text, vsnprintf(text, sizeof text, fmt, ap))] = 0;
    va_end(ap);
    print_clean(stdout, k->called);
    fputs(" ", stdout);
    print_clean(stdout, text);
    fputc('\n', stdout);
    fflush(stdout);
}

/* Its time was over, it had not finished when it answered last, and that was long before: its links may have been given
 * up since (it was stopped, or cut off), and its last words with them. */
static bool is_doubtful(const struct leaver *k, moyai_ns ended) {
    const bool finished = k->in_progress == 0 && k->cut_off == 0, said = k->cut || k->left || k->unheard;
    return !finished && !said && ended + (moyai_ns)MARGIN >= k->until && ended >= k->heard + (moyai_ns)SILENT;
}

static void over(struct leave *l, struct leaver *k, enum state state) {
    k->state = state;
    exec_lock(node_exec(l->o->node));
    const moyai_ns ended = k->ended ? k->ended : moyai_now();
    exec_unlock(node_exec(l->o->node));
    k->seconds = ended > k->began ? (double)(ended - k->began) * 1e-9 : 0;
    if (state == GONE) (void)moyai_sleep(l->o->node, LAST_WORD); /* what it has said before is taken in */
    if (k->cut > 0) say(l, k, "has cut short: %s", k->what);
    if (k->left > 0)
        say(l, k, "has left %llu node%s without a way to the grid: %s", (unsigned long long)k->left,
            k->left == 1 ? "" : "s", k->who);
    if (k->unheard > 0)
        say(l, k, "did not wait to hear whether %llu node%s ha%s another way to the grid: %s",
            (unsigned long long)k->unheard, k->unheard == 1 ? "" : "s", k->unheard == 1 ? "s" : "ve", k->silent);
    k->doubt = state == GONE && k->told && is_doubtful(k, ended);
    if (k->doubt)
        say(l, k,
            "has left after %.1f s, its time being over, and had answered nothing for %.1f s: its own log says "
            "whether it has cut something short",
            k->seconds, (double)(ended - k->heard) * 1e-9);
    else if (state == GONE)
        say(l, k, "has left after %.1f s", k->seconds);
    else if (state == STAYS)
        say(l, k, "is still there: its program has not ended");
    else if (state == UNTOLD)
        say(l, k, "was not told to leave: %s", k->why.text);
    else
        say(l, k, "%s: %s", state == DIED ? "has died" : "cannot be reached any more", k->why.text);
}

/* A farewell is news from the loop: it is seen when it comes, and not at the next look. */
static void on_turn(struct exec_hook *h) {
    const struct leave *l = (struct leave *)(void *)h;
    for (size_t i = 0; i < l->n; i++) {
        struct leaver *k = l->all[i];
        if (k->ended) continue;
        const struct moyai_node_id id = moyai_ref_home(k->ref);
        const struct peer *p = overlay_find(node_overlay(l->o->node), id.b);
        const int code = p ? peer_why(p)->code : 0;
        if (code == MOYAI_ECLOSED || code == MOYAI_EDEAD) k->ended = moyai_now();
    }
}

static void watch(struct leave *l, bool on) {
    struct exec *x = node_exec(l->o->node);
    exec_lock(x);
    if (on) exec_hook_add(x, &l->hook);
    if (!on) exec_hook_remove(x, &l->hook);
    exec_unlock(x);
}

static double time_given(const struct leave *l) {
    return l->q->deadline == MOYAI_FOREVER ? INFINITY : (double)l->q->deadline * 1e-9;
}

static void ask(struct leave *l, struct leaver *k) {
    const double s = time_given(l);
    if (k->told)
        k->asked = moyai_call_async(k->ref, "info", MOYAI_NONE);
    else /* who was told by another keeps his time */
        k->asked = moyai_call_async(k->ref, "leave", MOYAI_ARGS(k->by ? INFINITY : s, l->q->force, k->judge));
    moyai_future_deadline(k->asked, l->q->o.timeout);
}

static void take_told(struct leave *l, struct leaver *k, double seconds) {
    k->told = true;
    k->until = seconds > 1e9 ? UINT64_MAX : moyai_now() + (moyai_ns)(seconds * 1e9) + (moyai_ns)MARGIN;
    k->heard = moyai_now();
    if (k->by) return; /* that has been said */
    if (seconds > 1e9)
        say(l, k, "leaves, and takes its time");
    else
        say(l, k, "leaves, within %.1f s", seconds);
}

/* Tell the node that has the object. EAGAIN: it has gone from there, which another look may find. */
static int tell_home(struct leave *l, const struct named *by, struct moyai_error *why) {
    double seconds = 0;
    char id[33];
    moyai_node_id_format(by->at, id);
    if (leaver_of(l, id)) return 0; /* that has been, or will be */
    int rc = add_node(l, by->at, by->target, why);
    if (rc < 0) return rc == MOYAI_EDEAD || rc == MOYAI_ECLOSED ? MOYAI_EAGAIN : rc;
    struct leaver *k = last(l);
    moyai_future *f = moyai_call_async(k->ref, "leave", MOYAI_ARGS(time_given(l), l->q->force, k->judge, by->object));
    moyai_future_deadline(f, l->q->o.timeout);
    rc = moyai_future_get(f, MOYAI_INTO(&seconds));
    if (rc < 0) (void)moyai_future_error(f, 0, why);
    moyai_future_free(f);
    if (rc == 0) {
        take_told(l, k, seconds);
    } else if (rc == MOYAI_ETIMEDOUT) { /* perhaps it has been told */
        k->why = *why;
        seek_unanswered(l->o, id, by->at, l->q->o.timeout, &k->why);
        over(l, k, LOST);
        rc = 0;
    } else {
        drop_last(l);
    }
    return rc == MOYAI_ENOOBJECT || rc == MOYAI_EDEAD || rc == MOYAI_ECLOSED ? MOYAI_EAGAIN : rc;
}

/* An object may move while its node is told, which then refuses. */
static int tell_by(struct leave *l, struct named *by, struct moyai_error *nomem) {
    const moyai_ns until = moyai_now() + (moyai_ns)l->q->o.timeout;
    struct moyai_error why = {0};
    char id[33];
    int rc = tell_home(l, by, &why);
    while (rc == MOYAI_EAGAIN && moyai_now() < until && !moyai_node_stopping(l->o->node)) {
        (void)moyai_sleep(l->o->node, AGAIN);
        rc = seek_home(l->o, by->object, by->target, l->q->o.timeout, &by->at, &why);
        if (rc == 0) rc = tell_home(l, by, &why);
    }
    moyai_node_id_format(by->at, id);
    if (rc == 0 || moyai_node_stopping(l->o->node) || leaver_of(l, id)) return 0; /* the last: it ends with that */
    if (!add(l, id, "", "")) return err_set(nomem, MOYAI_ENOMEM, "out of memory");
    last(l)->why = why;
    over(l, last(l), UNTOLD);
    return 0;
}

/* Those that it has told. */
static void take_dependants(struct leave *l, size_t by, const moyai_value *info) {
    const moyai_value *told = moyai_value_find(info, "told");
    for (size_t i = 0; told && i < moyai_value_count(told); i++) {
        const moyai_value *one = moyai_value_at(told, i);
        const char *id = info_text(one, "node");
        if (strlen(id) != 32 || leaver_of(l, id) || !add(l, id, "", "")) continue; /* at the next look */
        struct leaver *k = l->all[l->n - 1];
        k->by = by + 1;
        clean_cut(k->called, sizeof k->called, info_text(one, "called")); /* if it does not say */
        k->intro = moyai_call_async(k->ref, "info", MOYAI_NONE);
        moyai_future_deadline(k->intro, l->q->o.timeout);
    }
}

/* false: not yet. */
static bool introduce(struct leave *l, struct leaver *k) {
    moyai_value *info = NULL;
    if (!k->intro) return true;
    if (!moyai_future_ready(k->intro)) return false;
    if (moyai_future_get(k->intro, MOYAI_INTO(&info)) == 0)
        call_it(k, info_text(info, "title"), info_text(info, "host"));
    moyai_value_free(info);
    moyai_future_free(k->intro);
    k->intro = NULL;
    say(l, k, "leaves, too, as it depends on %s", l->all[k->by - 1]->called);
    return true;
}

static void take_info(struct leave *l, struct leaver *k, const moyai_value *info) {
    const int64_t cut_off = moyai_value_find(info, "cut_off") ? info_int(info, "cut_off") : 0;
    if (cut_off != k->cut_off && cut_off > 0)
        say(l, k, "waits for %lld node%s that ha%s no other way to the grid: %s", (long long)cut_off,
            cut_off == 1 ? "" : "s", cut_off == 1 ? "s" : "ve", info_text(info, "waits_for"));
    k->cut_off = cut_off;
    const int64_t n = info_int(info, "leaving");
    const int64_t hooks = moyai_value_find(info, "on_leave") ? info_int(info, "on_leave") : 0, calls = n - hooks;
    if (!moyai_value_find(info, "leaving")) return; /* an agent ends its commands instead */
    if (n == k->in_progress && hooks == k->hooks) return;
    k->in_progress = n;
    k->hooks = hooks;
    if (n == 0)
        say(l, k, "has finished its calls");
    else if (hooks <= 0)
        say(l, k, "finishes %lld call%s", (long long)n, n == 1 ? "" : "s");
    else if (calls <= 0)
        say(l, k, "finishes %lld on_leave", (long long)hooks);
    else
        say(l, k, "finishes %lld call%s and %lld on_leave", (long long)calls, calls == 1 ? "" : "s", (long long)hooks);
}

static void take(struct leave *l, size_t i) {
    struct leaver *k = l->all[i];
    moyai_value *info = NULL;
    double seconds = 0;
    int rc = k->told ? moyai_future_get(k->asked, MOYAI_INTO(&info)) : moyai_future_get(k->asked, MOYAI_INTO(&seconds));
    if (rc == 0 && k->told) {
        k->heard = moyai_now();
        take_dependants(l, i, info);
        take_info(l, k, info);
    } else if (rc == 0) {
        take_told(l, k, seconds);
    } else {
        (void)moyai_future_error(k->asked, 0, &k->why);
        seek_unanswered(l->o, k->id, moyai_ref_home(k->ref), l->q->o.timeout, &k->why);
    }
    if (rc == MOYAI_ECLOSED)
        over(l, k, GONE);
    else if (rc == MOYAI_EDEAD)
        over(l, k, DIED);
    else if (rc < 0 && (rc != MOYAI_ETIMEDOUT || !k->told))
        over(l, k, LOST);
    moyai_value_free(info);
    moyai_future_free(k->asked);
    k->asked = NULL;
}

static void time_out(struct leave *l, struct leaver *k) {
    const moyai_ns now = moyai_now();
    if (now < k->heard + (moyai_ns)SILENT) {
        over(l, k, STAYS);
        return;
    }
    (void)err_set(&k->why, MOYAI_EUNREACHABLE, "its time is over, and it has answered nothing for %.1f s",
                  (double)(now - k->heard) * 1e-9);
    over(l, k, LOST);
}

static bool look(struct leave *l) {
    bool more = false;
    for (size_t i = 0; i < l->n; i++) {
        struct leaver *k = l->all[i];
        if (k->state != GOES) continue;
        if (!k->asked) ask(l, k);
        const bool known = introduce(l, k);
        if (known && moyai_future_ready(k->asked)) take(l, i);
        if (known && k->state == GOES && k->told && moyai_now() >= k->until) time_out(l, k);
        more |= k->state == GOES;
    }
    return more;
}

static bool is_fine(const struct leaver *k) {
    return k->state == GONE && k->cut == 0 && k->left == 0 && k->unheard == 0 && !k->doubt;
}

static void print_json(const struct leave *l) {
    fputs("{\"nodes\": [", stdout);
    for (size_t i = 0; i < l->n; i++) {
        const struct leaver *k = l->all[i];
        printf("%s{\"node\": \"%s\"", i ? ",\n " : "\n ", k->id);
        json_print_field(stdout, ", ", "called", k->called);
        json_print_field(stdout, ", ", "state", states[k->state]);
        printf(", \"seconds\": %.6f", k->seconds);
        if (k->by) json_print_field(stdout, ", ", "depends_on", l->all[k->by - 1]->id);
        printf(", \"cut\": %llu", (unsigned long long)k->cut);
        if (k->cut > 0) json_print_field(stdout, ", ", "cut_short", k->what);
        if (k->left > 0) printf(", \"cut_off\": %llu", (unsigned long long)k->left);
        if (k->unheard > 0) printf(", \"unheard\": %llu", (unsigned long long)k->unheard);
        if (k->doubt) fputs(", \"doubt\": true", stdout);
        if (k->state == DIED || k->state == LOST || k->state == UNTOLD)
            json_print_field(stdout, ", ", "error", k->why.text);
        fputc('}', stdout);
    }
    fputc(']', stdout);
    if (l->q->host || l->q->site) {
        fputc(',', stdout);
        observer_print_doubts(l->o);
    }
    fputs("}\n", stdout);
}

static int run(struct leave *l, struct moyai_error *why) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < l->q->n_targets; i++) rc = add_named(l, l->q->target[i], why);
    for (size_t i = 0; rc == 0 && i < l->n_asked; i++) rc = add_asked(l, &l->asked[i], why);
    if (rc == 0 && (l->q->host || l->q->site)) rc = add_matching(l, why);
    for (size_t i = 0; i < l->n; i++) l->all[i]->began = moyai_now();
    for (size_t i = 0; rc == 0 && i < l->n_by; i++) rc = tell_by(l, &l->by[i], why);
    while (rc == 0 && look(l) && !moyai_node_stopping(l->o->node)) (void)moyai_sleep(l->o->node, LOOK);
    return rc;
}

int cli_leave(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"deadline", KEY_DEADLINE, "TIME", 0,
         "What is not finished by then is cut short (default: as the node's own MOYAI_LEAVE_DEADLINE, 30s)", 0},
        {"host", KEY_HOST, "HOST", 0, "All nodes of that host, as moyai ps shows it", 0},
        {"site", KEY_SITE, "NAME", 0, "All nodes of that site", 0},
        {"force-dependants", KEY_FORCE, NULL, 0,
         "Nodes that only those connect with the grid leave as well, before them (default: they are waited for)", 0},
        OBSERVE_OPTIONS("How long to wait for each answer (default 5s)", "Print one JSON object at the end"),
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "[NODE|NAME|REF...]",
        .doc =
            "Tells nodes to leave the grid in order: they finish the calls they have begun, take no others, and end. "
            "Waits until they have gone, and says how far they are.\v"
            "NODE is a node's id or its beginning; a NAME or a reference REF stands for the node of that "
            "object. With --host and --site: the nodes of that host in that site.\n\n" CLI_TIME_FORM,
    };
    struct request *q = calloc(1, sizeof *q);
    struct observer o;
    struct moyai_error why = {0};
    if (!q) {
        cli_say(argv[0], "out of memory");
        return CLI_FAILED;
    }
    q->o.timeout = 5 * MOYAI_SEC;
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, q);
    int status = observer_join(&o, argv[0], &q->o);
    if (status) {
        free(q);
        return status;
    }
    struct leave l = {.hook.fn = on_turn, .o = &o, .q = q};
    watch(&l, true);
    int rc = run(&l, &why);
    watch(&l, false);
    status = seek_interrupted(&o, q->o.json);
    if (status == CLI_OK && rc < 0) {
        if (l.none)
            observer_found_none(&o, q->o.json, why.code, why.text);
        else
            observer_failed(argv[0], q->o.json, why.code, why.text);
        status = CLI_FAILED;
    } else if (status == CLI_OK) {
        for (size_t i = 0; i < l.n; i++)
            if (!is_fine(l.all[i])) status = CLI_FAILED;
        if (l.unseen) status = CLI_FAILED;
        if (q->o.json) print_json(&l);
    }
    for (size_t i = 0; i < l.n; i++) leaver_free(l.all[i]);
    for (size_t i = 0; i < l.n_by; i++) moyai_ref_unref(l.by[i].object);
    for (size_t i = 0; i < l.n_asked; i++) asked_free(&l.asked[i]);
    observer_leave(&o);
    free(l.all);
    free(q);
    return status;
}
