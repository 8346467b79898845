/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the nodes of verbs that stay in a grid of several hosts (run, node) are reached by others: options that go before
 * the variables MOYAI_LISTEN, MOYAI_ADVERTISE, MOYAI_PORT_RANGE and MOYAI_OUTBOUND_ONLY, for the verb's own node and
 * for what it starts; and with them what it lends to others' traffic, MOYAI_RELAY_MEMORY. A port can be listened at once only: it is the verb's own, and what it starts is not told of it.
 */
#ifndef CLI_REACH_H
#define CLI_REACH_H

#include "cli/cli.h"

struct cli_reach {
    char *listen, *advertise; /* NULL: not given */
    const char *port_range;
    bool outbound_only, relay_memory;
};

enum { REACH_LISTEN = 0x3000, REACH_ADVERTISE, REACH_PORT_RANGE, REACH_OUTBOUND_ONLY, REACH_RELAY_MEMORY };
#define REACH_OPTIONS(group)                                                                                           \
    {"listen",                                                                                                         \
     REACH_LISTEN,                                                                                                     \
     "ADDRESS[:PORT]",                                                                                                 \
     0,                                                                                                                \
     "Where others may connect: a numeric address of this host; may be given several times (default: as "              \
     "MOYAI_LISTEN, then any)",                                                                                        \
     group},                                                                                                           \
        {"advertise",                                                                                                  \
         REACH_ADVERTISE,                                                                                              \
         "HOST[:PORT]",                                                                                                \
         0,                                                                                                            \
         "By what others reach this host, if it is not that (default: as MOYAI_ADVERTISE)",                            \
         group},                                                                                                       \
        {"port-range",                                                                                                 \
         REACH_PORT_RANGE,                                                                                             \
         "A-B",                                                                                                        \
         0,                                                                                                            \
         "Listen at one of these ports (default: as MOYAI_PORT_RANGE, then at any)",                                   \
         group},                                                                                                       \
        {"relay-memory",                                                                                               \
         REACH_RELAY_MEMORY,                                                                                           \
         "SIZE",                                                                                                       \
         0,                                                                                                            \
         "Memory for what passes through it on its way between others (default: as MOYAI_RELAY_MEMORY, 64MiB)",        \
         group},                                                                                                       \
    {                                                                                                                  \
        "outbound-only", REACH_OUTBOUND_ONLY, 0, 0,                                                                    \
            "Nobody can connect to this host: do not listen (default: as MOYAI_OUTBOUND_ONLY)", group                  \
    }

/* All zero at first. In a parser: true if it was one of them. At its end reach_check, which says what contradicts
 * itself; several_hosts: could the grid be one? */
bool reach_option(int key, char *arg, const struct argp_state *state, struct cli_reach *r);
void reach_check(const struct cli_reach *r, const char *site, const struct argp_state *state, bool several_hosts);
/* They would be of no use in a grid of one host, that in a directory ("": it is one of several): that has been said. */
bool reach_is_useless(const struct cli_reach *r, const char *title, const char *directory);

/* The name given to --site, if it is one. */
const char *reach_site(const char *name, const struct argp_state *state);

void reach_done(struct cli_reach *r);

void reach_set(const struct cli_reach *r, struct moyai_node_opts *o);
/* An error of the node that names one of its options: as it is called on the command line. */
void reach_blame(struct moyai_error *e);

/* NAME=VALUE for what is started here, each to be freed by the caller, also if it fails. directory: as above. Returns
 * how many; ENOMEM. */
enum { REACH_ENV = 4 };
int reach_env(const struct cli_reach *r, const char *directory, char *env[REACH_ENV]);

#endif
