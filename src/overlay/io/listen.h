/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP sockets at which a node of a grid of several hosts can be connected to, and the addresses that it tells the
 * others: those it listens at, or what the user has set (behind a NAT that lets a port through). What is accepted
 * becomes a link that has not said hello. For the files of the overlay's driver only; node lock held.
 */
#ifndef OVERLAY_IO_LISTEN_H
#define OVERLAY_IO_LISTEN_H

#include "overlay/io/internal.h"
#include "overlay/peers.h"

#define LISTENERS  8u
#define LINE_PORTS 8u /* besides, for the grid file */

struct listener {
    struct listeners *all;
    int fd;
    struct exec_fd *watched;
    struct exec_timer timer; /* out of descriptors: look again */
    moyai_dur wait;
};

struct listeners {
    struct overlay *o;
    struct tls_ctx *tls;
    void (*before)(void *arg); /* before connections are taken */
    void *arg;
    struct listener l[LISTENERS + LINE_PORTS];
    size_t n;
    size_t half_most; /* connections that have not said hello */
    moyai_ns said;    /* that strangers have all places; 0: never */
    uint8_t *text;    /* the addresses told, while they are found out */
    uint32_t *n_text;
};

/* As the options say; text: PEERS_TEXT bytes for the addresses to tell. EINVAL, EEXIST (a port is in use), ESYS ...:
 * the text names the option. What listens already is closed by listen_close in any case. */
int listen_all(struct listeners *w, uint8_t *text, uint32_t *n_text, struct moyai_error *reterr) MOYAI_MUST_USE;
/* There, too, told nobody. ELIMIT. */
int listen_besides(struct listeners *w, const struct tcp_addr *at, struct moyai_error *reterr) MOYAI_MUST_USE;
void listen_close(struct listeners *w);

/* Who has connected by this link has come by a router: no filter keeps the others out, either. */
bool listen_from_afar(const struct olink *k);

#endif
