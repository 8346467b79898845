/* SPDX-License-Identifier: Apache-2.0 */
/* Ports for tests that must know one before they listen there. */
#ifndef TESTS_SUPPORT_PORT_H
#define TESTS_SUPPORT_PORT_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Whether no other test that runs now has been given this port: who has it holds a socket of its name until he ends. */
static inline bool test_port_is_mine(int port) {
    struct sockaddr_un a = {.sun_family = AF_UNIX}; /* abstract: of this network namespace, as the ports are */
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "moyai-test-port-%d", port);
    int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s >= 0 &&
        bind(s, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
        return true;
    if (s >= 0) close(s);
    return false;
}

/* A TCP port that is free now at all local addresses of both kinds, another at each call. It is not one of those that
 * the system gives to whoever asks for any (from 32768 on, ip(7)): between this call and listen(2) a connection of
 * somebody else could get such a one. Processes that run at the same time look in different places, and those that
 * need more of them than they have to themselves keep out of each other's way. */
static inline uint16_t test_free_port(void) {
    enum { FIRST = 10000, EACH = 11, PROCESSES = 2048 };
    static int next;
    static pid_t mine;
    if (mine != getpid()) next = 0;
    mine = getpid();
    for (int tries = 0; tries < EACH * PROCESSES; tries++) {
        int port = FIRST + (mine % PROCESSES * EACH + next++) % (EACH * PROCESSES);
        struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool taken;
        if (s >= 0) {
            taken = bind(s, (struct sockaddr *)&a, sizeof a) != 0; /* and with it that of IPv4 */
        } else {
            s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            taken = s < 0 || bind(s, (struct sockaddr *)&a4, sizeof a4) != 0;
        }
        if (s >= 0) close(s);
        if (!taken && test_port_is_mine(port)) return (uint16_t)port;
    }
    fprintf(stderr, "no free port\n");
    abort();
}

#endif
