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

#include <stdlib.h>
#include <string.h>

static int check_log(const char *text, struct moyai_error *reterr) {
    struct moyai_log log;
    int rc = log_init(&log, text, reterr);
    log_done(&log);
    return rc;
}

static int check_grid(const char *text, struct moyai_error *reterr) {
    struct places p;
    int rc = places_parse(&p, text, reterr);
    if (rc == 0) places_done(&p);
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

enum { CHECKS = 7 };
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
                                     {CONFIG_advertise, c->advertise, check_advertise}};
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
