/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of bench/ninecluster and bench/figure5 that are nodes begin with; who fails ends with a word. */
#ifndef BENCH_NODE_H
#define BENCH_NODE_H

#include "bench/bench.h"
#include <moyai.h>

static inline _Noreturn void node_die(moyai_node *n, const char *what, int rc) {
    struct moyai_error e;
    moyai_last_error(n, &e);
    errno = 0;
    bench_die("%s: %s %s", what, moyai_err_name(rc), e.text);
}

static inline moyai_node *node_join(const char *title, bool signals) {
    moyai_node *n;
    struct moyai_error e;
    struct moyai_node_opts o = MOYAI_NODE_OPTS_INIT;
    o.title = title;
    o.signals = signals;
    errno = 0;
    if (moyai_node_new(&n, &o, &e) < 0) bench_die("%s", e.text);
    return n;
}

static inline moyai_ref *node_object(moyai_node *n, const struct moyai_class *cls, void *self) {
    moyai_ref *ref;
    struct moyai_error e;
    errno = 0;
    if (moyai_object_new(n, cls, self, &ref, &e) < 0) bench_die("%s", e.text);
    return ref;
}

#endif
