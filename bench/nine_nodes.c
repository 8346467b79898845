/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers call the master when they have found it by its name, and give it a reference. With that the master has them
 * do things, and asks their nodes what they have done.
 */
#include "bench/nine.h"

#include "bench/node.h"

#define LIMIT         (900 * MOYAI_SEC) /* hang guard */
#define AT_ONCE       64                /* calls under way */
#define ASKED         16                /* questions to nodes under way */
#define PAIRS_AT_ONCE 4     /* a first call may have to look everywhere: all nodes of this machine work for it */
#define PAIRS         3     /* workers tried for each pair of clusters */
#define BURST         20000 /* at most AT_ONCE under way */
#define CLUSTERS      16
#define RELAYS        4         /* 0 to 3 */
#define TRIES         20        /* to reach a node */
#define TOLD          20        /* failures that are said */
#define TRIED         4         /* pairs for each number of relays */
#define LOOK_TIME     MOYAI_SEC /* within which all look up one name */

/* ---- workers --------------------------------------------------------------------------------- */

static int w_add(moyai_request *rq, void *self) {
    (void)self;
    int64_t x;
    int rc = moyai_args(rq, MOYAI_INTO(&x));
    return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x + 1));
}

/* call(ref, x): that object's add, by this one: its answer, and seconds. */
static int w_call(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *other = NULL;
    int64_t x, y = 0;
    int rc = moyai_args(rq, MOYAI_INTO(&other, &x));
    if (rc < 0) return rc;
    double t = bench_now();
    moyai_future *f = moyai_call_async(other, "add", MOYAI_ARGS(x));
    rc = moyai_future_get(f, MOYAI_INTO(&y));
    t = bench_now() - t;
    rc = rc < 0 ? moyai_raise_from(rq, f, rc, "called") : moyai_return(rq, MOYAI_ARGS(y, t));
    moyai_future_free(f);
    moyai_ref_unref(other);
    return rc;
}

/* one(ref, n): n calls, each after the other's answer. Seconds. */
static int w_one(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *other = NULL;
    int64_t n, y = 0;
    int rc = moyai_args(rq, MOYAI_INTO(&other, &n));
    if (rc < 0) return rc;
    double t = bench_now();
    for (int64_t i = 0; i < n && rc == 0; i++) {
        rc = moyai_call(other, "add", MOYAI_ARGS(i), MOYAI_INTO(&y), NULL);
        if (rc == 0 && y != i + 1) rc = MOYAI_EPROTO;
    }
    t = bench_now() - t;
    moyai_ref_unref(other);
    return rc < 0 ? moyai_raise(rq, rc, "a call") : moyai_return(rq, MOYAI_ARGS(t));
}

/* burst(ref, n): n calls, some at once. Seconds. */
static int w_burst(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *other = NULL;
    moyai_future *f[AT_ONCE] = {0};
    int64_t n, y = 0;
    int rc = moyai_args(rq, MOYAI_INTO(&other, &n));
    if (rc < 0) return rc;
    double t = bench_now();
    for (int64_t i = 0; i < n + AT_ONCE; i++) {
        moyai_future **at = &f[i % AT_ONCE];
        if (*at) {
            int got = moyai_future_get(*at, MOYAI_INTO(&y));
            moyai_future_free(*at);
            if (got == 0 && y != i - AT_ONCE + 1) got = MOYAI_EPROTO;
            if (rc == 0) rc = got;
        }
        *at = i < n && rc == 0 ? moyai_call_async(other, "add", MOYAI_ARGS(i)) : NULL;
    }
    t = bench_now() - t;
    moyai_ref_unref(other);
    return rc < 0 ? moyai_raise(rq, rc, "a call") : moyai_return(rq, MOYAI_ARGS(t));
}

/* take(name): register it. */
static int w_take(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    int rc = moyai_args(rq, MOYAI_INTO(&name));
    if (rc == 0) rc = moyai_register(moyai_self(rq), name);
    return rc < 0 ? moyai_raise(rq, rc, "register") : 0;
}

/* look(name, at): look it up at that time (moyai_now). Seconds. */
static int w_look(moyai_request *rq, void *self) {
    (void)self;
    const char *name;
    int64_t at;
    moyai_ref *found = NULL;
    int rc = moyai_args(rq, MOYAI_INTO(&name, &at));
    if (rc < 0) return rc;
    moyai_node *n = moyai_request_node(rq);
    moyai_dur wait = at - (int64_t)moyai_now();
    if (wait > 0) (void)moyai_sleep_masked(n, wait);
    double t = bench_now();
    rc = moyai_lookup(n, name, &found);
    t = bench_now() - t;
    moyai_ref_unref(found);
    return rc < 0 ? moyai_raise(rq, rc, "look") : moyai_return(rq, MOYAI_ARGS(t));
}

/* Bytes of this process alone, and its share of all that it uses. */
static int w_memory(moyai_request *rq, void *self) {
    (void)self;
    char line[200];
    int64_t own = 0, share = 0, kb;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "Pss: %ld kB", &kb) == 1) share = kb * 1024;
        if (sscanf(line, "Private_Clean: %ld kB", &kb) == 1 || sscanf(line, "Private_Dirty: %ld kB", &kb) == 1)
            own += kb * 1024;
    }
    if (f) fclose(f);
    return moyai_return(rq, MOYAI_ARGS(own, share));
}

static const struct moyai_method worker_methods[] = {
    {"add", w_add},   {"call", w_call}, {"one", w_one},       {"burst", w_burst},
    {"take", w_take}, {"look", w_look}, {"memory", w_memory}, {NULL, NULL},
};
static const struct moyai_class worker_class = MOYAI_CLASS("Worker", worker_methods, NULL);

int nine_worker(int said) {
    double began = bench_now();
    moyai_node *n = node_join("worker", true);
    moyai_ref *master = NULL, *me = node_object(n, &worker_class, NULL);
    int rc = moyai_lookup_wait(n, "master", LIMIT, &master);
    char why[400] = "";
    for (int64_t failures = 0; rc == 0; failures++) { /* these are counted, and are none to be proud of */
        rc = moyai_call(master, "hello", MOYAI_ARGS(me, began, failures, why), MOYAI_NONE, NULL);
        if (rc != MOYAI_EUNREACHABLE || moyai_node_stopping(n)) break;
        struct moyai_error e;
        moyai_last_error(n, &e);
        snprintf(why, sizeof why, "after %.3f s: %s", bench_now() - began, e.text);
        rc = 0;
    }
    if (rc < 0 && !moyai_node_stopping(n)) node_die(n, "cannot call the master", rc);
    (void)!write(said, "x", 1);
    close(said);
    (void)moyai_node_serve(n, MOYAI_FOREVER);
    moyai_ref_unref(master);
    moyai_ref_unref(me);
    moyai_node_free(n);
    return 0;
}

/* ---- the master ------------------------------------------------------------------------------ */

struct worker {
    moyai_ref *ref, *node;
    double began, came; /* when it was started; when it called */
    int cluster;
    char host[64], id[33];
    int64_t links, locating, forwarded, before;
    int *to, n_to; /* whom it is linked to */
    int distance;  /* from whom is being looked at */
};

static struct {
    moyai_node *node;
    int n, came;
    int64_t failed; /* calls that did not reach somebody at first */
    struct worker *w;
    double *x; /* scratch, n of them */
    char cluster[CLUSTERS][64];
    int n_clusters;
    unsigned seed;
    int told; /* failures that were said */
} m;

static int random_below(int n) {
    return (int)((unsigned)rand_r(&m.seed) % (unsigned)n);
}

static int m_hello(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *ref = NULL;
    double began;
    int64_t failures;
    const char *why;
    int rc = moyai_args(rq, MOYAI_INTO(&ref, &began, &failures, &why));
    if (rc < 0) return rc;
    for (int i = 0; i < m.came; i++)
        if (moyai_ref_equal(m.w[i].ref, ref)) { /* the answer to the one before did not get through */
            moyai_ref_unref(ref);
            return 0;
        }
    if (m.came == m.n) bench_die("a worker too many");
    m.failed += failures;
    if (failures && m.told++ < TOLD)
        fprintf(stderr, "a worker's call to the master, the last of %ld that failed: %s\n", (long)failures, why);
    m.w[m.came++] = (struct worker){.ref = ref, .began = began, .came = bench_now()};
    return moyai_signal(moyai_self(rq));
}

static const struct moyai_method master_methods[] = {{"hello", m_hello}, {NULL, NULL}};
static const struct moyai_class master_class = MOYAI_CLASS("Master", master_methods, NULL);

static void say(const char *what, double *x, int n, double scale, const char *unit) {
    bench_sort(x, (size_t)n);
    printf("%-40s median %.4g%s, 99 %% %.4g%s, most %.4g%s\n", what, bench_percentile(x, (size_t)n, 0.5) * scale, unit,
           bench_percentile(x, (size_t)n, 0.99) * scale, unit, x[n - 1] * scale, unit);
    fflush(stdout);
}

/* Ask all the same, some at once. take: the answer of each; false: it could not be reached, which is counted, and it is
 * asked again. */
static void ask_all(int n, int at_once, moyai_future *(*ask)(int i), bool (*take)(int i, moyai_future *f)) {
    moyai_future *f[AT_ONCE] = {0};
    for (int i = 0; i < n + at_once; i++) {
        moyai_future **at = &f[i % at_once];
        if (*at) {
            for (int tries = 0; !take(i - at_once, *at) && tries < TRIES; tries++) {
                m.failed++;
                moyai_future_free(*at);
                *at = ask(i - at_once);
            }
            moyai_future_free(*at);
        }
        *at = i < n ? ask(i) : NULL;
        if (*at) moyai_future_deadline(*at, LIMIT);
    }
}

/* Returns if it may be tried again. */
static void failed(int i, const moyai_future *f, const char *what) {
    struct moyai_error e;
    moyai_future_error(f, 0, &e);
    if (e.code == MOYAI_EUNREACHABLE) {
        if (m.told++ < TOLD) fprintf(stderr, "%s, worker %d of %s: %s\n", what, i, m.w[i].host, e.text);
        return;
    }
    errno = 0;
    bench_die("%s, worker %d of %s: %s %s", what, i, m.w[i].host, moyai_err_name(e.code), e.text);
}

/* ---- what nodes say of themselves ------------------------------------------------------------ */

static moyai_future *ask_info(int i) {
    return moyai_call_async(m.w[i].node, "info", MOYAI_NONE);
}

static int64_t number(const moyai_value *v, const char *key) {
    int64_t x = 0;
    const moyai_value *f = moyai_value_find(v, key);
    if (!f || moyai_value_get(f, MOYAI_INTO(&x)->v[0]) < 0) bench_die("a node says no %s", key);
    return x;
}

static const char *text(const moyai_value *v, const char *key) {
    const char *s = "";
    const moyai_value *f = moyai_value_find(v, key);
    if (!f || moyai_value_get(f, MOYAI_INTO(&s)->v[0]) < 0) bench_die("a node says no %s", key);
    return s;
}

static moyai_value *info_of(int i, moyai_future *f) {
    moyai_value *v = NULL;
    if (moyai_future_get(f, MOYAI_INTO(&v)) == 0) return v;
    failed(i, f, "info");
    return NULL;
}

static bool take_counts(int i, moyai_future *f) {
    moyai_value *v = info_of(i, f);
    if (!v) return false;
    m.w[i].locating = number(v, "locating");
    m.w[i].forwarded = number(v, "forwarded");
    moyai_value_free(v);
    return true;
}

static bool take_who(int i, moyai_future *f) {
    struct worker *w = &m.w[i];
    moyai_value *v = info_of(i, f);
    if (!v) return false;
    const char *site = text(v, "site");
    snprintf(w->host, sizeof w->host, "%s", text(v, "host"));
    snprintf(w->id, sizeof w->id, "%s", text(v, "node"));
    while (w->cluster < m.n_clusters && strcmp(m.cluster[w->cluster], site) != 0) w->cluster++;
    if (w->cluster == CLUSTERS) bench_die("more clusters than there are");
    if (w->cluster == m.n_clusters) snprintf(m.cluster[m.n_clusters++], sizeof m.cluster[0], "%s", site);
    moyai_value_free(v);
    return true;
}

static int find_id(const char *id) {
    for (int i = 0; i < m.n; i++)
        if (strcmp(m.w[i].id, id) == 0) return i;
    return -1; /* the master */
}

static bool take_links(int i, moyai_future *f) {
    struct worker *w = &m.w[i];
    moyai_value *v = info_of(i, f);
    if (!v) return false;
    const moyai_value *list = moyai_value_find(v, "links");
    int n = (int)moyai_value_count(list);
    w->links = number(v, "n_links");
    w->n_to = 0;
    free(w->to);
    w->to = calloc((size_t)n + 1, sizeof *w->to);
    if (!w->to) bench_die("memory");
    for (int k = 0; k < n; k++) {
        const moyai_value *l = moyai_value_at(list, (size_t)k);
        int to = find_id(text(l, "peer"));
        if (to < 0) continue;
        if (strcmp(text(l, "kind"), "unix") == 0 && strcmp(w->host, m.w[to].host) != 0)
            bench_die("a Unix socket between %s and %s", w->host, m.w[to].host);
        w->to[w->n_to++] = to;
    }
    moyai_value_free(v);
    return true;
}

/* ---- what is measured ------------------------------------------------------------------------ */

static void wait_for_all(void) {
    double told = bench_now();
    moyai_ns until = moyai_now() + (moyai_ns)LIMIT;
    while (m.came < m.n) {
        (void)moyai_sleep(m.node, 100 * MOYAI_MS);
        if (bench_now() - told > 10) {
            fprintf(stderr, "%d of %d workers have called the master\n", m.came, m.n);
            told = bench_now();
        }
        if (moyai_now() > until) bench_die("only %d of %d workers have called the master", m.came, m.n);
    }
    double first = m.w[0].began, last = 0, came = 0;
    for (int i = 0; i < m.n; i++) {
        if (m.w[i].began < first) first = m.w[i].began;
        if (m.w[i].began > last) last = m.w[i].began;
        if (m.w[i].came > came) came = m.w[i].came;
        m.x[i] = m.w[i].came - m.w[i].began;
    }
    printf("called by all %d workers after %.1f s; the last was started after %.1f s\n", m.n, came - first,
           last - first);
    say("from a worker's start to its call", m.x, m.n, 1, " s");
    printf("calls to the master that failed, and were made again: %ld\n", (long)m.failed);
    for (int i = 0; i < m.n; i++) {
        int rc = moyai_node_ref(m.node, moyai_ref_home(m.w[i].ref), &m.w[i].node);
        if (rc < 0) node_die(m.node, "node", rc);
    }
    ask_all(m.n, ASKED, ask_info, take_who);
}

static int pair_from[CLUSTERS * CLUSTERS * PAIRS], pair_to[CLUSTERS * CLUSTERS * PAIRS], n_pairs, pair_failed;
static double pair_time[CLUSTERS * CLUSTERS * PAIRS];

static moyai_future *ask_pair(int i) {
    return moyai_call_async(m.w[pair_from[i]].ref, "call", MOYAI_ARGS(m.w[pair_to[i]].ref, (int64_t)i));
}

static bool take_pair(int i, moyai_future *f) {
    int64_t y = 0;
    int rc = moyai_future_get(f, MOYAI_INTO(&y, &pair_time[i]));
    if (rc == 0 && y == i + 1) return true;
    struct moyai_error e;
    /* What became of the callee's call; what the callee says; else what became of ours. */
    for (unsigned depth = 2; moyai_future_error(f, depth, &e) < 0 && depth > 0;) depth--;
    fprintf(stderr, "from %s to %s: %s %s\n", m.w[pair_from[i]].host, m.w[pair_to[i]].host, moyai_err_name(e.code),
            e.text);
    pair_failed++;
    return true; /* that is what is counted */
}

static int any_of(int cluster) {
    for (;;) {
        int i = random_below(m.n);
        if (m.w[i].cluster == cluster) return i;
    }
}

static void call_all_pairs(void) {
    for (int a = 0; a < m.n_clusters; a++)
        for (int b = 0; b < m.n_clusters; b++)
            for (int k = 0; k < PAIRS; k++, n_pairs++) {
                pair_from[n_pairs] = any_of(a);
                do pair_to[n_pairs] = any_of(b);
                while (pair_to[n_pairs] == pair_from[n_pairs]);
            }
    ask_all(n_pairs, PAIRS_AT_ONCE, ask_pair, take_pair);
    printf("%d clusters, each calls each: %d calls, %d failed\n", m.n_clusters, n_pairs, pair_failed);
    say("first call between two", pair_time, n_pairs, 1e3, " ms");
}

static void count_links(void) {
    ask_all(m.n, ASKED, ask_info, take_links);
    double sum = 0;
    for (int i = 0; i < m.n; i++) sum += m.x[i] = (double)m.w[i].links;
    say("links of a node", m.x, m.n, 1, "");
    printf("%.0f links in all, %.1f a node, fewest %.0f\n", sum / 2, sum / m.n, m.x[0]);
}

static moyai_future *ask_memory(int i) {
    return moyai_call_async(m.w[i].ref, "memory", MOYAI_NONE);
}
static double *mem_share;
static bool take_memory(int i, moyai_future *f) {
    int64_t own = 0, share = 0;
    if (moyai_future_get(f, MOYAI_INTO(&own, &share)) < 0) {
        failed(i, f, "memory");
        return false;
    }
    m.x[i] = (double)own;
    mem_share[i] = (double)share;
    return true;
}

static void measure_memory(void) {
    mem_share = calloc((size_t)m.n, sizeof *mem_share);
    if (!mem_share) bench_die("memory");
    ask_all(m.n, ASKED, ask_memory, take_memory);
    say("memory of a process, its own", m.x, m.n, 1.0 / (1 << 20), " MiB");
    say("with its share of what is common", mem_share, m.n, 1.0 / (1 << 20), " MiB");
    free(mem_share);
}

static int cluster_called(const char *name) {
    for (int i = 0; i < m.n_clusters; i++)
        if (strcmp(m.cluster[i], name) == 0) return i;
    bench_die("no worker of %s", name);
}

/* All look up one name within a second, that of a worker there, which nobody has asked for before. */
static double locate(const char *cluster) {
    char name[64];
    int far = any_of(cluster_called(cluster));
    snprintf(name, sizeof name, "wanted in %s", cluster);
    moyai_future **f = calloc((size_t)m.n, sizeof(moyai_future *));
    if (!f) bench_die("memory");
    int rc = moyai_call(m.w[far].ref, "take", MOYAI_ARGS(name), MOYAI_NONE, NULL);
    if (rc < 0) node_die(m.node, "take", rc);
    ask_all(m.n, ASKED, ask_info, take_counts);
    int64_t before = 0, after = 0;
    for (int i = 0; i < m.n; i++) before += m.w[i].locating;
    int64_t at = (int64_t)moyai_now() + 3 * MOYAI_SEC; /* by then all have been told */
    for (int i = 0; i < m.n; i++) {
        int64_t when = at + random_below((int)LOOK_TIME);
        f[i] = moyai_call_async(m.w[i].ref, "look", MOYAI_ARGS(name, when));
        moyai_future_deadline(f[i], LIMIT);
    }
    int found = 0; /* by those who could be reached (failed) */
    for (int i = 0; i < m.n; i++) {
        if (moyai_future_get(f[i], MOYAI_INTO(&m.x[found])) == 0) {
            found++;
        } else {
            failed(i, f[i], "look");
            m.failed++;
        }
        moyai_future_free(f[i]);
    }
    free(f);
    if (found < m.n) printf("%d of %d could not be reached\n", m.n - found, m.n);
    if (found > 0) say("all look up one name within a second", m.x, found, 1e3, " ms");
    ask_all(m.n, ASKED, ask_info, take_counts);
    for (int i = 0; i < m.n; i++) after += m.w[i].locating;
    double each = (double)(after - before) / m.n;
    printf("frames to locate it, in %s: %.1f a worker\n", cluster, each);
    fflush(stdout);
    return each;
}

/* ---- through relays -------------------------------------------------------------------------- */

static void distances(int from) {
    int *queue = calloc((size_t)m.n, sizeof *queue), first = 0, n = 0;
    if (!queue) bench_die("memory");
    for (int i = 0; i < m.n; i++) m.w[i].distance = -1;
    m.w[from].distance = 0;
    queue[n++] = from;
    while (first < n) {
        const struct worker *w = &m.w[queue[first++]];
        for (int k = 0; k < w->n_to; k++)
            if (m.w[w->to[k]].distance < 0) {
                m.w[w->to[k]].distance = w->distance + 1;
                queue[n++] = w->to[k];
            }
    }
    free(queue);
}

/* Who has passed on most of so many calls and their answers? What the questions themselves make is less. */
static int relays_of(int a, int b, int calls) {
    int n = 0;
    for (int i = 0; i < m.n; i++)
        if (i != a && i != b && m.w[i].forwarded - m.w[i].before > 3 * calls / 2) n++;
    return n;
}

static void through_relays(void) {
    double rate[RELAYS][TRIED * RELAYS], trip[RELAYS][TRIED * RELAYS];
    int n[RELAYS] = {0}, tried[RELAYS + 1] = {0};
    int calls = 500 + 2 * m.n; /* one after the other: more than the frames of our questions that pass a relay */
    for (int round = 0; round < 8 * TRIED; round++) {
        int a = round % 2 ? any_of(round / 2 % m.n_clusters) : random_below(m.n);
        distances(a);
        for (int want = 0; want < RELAYS; want++) {
            if (tried[want] == TRIED) continue;
            int b = -1, seen = 0;
            for (int i = 0; i < m.n; i++)
                if (m.w[i].distance == want + 1 && random_below(++seen) == 0) b = i;
            if (b < 0) continue;
            tried[want]++;
            double one = 0, burst = 0;
            ask_all(m.n, ASKED, ask_info, take_counts);
            for (int i = 0; i < m.n; i++) m.w[i].before = m.w[i].forwarded;
            int rc = moyai_call(m.w[a].ref, "one", MOYAI_ARGS(m.w[b].ref, (int64_t)calls), MOYAI_INTO(&one), NULL);
            if (rc < 0) node_die(m.node, "one after the other", rc);
            ask_all(m.n, ASKED, ask_info, take_counts);
            int relays = relays_of(a, b, calls);
            rc = moyai_call(m.w[a].ref, "burst", MOYAI_ARGS(m.w[b].ref, (int64_t)BURST), MOYAI_INTO(&burst), NULL);
            if (rc < 0) node_die(m.node, "several at once", rc);
            if (relays >= RELAYS || n[relays] == TRIED * RELAYS) continue;
            trip[relays][n[relays]] = one / calls;
            rate[relays][n[relays]++] = BURST / burst;
        }
    }
    for (int i = 0; i < RELAYS; i++) {
        if (n[i] == 0) {
            printf("through %d relays: no two such workers\n", i);
            continue;
        }
        bench_sort(rate[i], (size_t)n[i]);
        bench_sort(trip[i], (size_t)n[i]);
        printf("through %d relays: %.0f calls/s, %.3f ms a call alone (medians of %d pairs)\n", i,
               bench_percentile(rate[i], (size_t)n[i], 0.5), bench_percentile(trip[i], (size_t)n[i], 0.5) * 1e3, n[i]);
    }
    fflush(stdout);
}

int nine_master(int n) {
    m.n = n;
    m.seed = (unsigned)time(NULL);
    printf("seed %u\n", m.seed);
    m.w = calloc((size_t)n, sizeof *m.w);
    m.x = calloc((size_t)n, sizeof *m.x);
    if (!m.w || !m.x) bench_die("memory");
    m.node = node_join("master", false);
    moyai_ref *me = node_object(m.node, &master_class, NULL);
    int rc = moyai_register(me, "master");
    if (rc < 0) node_die(m.node, "register", rc);
    fputs("ready\n", stdout);
    fflush(stdout);
    wait_for_all();
    call_all_pairs();
    count_links();
    measure_memory();
    double near = locate("hongo"), far = locate("istbs"); /* the farthest: by the lines only */
    count_links();
    through_relays();
    printf("calls that failed, all in all: %ld\n", (long)m.failed + pair_failed);
    const struct bench_demand d[] = {{NULL, near > far ? near : far, 100, true},
                                     {"failed-calls", (double)(pair_failed + m.failed), 0, true}};
    int status = bench_end(d, 2);
    for (int i = 0; i < n; i++) {
        moyai_ref_unref(m.w[i].ref);
        moyai_ref_unref(m.w[i].node);
        free(m.w[i].to);
    }
    moyai_ref_unref(me);
    moyai_node_free(m.node);
    free(m.w);
    free(m.x);
    return status;
}
