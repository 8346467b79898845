/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reach.h"

#include "base/config.h"
#include "base/err.h"
#include "link/tcp.h"
#include "node/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

void reach_blame(struct moyai_error *e) {
    const struct {
        const char *inside, *here;
    } names[] = {{"option listen:", "--listen:"},
                 {"option advertise:", "--advertise:"},
                 {"option port_range:", "--port-range:"},
                 {"option relay-memory", "--relay-memory"},
                 {"option site:", "--site:"},
                 {"option run_dir:", "$MOYAI_RUN_DIR:"},
                 {"option grid:", strcmp(cli_grid_called, "--grid") == 0 ? "--grid:" : "$MOYAI_GRID:"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i].inside), m = strlen(names[i].here);
        if (strncmp(e->text, names[i].inside, n) != 0) continue;
        memmove(e->text + m, e->text + n, strlen(e->text + n) + 1);
        memcpy(e->text, names[i].here, m);
        return;
    }
}

static void check_filled(const char *option, const char *text, const struct argp_state *state) {
    if (!text[strspn(text, " \t\n,")]) cli_usage(state, "--%s: it is empty; is a variable not set?", option);
}

/* As the variable is looked at. */
static void check(const char *option, const char *text, const struct argp_state *state) {
    struct config c = {0};
    struct moyai_error why = {0};
    int rc = config_set(&c, option, text, &why);
    if (rc == 0) rc = node_check(&c, &why);
    config_done(&c);
    reach_blame(&why);
    if (rc < 0) cli_usage(state, "%s", why.text);
}

/* Given again, it is one more. */
static void add(char **list, const char *option, const char *text, const struct argp_state *state) {
    char *all;
    check_filled(option, text, state);
    check(option, text, state);
    if (asprintf(&all, "%s%s%s", *list ? *list : "", *list ? " " : "", text) < 0)
        argp_failure(state, CLI_FAILED, 0, "out of memory");
    free(*list);
    *list = all;
}

bool reach_option(int key, char *arg, const struct argp_state *state, struct cli_reach *r) {
    switch (key) {
    case REACH_LISTEN:
        add(&r->listen, "listen", arg, state);
        return true;
    case REACH_ADVERTISE:
        add(&r->advertise, "advertise", arg, state);
        return true;
    case REACH_PORT_RANGE:
        check_filled("port-range", arg, state);
        check("port-range", arg, state);
        r->port_range = arg;
        return true;
    case REACH_OUTBOUND_ONLY:
        r->outbound_only = true;
        return true;
    case REACH_RELAY_MEMORY: /* of what is started, too: it inherits the variable */
        check_filled("relay-memory", arg, state);
        check("relay-memory", arg, state);
        if (setenv("MOYAI_RELAY_MEMORY", arg, 1) < 0) argp_failure(state, CLI_FAILED, errno, "--relay-memory");
        r->relay_memory = true;
        return true;
    default:
        return false;
    }
}

const char *reach_site(const char *name, const struct argp_state *state) {
    cli_filled(state, "--site", name);
    check("site", name, state);
    return name;
}

/* The first that was given, of those that say where to listen; NULL: none. */
static const char *given(const struct cli_reach *r) {
    return r->listen ? "--listen" : r->advertise ? "--advertise" : r->port_range ? "--port-range" : NULL;
}

static const char *any_given(const struct cli_reach *r) {
    return r->outbound_only ? "--outbound-only" : given(r) ? given(r) : r->relay_memory ? "--relay-memory" : NULL;
}

/* With a grid file a grid of one host is linked to others. */
static bool grid_file(void) {
    const char *file = getenv("MOYAI_GRID_FILE");
    return file && *file;
}

void reach_check(const struct cli_reach *r, const char *site, const struct argp_state *state, bool several_hosts) {
    const char *variable = getenv("MOYAI_OUTBOUND_ONLY");
    bool closed = false;
    if (!variable || config_parse_bool(variable, &closed) < 0) closed = false; /* the node says what is wrong with it */
    const char *useless = any_given(r) ? any_given(r) : site ? "--site" : NULL;
    if (useless && !several_hosts && !grid_file())
        cli_usage(state, "%s is for grids of several hosts: --grid says which", useless);
    if (given(r) && (r->outbound_only || closed))
        cli_usage(state, "%s is for nodes that listen: not with %s", given(r),
                  r->outbound_only ? "--outbound-only" : "$MOYAI_OUTBOUND_ONLY");
}

bool reach_is_useless(const struct cli_reach *r, const char *title, const char *directory) {
    if (!any_given(r) || !*directory || grid_file()) return false;
    cli_say(title,
            "%s is for grids of several hosts, and that in '%s' is of one; with --key-file it would be of several",
            any_given(r), directory);
    return true;
}

void reach_done(struct cli_reach *r) {
    free(r->listen);
    free(r->advertise);
}

void reach_set(const struct cli_reach *r, struct moyai_node_opts *o) {
    o->listen = r->listen;
    o->advertise = r->advertise;
    o->port_range = r->port_range;
    o->outbound_only = r->outbound_only;
}

/* ---- what is started ------------------------------------------------------------------------- */

/* The list of addresses without their ports. What is no address is left to who looks at it. */
static char *without_ports(const char *name, const char *list) {
    size_t cap = strlen(name) + strlen(list) + 2, n;
    char *out = malloc(cap);
    if (!out) return NULL;
    n = (size_t)snprintf(out, cap, "%s=", name);
    for (const char *begin = out + n;;) {
        char word[TCP_HOST + 16], host[TCP_HOST];
        uint16_t port;
        list += strspn(list, " \t\n,");
        size_t len = strcspn(list, " \t\n,");
        if (len == 0) return out;
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), list);
        if (len < sizeof word && tcp_split(word, false, host, &port, NULL) == 0)
            snprintf(word, sizeof word, strchr(host, ':') ? "[%s]" : "%s", host);
        list += len;
        n += (size_t)snprintf(out + n, cap - n, "%s%s", out + n > begin ? " " : "", word);
    }
}

int reach_env(const struct cli_reach *r, const char *directory, char *env[REACH_ENV]) {
    if (*directory && !grid_file()) return 0; /* nobody listens here */
    const char *listen = r->listen ? r->listen : getenv("MOYAI_LISTEN");
    const char *advertise = r->advertise ? r->advertise : getenv("MOYAI_ADVERTISE");
    int n = 0;
    if (listen && *listen && !(env[n++] = without_ports("MOYAI_LISTEN", listen))) return MOYAI_ENOMEM;
    if (advertise && *advertise && !(env[n++] = without_ports("MOYAI_ADVERTISE", advertise))) return MOYAI_ENOMEM;
    if (r->port_range && asprintf(&env[n++], "MOYAI_PORT_RANGE=%s", r->port_range) < 0) {
        env[n - 1] = NULL;
        return MOYAI_ENOMEM;
    }
    if (r->outbound_only && !(env[n++] = strdup("MOYAI_OUTBOUND_ONLY=yes"))) return MOYAI_ENOMEM;
    return n;
}
