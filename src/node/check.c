/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that are texts, looked at before they are used, and whether they are or not: a node that is alone today joins
 * a grid tomorrow. What only the use of them tells (who owns a directory, what a name resolves to) is said then.
 */
#include "node/node.h"

#include "base/err.h"
#include "base/id.h"
#include "base/log.h"
#include "link/rundir.h"
#include "link/tcp.h"
#include "overlay/io/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_log(const char *text, struct moyai_error *reterr) {
    struct moyai_log log;
    int rc = log_init(&log, text, reterr);
    log_done(&log);
    return rc;
}

/* HOST:PORT, which may stand behind USER@. Without a port it would be HTTP's own, where no endpoint listens. */
static int check_server(const char *at, const char *end, struct moyai_error *reterr) {
    char text[TCP_HOST + 16], host[TCP_HOST]; /* what is cut off makes no host of it that would do */
    uint16_t port;
    const char *user = memrchr(at, '@', (size_t)(end - at));
    if (user) at = user + 1;
    snprintf(text, sizeof text, "%.*s", (int)(end - at), at);
    const char *bracket = strchr(text, ']');
    const bool named = strchr(bracket ? bracket : text, ':') != NULL;
    const int rc = tcp_split(text, named, host, &port, reterr);
    if (rc < 0 || named) return rc;
    return err_set(reterr, MOYAI_EINVAL, "\"%.100s\": the port is missing; an endpoint's is 7471 by default", text);
}

/* http://HOST:PORT/NAME, and the name as doc/spec/07-rendezvous.md, 3.1, has it: a server would answer no other. */
static int check_name(const char *url, struct moyai_error *reterr) {
    const char *slash = strncmp(url, "http://", 7) == 0 ? strchr(url + 7, '/') : NULL;
    if (!slash || slash == url + 7 || !slash[1] || strpbrk(slash, "?#"))
        return err_set(reterr, MOYAI_EINVAL, "\"%.100s\": not of the form http://HOST:PORT/GRID", url);
    int rc = check_server(url + 7, slash, reterr);
    if (rc < 0) return rc;
    const char *name = slash + 1;
    size_t n = strlen(name);
    if (n > 1 && name[n - 1] == '/') n--;
    bool dots = n > 0 && n < 3 && strspn(name, ".") == n; /* to a client of HTTP it is another path */
    if (n <= 64 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") >= n && !dots)
        return 0;
    return err_set(reterr, MOYAI_EINVAL,
                   "\"%.100s\": a grid cannot be called \"%.*s\": 1 to 64 characters out of A-Z a-z 0-9 . _ -", url,
                   n < 70 ? (int)n : 70, name);
}

static int check_grid(const char *text, struct moyai_error *reterr) {
    struct places p;
    int rc = places_parse(&p, text, reterr);
    if (rc < 0) return rc;
    for (size_t i = 0; i < p.n_http && rc == 0; i++) rc = check_name(p.http[i], reterr);
    places_done(&p);
    return rc;
}

static int check_parent(const char *text, struct moyai_error *reterr) {
    uint8_t id[16];
    if (strlen(text) == 32 && id_parse(text, 32, id)) return 0;
    return err_set(reterr, MOYAI_EINVAL, "\"%.64s\" is no node id (32 hex digits)", text);
}

static int check_range(const char *text, struct moyai_error *reterr) {
    uint16_t first, last;
    return tcp_parse_range(text, &first, &last, reterr);
}

/* host or host:port, several with blanks or commas between them. */
static int check_addresses(const char *text, int (*check)(const char *word, struct moyai_error *reterr),
                           struct moyai_error *reterr) {
    int rc = 0;
    while (rc == 0) {
        text += strspn(text, " \t\n,");
        size_t n = strcspn(text, " \t\n,");
        if (n == 0) break;
        char *word = strndup(text, n);
        text += n;
        rc = word ? check(word, reterr) : err_set(reterr, MOYAI_ENOMEM, "out of memory");
        free(word);
    }
    return rc;
}

static int check_here(const char *word, struct moyai_error *reterr) {
    struct tcp_addr at;
    return strcmp(word, "any") == 0 ? 0 : tcp_parse(word, &at, reterr);
}
static int check_listen(const char *text, struct moyai_error *reterr) {
    return check_addresses(text, check_here, reterr);
}

static int check_place(const char *word, struct moyai_error *reterr) {
    char host[TCP_HOST];
    uint16_t port;
    return tcp_split(word, false, host, &port, reterr);
}
static int check_advertise(const char *text, struct moyai_error *reterr) {
    return check_addresses(text, check_place, reterr);
}

/* Others are told it. */
static int check_site(const char *text, struct moyai_error *reterr) {
    if (strlen(text) < OVERLAY_SITE) return 0;
    return err_set(reterr, MOYAI_EINVAL, "\"%.80s\" is longer than %u bytes", text, OVERLAY_SITE - 1);
}

enum { CHECKS = 8 };
struct check {
    enum config_index which;
    const char *text;
    int (*check)(const char *text, struct moyai_error *reterr);
};

static void checks(const struct config *c, struct check all[CHECKS]) {
    const struct check of[CHECKS] = {{CONFIG_log, c->log, check_log},
                                     {CONFIG_grid, c->grid, check_grid},
                                     {CONFIG_run_dir, c->run_dir, rundir_check},
                                     {CONFIG_parent, c->parent, check_parent},
                                     {CONFIG_port_range, c->port_range, check_range},
                                     {CONFIG_listen, c->listen, check_listen},
                                     {CONFIG_advertise, c->advertise, check_advertise},
                                     {CONFIG_site, c->site, check_site}};
    memcpy(all, of, sizeof of);
}

/* *e is written to on failure only. */
static int check_one(const struct config *c, const struct check *k, struct moyai_error *e) {
    struct moyai_error why = {0};
    if (!k->text || k->check(k->text, &why) == 0) return 0;
    (void)config_blame(&why, c, k->which);
    if (e) *e = why;
    return why.code;
}

int node_check(const struct config *c, struct moyai_error *reterr) {
    struct check all[CHECKS];
    int rc = 0;
    checks(c, all);
    for (size_t i = 0; i < CHECKS && rc == 0; i++) rc = check_one(c, &all[i], reterr);
    return rc;
}

void node_check_all(const struct config *c, struct config_faults *faults) {
    struct check all[CHECKS];
    checks(c, all);
    for (size_t i = 0; i < CHECKS; i++)
        if (faults->of[all[i].which].code == 0) (void)check_one(c, &all[i], &faults->of[all[i].which]);
}
