/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grid of several hosts, on one: each node has a run directory of its own, so that it shares a host with nobody, and
 * most cannot be connected to, so that what they say to each other goes through others.
 */
#ifndef TESTS_PUBLIC_WIDE_KIT_H
#define TESTS_PUBLIC_WIDE_KIT_H

#include "tests/public/kit.h"

/* The state of a server: add(n) returns n + 1, counts() both of these, echo(bytes), add_at(name, n) what that server's
 * add does, linked(n) returns when its node has so many links, sleep() never. */
struct server {
    int64_t calls, sum;
};
extern const struct moyai_class cls;
int role_server(int argc, char **argv); /* NAME */

#define OPEN_MOST 4
extern char places[OPEN_MOST * 24 + 1]; /* where the grid is met: the addresses of those that can be connected to */
extern char place[OPEN_MOST][24];
extern char key[128]; /* its key file */

void begin_grid(int n_open);
void make_key(const char *name, char path[128]);

/* open: the number of its place; -1: nobody can connect to it. */
pid_t start_as(const char *role, const char *name, int open, const char *how);
pid_t start(const char *name, int open); /* a server */

/* A node of this process, that nobody can connect to. */
moyai_node *join(void);
moyai_node *join_with(const char *key_file);
moyai_node *join_at(const char *dir, const char *key_file);

void add_much(moyai_node *n, moyai_ref *ref, int calls);
/* A number of what a node says of itself. */
int64_t counted(moyai_node *n, struct moyai_node_id id, const char *key_);

#endif
