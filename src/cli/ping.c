/* SPDX-License-Identifier: Apache-2.0 */
/* moyai ping: round trips to a node through its runtime, as ping(8) measures those to a host. */
#include "base/config.h"
#include "base/dur.h"
#include "base/id.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/observe.h"
#include "cli/seek.h"
#include "node/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct observe_opts o;
    const char *target;
    int64_t count; /* 0: until asked to end */
    moyai_dur interval;
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    if (observe_option(key, arg, state, &r->o) || observe_target(key, arg, state, &r->target)) return 0;
    switch (key) {
    case 'c':
        if (config_parse_integer(arg, &r->count) < 0 || r->count < 1)
            cli_usage(state, "--count: '%s' is not a number of 1 or more", arg);
        return 0;
    case 'i':
        r->interval = cli_duration(state, "interval", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct statistics {
    int64_t sent, answered;
    double least, most, sum, squares; /* ms */
};

static void add(struct statistics *s, double ms) {
    if (s->answered == 0 || ms < s->least) s->least = ms;
    if (s->answered == 0 || ms > s->most) s->most = ms;
    s->answered++;
    s->sum += ms;
    s->squares += ms * ms;
}

static void report(const struct statistics *s, const char *id, double seconds, bool json) {
    double n = s->answered > 0 ? (double)s->answered : 1, mean = s->sum / n, spread = s->squares / n - mean * mean;
    double deviation = spread > 0 ? sqrt(spread) : 0;
    double lost = s->sent > 0 ? 100.0 * (double)(s->sent - s->answered) / (double)s->sent : 0;
    if (json) {
        printf("{\"node\": \"%s\", \"sent\": %lld, \"answered\": %lld, \"seconds\": %.3f", id, (long long)s->sent,
               (long long)s->answered, seconds);
        if (s->answered > 0)
            printf(", \"min_ms\": %.6f, \"avg_ms\": %.6f, \"max_ms\": %.6f, \"mdev_ms\": %.6f", s->least, mean, s->most,
                   deviation);
        printf("}\n");
        return;
    }
    printf("\n--- node %.8s: statistics ---\n%lld sent, %lld answered, %.3g%% lost, in %.3f s\n", id,
           (long long)s->sent, (long long)s->answered, lost, seconds);
    if (s->answered > 0)
        printf("round trip min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", s->least, mean, s->most, deviation);
}

static void say_lost(const struct observer *o, moyai_ref *node, int64_t seq, int rc, const struct request *q) {
    struct moyai_error e;
    char text[JSON_WORST * (MOYAI_ERROR_TEXT + 200)], all[MOYAI_ERROR_TEXT + 200];
    moyai_last_error(o->node, &e);
    const char *reason = rc == MOYAI_ETIMEDOUT ? seek_silence(o, moyai_ref_home(node), &e) : "";
    snprintf(all, sizeof all, "%s%s%s", e.text, *reason ? ": " : "", reason);
    if (q->o.json) {
        size_t n = json_escape(text, all, strlen(all));
        printf("{\"seq\": %lld, \"error\": \"%s\", \"text\": \"%.*s\"}\n", (long long)seq, moyai_err_name(rc), (int)n,
               text);
    } else if (rc == MOYAI_ETIMEDOUT) {
        printf("no answer: seq=%lld, within %s: %s\n", (long long)seq, DUR(q->o.timeout), reason);
    } else {
        printf("no answer: seq=%lld, ", (long long)seq);
        print_clean(stdout, e.text);
        printf("\n");
    }
}

/* By a call of the node itself: it goes the way of all calls, through others if need be. */
static int ping_once(moyai_ref *node, const struct request *q) {
    moyai_future *f = moyai_call_async(node, "ping", MOYAI_NONE);
    moyai_future_deadline(f, q->o.timeout);
    int rc = moyai_future_get_masked(f, MOYAI_NONE);
    moyai_future_free(f);
    return rc;
}

static int ping(struct observer *o, moyai_ref *node, const struct request *q) {
    struct statistics s = {0};
    char id[33];
    bool over = false;
    moyai_node_id_format(moyai_ref_home(node), id);
    moyai_ns begin = moyai_now(), next = begin;
    for (int64_t seq = 1; !over; seq++) {
        moyai_ns sent = moyai_now();
        int rc = ping_once(node, q);
        double ms = (double)(moyai_now() - sent) * 1e-6;
        s.sent++;
        if (rc < 0)
            say_lost(o, node, seq, rc, q);
        else if (q->o.json)
            printf("{\"seq\": %lld, \"ms\": %.6f}\n", (long long)seq, ms);
        else
            printf("answer of node %.8s: seq=%lld time=%.3f ms\n", id, (long long)seq, ms);
        if (rc == 0) add(&s, ms);
        if (fflush(stdout) != 0) return CLI_FAILED; /* the end of the process says why */
        /* What has died, or left, will not answer any more. */
        over = seq == q->count || rc == MOYAI_EDEAD || rc == MOYAI_ECLOSED || moyai_node_stopping(o->node);
        moyai_ns now = moyai_now();
        next += (moyai_ns)q->interval;
        if (next < now) next = now;
        if (!over) over = moyai_node_serve(o->node, (moyai_dur)(next - now)) == 0; /* a signal */
    }
    report(&s, id, (double)(moyai_now() - begin) * 1e-9, q->o.json);
    return s.answered > 0 ? CLI_OK : CLI_FAILED;
}

int cli_ping(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"count", 'c', "COUNT", 0, "How many (default: until interrupted)", 0},
        {"interval", 'i', "TIME", 0, "From the beginning of one to that of the next (default 1s)", 0},
        OBSERVE_OPTIONS("How long to wait for an answer (default 2s)",
                        "Print one JSON object a line; the last is the statistics"),
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "NODE|NAME|REF",
        .doc = "Measures round trips to a node of the grid. Its runtime answers, not its methods: also while it "
               "computes.\v"
               "NODE is a node's id or its beginning; a NAME or a reference REF stands for the node of that "
               "object.\n\n" CLI_TIME_FORM,
    };
    struct request q = {.interval = MOYAI_SEC, .o.timeout = 2 * MOYAI_SEC};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    struct observer o;
    int status = observer_join(&o, argv[0], &q.o);
    if (status) return status;
    struct moyai_error why = {0};
    struct moyai_node_id id;
    moyai_ref *node = NULL;
    int rc = seek_node(&o, q.target, q.o.timeout, &id, NULL, &why);
    if (rc == 0 && (rc = moyai_node_ref(o.node, id, &node)) < 0) moyai_last_error(o.node, &why);
    if (rc == 0) {
        status = ping(&o, node, &q);
    } else if (!(status = seek_interrupted(&o, q.o.json))) {
        observer_failed(argv[0], q.o.json, why.code, why.text);
        status = CLI_FAILED;
    }
    moyai_ref_unref(node);
    observer_leave(&o);
    return status;
}
