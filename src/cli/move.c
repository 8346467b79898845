/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai move: have an object move to another node. Its own node does that, and calls an object of this one when it is
 * over: methods of the object may be in progress for long.
 */
#include "base/dur.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/crawl.h"
#include "cli/observe.h"
#include "cli/seek.h"
#include "cli/value_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOK     (50 * MOYAI_MS)
#define LOOK_FAR 20 /* looks, between questions whether its node is there still */

enum { KEY_DEADLINE = 0x100 };

struct request {
    struct observe_opts o;
    const char *object, *node;
    moyai_dur deadline;
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *q = state->input;
    cli_help(key, state);
    if (observe_option(key, arg, state, &q->o)) return 0;
    switch (key) {
    case KEY_DEADLINE:
        q->deadline = cli_duration(state, "deadline", arg);
        if (q->deadline <= 0) cli_usage(state, "--deadline: '%s' is no time at all", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (q->node) cli_usage(state, "unknown argument '%s'", arg);
        cli_filled(state, q->object ? "the name of the node" : "the name of the object", arg);
        *(q->object ? &q->node : &q->object) = arg;
        return 0;
    case ARGP_KEY_END:
        if (!q->object) cli_usage(state, "which object? A reference or a name");
        if (!q->node) cli_usage(state, "to which node? Its id or the beginning of it, a name or a reference");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct moving_on {
    struct observer *o;
    const struct request *q;
    moyai_ref *object, *judge;
    struct moyai_node_id to;
    char called[160]; /* that */
    bool over;
    moyai_ns at; /* when */
    int rc;
    char why[MOYAI_ERROR_TEXT];
};

static int on_moved(moyai_request *rq, void *self) {
    struct moving_on *m = self;
    int code;
    const char *text;
    int rc = moyai_args(rq, MOYAI_INTO(&code, &text));
    if (rc < 0) return rc;
    m->rc = code;
    snprintf(m->why, sizeof m->why, "%s", text);
    m->at = moyai_now();
    m->over = true;
    return 0;
}

static const struct moyai_method judge_methods[] = {{"moved", on_moved}, {NULL, NULL}};
static const struct moyai_class judge_class = MOYAI_CLASS("moyai move", judge_methods, NULL);

/* A method of a node itself. */
static int ask(const struct moving_on *m, struct moyai_node_id node, const char *method, const struct moyai_args *args,
               moyai_value **ret, struct moyai_error *why) {
    moyai_ref *home = NULL;
    if (moyai_node_ref(m->o->node, node, &home) < 0) return err_set(why, MOYAI_ENOMEM, "out of memory");
    moyai_future *f = moyai_call_async(home, method, args);
    moyai_future_deadline(f, m->q->o.timeout);
    const int rc = moyai_future_get(f, MOYAI_INTO(ret));
    if (rc < 0) (void)moyai_future_error(f, 0, why);
    moyai_future_free(f);
    moyai_ref_unref(home);
    return rc;
}

static int find_node(struct moving_on *m, struct moyai_error *why) {
    moyai_value *info = NULL;
    int rc = seek_node(m->o, m->q->node, m->q->o.timeout, &m->to, NULL, why);
    if (rc < 0) return rc;
    rc = ask(m, m->to, "info", MOYAI_NONE, &info, why);
    if (rc < 0) seek_unanswered(m->o, m->q->node, m->to, m->q->o.timeout, why);
    char title[64], host[65]; /* no host's name is longer */
    clean_cut(title, sizeof title, info_text(info, "title"));
    clean_cut(host, sizeof host, info_text(info, "host"));
    if (rc == 0) snprintf(m->called, sizeof m->called, "node %.8s (%s, %s)", info_text(info, "node"), title, host);
    moyai_value_free(info);
    return rc;
}

static int find_object(struct moving_on *m, struct moyai_error *why) {
    char text[MOYAI_REF_TEXT]; /* "moyai:OBJECT@NODE" */
    int rc = observer_find(m->o, m->q->object, &m->object, why);
    if (rc < 0) seek_hint(m->q->object, why);
    if (rc == 0) moyai_ref_format(m->object, text);
    if (rc == 0 && strncmp(text + 6, text + 39, 32) == 0) {
        moyai_ref_unref(m->object);
        m->object = NULL;
        return err_set(why, MOYAI_EINVAL, "'%s' is a node, which does not move: name an object of it", m->q->object);
    }
    return rc;
}

/* A reference says where it was; from its first move on it has a name that is its id's. */
static bool find_again(struct moving_on *m) {
    char text[MOYAI_REF_TEXT], name[40];
    moyai_ref *now = NULL;
    moyai_ref_format(m->object, text);
    snprintf(name, sizeof name, "@%.32s", text + 6);
    if (moyai_lookup(m->o->node, name, &now) < 0) return false;
    const bool elsewhere = !moyai_node_id_equal(moyai_ref_home(now), moyai_ref_home(m->object));
    moyai_ref_unref(m->object);
    m->object = now;
    return elsewhere;
}

static int begin(struct moving_on *m, struct moyai_error *why) {
    char to[33];
    moyai_value *yes = NULL;
    const double s = m->q->deadline == MOYAI_FOREVER ? INFINITY : (double)m->q->deadline * 1e-9;
    moyai_node_id_format(m->to, to);
    int rc;
    do rc = ask(m, moyai_ref_home(m->object), "move", MOYAI_ARGS(m->object, to, s, m->judge), &yes, why);
    while (rc < 0 && rc != MOYAI_ESTATE && rc != MOYAI_EBUSY && find_again(m));
    moyai_value_free(yes);
    if (rc < 0) seek_unanswered(m->o, m->q->object, moyai_ref_home(m->object), m->q->o.timeout, why);
    return rc;
}

/* Until it is over; its node may end meanwhile. */
static int await(struct moving_on *m, struct moyai_error *why) {
    const struct moyai_node_id from = moyai_ref_home(m->object);
    for (int looks = 0; !m->over && !moyai_node_stopping(m->o->node); looks++) {
        (void)moyai_sleep(m->o->node, LOOK);
        moyai_value *yes = NULL;
        const int rc = looks % LOOK_FAR == LOOK_FAR - 1 && !m->over ? ask(m, from, "ping", MOYAI_NONE, &yes, why) : 0;
        moyai_value_free(yes);
        if (rc < 0 && rc != MOYAI_ETIMEDOUT && !m->over)
            return err_prefix(why, "it is not known whether it has moved: its node cannot say any more");
    }
    return m->rc < 0 ? err_set(why, m->rc, "it stays where it is: %s", m->why) : 0;
}

static void print(const struct moving_on *m, struct moyai_node_id from, double seconds) {
    char object[MOYAI_REF_TEXT], of[33], to[33];
    const bool was_there = moyai_node_id_equal(from, m->to);
    moyai_ref_format(m->object, object);
    moyai_node_id_format(from, of);
    moyai_node_id_format(m->to, to);
    char *at = strchr(object, '@');
    if (at) snprintf(at + 1, (size_t)(object + sizeof object - at - 1), "%s", to);
    if (m->q->o.json) {
        printf("{\"object\": \"%s\", \"from\": \"%s\", \"to\": \"%s\", \"seconds\": %.6f}\n", object, of, to, seconds);
        return;
    }
    print_clean(stdout, m->q->object);
    fputs(was_there ? " is there already: " : " has moved to ", stdout);
    print_clean(stdout, m->called);
    if (!was_there) printf(" in %.3f s", seconds);
    printf("\n%s\n", object);
}

static int run(struct moving_on *m, struct moyai_error *why) {
    int rc = find_object(m, why);
    if (rc == 0) rc = find_node(m, why);
    if (rc == 0) rc = moyai_object_new(m->o->node, &judge_class, m, &m->judge, why);
    const moyai_ns began = moyai_now();
    if (rc == 0) rc = begin(m, why);
    if (rc < 0) return rc;
    const struct moyai_node_id from = moyai_ref_home(m->object);
    rc = await(m, why);
    if (rc == 0 && m->over) print(m, from, (double)(m->at - began) * 1e-9);
    return rc;
}

int cli_move(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"deadline", KEY_DEADLINE, "TIME", 0,
         "It stays if its methods in progress have not ended by then (default 30s)", 0},
        OBSERVE_OPTIONS("How long to wait for each answer (default 5s)", "Print one JSON object"),
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "NAME|REF NODE",
        .doc =
            "Moves an object to another node, while others call it. Its class has to be one that moves, and the node "
            "one that takes it.\v"
            "NODE is a node's id or its beginning; a NAME or a reference REF stands for the node of that "
            "object.\n\n" CLI_TIME_FORM,
    };
    struct request q = {.o.timeout = 5 * MOYAI_SEC, .deadline = 30 * MOYAI_SEC};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    struct observer o;
    int status = observer_join(&o, argv[0], &q.o);
    if (status) return status;
    struct moving_on m = {.o = &o, .q = &q};
    struct moyai_error why = {0};
    const int rc = run(&m, &why);
    status = m.over ? 0 : seek_interrupted(&o, q.o.json);
    if (status == CLI_OK && rc < 0) {
        observer_failed(argv[0], q.o.json, why.code, why.text);
        status = CLI_FAILED;
    }
    moyai_ref_unref(m.object);
    moyai_ref_unref(m.judge);
    observer_leave(&o);
    return status;
}
