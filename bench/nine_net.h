/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nine clusters of the paper (S0/5) in network namespaces (tests/grid), and processes on their hosts: four open
 * clusters, one behind a firewall, two behind NATs, and two into which and out of which only ssh gets. What is
 * configured is a key, the rendezvous, and six lines for ssh. The rendezvous is a server in hongo and, as blocked
 * clusters cannot ask that, a directory in the home that the hosts of each cluster share.
 *
 * One process of each program makes and removes the network; on each host runs the program again, as `PROGRAM host`,
 * which starts and ends workers (`PROGRAM worker FD`).
 */
#ifndef BENCH_NINE_NET_H
#define BENCH_NINE_NET_H

#include <stdbool.h>
#include <stdio.h>

struct nine_cluster {
    const char *name, *class;
    int workers; /* of NINE_ALL, the split of S0/5 */
};
#define NINE_CLUSTERS 9
#define NINE_ALL      948
extern const struct nine_cluster nine_clusters[NINE_CLUSTERS];

/* The index of a cluster, which exists. */
int nine_find(const char *name);

/* Why this machine cannot do it; NULL: it can. */
const char *nine_missing(void);

/* Make the network with so many hosts a cluster. It is removed, with all that runs in it, when this process exits. */
void nine_begin(int hosts);
void nine_end(void);

/* A tool of tests/grid, with arguments. Its status. */
int nine_tool(const char *name, const char *args);

/* The server, then the master (this program with these words) in hongo, until it has said "ready"; afterwards its
 * standard output. nine_master_status: when that has ended. */
FILE *nine_start_master(const char *const *words);
int nine_master_status(void);

/* A pool of turns for all hosts of clusters that nine_start_hosts names afterwards: so few workers are on their way to
 * the master at once, for the machine is small. */
void nine_new_turns(void);

/* An agent (moyai node) on each host of these clusters, the gateways of blocked ones included; waits until they are
 * ready. They are no workers, and are not killed. They are the witnesses of what nine_start_hosts starts there
 * afterwards. */
void nine_start_agents(const int *clusters, int n);

/* The hosts of a cluster, and of each the first so many workers, `workers` in all. One of them is that of a blocked
 * cluster's gateway, where ssh starts: nine_start_gateway. Nobody else there can reach the master before, so it must
 * not wait for a turn that one of these has. */
void nine_start_hosts(int cluster, int workers);
void nine_start_gateway(int cluster);
bool nine_is_blocked(int cluster);

/* Kill (SIGKILL) all workers of a cluster at once; start as many as there were in the beginning. */
void nine_kill_all(int cluster);
void nine_start_again(int cluster);
/* Kill the oldest worker of one host of a cluster (which one: random); start another there. */
void nine_kill_one(int cluster, unsigned random);
void nine_replace_one(void);

/* The path of a file of this name, which is removed with the network. In "kills" hosts write "PID SECONDS" (bench_now)
 * of each worker right when they kill it. */
const char *nine_path(const char *name, char path[160]);

/* `PROGRAM host`: starts as many workers as it is told on standard input, and ends them when that ends. */
int nine_host(void);

#endif
