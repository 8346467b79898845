/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who shares a relay? First: a transfer of bulk between two nodes, through a relay whose links take 20 Mbit/s; how much
 * later than without it is a small call through the same relay and over the same link answered? At most by 256 KiB on
 * their way at that rate, and 2 ms. (1 GiB would take seven minutes: the transfer lasts as long as the calls do.) Then:
 * 1,000 sessions at once through one relay that may lend 8 MiB, each with an array for a node that takes its time: how
 * much does the relay's memory grow? Beside what it lends each path has a little of its own, in each direction.
 */
#include "bench/apart.h"
#include "overlay/relay.h"

#define RATE     2500000 /* bytes/s: 20 Mbit/s */
#define QUEUED   (256 * 1024)
#define CALLS    40
#define LARGE    (256u << 20) /* bytes of the transfer: more than there is time for */
#define MEMORY   (8u << 20)
#define NODES    46 /* each calls those after it; a node takes 48 links */
#define SESSIONS (NODES * (NODES - 1) / 2)
#define SMALL    (128u * 1024)
#define PER_PATH (2u * RELAY_OWN + 4096u) /* of its own, and what it takes to keep account of it */

static int m_take(moyai_request *rq, void *self) {
    (void)self;
    const void *p;
    size_t n;
    return moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n)));
}

static const struct moyai_method methods[] = {{"take", m_take}, {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Callee", methods, NULL);

/* ---- a small call beside a large one --------------------------------------------------------- */

static double median_call(moyai_node *n, moyai_ref *callee) {
    double a[CALLS];
    for (int i = 0; i < CALLS; i++) {
        double t = bench_now();
        int rc = moyai_call(callee, "take", MOYAI_ARGS(moyai_bytes("small", 5)), MOYAI_NONE, NULL);
        if (rc < 0) apart_die(n, rc);
        a[i] = bench_now() - t;
        (void)moyai_sleep(n, 10 * MOYAI_MS);
    }
    bench_sort(a, CALLS);
    return bench_percentile(a, CALLS, 0.95);
}

/* 'c': calls, 'b': bulk, which does not end. */
static double sample(moyai_node *n, moyai_ref *callee, char what) {
    if (what == 'c') return median_call(n, callee);
    uint8_t *p = calloc(LARGE, 1);
    if (!p) bench_die("out of memory");
    for (;;) {
        int rc = moyai_call(callee, "take", MOYAI_ARGS(moyai_bytes(p, LARGE)), MOYAI_NONE, NULL);
        if (rc < 0) apart_die(n, rc);
    }
}

static double beside_bulk(void) {
    struct apart a;
    char place[32], rate[32];
    apart_begin(&a);
    apart_place(place);
    snprintf(rate, sizeof rate, "%d", RATE);
    setenv("MOYAI_LINK_RATE", rate, 1);
    pid_t relay = apart_serve(&a, "relay", place, place, NULL, NULL, NULL);
    apart_await(place);
    unsetenv("MOYAI_LINK_RATE");
    pid_t callee = apart_serve(&a, "callee", place, NULL, NULL, &cls, NULL);
    const struct caller small = apart_caller(&a, "small", place, "callee", NULL, sample),
                        bulk = apart_caller(&a, "bulk", place, "callee", NULL, sample);
    (void)apart_take(&small, 'c');
    double alone = apart_take(&small, 'c');
    apart_ask(&bulk, 'b');
    (void)apart_take(&small, 'c'); /* until the transfer has what credit it can get */
    double beside = apart_take(&small, 'c');
    printf("small call through a relay, 95th percentile:  %.1f ms alone, %.1f ms beside bulk over its 20 Mbit/s link\n",
           alone * 1e3, beside * 1e3);
    apart_kill(small.pid);
    apart_kill(bulk.pid);
    apart_kill(callee);
    apart_kill(relay);
    apart_end(&a);
    return (beside - alone) * 1e3;
}

/* ---- many sessions --------------------------------------------------------------------------- */

static size_t process_memory(pid_t pid, const char *what) {
    char path[48], line[128];
    size_t kb = 0, n = strlen(what);
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, what, n) == 0) kb = strtoul(line + n + 1, NULL, 10);
    if (!f || !kb) bench_die("%s", path);
    fclose(f);
    return kb * 1024;
}

/* 0..NODES - 1: find all that have a higher number than this one; 's': a small call to each; 'l': a large one, to all
 * at once. */
static double sample_many(moyai_node *n, moyai_ref *none, char what) {
    static moyai_ref *all[NODES];
    static uint8_t bytes[SMALL];
    static int first;
    moyai_future *f[NODES];
    (void)none;
    if (what < NODES) first = what + 1;
    for (int i = first; i < NODES; i++) {
        char name[32];
        snprintf(name, sizeof name, "node%d", i);
        int rc = what < NODES ? moyai_lookup_wait(n, name, APART_LIMIT, &all[i]) : 0;
        if (rc < 0) apart_die(n, rc);
    }
    if (what < NODES) return 0;
    for (int i = first; i < NODES; i++)
        f[i] = moyai_call_async(all[i], "take", MOYAI_ARGS(moyai_bytes(bytes, what == 's' ? 8 : SMALL)));
    for (int i = first; i < NODES; i++) {
        int rc = moyai_future_get(f[i], MOYAI_NONE);
        if (rc < 0) apart_die(n, rc);
        moyai_future_free(f[i]);
    }
    return 0;
}

/* what: 0: each its number. */
static void all_take(const struct caller *c, char what) {
    for (int i = 0; i < NODES; i++) apart_ask(&c[i], what ? what : (char)i);
    for (int i = 0; i < NODES; i++) (void)apart_answer(&c[i]);
}

static double many(void) {
    struct apart a;
    char place[32], memory[32], name[32];
    struct caller c[NODES];
    apart_begin(&a);
    apart_place(place);
    snprintf(memory, sizeof memory, "%u", MEMORY);
    setenv("MOYAI_RELAY_MEMORY", memory, 1);
    setenv("MOYAI_LINK_RATE", "1000000", 1);
    setenv("MOYAI_DEGREE", "16", 1);
    pid_t relay = apart_serve(&a, "relay", place, place, NULL, NULL, NULL);
    apart_await(place);
    unsetenv("MOYAI_RELAY_MEMORY");
    unsetenv("MOYAI_LINK_RATE");
    unsetenv("MOYAI_DEGREE");
    a.own_thread = true;
    for (int i = 0; i < NODES; i++) {
        snprintf(name, sizeof name, "node%d", i);
        c[i] = apart_caller(&a, name, place, NULL, &cls, sample_many);
    }
    all_take(c, 0);
    size_t before = process_memory(relay, "VmRSS:");
    all_take(c, 's');
    size_t paths = process_memory(relay, "VmHWM:");
    double t = bench_now();
    all_take(c, 'l');
    t = bench_now() - t;
    size_t most = process_memory(relay, "VmHWM:") - before;
    double allowed = MEMORY + (double)SESSIONS * PER_PATH;
    printf("%d sessions through a relay that lends %u MiB: it grows by %.1f MiB when they begin, by %.1f MiB at most "
           "while each sends %u KiB at once (%.1f s); allowed %.1f MiB\n",
           SESSIONS, MEMORY >> 20, (double)(paths - before) / (1 << 20), (double)most / (1 << 20), SMALL >> 10, t,
           allowed / (1 << 20));
    for (int i = 0; i < NODES; i++) apart_kill(c[i].pid);
    apart_kill(relay);
    apart_end(&a);
    return (double)most / allowed;
}

int main(void) {
    double later = beside_bulk();
    const struct bench_demand d[] = {{NULL, later / ((double)QUEUED / RATE * 1e3 + 2), 1, true},
                                     {"memory", many(), 1, true}};
    printf("a small call comes %.1f ms later; allowed %.1f ms\n", later, (double)QUEUED / RATE * 1e3 + 2);
    return bench_end(d, 2);
}
