/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, and sockets on loopback. */
#include "link/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void hosts_and_ports_are_cut(void **state) {
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
        int rc; /* with a port needed */
    } cases[] = {
        {"host:1", "host", 1, 0},
        {"host.example.org:65535", "host.example.org", 65535, 0},
        {"192.0.2.7:4711", "192.0.2.7", 4711, 0},
        {"[2001:db8::7]:4711", "2001:db8::7", 4711, 0},
        {"[::]:80", "::", 80, 0},
        {"host", "host", 0, MOYAI_EINVAL},
        {"[::1]", "::1", 0, MOYAI_EINVAL},
        {"host:0", "host", 0, MOYAI_EINVAL},
        {"host:65536", NULL, 0, MOYAI_EINVAL},
        {"host:", NULL, 0, MOYAI_EINVAL},
        {"host:x", NULL, 0, MOYAI_EINVAL},
        {"host:-1", NULL, 0, MOYAI_EINVAL},
        {"host:1x", NULL, 0, MOYAI_EINVAL},
        {":1", NULL, 0, MOYAI_EINVAL},
        {"", NULL, 0, MOYAI_EINVAL},
        {"[]:1", NULL, 0, MOYAI_EINVAL},
        {"[::1:1", NULL, 0, MOYAI_EINVAL},
        {"[::1]1", NULL, 0, MOYAI_EINVAL},
        {"2001:db8::7:4711", NULL, 0, MOYAI_EINVAL},
        {"99999", NULL, 0, MOYAI_EINVAL},
        {"99999:1", NULL, 0, MOYAI_EINVAL},
        {"http//host:1", NULL, 0, MOYAI_EINVAL},
        {"9host:1", "9host", 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char host[TCP_HOST];
        uint16_t port;
        struct moyai_error e = {0};
        int rc = tcp_split(cases[i].text, true, host, &port, &e);
        assert_int_equal(rc, cases[i].rc);
        if (rc < 0) { /* quoted whole */
            char quoted[80];
            snprintf(quoted, sizeof quoted, "\"%s\": ", cases[i].text);
            assert_memory_equal(e.text, quoted, strlen(quoted));
        }
        rc = tcp_split(cases[i].text, false, host, &port, NULL);
        assert_int_equal(rc, cases[i].host ? 0 : MOYAI_EINVAL);
        if (rc < 0) continue;
        assert_string_equal(host, cases[i].host);
        assert_int_equal(port, cases[i].port);
    }
    char host[TCP_HOST], big[TCP_HOST + 3];
    uint16_t port;
    memset(big, 'h', TCP_HOST - 1);
    strcpy(big + TCP_HOST - 1, ":1");
    assert_int_equal(tcp_split(big, true, host, &port, NULL), 0);
    memset(big, 'h', TCP_HOST);
    strcpy(big + TCP_HOST, ":1");
    assert_int_equal(tcp_split(big, true, host, &port, NULL), MOYAI_EINVAL);
}

static void addresses_are_read_and_written(void **state) {
    (void)state;
    static const char *const same[] = {"192.0.2.7:4711", "[2001:db8::7]:4711", "[::]:80", "0.0.0.0:1", "[::1]:65535"};
    struct tcp_addr a, b;
    char text[TCP_TEXT];
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_int_equal(tcp_parse(same[i], &a, NULL), 0);
        tcp_format(&a, text);
        assert_string_equal(text, same[i]);
        assert_true(tcp_equal(&a, &a));
    }
    assert_int_equal(tcp_parse("[::ffff:192.0.2.7]:4711", &b, NULL), 0); /* as an IPv6 socket shows an IPv4 peer */
    tcp_format(&b, text);
    assert_string_equal(text, "192.0.2.7:4711");
    assert_int_equal(tcp_parse("192.0.2.7:4711", &a, NULL), 0);
    assert_true(tcp_equal(&a, &b));
    assert_int_equal(tcp_parse("192.0.2.7:4712", &b, NULL), 0);
    assert_false(tcp_equal(&a, &b));
    assert_int_equal(tcp_parse("192.0.2.7", &a, NULL), 0);
    assert_int_equal(tcp_port(&a), 0);
    assert_int_equal(tcp_parse("localhost:1", &a, NULL), MOYAI_EINVAL);
    static const char *const bad[] = {"192.0.2.256:1", "99999", "99999:1", "127.1:1", "1.2.3:4", "0x7f000001:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(tcp_parse(bad[i], &a, NULL), MOYAI_EINVAL);
}

static void ranges_are_read(void **state) {
    (void)state;
    uint16_t a, b;
    assert_int_equal(tcp_parse_range("9000-9100", &a, &b, NULL), 0);
    assert_int_equal(a, 9000);
    assert_int_equal(b, 9100);
    assert_int_equal(tcp_parse_range("1", &a, &b, NULL), 0);
    assert_int_equal(a, 1);
    assert_int_equal(b, 1);
    assert_int_equal(tcp_parse_range("65535-65535", &a, &b, NULL), 0);
    static const char *const bad[] = {"", "-", "0", "0-5", "5-4", "1-65536", "a-b", "1-", "-1", "1-2-3", "123456789"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(tcp_parse_range(bad[i], &a, &b, NULL), MOYAI_EINVAL);
}

static int accepted(int listener, struct tcp_addr *from) {
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 10000), 1);
    int fd = -1;
    assert_int_equal(tcp_accept(listener, &fd, from, NULL), 0);
    return fd;
}

static void connections_are_made(void **state) {
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "[::1]", NULL};
    for (size_t i = 0; i < 3; i++) {
        struct tcp_addr where, at, from;
        int listener, fd;
        struct moyai_error e;
        if (hosts[i]) assert_int_equal(tcp_parse(hosts[i], &where, NULL), 0);
        int rc = tcp_listen(&listener, hosts[i] ? &where : NULL, 0, 0, &at, &e);
        if (i == 1 && rc < 0) continue; /* a host without IPv6 */
        assert_int_equal(rc, 0);
        assert_true(tcp_port(&at) != 0);
        assert_int_equal(tcp_accept(listener, &fd, &from, NULL), MOYAI_EAGAIN);
        char text[TCP_TEXT];
        snprintf(text, sizeof text, "%s:%u", hosts[i] ? hosts[i] : "127.0.0.1", tcp_port(&at));
        struct tcp_addr to;
        assert_int_equal(tcp_parse(text, &to, NULL), 0);
        assert_int_equal(tcp_connect(&fd, &to, NULL), 0);
        int in = accepted(listener, &from);
        char want[TCP_TEXT], got[TCP_TEXT];
        struct tcp_addr mine = {.n = sizeof mine.ss};
        assert_int_equal(getsockname(fd, (struct sockaddr *)&mine.ss, &mine.n), 0);
        tcp_format(&mine, want);
        tcp_format(&from, got);
        assert_string_equal(got, want);
        for (int k = 0; k < 2; k++) { /* whatever the host's default is: it is all within the host */
            char control[16];
            socklen_t n = sizeof control;
            assert_int_equal(getsockopt(k ? in : fd, IPPROTO_TCP, TCP_CONGESTION, control, &n), 0);
            assert_string_equal(control, "reno");
        }
        assert_int_equal(write(in, "x", 1), 1);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        char c;
        assert_int_equal(read(fd, &c, 1), 1);
        assert_int_equal(read(fd, &c, 1), -1); /* non-blocking */
        assert_int_equal(errno, EAGAIN);
        close(in);
        close(fd);
        close(listener);
        /* Nobody there: refused, at once or when the socket becomes writable. */
        if (tcp_connect(&fd, &to, &e) == 0) {
            p = (struct pollfd){.fd = fd, .events = POLLOUT};
            assert_int_equal(poll(&p, 1, 10000), 1);
            int err = 0;
            socklen_t n = sizeof err;
            assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n), 0);
            assert_int_equal(err, ECONNREFUSED);
            close(fd);
        }
    }
}

static void a_port_is_found_in_a_range(void **state) {
    (void)state;
    struct tcp_addr local, at;
    int fd[4];
    struct moyai_error e;
    assert_int_equal(tcp_parse("127.0.0.1", &local, NULL), 0);
    assert_int_equal(tcp_listen(&fd[0], &local, 0, 0, &at, NULL), 0);
    uint16_t first = tcp_port(&at);
    if (first > 65000) first = 65000; /* then the first of the range need not be taken: the test is weaker, not wrong */
    for (int i = 1; i < 3; i++) {
        assert_int_equal(tcp_listen(&fd[i], &local, first, (uint16_t)(first + 500), &at, NULL), 0);
        assert_true(tcp_port(&at) > first - (first == 65000) && tcp_port(&at) <= first + 500);
    }
    uint16_t taken = tcp_port(&at);
    assert_int_equal(tcp_listen(&fd[3], &local, taken, taken, &at, &e), MOYAI_EEXIST);
    assert_non_null(strstr(e.text, "in use"));
    char text[TCP_TEXT];
    snprintf(text, sizeof text, "127.0.0.1:%u", taken);
    assert_int_equal(tcp_parse(text, &local, NULL), 0);
    assert_int_equal(tcp_listen(&fd[3], &local, 1, 65535, &at, &e), MOYAI_EEXIST); /* what was asked for, or nothing */
    assert_non_null(strstr(e.text, text));
    for (int i = 0; i < 3; i++) close(fd[i]);
    assert_int_equal(tcp_parse("192.0.2.1:4711", &local, NULL), 0); /* not this host's */
    assert_true(tcp_listen(&fd[3], &local, 0, 0, &at, &e) < 0);
    assert_non_null(strstr(e.text, "192.0.2.1:4711"));
}

static void own_addresses_are_found(void **state) {
    (void)state;
    struct tcp_addr a[16];
    size_t n = tcp_own_addresses(a, 16);
    for (size_t i = 0; i < n; i++) { /* one can listen at each of them */
        int fd;
        struct tcp_addr at;
        struct moyai_error e = {0};
        int rc = tcp_listen(&fd, &a[i], 0, 0, &at, &e);
        if (rc < 0 && e.sys == EADDRNOTAVAIL && a[i].ss.ss_family == AF_INET6) continue; /* being checked for twins */
        assert_int_equal(rc, 0);
        close(fd);
    }
    assert_true(tcp_own_addresses(a, 1) <= 1);
}

/* Of this host's own addresses each is near; of those that are kept for books none. */
static void neighbours_are_told_from_others(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"127.0.0.1:1", "near"},          {"127.9.9.9:1", "near"},
                                           {"[::ffff:127.0.0.1]:1", "near"}, {"203.0.113.7:1", ""},
                                           {"[::ffff:203.0.113.7]:1", ""},   {"[2001:db8::7]:1", ""}};
    struct tcp_addr a[16], b;
    size_t n = tcp_own_addresses(a, 16);
    for (size_t i = 0; i < n; i++) {
        char text[TCP_TEXT];
        tcp_format(&a[i], text);
        if (!tcp_is_near(&a[i])) fail_msg("%s is not near", text);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tcp_parse(cases[i][0], &b, NULL), 0);
        if (tcp_is_near(&b) != (*cases[i][1] != 0)) fail_msg("%s", cases[i][0]);
        assert_false(tcp_is_all(&b));
    }
    static const char *const all[] = {"0.0.0.0:7", "[::]:7", "[::ffff:0.0.0.0]:7"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(tcp_parse(all[i], &b, NULL), 0);
        assert_true(tcp_is_all(&b));
    }
}

static void sources_are_told_apart(void **state) {
    (void)state;
    static const char *const same[][2] = {{"192.0.2.7:1", "[::ffff:192.0.2.7]:2"},
                                          {"[2001:db8::1]:1", "[2001:db8::2]:1"}};
    static const char *const apart[][2] = {{"192.0.2.7:1", "192.0.2.8:1"}, {"[2001:db8::1]:1", "[2001:db8:0:1::1]:1"}};
    struct tcp_addr a, b;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(tcp_parse(same[i][0], &a, NULL) | tcp_parse(same[i][1], &b, NULL), 0);
        assert_int_equal(tcp_source((struct sockaddr *)&a.ss), tcp_source((struct sockaddr *)&b.ss));
        assert_int_equal(tcp_parse(apart[i][0], &a, NULL) | tcp_parse(apart[i][1], &b, NULL), 0);
        assert_int_not_equal(tcp_source((struct sockaddr *)&a.ss), tcp_source((struct sockaddr *)&b.ss));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_and_ports_are_cut),
        cmocka_unit_test(addresses_are_read_and_written),
        cmocka_unit_test(ranges_are_read),
        cmocka_unit_test(connections_are_made),
        cmocka_unit_test(a_port_is_found_in_a_range),
        cmocka_unit_test(own_addresses_are_found),
        cmocka_unit_test(neighbours_are_told_from_others),
        cmocka_unit_test(sources_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
