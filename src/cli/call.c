/* SPDX-License-Identifier: Apache-2.0 */
/* moyai call: one call from the shell. Values are JSON, both ways (value_json.h). */
#include "base/dur.h"
#include "base/err.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/observe.h"
#include "cli/seek.h"
#include "cli/value_json.h"
#include "node/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_ONEWAY = 0x100 };
enum { ARGS_MOST = 1000 };

struct request {
    struct observe_opts o;
    const char *target, *method;
    bool oneway;
    size_t n;
    json_t *given[ARGS_MOST];
    moyai_value *value[ARGS_MOST];
    size_t bad; /* the first argument that is no JSON, and why: --json may follow it. 0: none */
    struct moyai_error why;
};

static void add_argument(struct request *r, const char *json, const struct argp_state *state) {
    if (r->n == ARGS_MOST) cli_usage(state, "more than %d arguments", ARGS_MOST);
    if (!r->bad && value_json_read(json, &r->given[r->n], &r->why) < 0) r->bad = r->n + 1;
    r->n++;
}

static void check_arguments(struct request *r, const struct argp_state *state) {
    if (!r->bad) return;
    err_prefix(&r->why, "argument %zu", r->bad);
    observer_print_error(r->o.json, r->why.code, r->why.text);
    cli_usage(state, "%s", r->why.text);
}

/* -5 is an argument, not an option: to argp it is the option '5', or, as in -25, '2' with the value "5". */
static void add_negative(struct request *r, char first, const char *rest, const struct argp_state *state) {
    char *json;
    if (!r->method) cli_usage(state, "'-%c%s' is neither an object nor a method", first, rest ? rest : "");
    if (asprintf(&json, "-%c%s", first, rest ? rest : "") < 0) argp_failure(state, CLI_FAILED, 0, "out of memory");
    add_argument(r, json, state);
    free(json);
}

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    if (observe_option(key, arg, state, &r->o)) return 0;
    if (key >= '0' && key <= '9') {
        add_negative(r, (char)key, arg, state);
        return 0;
    }
    switch (key) {
    case KEY_ONEWAY:
        r->oneway = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!r->target) {
            cli_filled(state, "the name of the object", arg);
            r->target = arg;
        } else if (!r->method) {
            if (!*arg || strlen(arg) > 255) cli_usage(state, "a method's name has 1 to 255 bytes");
            r->method = arg;
        } else {
            add_argument(r, arg, state);
        }
        return 0;
    case ARGP_KEY_END:
        if (!r->target) cli_usage(state, "which object? A reference, a name, or a node's id or its beginning");
        if (!r->method) cli_usage(state, "which method?");
        check_arguments(r, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

static const char *where_text(enum moyai_where w) {
    switch (w) {
    case MOYAI_AT_CALLER:
        return "caller";
    case MOYAI_AT_METHOD:
        return "method";
    case MOYAI_AT_PATH:
        return "path";
    case MOYAI_AT_PEER:
        return "peer";
    }
    return "?";
}

static const char *executed_text(enum moyai_executed e) {
    switch (e) {
    case MOYAI_MAY_HAVE_EXECUTED:
        return "may have been executed";
    case MOYAI_NEVER_EXECUTED:
        return "never executed";
    case MOYAI_WAS_EXECUTED:
        return "executed";
    }
    return "?";
}

/* One level: on standard error for people; as an item of the list "error" on standard output. */
static void print_level(const char *title, unsigned level, const struct moyai_error *e, bool json) {
    char origin[33];
    moyai_node_id_format(e->origin, origin);
    bool known = strspn(origin, "0") != 32;
    fprintf(stderr, "%s: %s", title, level > 0 ? "because: " : "");
    if (e->code <= -1000)
        fprintf(stderr, "code %d", e->code);
    else
        fputs(moyai_err_name(e->code), stderr);
    fputs(": ", stderr);
    print_clean(stderr, e->text[0] ? e->text : moyai_strerror(e->code));
    fprintf(stderr, " (at the %s%s%.8s; %s)\n", where_text(e->where), known ? ", said node " : "", known ? origin : "",
            executed_text(e->executed));
    if (!json) return;
    printf("%s{\"code\": %d, \"name\": ", level > 0 ? ", " : "{\"error\": [", e->code);
    json_print_text(stdout, moyai_err_name(e->code), strlen(moyai_err_name(e->code)));
    printf(", \"text\": ");
    json_print_text(stdout, e->text, strlen(e->text));
    printf(", \"where\": \"%s\", \"executed\": \"%s\", \"origin\": %s%s%s}", where_text(e->where),
           executed_text(e->executed), known ? "\"" : "", known ? origin : "null", known ? "\"" : "");
}

static void print_errors(const struct observer *o, const moyai_ref *ref, const char *title, const moyai_future *f,
                         const struct request *q) {
    struct moyai_error e;
    for (unsigned level = 0; moyai_future_error(f, level, &e) != 0; level++) {
        if (level == 0 && e.executed == MOYAI_NEVER_EXECUTED && !seek_way(o, moyai_ref_home(ref)))
            seek_unanswered(o, q->target, moyai_ref_home(ref), q->o.timeout, &e);
        print_level(title, level, &e, q->o.json);
    }
    if (q->o.json) printf("]}\n");
}

static int print_error(const char *title, const struct moyai_error *e, const struct request *q) {
    print_level(title, 0, e, q->o.json);
    if (q->o.json) printf("]}\n");
    return CLI_FAILED;
}

/* The argument that the text of a method's node is about: "arguments of 'sum': value 1: ..."; 0: about none. */
static size_t argument_in(const char *text) {
    const char *p = strncmp(text, "arguments of '", 14) == 0 ? strstr(text, "': value ") : NULL;
    return p ? strtoul(p + 9, NULL, 10) : 0;
}

/* An array that is not empty. */
static bool is_of_integers(const json_t *array) {
    size_t n = 0;
    while (json_is_integer(json_array_get(array, n))) n++;
    return n > 0 && n == json_array_size(array);
}

/* The method knows nothing of JSON: how what it expects is written here. */
static void print_hint(const char *title, const struct moyai_error *e, const struct request *q) {
    static const char expected[] = "where array of ";
    size_t i = argument_in(e->text);
    if (e->where != MOYAI_AT_METHOD || i == 0 || i > q->n) return;
    const json_t *given = q->given[i - 1];
    const char *want = strstr(e->text, expected);
    const char *mark = want ? value_json_mark(want + strlen(expected)) : NULL;
    if (e->code == MOYAI_ETYPE && json_is_array(given) && mark) {
        bool doubles = strcmp(mark, "f64") == 0 && is_of_integers(given);
        cli_say(title, "argument %zu: such an array is written {\"$%s\": [...]}%s: moyai-call(1)", i, mark,
                doubles ? ", or with a point in one of its numbers, as in [1.0, 2]" : "");
    } else if (e->code == MOYAI_ETYPE && strstr(e->text, "where bytes is expected")) {
        cli_say(title, "argument %zu: bytes are written in base64, {\"$bytes\": \"...\"}: moyai-call(1)", i);
    } else if (e->code == MOYAI_ETYPE && strstr(e->text, "where reference is expected")) {
        cli_say(title, "argument %zu: a reference is written {\"$ref\": \"moyai:...\"}: moyai-call(1)", i);
    } else if (e->code == MOYAI_ERANGE && json_is_real(given) && strstr(e->text, "does not fit float")) {
        cli_say(title, "argument %zu: a number to be rounded to float is written {\"$f32\": %g}: moyai-call(1)", i,
                json_real_value(given));
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

static int print_results(const struct observer *o, moyai_future *f, const char *title, const struct request *q) {
    size_t n = node_results(f);
    moyai_value **v = calloc(n + 1, sizeof(moyai_value *));
    struct moyai_into_arg *into = calloc(n + 1, sizeof *into);
    struct moyai_error e = {0};
    int rc = v && into ? 0 : err_set(&e, MOYAI_ENOMEM, "out of memory for %zu results", n);
    for (size_t i = 0; i < n && rc == 0; i++) into[i] = (struct moyai_into_arg){.tag = MOYAI_T_VALUE, .p = &v[i]};
    if (rc == 0 && (rc = moyai_future_get(f, &(struct moyai_into){into, n})) < 0) moyai_last_error(o->node, &e);
    if (rc < 0) {
        (void)print_error(title, &e, q);
    } else if (q->o.json) {
        printf("{\"results\": [");
        for (size_t i = 0; i < n; i++) {
            if (i) fputs(", ", stdout);
            value_print(stdout, v[i]);
        }
        printf("]}\n");
    } else {
        for (size_t i = 0; i < n; i++) {
            value_print(stdout, v[i]);
            fputc('\n', stdout);
        }
    }
    for (size_t i = 0; v && i < n; i++) moyai_value_free(v[i]);
    free(v);
    free(into);
    return rc < 0 ? CLI_FAILED : CLI_OK;
}

static void completed(moyai_future *f, void *arg) {
    (void)f;
    moyai_node_stop(arg);
}

/* Until it has completed, the time is over, or a signal asks to end. */
static int await(struct observer *o, const moyai_ref *ref, moyai_future *f, const char *title,
                 const struct request *q) {
    struct moyai_error e = {0};
    if (!moyai_future_ready(f)) {
        if (moyai_future_then(f, completed, o->node) < 0) {
            moyai_last_error(o->node, &e);
            return print_error(title, &e, q);
        }
        /* A call has its deadline, which its node knows, too, and says what it does meanwhile. */
        (void)moyai_node_serve(o->node, q->oneway ? q->o.timeout : MOYAI_FOREVER);
    }
    if (!moyai_future_ready(f)) {
        const bool late = !moyai_node_stopping(o->node);
        const struct moyai_node_id home = moyai_ref_home(ref);
        if (late) /* it may have been sent, over a link that is no more */
            err_set(&e, MOYAI_ETIMEDOUT, "the node of '%.*s' has not taken the call within %s%s",
                    (int)utf8_cut(q->target, strlen(q->target), 71), q->target, DUR(q->o.timeout),
                    seek_way(o, home) ? "" : ": " SEEK_NO_WAY);
        else
            err_set(&e, MOYAI_ECANCELED, "interrupted");
        (void)print_error(title, &e, q);
        return late ? CLI_TIMED_OUT : CLI_INTERRUPTED;
    }
    int code = moyai_future_error(f, 0, &e);
    if (code == 0 && q->oneway && q->o.json) printf("{\"results\": []}\n");
    if (code == 0) return q->oneway ? CLI_OK : print_results(o, f, title, q);
    print_errors(o, ref, title, f, q);
    print_hint(title, &e, q);
    return code == MOYAI_ETIMEDOUT && q->o.timeout != MOYAI_FOREVER ? CLI_TIMED_OUT : CLI_FAILED;
}

static int call(struct observer *o, moyai_ref *ref, const char *title, const struct request *q) {
    struct moyai_arg *a = calloc(q->n + 1, sizeof *a);
    struct moyai_error e = {0};
    if (!a) {
        err_set(&e, MOYAI_ENOMEM, "out of memory for arguments");
        return print_error(title, &e, q);
    }
    for (size_t i = 0; i < q->n; i++) a[i] = (struct moyai_arg){.tag = MOYAI_T_VALUE, .v.p = q->value[i]};
    const struct moyai_args args = {a, q->n};
    moyai_future *f = q->oneway ? node_call_oneway(ref, q->method, &args) : moyai_call_async(ref, q->method, &args);
    free(a);
    if (!q->oneway && q->o.timeout != MOYAI_FOREVER) moyai_future_deadline(f, q->o.timeout);
    int status = await(o, ref, f, title, q);
    if (status == CLI_INTERRUPTED) moyai_future_cancel(f);
    moyai_future_free(f);
    return status;
}

#define NEGATIVE(digit)                                                                                                \
    { NULL, digit, "", OPTION_ARG_OPTIONAL | OPTION_HIDDEN, NULL, 0 }

int cli_call(int argc, char **argv) {
    static const struct argp_option options[] = {
        OBSERVE_OPTIONS("Give up after TIME, and cancel the call (default: never)",
                        "Print one JSON object: \"results\", or \"error\""),
        {"oneway", KEY_ONEWAY, 0, 0, "Do not wait for a result, only until the object's node has the call", 0},
        NEGATIVE('0'),
        NEGATIVE('1'),
        NEGATIVE('2'),
        NEGATIVE('3'),
        NEGATIVE('4'),
        NEGATIVE('5'),
        NEGATIVE('6'),
        NEGATIVE('7'),
        NEGATIVE('8'),
        NEGATIVE('9'),
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "REF|NAME|NODE METHOD [JSON...]",
        .doc = "Calls a method and prints its results, one a line. Arguments and results are JSON.\v"
               "  1                  an integer; 1.0 is a double\n"
               "  [1, 2]             an array of int64; [1.0, 2], of double (if one has a point)\n"
               "  [\"a\", 1]           a list\n"
               "  {\"$u8\": [1, 2]}    an array of u8 (u16 ... i64, f32, f64)\n"
               "  {\"$bytes\": \"...\"}  bytes, in base64\n"
               "  {\"$ref\": \"...\"}    a reference\n\n"
               "Other forms are in the manual page. NODE is a node's id or its beginning; it has methods such as "
               "info, objects, ping, way and leave.\n\n" CLI_TIME_FORM,
    };
    static struct request q = {.o.timeout = MOYAI_FOREVER};
    cli_parse(&parser, argc, argv, CLI_IN_ORDER, &q);
    struct observer o;
    struct moyai_error why = {0};
    moyai_ref *ref = NULL;
    int status = observer_join(&o, argv[0], &q.o);
    bool joined = status == CLI_OK;
    for (size_t i = 0; i < q.n && status == CLI_OK; i++)
        if (value_of_json(o.node, q.given[i], &q.value[i], &why) < 0) {
            err_prefix(&why, "argument %zu", i + 1);
            observer_failed(argv[0], q.o.json, why.code, why.text);
            status = why.code == MOYAI_ENOMEM ? CLI_FAILED : CLI_USAGE;
        }
    if (status == CLI_OK && observer_find(&o, q.target, &ref, &why) < 0) {
        const bool stopped = moyai_node_stopping(o.node);
        if (stopped) err_set(&why, MOYAI_ECANCELED, "interrupted");
        seek_hint(q.target, &why);
        why.executed = MOYAI_NEVER_EXECUTED;
        status = print_error(argv[0], &why, &q);
        if (stopped) status = CLI_INTERRUPTED;
    }
    if (status == CLI_OK) status = call(&o, ref, argv[0], &q);
    moyai_ref_unref(ref);
    for (size_t i = 0; i < q.n; i++) {
        moyai_value_free(q.value[i]);
        json_decref(q.given[i]);
    }
    if (joined) observer_leave(&o);
    return status;
}
