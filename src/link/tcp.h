/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets: addresses as text, listening within a range of ports, connecting. IPv4 and IPv6 alike. Nothing here
 * blocks and nothing asks a name server; names are for whoever can wait (exec_resolve).
 *
 * An address in text is "192.0.2.7:4711" or "[2001:db8::7]:4711"; a place may have a host name instead of a number.
 */
#ifndef LINK_TCP_H
#define LINK_TCP_H

#include <moyai/error.h>
#include <sys/socket.h>

#define TCP_TEXT 64u  /* an address as text with its NUL */
#define TCP_HOST 256u /* a host name with its NUL */

struct tcp_addr {
    struct sockaddr_storage ss;
    socklen_t n;
};

/* Cut "host:port" in two. EINVAL says what is wrong with it. port_needed: else it may be missing or 0. */
int tcp_split(const char *text, bool port_needed, char host[TCP_HOST], uint16_t *port,
              struct moyai_error *reterr) MOYAI_MUST_USE;

/* A numeric address. EINVAL: also if it is a name. */
int tcp_parse(const char *text, struct tcp_addr *ret, struct moyai_error *reterr) MOYAI_MUST_USE;
void tcp_format(const struct tcp_addr *a, char out[TCP_TEXT]);
uint16_t tcp_port(const struct tcp_addr *a);
void tcp_set_port(struct tcp_addr *a, uint16_t port);
bool tcp_equal(const struct tcp_addr *a, const struct tcp_addr *b); /* host and port */

/* Whom it stands for, where strangers are counted: an IPv4 address, or 64 bits of IPv6. */
uint64_t tcp_source(const struct sockaddr *a);

/* "9000-9100" or "9000". EINVAL. */
int tcp_parse_range(const char *text, uint16_t *first, uint16_t *last, struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * Listen: *ret is a non-blocking descriptor, *at where it listens. where: an address, of which the port may be 0; NULL:
 * all addresses of the host, IPv6 and IPv4. If its port is 0 it is taken from [first, last], the first that is free;
 * 0, 0: any. EEXIST (the port, or each of the range, is in use), EPERM (a port below 1024), ELIMIT, ESYS.
 */
int tcp_listen(int *ret, const struct tcp_addr *where, uint16_t first, uint16_t last, struct tcp_addr *at,
               struct moyai_error *reterr) MOYAI_MUST_USE;

/* *ret is non-blocking, with the options of a link. EAGAIN: none waits; ELIMIT: out of descriptors (it still waits). */
int tcp_accept(int listener, int *ret, struct tcp_addr *from, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Begin to connect: *ret becomes writable when that is decided, and SO_ERROR says how. EUNREACHABLE: it has failed at
 * once, with reterr->sys. */
int tcp_connect(int *ret, const struct tcp_addr *to, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The addresses by which others may reach this host, those of most reach first: global before private, loopback only if
 * there are no others. Returns how many (at most n). */
size_t tcp_own_addresses(struct tcp_addr *out, size_t n);

/* Is it of this host, or of a network in which one of its interfaces is? Who connects from elsewhere has come by a
 * router: through whatever filters there are. True also if that cannot be found out. */
bool tcp_is_near(const struct tcp_addr *a);
/* All addresses of a host: 0.0.0.0, those of IPv4, or [::]. */
bool tcp_is_all(const struct tcp_addr *a);

#endif
