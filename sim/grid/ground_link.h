/* SPDX-License-Identifier: Apache-2.0 */
/* What ground_link.c and ground_rest.c ask of each other. */
#ifndef SIM_GRID_GROUND_LINK_H
#define SIM_GRID_GROUND_LINK_H

#include "link/tcp.h"
#include "link/tls.h"
#include "sim/grid/ground.h"

/* Numbers in place of descriptors: the system has none as high. */
#define GROUND_LISTENER (1 << 24)             /* for other hosts */
#define GROUND_UNIX     (GROUND_LISTENER + 1) /* for nodes of this host: nobody comes */
#define GROUND_PROBES   (1 << 25)             /* and the index of the node that is probed */
#define GROUND_FDS      (1 << 26)             /* and two for each connection */

int ground_conn_fd(const struct ground_conn *c, int end);
struct ground_conn *ground_fd_conn(struct ground *g, int fd);
int ground_accept(int listener, int *ret, struct tcp_addr *from);
void ground_parse(const char *address, struct tcp_addr *at);
struct tls *ground_tls(void);

void ground_spare_done(struct ground *g);

#endif
