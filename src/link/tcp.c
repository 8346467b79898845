/* SPDX-License-Identifier: Apache-2.0 */
#include "link/tcp.h"

#include "base/config.h"
#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG      1024
#define NOTSENT      (128 * 1024) /* bytes the kernel may hold that are not on the wire: more would wait behind them */
#define KEEP_IDLE    60           /* seconds; less than most NATs keep a mapping */
#define KEEP_EVERY   10
#define KEEP_TRIES   6
#define USER_TIMEOUT (120 * 1000) /* milliseconds without an acknowledgement, after which the kernel gives up */

/* ---- addresses ------------------------------------------------------------------------------- */

/* advice: what to write instead of no host. */
static int split(const char *text, bool port_needed, const char *advice, char host[TCP_HOST], uint16_t *port,
                 struct moyai_error *reterr) {
    const char *begin = text, *end, *colon;
    if (text[0] == '[') {
        end = strchr(++begin, ']');
        if (!end) return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": the ']' is missing", text);
        colon = end + 1;
    } else {
        end = colon = strrchr(text, ':') ? strrchr(text, ':') : text + strlen(text);
        if (memchr(text, ':', (size_t)(end - text)))
            return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": write an IPv6 address in brackets: [2001:db8::7]:4711",
                           text);
    }
    size_t n = (size_t)(end - begin);
    if (n >= TCP_HOST)
        return err_set(reterr, MOYAI_EINVAL, "\"%.40s...\": too long, a host has at most %u characters", text,
                       TCP_HOST - 1);
    /* A number alone is a port whose host was forgotten; to the resolver it would be an IPv4 address. */
    if (n == 0 || (begin == text && strspn(begin, "0123456789") == n))
        return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": no host: HOST:PORT%s", text, advice);
    if (memchr(begin, '/', n)) return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": a host has no '/' in it", text);
    int64_t p = 0;
    if (*colon == 0 && port_needed) return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": no port (HOST:PORT)", text);
    if (*colon != 0 && (*colon != ':' || config_parse_integer(colon + 1, &p) < 0 || p < port_needed || p > 65535))
        return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": a port is a number from %d to 65535", text, port_needed);
    memcpy(host, begin, n);
    host[n] = 0;
    *port = (uint16_t)p;
    return 0;
}

int tcp_split(const char *text, bool port_needed, char host[TCP_HOST], uint16_t *port, struct moyai_error *reterr) {
    return split(text, port_needed, "", host, port, reterr);
}

int tcp_parse(const char *text, struct tcp_addr *ret, struct moyai_error *reterr) {
    char host[TCP_HOST];
    uint16_t port;
    int rc = split(text, false, "; any address to listen at is 0.0.0.0", host, &port, reterr);
    if (rc < 0) return rc;
    struct tcp_addr a = {0};
    struct in_addr v4;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found;
    char number[8];
    snprintf(number, sizeof number, "%u", port);
    /* Of IPv4 it takes short forms besides: "127.1". With these flags it asks nobody. */
    bool whole = strchr(host, ':') || inet_pton(AF_INET, host, &v4) == 1;
    if (!whole || getaddrinfo(host, number, &hints, &found) != 0)
        return err_set(reterr, MOYAI_EINVAL, "\"%.80s\": not a numeric address%s", text,
                       strcmp(host, "any") == 0 ? "; any address at a port of your choice is 0.0.0.0:PORT" : "");
    memcpy(&a.ss, found->ai_addr, found->ai_addrlen);
    a.n = found->ai_addrlen;
    freeaddrinfo(found);
    *ret = a;
    return 0;
}

void tcp_format(const struct tcp_addr *a, char out[TCP_TEXT]) {
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->ss;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->ss;
    if (a->ss.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        snprintf(host, sizeof host, "%u.%u.%u.%u", v6->sin6_addr.s6_addr[12], v6->sin6_addr.s6_addr[13],
                 v6->sin6_addr.s6_addr[14], v6->sin6_addr.s6_addr[15]);
    else if (a->ss.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    else if (a->ss.ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    snprintf(out, TCP_TEXT, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, tcp_port(a));
}

uint16_t tcp_port(const struct tcp_addr *a) {
    if (a->ss.ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)&a->ss)->sin6_port);
    return a->ss.ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)&a->ss)->sin_port) : 0;
}

void tcp_set_port(struct tcp_addr *a, uint16_t port) {
    if (a->ss.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&a->ss)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&a->ss)->sin_port = htons(port);
}

bool tcp_equal(const struct tcp_addr *a, const struct tcp_addr *b) {
    char x[TCP_TEXT], y[TCP_TEXT];
    tcp_format(a, x);
    tcp_format(b, y);
    return strcmp(x, y) == 0;
}

uint64_t tcp_source(const struct sockaddr *a) {
    const uint8_t *p, *v4 = NULL;
    uint64_t x = 0;
    if (a->sa_family == AF_INET) v4 = (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr;
    if (!v4 && a->sa_family != AF_INET6) return 0;
    p = v4 ? v4 : ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr;
    if (!v4 && IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)a)->sin6_addr)) v4 = p = p + 12;
    for (unsigned i = 0; i < (v4 ? 4 : 8); i++) x = x << 8 | p[i];
    return x;
}

int tcp_parse_range(const char *text, uint16_t *first, uint16_t *last, struct moyai_error *reterr) {
    char low[8];
    const char *dash = strchr(text, '-');
    size_t n = dash ? (size_t)(dash - text) : strlen(text);
    int64_t a, b;
    if (n < sizeof low) {
        memcpy(low, text, n);
        low[n] = 0;
        if (config_parse_integer(low, &a) == 0 && config_parse_integer(dash ? dash + 1 : low, &b) == 0 && a >= 1 &&
            a <= b && b <= 65535) {
            *first = (uint16_t)a;
            *last = (uint16_t)b;
            return 0;
        }
    }
    return err_set(reterr, MOYAI_EINVAL,
                   "\"%.40s\": not a port or a range of them such as 9000-9100, which are numbers from 1 to 65535",
                   text);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void set(int fd, int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value,
                     sizeof value); /* an older kernel may not know it: nothing depends on it */
}

static bool is_loopback(const struct tcp_addr *a) {
    if (a->ss.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&a->ss)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (a->ss.ss_family != AF_INET6) return false;
    const struct in6_addr *ip = &((const struct sockaddr_in6 *)&a->ss)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(ip) || (IN6_IS_ADDR_V4MAPPED(ip) && ip->s6_addr[12] == IN_LOOPBACKNET);
}

/* Within the host nothing can be congested. Where its default is BBR, each write would be paced, by a timer that costs
 * more than the write. */
static const char plain_control[] = "reno"; /* of every kernel, and open to everybody */

static void link_options(int fd, const struct tcp_addr *other) {
    if (is_loopback(other)) (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain_control, sizeof plain_control - 1);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_TRIES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT);
}

/* 0 or the errno. */
static int listen_at(int *ret, const struct tcp_addr *where, struct tcp_addr *at) {
    int fd = socket(where->ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (where->ss.ss_family == AF_INET6) set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    at->n = sizeof at->ss;
    if (bind(fd, (const struct sockaddr *)&where->ss, where->n) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, (struct sockaddr *)&at->ss, &at->n) == 0) {
        *ret = fd;
        return 0;
    }
    int e = errno;
    close(fd);
    return e;
}

int tcp_listen(int *ret, const struct tcp_addr *where, uint16_t first, uint16_t last, struct tcp_addr *at,
               struct moyai_error *reterr) {
    struct tcp_addr any = {.ss.ss_family = AF_INET6, .n = sizeof(struct sockaddr_in6)}, a = where ? *where : any;
    bool fixed = tcp_port(&a) != 0;
    int e = 0;
    for (unsigned port = fixed ? tcp_port(&a) : first;; port++) {
        tcp_set_port(&a, (uint16_t)port);
        e = listen_at(ret, &a, at);
        if (e == EAFNOSUPPORT && !where && a.ss.ss_family == AF_INET6) { /* a host without IPv6 */
            a = (struct tcp_addr){.ss.ss_family = AF_INET, .n = sizeof(struct sockaddr_in)};
            port--;
            continue;
        }
        if (e != EADDRINUSE || fixed || port >= last) break;
    }
    if (e == 0) return 0;
    char text[TCP_TEXT];
    tcp_format(&a, text);
    if (e == EADDRINUSE && !fixed && first == last) return err_set(reterr, MOYAI_EEXIST, "port %u is in use", first);
    if (e == EADDRINUSE && !fixed)
        return err_set(reterr, MOYAI_EEXIST, "each port from %u to %u is in use", first, last);
    if (e == EADDRINUSE) return err_set(reterr, MOYAI_EEXIST, "cannot listen at %s: another program does", text);
    if (e == EACCES) return err_set(reterr, MOYAI_EPERM, "cannot listen at %s: ports below 1024 are for root", text);
    if (e == EADDRNOTAVAIL) {
        if (!fixed) *strrchr(text, ':') = 0; /* nobody has asked for one */
        return err_set(reterr, err_of_errno(e), "cannot listen at %s: that is no address of this host", text);
    }
    return err_sys(reterr, e, "cannot listen at %s", text);
}

int tcp_accept(int listener, int *ret, struct tcp_addr *from, struct moyai_error *reterr) {
    for (;;) {
        from->n = sizeof from->ss;
        int fd = accept4(listener, (struct sockaddr *)&from->ss, &from->n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            link_options(fd, from);
            *ret = fd;
            return 0;
        }
        /* What was wrong with a connection before it was taken is told here (accept(2)): the next one. */
        if (errno == EINTR || errno == ECONNABORTED || errno == ENETDOWN || errno == EPROTO || errno == ENOPROTOOPT ||
            errno == EHOSTDOWN || errno == ENONET || errno == EHOSTUNREACH || errno == ENETUNREACH || errno == EPERM)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return MOYAI_EAGAIN;
        return err_sys(reterr, errno, "cannot accept a connection");
    }
}

int tcp_connect(int *ret, const struct tcp_addr *to, struct moyai_error *reterr) {
    char text[TCP_TEXT];
    tcp_format(to, text);
    int fd = socket(to->ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return err_sys(reterr, errno, "cannot connect to %s", text);
    link_options(fd, to);
    if (connect(fd, (const struct sockaddr *)&to->ss, to->n) < 0 && errno != EINPROGRESS && errno != EINTR) {
        int e = errno;
        close(fd);
        (void)err_set(reterr, MOYAI_EUNREACHABLE, "cannot connect to %s: %s", text, strerror(e));
        if (reterr) reterr->sys = e;
        return MOYAI_EUNREACHABLE;
    }
    *ret = fd;
    return 0;
}

/* ---- this host's ----------------------------------------------------------------------------- */

/* The lower, the farther it reaches; -1: of no use to others. */
static int reach(const struct sockaddr *a) {
    if (a->sa_family == AF_INET) {
        uint32_t ip = ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);
        if (ip >> 24 == 127) return 6;
        if (ip >> 16 == 0xa9fe || ip == 0) return -1; /* link-local */
        bool private = ip >> 24 == 10 || ip >> 20 == 0xac1 || ip >> 16 == 0xc0a8 || ip >> 22 == (0x64400000u >> 22);
        return private ? 2 : 0;
    }
    if (a->sa_family == AF_INET6) {
        const struct in6_addr *ip = &((const struct sockaddr_in6 *)a)->sin6_addr;
        if (IN6_IS_ADDR_LOOPBACK(ip)) return 7;
        if (IN6_IS_ADDR_LINKLOCAL(ip) || IN6_IS_ADDR_UNSPECIFIED(ip)) return -1;
        return (ip->s6_addr[0] & 0xfe) == 0xfc ? 3 : 1;
    }
    return -1;
}

static int by_reach(const void *x, const void *y) {
    const struct tcp_addr *a = x, *b = y;
    int p = reach((const struct sockaddr *)&a->ss), q = reach((const struct sockaddr *)&b->ss);
    return p != q ? p - q : memcmp(&a->ss, &b->ss, sizeof a->ss);
}

size_t tcp_own_addresses(struct tcp_addr *out, size_t n) {
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0) return 0;
    enum { MOST = 256 };
    struct tcp_addr *found = calloc(MOST, sizeof *found);
    size_t k = 0;
    for (const struct ifaddrs *i = all; i && found && k < MOST; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || reach(i->ifa_addr) < 0) continue;
        found[k].n = i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(&found[k].ss, i->ifa_addr, found[k].n);
        k++;
    }
    freeifaddrs(all);
    if (!found) return 0;
    qsort(found, k, sizeof *found, by_reach);
    bool others = k > 0 && reach((const struct sockaddr *)&found[0].ss) < 6;
    size_t m = 0;
    for (size_t i = 0; i < k && m < n; i++)
        if (!others || reach((const struct sockaddr *)&found[i].ss) < 6) out[m++] = found[i];
    free(found);
    return m;
}

/* The bytes of an address, how many they are, and its family; what is IPv4 within IPv6 is IPv4. */
static const uint8_t *bytes_of(const struct sockaddr *a, size_t *n, int *family) {
    *family = a->sa_family;
    *n = a->sa_family == AF_INET ? 4 : 16;
    if (a->sa_family == AF_INET) return (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(v6)) return v6->s6_addr;
    *family = AF_INET;
    *n = 4;
    return v6->s6_addr + 12;
}

bool tcp_is_all(const struct tcp_addr *a) {
    size_t n;
    int family;
    const uint8_t *p = bytes_of((const struct sockaddr *)&a->ss, &n, &family);
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return n > 0;
}

bool tcp_is_near(const struct tcp_addr *a) {
    struct ifaddrs *all;
    size_t n, m, k;
    int family, other, masks;
    const uint8_t *p = bytes_of((const struct sockaddr *)&a->ss, &n, &family);
    if (getifaddrs(&all) < 0) return true;
    bool near = false;
    for (const struct ifaddrs *i = all; i && !near; i = i->ifa_next) {
        if (!i->ifa_addr || !i->ifa_netmask) continue;
        if (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) continue;
        const uint8_t *q = bytes_of(i->ifa_addr, &m, &other), *mask = bytes_of(i->ifa_netmask, &k, &masks);
        if (other != family || k != n) continue;
        near = true;
        for (size_t b = 0; b < n; b++) near = near && ((p[b] ^ q[b]) & mask[b]) == 0;
    }
    freeifaddrs(all);
    return near;
}
