/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moyai endpoint: the rendezvous server. Nodes leave their sealed entries and take a sample of others'
 * (doc/spec/07-rendezvous.md). One thread of libmicrohttpd serves all connections; this one waits for a signal.
 */
#include "base/config.h"
#include "base/err.h"
#include "base/id.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/endpoint_gate.h"
#include "cli/endpoint_judge.h"
#include "cli/endpoint_store.h"
#include "link/tcp.h"
#include "overlay/peers_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <moyai/base.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PORT_DEFAULT  7471
#define ENTRIES_MOST  1000000000u
#define MEMORY_MOST   (UINT64_C(1) << 50)
#define CONNECTIONS   1000
#define LIFETIME      120
#define LIFETIME_MOST 3600
#define SWEEP         (10 * MOYAI_SEC)
#define POST_HEADER   "Moyai-Lifetime"
#define AGE_HEADER    "Moyai-Age"

struct server {
    struct gate gate;
    struct endpoint_store *store;
    struct keyfile *keys; /* NULL: entries are taken unseen */
    moyai_ns began, swept;
    uint8_t answer[ENDPOINT_SAMPLE * (18 + ENDPOINT_ENTRY_MAX)];
};

/* A request on its way in. */
struct upload {
    size_t n; /* over ENDPOINT_ENTRY_MAX: too much, and forgotten */
    uint8_t bytes[ENDPOINT_ENTRY_MAX + 1];
};

/* ---- answers --------------------------------------------------------------------------------- */

/* s NULL: without its age. */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type, const void *p, size_t n,
                              const struct server *s) {
    struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)p, MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (s) { /* who finds nobody may have come before those that have registered with an earlier server */
        char age[24];
        snprintf(age, sizeof age, "%llu", (unsigned long long)((moyai_now() - s->began) / (moyai_ns)MOYAI_SEC));
        (void)MHD_add_response_header(r, AGE_HEADER, age);
    }
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, PUT, DELETE");
    enum MHD_Result rc = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned status, const char *text) {
    return answer(c, status, "text/plain; charset=utf-8", text, strlen(text), NULL);
}

/* A text of the store or the judge. */
static enum MHD_Result say_why(struct MHD_Connection *c, struct moyai_error *why) {
    unsigned status = MHD_HTTP_BAD_REQUEST;
    if (why->code == MOYAI_EAGAIN || why->code == MOYAI_ENOMEM) status = MHD_HTTP_INSUFFICIENT_STORAGE;
    if (why->code == MOYAI_EPERM) status = MHD_HTTP_FORBIDDEN;
    if (why->code == MOYAI_ESTATE) status = MHD_HTTP_CONFLICT;
    strncat(why->text, "\n", sizeof why->text - strlen(why->text) - 1);
    return say(c, status, why->text);
}

/* "/GRID" and "/GRID/ID" in parts; has_id says which. */
static bool parse_path(const char *path, char grid[ENDPOINT_GRID_MAX + 1], uint8_t id[16], bool *has_id) {
    const char *slash = path[0] == '/' ? strchr(path + 1, '/') : NULL;
    size_t n = path[0] != '/' ? 0 : slash ? (size_t)(slash - path - 1) : strlen(path + 1);
    if (n == 0 || n > ENDPOINT_GRID_MAX) return false;
    memcpy(grid, path + 1, n);
    grid[n] = 0;
    *has_id = slash != NULL;
    return endpoint_grid_name(grid) && (!slash || (id_parse(slash + 1, strlen(slash + 1), id) && !id_zero(id)));
}

static enum MHD_Result status_page(struct server *s, struct MHD_Connection *c) {
    size_t grids, entries, bytes;
    char text[160];
    endpoint_count(s->store, &grids, &entries, &bytes);
    snprintf(text, sizeof text, "moyai endpoint %s: %zu grid%s, %zu node%s, %zu bytes\n", moyai_version(), grids,
             grids == 1 ? "" : "s", entries, entries == 1 ? "" : "s", bytes);
    return say(c, MHD_HTTP_OK, text);
}

static enum MHD_Result on_get(struct server *s, struct MHD_Connection *c, const char *grid) {
    const char *text = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "n");
    int64_t n = ENDPOINT_SAMPLE;
    if (text && (config_parse_integer(text, &n) < 0 || n < 0))
        return say(c, MHD_HTTP_BAD_REQUEST, "n is not a number\n");
    if (n > (int64_t)ENDPOINT_SAMPLE) n = ENDPOINT_SAMPLE;
    size_t size = endpoint_sample(s->store, grid, (size_t)n, moyai_now(), s->answer);
    return answer(c, MHD_HTTP_OK, "application/octet-stream", s->answer, size, s);
}

/* Of a server with keys: who says this, and when? */
static int judge(struct server *s, const char *grid, const uint8_t id[16], bool withdraws, const struct upload *u,
                 struct endpoint_claim *ret, struct moyai_error *why) {
    const int64_t now = (int64_t)time(NULL);
    (void)keyfile_refresh(s->keys, NULL);
    endpoint_believe(s->store, now + PEERS_ENTRY_SKEW);
    return endpoint_judge(keyfile_keys(s->keys), now, grid, id, withdraws, u->bytes, u->n, ret, why);
}

/* How long an entry is kept is what it says itself: the header is not sealed. */
static enum MHD_Result on_put(struct server *s, struct MHD_Connection *c, const char *grid, const uint8_t id[16],
                              const struct upload *u) {
    const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, POST_HEADER);
    int64_t seconds = LIFETIME;
    if (text && (config_parse_integer(text, &seconds) < 0 || seconds < 1 || seconds > LIFETIME_MOST))
        return say(c, MHD_HTTP_BAD_REQUEST, POST_HEADER " is not a number of seconds from 1 to 3600\n");
    if (u->n == 0) return say(c, MHD_HTTP_BAD_REQUEST, "an entry has at least one byte\n");
    if (u->n > ENDPOINT_ENTRY_MAX) return say(c, MHD_HTTP_CONTENT_TOO_LARGE, "an entry has at most 4096 bytes\n");
    struct moyai_error why;
    struct endpoint_claim claim = {.left = seconds};
    if (s->keys && judge(s, grid, id, false, u, &claim, &why) < 0) return say_why(c, &why);
    moyai_ns now = moyai_now(), until = now + (moyai_ns)(claim.left * MOYAI_SEC);
    if (endpoint_put(s->store, grid, id, u->bytes, u->n, claim.made, until, now, &why) < 0) return say_why(c, &why);
    return say(c, MHD_HTTP_NO_CONTENT, "");
}

/* Without keys anybody may: nobody can be told from anybody else. */
static enum MHD_Result on_delete(struct server *s, struct MHD_Connection *c, const char *grid, const uint8_t id[16],
                                 const struct upload *u) {
    if (!s->keys) {
        endpoint_delete(s->store, grid, id);
        return say(c, MHD_HTTP_NO_CONTENT, "");
    }
    struct moyai_error why;
    struct endpoint_claim claim;
    if (judge(s, grid, id, true, u, &claim, &why) < 0) return say_why(c, &why);
    moyai_ns now = moyai_now(), until = now + (moyai_ns)(claim.left * MOYAI_SEC);
    if (endpoint_withdraw(s->store, grid, id, claim.made, until, now, &why) < 0) return say_why(c, &why);
    return say(c, MHD_HTTP_NO_CONTENT, "");
}

/* A zero byte would end the path there: it stays as it was sent, and no name has a '%'. */
static size_t unescape(void *arg, struct MHD_Connection *c, char *text) {
    (void)arg, (void)c;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path, const char *method,
                                  const char *version, const char *data, size_t *n, void **state) {
    (void)version;
    struct server *s = arg;
    struct upload *u = *state;
    if (!u) { /* the head has come */
        *state = u = calloc(1, sizeof *u);
        return u ? MHD_YES : MHD_NO;
    }
    if (*n > 0) {
        size_t room = sizeof u->bytes - u->n, k = *n < room ? *n : room;
        memcpy(u->bytes + u->n, data, k);
        u->n += k;
        *n = 0;
        return MHD_YES;
    }
    moyai_ns now = moyai_now();
    if (now - s->swept > (moyai_ns)SWEEP) {
        endpoint_sweep(s->store, now);
        s->swept = now;
    }
    char grid[ENDPOINT_GRID_MAX + 1];
    uint8_t id[16];
    bool has_id;
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (get && strcmp(path, "/") == 0) return status_page(s, c);
    if (!parse_path(path, grid, id, &has_id)) return say(c, MHD_HTTP_NOT_FOUND, "paths are /GRID and /GRID/ID\n");
    if (get && !has_id) return on_get(s, c, grid);
    if (strcmp(method, MHD_HTTP_METHOD_PUT) == 0 && has_id) return on_put(s, c, grid, id, u);
    if (strcmp(method, MHD_HTTP_METHOD_DELETE) == 0 && has_id) return on_delete(s, c, grid, id, u);
    return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET /GRID, PUT and DELETE /GRID/ID\n");
}

static void on_done(void *arg, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why) {
    struct server *s = arg;
    if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK) gate_answered(&s->gate, c);
    free(*state);
    *state = NULL;
}

/* ---- the verb -------------------------------------------------------------------------------- */

enum { KEY_LISTEN = 0x100, KEY_PORT_FILE, KEY_KEY_FILE, KEY_ENTRIES, KEY_MEMORY };

struct request {
    struct tcp_addr listen;
    bool listens;
    uint16_t port;
    const char *port_file, *key_file;
    int64_t entries;
    uint64_t memory;
};

/* A port, or an address with one or without. */
static void listen_option(struct request *r, const char *arg, const struct argp_state *state) {
    struct moyai_error why;
    int64_t port = 0;
    const bool colon = *arg == ':' && arg[1] != ':'; /* at all addresses, as without */
    bool alone = colon || (*arg && strspn(arg, "0123456789") == strlen(arg));
    if (alone && (config_parse_integer(arg + colon, &port) < 0 || port < 0 || port > 65535))
        cli_usage(state, "--listen: '%s': a port is a number from 0 to 65535", arg);
    r->listens = !alone;
    r->port = (uint16_t)port;
    if (alone) return;
    if (tcp_parse(arg, &r->listen, &why) < 0) cli_usage(state, "--listen: %s", why.text);
    const char *host_end = strrchr(arg, ']') ? strrchr(arg, ']') : arg;
    if (!strchr(host_end, ':')) tcp_set_port(&r->listen, PORT_DEFAULT);
    r->port = tcp_port(&r->listen);
}

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    switch (key) {
    case KEY_LISTEN:
        cli_filled(state, "--listen", arg);
        listen_option(r, arg, state);
        return 0;
    case KEY_PORT_FILE:
        cli_filled(state, "--port-file", arg);
        r->port_file = arg;
        return 0;
    case KEY_KEY_FILE:
        cli_filled(state, "--key-file", arg);
        r->key_file = arg;
        return 0;
    case KEY_ENTRIES:
        if (config_parse_integer(arg, &r->entries) < 0 || r->entries < 1 || r->entries > ENTRIES_MOST)
            cli_usage(state, "--entries: '%s' is not a number from 1 to %u", arg, ENTRIES_MOST);
        return 0;
    case KEY_MEMORY:
        if (config_parse_size(arg, &r->memory) < 0 || r->memory < 65536 || r->memory > MEMORY_MOST)
            cli_usage(state, "--memory: '%s' is not a size from 64k to 1024T", arg);
        return 0;
    case ARGP_KEY_ARG:
        cli_usage(state, "unknown argument '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void look(struct server *s, const char *title) {
    char line[GATE_LINE];
    if (gate_look(&s->gate, line)) cli_say(title, "%s", line);
}

/* Of a FIFO it is waited for who reads it, while others are served; a signal of `end` ends that, and *sig is it. */
static int write_port(struct server *s, const char *title, const char *path, uint16_t port, const sigset_t *end,
                      int *sig, struct moyai_error *why) {
    char text[8];
    const struct timespec pause = {.tv_nsec = 50 * MOYAI_MS};
    int fd, n = snprintf(text, sizeof text, "%u\n", port);
    while ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666)) < 0) {
        struct stat st;
        int e = errno;
        if (e != ENXIO || stat(path, &st) < 0 || !S_ISFIFO(st.st_mode))
            return err_sys(why, e, "cannot write %.150s", path);
        *sig = sigtimedwait(end, NULL, &pause);
        if (*sig > 0) return 0;
        look(s, title);
    }
    ssize_t k = write(fd, text, (size_t)n);
    int e = k < 0 ? errno : k < n ? ENOSPC : 0;
    struct stat st;
    const bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (close(fd) < 0 && e == 0) e = errno;
    if (e && file) (void)unlink(path); /* half a port is another one */
    return e ? err_sys(why, e, "cannot write %.150s", path) : 0;
}

static int serve(struct server *s, const struct request *q, const char *title, struct moyai_error *why) {
    struct tcp_addr at;
    int listener, rc = gate_init(&s->gate, CONNECTIONS, why);
    if (rc == 0) rc = tcp_listen(&listener, q->listens ? &q->listen : NULL, q->port, q->port, &at, why);
    if (rc < 0) return rc;
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGINT);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGHUP);
    sigprocmask(SIG_BLOCK, &end, NULL); /* before the server's thread begins */
    signal(SIGPIPE, SIG_IGN);           /* of who has the port file open */
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->gate.most + GATE_MORE, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)16384, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_CONNECTION, gate_on_connection,
        &s->gate, MHD_OPTION_NOTIFY_COMPLETED, on_done, s, MHD_OPTION_END);
    if (!d) {
        close(listener);
        return err_set(why, MOYAI_ELIMIT, "cannot start the HTTP server: out of memory, descriptors or threads");
    }
    int sig = 0;
    if (q->port_file) rc = write_port(s, title, q->port_file, tcp_port(&at), &end, &sig, why);
    if (rc == 0 && sig <= 0) {
        char text[TCP_TEXT];
        tcp_format(&at, text);
        if (q->listens)
            printf("%s: serving http://%s/GRID, GRID being any name of a grid\n", title, text);
        else
            printf("%s: serving http://HOST:%u/GRID, HOST being this host and GRID any name of a grid\n", title,
                   tcp_port(&at));
        bool lost = fflush(stdout) != 0; /* the end of the process says why */
        const struct timespec second = {.tv_sec = 1};
        while (!lost && sigtimedwait(&end, NULL, &second) <= 0) look(s, title);
    }
    MHD_stop_daemon(d);
    return rc;
}

int cli_endpoint(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"listen", KEY_LISTEN, "[HOST][:PORT]", 0,
         "Where to listen: numeric; port 0 is any that is free (default 7471)", 0},
        {"port-file", KEY_PORT_FILE, "FILE", 0, "Write the port to FILE once it listens", 0},
        {"key-file", KEY_KEY_FILE, "FILE", 0, "Take only what is sealed with a key of FILE", 0},
        {"entries", KEY_ENTRIES, "N", 0, "The most nodes of one grid (default 20000)", 0},
        {"memory", KEY_MEMORY, "SIZE", 0, "The most memory for the entries of all grids (default 64MiB)", 0},
        CLI_HELP_OPTIONS,
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .doc = "Serves as a meeting point: nodes whose grid is http://HOST:PORT/GRID find each other through it. "
               "It holds sealed entries that it cannot read, in memory only, and is needed by newcomers only.\v"
               "It runs until SIGINT, SIGTERM or SIGHUP.\n\n" CLI_SIZE_FORM,
    };
    struct request q = {.port = PORT_DEFAULT, .entries = 20000, .memory = 64u << 20};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    static struct server s;
    s.began = moyai_now();
    struct moyai_error why = {0};
    uint64_t seed;
    int rc = rng_system(&seed, sizeof seed);
    const struct endpoint_limits limits = {.grids = 1000, .entries = (size_t)q.entries, .bytes = q.memory};
    if (rc == 0) rc = endpoint_store_new(&s.store, &limits, seed);
    if (rc < 0) err_set(&why, rc, "%s", moyai_strerror(rc));
    if (rc == 0 && q.key_file) rc = keyfile_open(&s.keys, q.key_file, &why);
    if (rc == 0) rc = serve(&s, &q, argv[0], &why);
    if (rc < 0) cli_say(argv[0], "%s", why.text);
    keyfile_close(s.keys);
    endpoint_store_free(s.store);
    return rc == 0 && !ferror(stdout) ? CLI_OK : CLI_FAILED;
}
