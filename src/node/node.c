/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root: configuration, and the order in which the layers start and end.
 *
 *   start: options -> log -> events -> exec (loop, threads) -> objects -> overlay (socket, rendezvous entry)
 *   end:   no new objects -> overlay closed (everything pending fails, farewells, entries removed)
 *          -> local calls fail -> objects destroyed -> what is left of calls and of the overlay -> exec, with the
 *          fibers that are abandoned
 */
#include "node/node.h"

#include "base/config.h"
#include "base/dur.h"
#include "base/err.h"
#include "base/events.h"
#include "base/log.h"
#include "exec/process.h"
#include "object/drain.h"
#include "object/message.h"
#include "overlay/io/leaving.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- configuration --------------------------------------------------------------------------- */

/* The numbers as the environment's are: -1 that became a size_t is none. */
static int check_sizes(const struct moyai_node_opts *o, struct moyai_error *reterr) {
    const struct {
        enum config_index which;
        size_t value;
    } sizes[] = {{CONFIG_max_fibers, o->max_fibers},
                 {CONFIG_queue_calls, o->queue_calls},
                 {CONFIG_queue_bytes, o->queue_bytes},
                 {CONFIG_max_message, o->max_message}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct config_option *c = &config_options()[sizes[i].which];
        if (sizes[i].value >= (uint64_t)c->least && sizes[i].value <= (uint64_t)c->most) continue;
        return err_set(reterr, MOYAI_EINVAL, "option %s: %zu is not from %lld to %lld", c->field, sizes[i].value,
                       (long long)c->least, (long long)c->most);
    }
    return 0;
}

/* Options of the program take precedence over the environment. */
static int configure(moyai_node *n, const struct moyai_node_opts *in, struct moyai_node_opts *opts,
                     struct moyai_error *reterr) {
    *opts = (struct moyai_node_opts)MOYAI_NODE_OPTS_INIT;
    if (in) {
        if (in->size < sizeof in->size || in->size > sizeof *opts)
            return err_set(reterr, MOYAI_EINVAL,
                           "options of %zu bytes: use MOYAI_NODE_OPTS_INIT (is the library older than its header?)",
                           in->size);
        memcpy(opts, in, in->size);
    }
    int rc = config_load(&n->config, reterr);
    if (rc < 0) return rc;
    struct config *c = &n->config;
    const struct {
        const char **given, *option;
        char *const *value;
    } texts[] = {{&opts->grid, "grid", &c->grid},
                 {&opts->run_dir, "run-dir", &c->run_dir},
                 {&opts->title, "title", &c->title},
                 {&opts->key_file, "key-file", &c->key_file},
                 {&opts->listen, "listen", &c->listen},
                 {&opts->advertise, "advertise", &c->advertise},
                 {&opts->port_range, "port-range", &c->port_range},
                 {&opts->site, "site", &c->site}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i].given && (rc = config_set(c, texts[i].option, *texts[i].given, reterr)) < 0) return rc;
        *texts[i].given = *texts[i].value;
    }
    if (!opts->max_fibers) opts->max_fibers = (size_t)c->max_fibers;
    if (!opts->stack) opts->stack = c->stack;
    if (!opts->queue_calls) opts->queue_calls = (size_t)c->queue_calls;
    if (!opts->queue_bytes) opts->queue_bytes = c->queue_bytes;
    if (!opts->max_message) opts->max_message = c->max_message;
    if (!opts->reattach) opts->reattach = c->reattach;
    opts->outbound_only |= c->outbound_only;
    rc = node_check(c, reterr);
    if (rc < 0) return rc;
    if (opts->reattach < 0)
        return err_set(reterr, MOYAI_EINVAL, "option reattach: %lld ns; a time is not negative",
                       (long long)opts->reattach);
    rc = check_sizes(opts, reterr);
    if (rc < 0) return rc;
    if (opts->stack < 16384)
        return err_set(reterr, MOYAI_EINVAL, "option stack: %zu bytes are less than 16384", opts->stack);
    if (opts->stack > (size_t)1 << 30)
        return err_set(reterr, MOYAI_EINVAL, "option stack: %zu bytes are more than 1 GiB", opts->stack);
    if (opts->max_message > UINT32_MAX / 2)
        return err_set(reterr, MOYAI_EINVAL, "option max_message: %zu bytes are more than %u", opts->max_message,
                       UINT32_MAX / 2);
    return 0;
}

static void warn_of_unknown(const char *name, const char *value, const char *like, void *arg) {
    moyai_node *n = arg;
    log_warning(n->log, "node", "MOYAI-CONFIG-UNKNOWN",
                "$%s is \"%.64s\", but there is no such variable: mistyped?%s%s%s "
                "(moyai config lists all)",
                name, value, like ? " Did you mean " : "", like ? like : "", like ? "?" : "");
}

/* ---- the process ----------------------------------------------------------------------------- */

static void prepare_process(void) {
    /* A standard descriptor that is closed would become one of ours, and what the program prints go there; libuv ends
     * the process when it is to close such. */
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
    struct sigaction sa;
    if (sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r); /* fewer links otherwise: files_allowed */
    }
}

static uint64_t files_allowed(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == RLIM_INFINITY) return 0;
    return r.rlim_cur ? r.rlim_cur : 1;
}

/* The second one: its default course, which this thread lets through. */
static void end_by(int sig) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    signal(sig, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), sig);
}

static void stop(moyai_node *n) {
    atomic_store(&n->stop, true);
    exec_kick(n->x);
}

/* Before it is killed, where it is known when that is. Who only looks has nothing to finish. */
static void leave(moyai_node *n, moyai_dur killed_after) {
    const moyai_dur most = killed_after > 0 ? drain_before(killed_after) : MOYAI_FOREVER;
    if (n->observer)
        stop(n);
    else
        drain_begin(n, most < n->config.leave_deadline ? most : n->config.leave_deadline);
}

static void on_signal(struct exec_fd *f, int events, void *arg) {
    (void)f;
    (void)events;
    moyai_node *n = arg;
    struct signalfd_siginfo si;
    if (read(n->signal_fd, &si, sizeof si) != sizeof si) return;
    const int sig = (int)si.ssi_signo;
    if (sig == SIGUSR1) { /* a notice of what is to come: however often */
        leave(n, 0);
        return;
    }
    /* Who runs the process may ask it when somebody else has already, and kills it himself when its time is over. What
     * the first one asks for may be under way for another reason: it hurries nobody. */
    const bool again = n->signalled;
    n->signalled = true;
    if (again && n->config.parent && sig == SIGTERM) return;
    if (again)
        end_by(sig);
    else if (sig == SIGTERM)
        leave(n, n->config.grace);
    else
        stop(n);
}

/* While it says farewell: likewise, for what has come since the loop has turned last. */
static bool hurries(void *arg) {
    moyai_node *n = arg;
    struct signalfd_siginfo si;
    bool again = false;
    while (read(n->signal_fd, &si, sizeof si) == sizeof si) {
        if (si.ssi_signo == SIGUSR1) continue;
        again |= n->signalled;
        n->signalled = true;
    }
    return again;
}

static int take_signals(moyai_node *n, struct moyai_error *reterr) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGINT);
    int e = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (e) return err_sys(reterr, e, "cannot block signals");
    n->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (n->signal_fd < 0) return err_sys(reterr, errno, "cannot make a descriptor for signals");
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

/*
 * A program may end without moyai_node_free, by exit or the return of main. Then its nodes say farewell all the same:
 * others need not find out that they are dead, and nothing of them is left behind. They are not freed: the program may
 * have handlers of its own that use them, or free them, after this one.
 */
static moyai_node *live_nodes; /* all under PROCESS_NODES */
static bool at_exit;
static pid_t live_pid;

#define WITHDRAW_MOST (1500 * MOYAI_MS)

struct leaving {
    struct exec_waiter w;
    moyai_node *node;
};

static void withdrawn(void *arg) {
    struct leaving *l = arg;
    (void)exec_wake(l->node->x, &l->w, 0);
}

/* Sessions of others that pass through this node find other ways before it goes. Lock held, and released meanwhile. */
static void withdraw(moyai_node *n) {
    struct leaving l = {.node = n};
    if (n->leaving) return; /* another thread is at it */
    exec_waiter_init(n->x, &l.w);
    n->leaving = true;
    if (overlay_withdraw(n->o, withdrawn, &l)) (void)exec_wait_aside(n->x, &l.w, moyai_now() + (moyai_ns)WITHDRAW_MOST);
}

/* A node that leaves finishes what it has begun, wherever its program ends it. */
static void await_drained(moyai_node *n) {
    int rc = 0;
    if (n->observer) return; /* nobody calls it, and it has asked for nothing that it still wants */
    api_enter(n);
    n->drain.freeing = true;
    exec_attention(n->x);
    while (drain_waits(n) && rc == 0) {
        struct exec_waiter w;
        exec_waiter_init(n->x, &w);
        n->drain.waiter = &w;
        rc = exec_wait(n->x, &w, UINT64_MAX);
        n->drain.waiter = NULL;
    }
    api_leave(n);
}

static void say_farewell(void) {
    if (getpid() != live_pid) return; /* forked: they are the parent's */
    process_take(PROCESS_NODES);
    for (moyai_node *n = live_nodes; n; n = n->live_next) {
        if (exec_forked(n->x)) continue;
        exec_lock(n->x);
        if (!n->ending) withdraw(n);
        if (!n->ending)
            EVENT(n->events, node_id(n), "node-end", event_int("calls-made", (int64_t)n->calls_made),
                  event_int("calls-served", (int64_t)n->calls_served));
        overlay_farewell(n->o);
        exec_unlock(n->x);
        events_flush(n->events);
    }
    process_release(PROCESS_NODES);
}

static void live_add(moyai_node *n) {
    process_take(PROCESS_NODES);
    if (!at_exit) at_exit = atexit(say_farewell) == 0;
    live_pid = getpid();
    n->live_next = live_nodes;
    live_nodes = n;
    process_release(PROCESS_NODES);
}

static void live_remove(moyai_node *n) {
    process_take(PROCESS_NODES);
    for (moyai_node **q = &live_nodes; *q; q = &(*q)->live_next)
        if (*q == n) {
            *q = n->live_next;
            break;
        }
    process_release(PROCESS_NODES);
}

static void node_release(moyai_node *n) {
    /* Timers and hooks of the layers above are taken out of exec before it goes. */
    if (n->x) exec_lock(n->x);
    object_layer_done(n);
    overlay_free(n->o);
    if (n->x) exec_unlock(n->x);
    exec_free(n->x);
    if (n->signal_fd >= 0) close(n->signal_fd);
    events_close(n->events);
    log_done(&n->own_log);
    config_done(&n->config);
    free(n);
}

/* The program's name; in a process of moyai run with its number there, as its lines begin: several are told apart. */
static const char *default_title(moyai_node *n) {
    const char *group = getenv("MOYAI_GROUP"), *index = getenv("MOYAI_INDEX");
    int64_t g, i;
    bool numbered = group && index && config_parse_integer(group, &g) == 0 && config_parse_integer(index, &i) == 0;
    if (!numbered) return program_invocation_short_name;
    snprintf(n->title, sizeof n->title, "%.30s [%lld.%lld]", program_invocation_short_name, (long long)g, (long long)i);
    return n->title;
}

static int make(moyai_node **ret, const struct moyai_node_opts *user, bool observer, struct moyai_error *reterr) {
    struct moyai_error unused;
    if (!reterr) reterr = &unused;
    if (!ret) return err_set(reterr, MOYAI_EINVAL, "ret must not be NULL");
    moyai_node *n = calloc(1, sizeof *n);
    if (!n) return err_set(reterr, MOYAI_ENOMEM, "out of memory for a node");
    n->signal_fd = -1;
    n->started = moyai_now();
    n->observer = observer;
    atomic_init(&n->self, &n->first_id);
    drain_init(n);
    struct moyai_node_opts opts;
    int rc = configure(n, user, &opts, reterr);
    if (rc < 0) {
        config_done(&n->config);
        free(n);
        return rc;
    }
    prepare_process();
    n->log = &n->own_log;
    rc = log_init(n->log, n->config.log, reterr);
    if (rc == 0) config_unknown(warn_of_unknown, n);
    if (rc == 0 && n->config.events) {
        rc = events_open(&n->events, n->config.events, n->log, reterr);
        if (rc < 0) (void)config_blame(reterr, &n->config, CONFIG_events);
    }
    if (rc == 0 && (rc = object_layer_init(n)) < 0) err_set(reterr, rc, "cannot begin: %s", moyai_strerror(rc));
    if (rc == 0) rng_bytes(&n->rng, n->first_id.id.b, sizeof n->first_id.id.b);
    if (rc == 0 && opts.signals) rc = take_signals(n, reterr);
    struct exec_cfg xc = {.stack = opts.stack, .max_fibers = opts.max_fibers, .own_thread = opts.own_thread};
    if (rc == 0) rc = exec_new(&n->x, &xc, reterr);
    if (rc < 0) {
        node_release(n);
        return rc;
    }
    n->max_calls = exec_max_fibers(n->x);
    n->queue_calls = opts.queue_calls;
    n->queue_bytes = opts.queue_bytes;
    n->max_message = opts.max_message;
    struct overlay_cfg oc = {.grid = opts.grid,
                             .run_dir = opts.run_dir,
                             .title = opts.title ? opts.title : default_title(n),
                             .self = *node_id(n),
                             .queue_calls = opts.queue_calls,
                             .queue_bytes = opts.queue_bytes,
                             .open_calls = n->max_calls,
                             .max_message = opts.max_message,
                             .reattach = opts.reattach,
                             .idle = n->config.session_idle,
                             .key_file = opts.key_file,
                             .listen = opts.listen,
                             .advertise = opts.advertise,
                             .port_range = opts.port_range,
                             .site = opts.site,
                             .grid_file = n->config.grid_file,
                             .ssh = n->config.ssh,
                             .outbound_only = opts.outbound_only,
                             .observer = observer,
                             /* who runs the process may ask it twice */
                             .hurry_fd = n->signal_fd >= 0 && !n->config.parent ? n->signal_fd : 0,
                             .hurries = hurries,
                             .hurry_arg = n,
                             .degree = (uint32_t)n->config.degree,
                             .files = files_allowed(),
                             .relay_memory = n->config.relay_memory,
                             .link_delay = n->config.link_delay,
                             .link_rate = n->config.link_rate,
                             .log = n->log,
                             .events = n->events,
                             .config = &n->config};
    if (n->config.parent) (void)id_parse(n->config.parent, 32, oc.parent.b); /* was looked at */
    exec_lock(n->x);
    exec_local_done(n->x, context_free, n);
    if (rc == 0) rc = overlay_new(&n->o, n->x, &oc, &object_overlay_ops, n, reterr);
    if (rc == 0 && n->signal_fd >= 0) {
        n->signal_watch = exec_fd_new(n->x, n->signal_fd, UV_READABLE, on_signal, n);
        if (!n->signal_watch) rc = err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    exec_unlock(n->x);
    if (rc < 0) {
        if (n->o) {
            exec_lock(n->x);
            overlay_close(n->o);
            exec_unlock(n->x);
        }
        node_release(n);
        return rc;
    }
    EVENT(n->events, node_id(n), "node-start", event_text("title", oc.title), event_int("pid", getpid()));
    live_add(n);
    *ret = n;
    return 0;
}

int moyai_node_new(moyai_node **ret, const struct moyai_node_opts *opts, struct moyai_error *reterr) {
    return make(ret, opts, false, reterr);
}

int node_new_observer(moyai_node **ret, const struct moyai_node_opts *opts, struct moyai_error *reterr) {
    return make(ret, opts, true, reterr);
}

void moyai_node_free(moyai_node *n) {
    if (!n) return;
    if (exec_forked(n->x)) return; /* the parent's: nothing of it may be touched here */
    if (!exec_may_free(n->x)) {
        log_error(
            n->log, "node", "MOYAI-NODE-FREE",
            "moyai_node_free() was called in a method or fiber, or on a thread that it does not belong on: the node "
            "goes on: moyai_node(3)");
        return;
    }
    EVENT(n->events, node_id(n), "node-end", event_int("calls-made", (int64_t)n->calls_made),
          event_int("calls-served", (int64_t)n->calls_served));
    await_drained(n);
    exec_halt(n->x); /* own thread: no user code runs from here on */
    exec_lock(n->x);
    withdraw(n);
    n->ending = true;
    exec_foreign_drain(n->x);
    if (n->signal_watch) exec_fd_free(n->signal_watch, false, NULL);
    drain_done(n);
    names_unwait(n);
    overlay_close(n->o);
    futures_fail_all(n);
    for (struct context *c = n->contexts; c; c = c->next)
        if (c->held) {
            future_free_locked(c->held);
            c->held = NULL;
        }
    objects_end_all(n);
    exec_unlock(n->x);
    live_remove(n); /* now: a program that ends meanwhile says farewell for it */
    node_release(n);
}

int moyai_node_serve(moyai_node *n, moyai_dur timeout) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (!exec_on_node_thread(n->x))
        return api_refuse(n, MOYAI_ESTATE, "moyai_node_serve() belongs on the node thread, and this is another");
    exec_user_leave(n->x);
    moyai_ns until = timeout == MOYAI_FOREVER ? UINT64_MAX : moyai_now() + (moyai_ns)(timeout > 0 ? timeout : 0);
    int rc;
    if (context_get(n)->counted)
        rc = api_fail(n, MOYAI_ESTATE,
                      "moyai_node_serve() is not for methods and fibers: they block with moyai_sleep()");
    else if ((rc = exec_serve(n->x, &n->stop, until)) == MOYAI_ETIMEDOUT)
        rc = api_fail(n, rc, "nobody asked the node to stop within %s", DUR(timeout));
    else if (rc < 0)
        rc = api_fail(n, rc, "moyai_node_serve() runs already, or the node waits, further down this thread's stack");
    exec_user_enter(n->x);
    return rc;
}

void moyai_node_stop(moyai_node *n) {
    if (!n || exec_forked(n->x)) return;
    atomic_store(&n->stop, true);
    exec_kick(n->x);
}

struct moyai_node_id moyai_node_self(const moyai_node *n) {
    static const struct moyai_node_id none;
    return n ? *node_id(n) : none;
}
bool moyai_node_stopping(const moyai_node *n) {
    return !n || atomic_load(&n->stop) || moyai_leaving(n);
}

void moyai_node_id_format(struct moyai_node_id id, char text[33]) {
    id_format(id.b, text);
}
int moyai_node_id_parse(const char *text, struct moyai_node_id *ret) {
    struct moyai_node_id id;
    if (!text || !ret || !id_parse(text, strlen(text), id.b)) return MOYAI_EINVAL;
    *ret = id;
    return 0;
}
bool moyai_node_id_equal(struct moyai_node_id a, struct moyai_node_id b) {
    return id_equal(a.b, b.b);
}

void moyai_node_stats(const moyai_node *n, struct moyai_node_stats *out) {
    if (!out) return;
    struct moyai_node_stats s = {.size = out->size};
    if (n && !exec_forked(n->x)) {
        exec_lock(n->x);
        s.calls_made = n->calls_made;
        s.calls_served = n->calls_served;
        s.calls_open = n->calls_open;
        s.fibers = n->active;
        s.links = overlay_links(n->o);
        s.objects = n->n_objects;
        exec_unlock(n->x);
    }
    memcpy(out, &s, out->size < sizeof s ? out->size : sizeof s);
}

/* ---- ping ------------------------------------------------------------------------------------ */

struct ping_wait {
    struct ping ping; /* first */
    moyai_node *node;
    struct blocked *b;
    int code;
    bool done;
};

static void pinged(struct ping *g, int code) {
    struct ping_wait *w = (struct ping_wait *)g;
    w->done = true;
    w->code = code;
    (void)blocked_wake(w->node, w->b, 0);
}

int moyai_ping(moyai_node *n, struct moyai_node_id to, moyai_dur timeout) {
    if (!n) return MOYAI_EINVAL;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (node_is(n, to.b)) return 0;
    api_enter(n);
    struct blocked b;
    blocked_init(n, &b, "waits for a ping's answer");
    struct ping_wait w = {.ping = {.fn = pinged}, .node = n, .b = &b};
    int rc = id_zero(to.b) ? MOYAI_EINVAL : overlay_ping(n->o, to.b, &w.ping);
    bool said = false; /* by block */
    if (rc == 0) {
        moyai_ns until = timeout == MOYAI_FOREVER ? UINT64_MAX : moyai_now() + (moyai_ns)(timeout > 0 ? timeout : 0);
        rc = block(n, &b, until, true);
        if (w.done)
            rc = w.code;
        else
            overlay_ping_drop(&w.ping);
        said = !w.done && rc != MOYAI_ETIMEDOUT;
    }
    if (rc < 0 && !said) {
        char id[33];
        id_format(to.b, id);
        rc = api_fail(n, rc, "no answer to a ping from node %.8s: %s", id, moyai_strerror(rc));
    }
    api_leave(n);
    return rc;
}

/* ---- for the command line -------------------------------------------------------------------- */

struct exec *node_exec(moyai_node *n) {
    return n->x;
}
struct moyai_log *node_log(moyai_node *n) {
    return n->log;
}
struct events *node_events(moyai_node *n) {
    return n->events;
}

struct overlay *node_overlay(moyai_node *n) {
    return n->o;
}

void node_on_leave(moyai_node *n, void (*fn)(moyai_ns until, void *arg), void *arg) {
    n->drain.told = fn;
    n->drain.told_arg = arg;
    overlay_ends_others(n->o);
}

void node_ends(moyai_node *n) {
    n->drain.ends = true;
    overlay_leaves(n->o);
}

void node_drain(moyai_node *n, moyai_dur patience) {
    exec_lock(n->x);
    n->drain.told = NULL;
    n->drain.until = 0; /* of what was to end before */
    drain_begin(n, patience > 0 ? patience : 1);
    exec_unlock(n->x);
    await_drained(n);
}

void node_drain_hurry(moyai_node *n, moyai_dur most) {
    drain_begin(n, most > 0 ? most : 1);
}

_Static_assert(NODE_CUT_OFF >= CUT_OFF_TEXT, "three names fit");
size_t node_cut_off(moyai_node *n, char who[NODE_CUT_OFF]) {
    if (n->drain.cut_off > 0) return drain_cut_off(n, who, NODE_CUT_OFF);
    who[0] = 0;
    return 0;
}

void node_cut(moyai_node *n, size_t cut, const char *what) {
    drain_cut(n, cut, what, 0, "");
}

void node_witness(moyai_node *n) {
    overlay_set_witness(n->o, true);
}

bool node_child_ended(moyai_node *n, pid_t pid, const char *cause) {
    return overlay_process_ended(n->o, pid, cause);
}

void node_obituary(moyai_node *n, const char *cause) {
    exec_lock(n->x);
    overlay_obituary(n->o, cause);
    exec_unlock(n->x);
}

void node_declare_dead(moyai_node *n, struct moyai_node_id id, const char *cause) {
    exec_lock(n->x);
    overlay_declare_dead(n->o, id.b, cause);
    exec_unlock(n->x);
}

int node_known(moyai_node *n, bool (*fn)(const struct rdv_node *node, const struct moyai_error *bad, void *ctx),
               void *ctx, struct moyai_error *reterr) {
    exec_lock(n->x);
    struct rdv *r = overlay_rdv(n->o);
    int rc = r ? rdv_nodes(r, fn, ctx, reterr) : 0;
    exec_unlock(n->x);
    return rc;
}

int node_names(moyai_node *n, bool (*fn)(const char *name, void *ctx), void *ctx, struct moyai_error *reterr) {
    exec_lock(n->x);
    struct rdv *r = overlay_rdv(n->o);
    int rc = r ? rdv_names(r, fn, ctx, reterr) : 0;
    exec_unlock(n->x);
    return rc;
}

struct link_wait {
    struct exec_hook hook; /* first */
    moyai_node *node;
    struct blocked *b;
};

static bool waits_no_more(moyai_node *n) {
    return overlay_links(n->o) > 0 || overlay_settled(n->o, false) || atomic_load(&n->stop);
}

/* Whatever makes a link, or asks to stop, is a turn of the loop. */
static void look_linked(struct exec_hook *h) {
    struct link_wait *w = (struct link_wait *)h;
    if (w->b && waits_no_more(w->node)) (void)blocked_wake(w->node, w->b, 0);
}

int node_await_link(moyai_node *n, moyai_dur timeout) {
    struct link_wait w = {.hook.fn = look_linked, .node = n};
    moyai_ns until = timeout == MOYAI_FOREVER ? UINT64_MAX : moyai_now() + (moyai_ns)timeout;
    int rc = 0;
    api_enter(n);
    exec_hook_add(n->x, &w.hook);
    while (rc == 0 && !waits_no_more(n)) {
        struct blocked b;
        blocked_init(n, &b, "waits for a link");
        w.b = &b;
        rc = block(n, &b, until, true);
        w.b = NULL;
    }
    exec_hook_remove(n->x, &w.hook);
    if (overlay_links(n->o) > 0)
        rc = 0;
    else if (rc == 0)
        rc = overlay_settled(n->o, false) ? MOYAI_ENOENT : MOYAI_ECANCELED;
    api_leave(n);
    return rc;
}

int node_go(moyai_node *n, void (*fn)(void *arg), void *arg) {
    return go_locked(n, fn, arg);
}

size_t node_results(const moyai_future *f) {
    size_t n = 0, len;
    if (f->state != FUTURE_DONE || !f->result) return 0;
    for (size_t at = REPLY_HEAD; at < f->result_n; at += len) {
        if (codec_skip(f->result + at, f->result_n - at, &len) < 0) return n + 1; /* reading it will say what it is */
        n++;
    }
    return n;
}

moyai_future *node_call_oneway(moyai_ref *ref, const char *method, const struct moyai_args *args) {
    return call_oneway_told(ref, method, args);
}
