/* SPDX-License-Identifier: Apache-2.0 */
/* moyai endpoint over plain sockets: what it keeps, what it refuses, and that it goes on whatever is sent to it. */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include "base/id.h"
#include "link/key.h"
#include "link/seal.h"
#include "overlay/peers_entry.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ID1 "00112233445566778899aabbccddeeff"
#define ID2 "ffeeddccbbaa99887766554433221100"

static char dir[64], port_file[100];
static uint16_t port;

static int set_up(void **state) {
    if (kit_setup(state) != 0) return -1;
    snprintf(dir, sizeof dir, "/tmp/moyai-cli-endpoint-%d", (int)getpid());
    snprintf(port_file, sizeof port_file, "%s/port", dir);
    return mkdir(dir, 0700);
}

static int tear_down(void **state) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s; rmdir '%s/moyai'", dir, kit_dir());
    return system(command) | kit_teardown(state);
}

static void begin(struct cli *c, const char *option, const char *value) {
    cli_start(c, NULL, "endpoint", "--listen", "127.0.0.1:0", "--port-file", port_file, option, value, NULL);
    (void)cli_line(c, 1, "serving http://127.0.0.1:");
    char *text = kit_read(port_file);
    port = (uint16_t)atoi(text);
    assert_true(port > 0);
    free(text);
}

static void end(struct cli *c) {
    kill(c->pid, SIGTERM);
    assert_int_equal(cli_wait(c), 0);
    cli_free(c);
}

static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

struct reply {
    int status; /* 0: closed without a word */
    size_t n;
    uint8_t *body; /* in text */
    char text[1 << 20];
};

static void ask_raw(struct reply *r, const void *p, size_t n) {
    int fd = dial();
    (void)!send(fd, p, n, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    size_t at = 0;
    ssize_t k;
    while (at + 1 < sizeof r->text && (k = recv(fd, r->text + at, sizeof r->text - 1 - at, 0)) > 0) at += (size_t)k;
    close(fd);
    r->text[at] = 0;
    char *body = memmem(r->text, at, "\r\n\r\n", 4);
    r->status = body && sscanf(r->text, "HTTP/1.%*d %d", &r->status) == 1 ? r->status : 0;
    r->body = (uint8_t *)(body ? body + 4 : r->text + at);
    r->n = at - (size_t)(r->body - (uint8_t *)r->text);
}

static void ask(struct reply *r, const char *method, const char *path, const char *head, const void *p, size_t n) {
    static char request[20000];
    int at = snprintf(request, sizeof request,
                      "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n", method, path,
                      head, n);
    assert_true((size_t)at + n < sizeof request);
    if (n) memcpy(request + at, p, n);
    ask_raw(r, request, (size_t)at + n);
}

static int put(struct reply *r, const char *path, const void *p, size_t n) {
    ask(r, "PUT", path, "", p, n);
    return r->status;
}

static struct reply r;

/* ---- entries of members ---------------------------------------------------------------------- */

#define NOW ((int64_t)time(NULL))

struct note {
    uint8_t bytes[PEERS_ENTRY_MAX + SEAL_MORE];
    size_t n;
};

/* Of the node whose id is in the text, sealed for that grid. */
static void write_note(struct note *e, const struct key *k, const char *purpose, const char *grid, const char *id,
                       int64_t made) {
    uint8_t plain[PEERS_ENTRY_MAX];
    char full[SEAL_PURPOSE + 1];
    struct peers_entry in = {.made = made,
                             .e = {.lifetime = 600,
                                   .n_text = 4,
                                   .text = (const uint8_t *)"\x03"
                                                            "a:1"}};
    assert_true(id_parse(id, strlen(id), in.e.id.b));
    size_t n = peers_entry_put(plain, &in);
    seal_for_grid(full, purpose, grid);
    assert_int_equal(seal(k, full, plain, n, e->bytes), 0);
    e->n = n + SEAL_MORE;
}

static int send_note(const char *method, const char *grid, const char *id, const char *head, const struct note *e) {
    char path[120];
    snprintf(path, sizeof path, "/%s/%s", grid, id);
    ask(&r, method, path, head, e->bytes, e->n);
    return r.status;
}

static int put_new(const struct key *k, const char *grid, const char *id, int64_t made) {
    struct note e;
    write_note(&e, k, SEAL_RENDEZVOUS, grid, id, made);
    return send_note("PUT", grid, id, "", &e);
}

static void nodes_are(int n) {
    char text[40];
    ask(&r, "GET", "/", "", NULL, 0);
    snprintf(text, sizeof text, n == 1 ? " %d node," : " %d nodes,", n);
    if (!strstr((char *)r.body, text)) fail_msg("not%s but: %s", text, (char *)r.body);
}

static void says(const char *text) {
    if (!strstr((char *)r.body, text)) fail_msg("not \"%s\" but: %s", text, (char *)r.body);
}

static void entries_are_kept(void **state) {
    (void)state;
    struct cli c;
    begin(&c, NULL, NULL);
    assert_int_equal(put(&r, "/lab/" ID1, "one", 3), 204);
    assert_int_equal(put(&r, "/lab/" ID2, "twelve", 6), 204);
    assert_int_equal(put(&r, "/other/" ID2, "x", 1), 204);
    ask(&r, "GET", "/lab", "", NULL, 0);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.n, 18 + 3 + 18 + 6);
    for (size_t at = 0; at < r.n; at += 18 + (size_t)r.body[at + 16]) {
        bool first = r.body[at] == 0;
        assert_int_equal(r.body[at + 16], first ? 3 : 6);
        assert_memory_equal(r.body + at + 18, first ? "one" : "twelve", first ? 3 : 6);
        assert_int_equal(r.body[at + 1], first ? 0x11 : 0xee);
    }
    ask(&r, "GET", "/lab?n=1", "", NULL, 0);
    assert_true(r.n == 21 || r.n == 24);
    ask(&r, "GET", "/lab?n=0", "", NULL, 0);
    assert_int_equal(r.n, 0);
    assert_int_equal(put(&r, "/lab/" ID1, "1", 1), 204); /* newest wins */
    ask(&r, "DELETE", "/lab/" ID2, "", NULL, 0);
    assert_int_equal(r.status, 204);
    ask(&r, "DELETE", "/lab/" ID2, "", NULL, 0);
    assert_int_equal(r.status, 204);
    ask(&r, "GET", "/lab", "", NULL, 0);
    assert_int_equal(r.n, 19);
    assert_int_equal(r.body[18], '1');
    ask(&r, "GET", "/nobody", "", NULL, 0);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.n, 0);
    int age = -1; /* in seconds: less than this test may take */
    char *head = strstr(r.text, "\r\nMoyai-Age: ");
    assert_true(head && sscanf(head, "\r\nMoyai-Age: %d\r\n", &age) == 1 && age >= 0 && age < KIT_LIMIT);
    ask(&r, "GET", "/", "", NULL, 0);
    assert_non_null(strstr((char *)r.body, "2 grids, 2 nodes"));
    end(&c);
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    struct cli c;
    begin(&c, "--entries", "2");
    static char big[4097];
    assert_int_equal(put(&r, "/lab/" ID1, big, 4096), 204);
    assert_int_equal(put(&r, "/lab/" ID1, big, 4097), 413);
    assert_int_equal(put(&r, "/lab/" ID1, big, 0), 400);
    assert_int_equal(put(&r, "/lab/00000000000000000000000000000000", "x", 1), 404); /* of no node */
    assert_int_equal(put(&r, "/lab/short", "x", 1), 404);
    assert_int_equal(put(&r, "/lab/" ID1 "0", "x", 1), 404);
    assert_int_equal(put(&r, "/lab", "x", 1), 405);
    assert_int_equal(put(&r, "//" ID1, "x", 1), 404);
    assert_int_equal(put(&r, "/a%20b/" ID1, "x", 1), 404);
    assert_int_equal(put(&r, "/lab/" ID1 "%00b", "x", 1), 404);
    assert_int_equal(put(&r, "/l%61b/" ID1, "x", 1), 204);
    ask(&r, "GET", "/lab%00b", "", NULL, 0);
    assert_int_equal(r.status, 404);
    assert_int_equal(put(&r, "/../" ID1, "x", 1), 204); /* a name like others: nothing here is a path */
    ask(&r, "POST", "/lab/" ID1, "", "x", 1);
    assert_int_equal(r.status, 405);
    assert_non_null(strstr(r.text, "Allow:"));
    ask(&r, "GET", "/lab?n=many", "", NULL, 0);
    assert_int_equal(r.status, 400);
    ask(&r, "PUT", "/lab/" ID1, "Moyai-Lifetime: 0\r\n", "x", 1);
    assert_int_equal(r.status, 400);
    ask(&r, "PUT", "/lab/" ID1, "Moyai-Lifetime: 3601\r\n", "x", 1);
    assert_int_equal(r.status, 400);
    ask(&r, "PUT", "/lab/" ID1, "Moyai-Lifetime: 3600\r\n", "x", 1);
    assert_int_equal(r.status, 204);
    assert_int_equal(put(&r, "/lab/" ID2, "x", 1), 204);
    assert_int_equal(put(&r, "/lab/0123456789abcdef0123456789abcdef", "x", 1), 507);
    assert_non_null(strstr((char *)r.body, "2 nodes of this grid"));
    end(&c);
}

static void garbage_harms_nobody(void **state) {
    (void)state;
    struct cli c;
    begin(&c, NULL, NULL);
    assert_int_equal(put(&r, "/lab/" ID1, "one", 3), 204);
    static const char *const texts[] = {"",
                                        "\r\n\r\n",
                                        "GET",
                                        "GET / HTTP/9.9\r\n\r\n",
                                        "\x16\x03\x01\x02\x00\x01",
                                        "PUT /lab/" ID2 " HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                                        "PUT /lab/" ID2 " HTTP/1.1\r\nContent-Length: -1\r\n\r\nx",
                                        "PUT /lab/" ID2 " HTTP/1.1\r\nContent-Length: 10\r\n\r\nshort"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ask_raw(&r, texts[i], strlen(texts[i]));
        assert_true(r.status == 0 || r.status >= 400 || i == 3);
    }
    static char large[300000];
    memset(large, 'a', sizeof large);
    memcpy(large, "GET /", 5);
    ask_raw(&r, large, sizeof large);
    assert_true(r.status == 0 || r.status >= 400);
    /* Many connections that say nothing, as many as this process may have: others are served once they are gone. */
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    int most = files.rlim_cur < 900 ? (int)files.rlim_cur - 50 : 850, *fd = calloc((size_t)most, sizeof *fd);
    for (int i = 0; i < most; i++) fd[i] = dial();
    assert_int_equal(put(&r, "/lab/" ID1, "two", 3), 204);
    for (int i = 0; i < most; i++) close(fd[i]);
    free(fd);
    ask(&r, "GET", "/lab", "", NULL, 0);
    assert_int_equal(r.status, 200);
    assert_int_equal(r.n, 21);
    end(&c);
}

/* Strangers who have all places, and send a byte now and then: whoever comes is served at once, and they are closed
 * when their time is over. files: descriptors that the server may have; 0: as many as the limit here. */
static void strangers(int files, int most, bool to_the_end) {
    struct cli c;
    cli_start(&c, &(struct cli_opts){.files = files}, "endpoint", "--listen", "127.0.0.1:0", "--port-file", port_file,
              NULL);
    (void)cli_line(&c, 1, "serving http://127.0.0.1:");
    char *text = kit_read(port_file);
    port = (uint16_t)atoi(text);
    free(text);
    static const char begun[] = "PUT /lab/" ID2 " HTTP/1.1\r\n";
    struct pollfd *fd = calloc((size_t)most, sizeof *fd);
    for (int i = 0; i < most; i++) {
        fd[i] = (struct pollfd){.fd = dial(), .events = POLLIN};
        if (i % 2) (void)!send(fd[i].fd, begun, sizeof begun - 1, MSG_NOSIGNAL);
        if (i % 100 == 0) assert_int_equal(put(&r, "/lab/" ID1, "one", 3), 204);
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(put(&r, "/lab/" ID1, "two", 3), 204);
        ask(&r, "GET", "/lab", "", NULL, 0);
        assert_int_equal(r.n, 21);
    }
    for (int left = to_the_end; left > 0;) { /* the alarm guards */
        left = 0;
        assert_true(poll(fd, (nfds_t)most, 500) >= 0);
        for (int i = 0; i < most; i++) {
            if (fd[i].fd >= 0 && fd[i].revents) close(fd[i].fd);
            if (fd[i].fd >= 0 && fd[i].revents) fd[i].fd = -1;
            left += fd[i].fd >= 0;
            if (fd[i].fd >= 0 && i % 2) (void)!send(fd[i].fd, "X", 1, MSG_NOSIGNAL);
        }
    }
    for (int i = 0; i < most; i++)
        if (fd[i].fd >= 0) close(fd[i].fd);
    free(fd);
    /* Once, however many they were. */
    const char *said = cli_line(&c, 2, "moyai endpoint: there were ");
    if (!strstr(said, " connections, as many as may be: ") || !strstr(said, "as 127.0.0.1 the last one"))
        fail_msg("%s", said);
    kill(c.pid, SIGTERM);
    assert_int_equal(cli_wait(&c), 0);
    assert_int_equal(kit_count(&c.text[1], "there were "), 1);
    cli_free(&c);
}

static void too_few_files_are_no_server(void **state) {
    (void)state;
    struct cli c;
    cli_start(&c, &(struct cli_opts){.files = 20}, "endpoint", "--listen", "127.0.0.1:0", NULL);
    assert_int_equal(cli_wait(&c), 1);
    if (!strstr(c.text[1].p, "may have 20 files open, and needs 32")) fail_msg("%s", c.text[1].p);
    cli_free(&c);
    strangers(32, 300, false);
}

static void strangers_keep_nobody_out(void **state) {
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < limit.rlim_max) limit.rlim_cur = limit.rlim_max < 1300 ? limit.rlim_max : 1300;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    strangers(150, 300, true);
    strangers(0, limit.rlim_cur < 1300 ? (int)limit.rlim_cur - 100 : 1200, false);
}

static void write_keys(const char *name, const struct key *first, const struct key *second, char path[100]) {
    struct keyring ring = {.n = second ? 2 : 1, .key = {*first}};
    if (second) ring.key[1] = *second;
    snprintf(path, 100, "%s/%s", dir, name);
    assert_int_equal(keyfile_write(&ring, path, false, NULL), 0);
}

static void with_a_key_only_members_are_taken(void **state) {
    (void)state;
    struct key mine, other;
    char path[100];
    assert_int_equal(key_new(&mine, NULL), 0);
    assert_int_equal(key_new(&other, NULL), 0);
    write_keys("key", &mine, NULL, path);
    struct cli c;
    begin(&c, "--key-file", path);
    struct note e, bad;
    write_note(&e, &mine, SEAL_RENDEZVOUS, "lab", ID1, NOW);
    assert_int_equal(send_note("PUT", "lab", ID1, "", &e), 204);
    bad = e;
    bad.bytes[30] ^= 1;
    assert_int_equal(send_note("PUT", "lab", ID1, "", &bad), 403);
    says("not sealed with a key of this server");
    assert_int_equal(put(&r, "/lab/" ID1, "one", 3), 403);
    assert_int_equal(put(&r, "/lab/" ID1, "", 0), 400);
    assert_int_equal(put_new(&other, "lab", ID1, NOW), 403);
    uint8_t plain[40] = {2}; /* of a later version */
    assert_int_equal(seal(&mine, "rendezvous entry lab", plain, sizeof plain, bad.bytes), 0);
    bad.n = sizeof plain + SEAL_MORE;
    assert_int_equal(send_note("PUT", "lab", ID1, "", &bad), 400);
    says("not an entry of a version that this server knows");
    /* Any accepted key is good; the file is read again when it is another. */
    write_keys("key", &other, &mine, path);
    assert_int_equal(put_new(&other, "lab", ID1, NOW), 204);
    assert_int_equal(put_new(&mine, "lab", ID1, NOW), 204);
    write_keys("key", &other, NULL, path);
    assert_int_equal(put_new(&mine, "lab", ID1, NOW + 1), 403);
    end(&c);
    assert_int_equal(cli_do(&c, "endpoint", "--key-file", "/nowhere/key", NULL), 1);
    assert_non_null(strstr(c.text[1].p, "/nowhere/key"));
    cli_free(&c);
}

static void begin_keyed(struct cli *c, struct key *k) {
    char path[100];
    assert_int_equal(key_new(k, NULL), 0);
    write_keys("key", k, NULL, path);
    begin(c, "--key-file", path);
}

/* Who can read what members send, and holds no key, can do nothing with it. */
static void captured_entries_are_worth_nothing(void **state) {
    (void)state;
    struct key k;
    struct cli c;
    begin_keyed(&c, &k);
    const int64_t t = NOW;
    struct note old, now, gone, early;
    write_note(&old, &k, SEAL_RENDEZVOUS, "lab", ID1, t - 20);
    write_note(&now, &k, SEAL_RENDEZVOUS, "lab", ID1, t - 10);
    assert_int_equal(send_note("PUT", "lab", ID1, "", &old), 204);
    assert_int_equal(send_note("PUT", "lab", ID1, "", &now), 204);
    /* Under another id, in another grid, an older one; the same again changes nothing. */
    assert_int_equal(send_note("PUT", "lab", ID2, "", &now), 403);
    says("another node's");
    assert_int_equal(send_note("PUT", "lab2", ID1, "", &now), 403);
    says("or not for this grid");
    assert_int_equal(send_note("PUT", "lab", ID1, "", &old), 409);
    says("was made 10 s later");
    assert_int_equal(send_note("PUT", "lab", ID1, "Moyai-Lifetime: 1\r\n", &now), 204);
    nodes_are(1);
    ask(&r, "GET", "/lab", "", NULL, 0);
    assert_int_equal(r.n, 18 + now.n);
    assert_memory_equal(r.body + 18, now.bytes, now.n);
    /* To remove it takes more than nothing, or an entry. */
    ask(&r, "DELETE", "/lab/" ID1, "", NULL, 0);
    assert_int_equal(r.status, 403);
    assert_int_equal(send_note("DELETE", "lab", ID1, "", &now), 403);
    write_note(&early, &k, SEAL_WITHDRAWAL, "lab", ID1, t - 11);
    assert_int_equal(send_note("DELETE", "lab", ID1, "", &early), 409);
    write_note(&gone, &k, SEAL_WITHDRAWAL, "lab2", ID1, t - 10);
    assert_int_equal(send_note("DELETE", "lab", ID1, "", &gone), 403);
    write_note(&gone, &k, SEAL_WITHDRAWAL, "lab", ID1, t - 10);
    assert_int_equal(send_note("PUT", "lab", ID1, "", &gone), 403);
    assert_int_equal(send_note("DELETE", "lab", ID2, "", &gone), 403);
    nodes_are(1);
    assert_int_equal(send_note("DELETE", "lab", ID1, "", &gone), 204);
    assert_int_equal(send_note("DELETE", "lab", ID1, "", &gone), 204);
    nodes_are(0);
    /* And it does not come back but by the node itself. */
    assert_int_equal(send_note("PUT", "lab", ID1, "", &now), 409);
    says("has taken back");
    assert_int_equal(send_note("PUT", "lab", ID1, "", &old), 409);
    assert_int_equal(put_new(&k, "lab", ID1, t), 204);
    assert_int_equal(send_note("DELETE", "lab", ID1, "", &gone), 409);
    nodes_are(1);
    /* Times that nobody may believe. */
    assert_int_equal(put_new(&k, "lab", ID2, t - 700), 409);
    says("s ago and has ended: this server's clock is ahead, or the node's behind");
    assert_int_equal(put_new(&k, "lab", ID2, t + 500), 409);
    says("s from now: this server's clock is behind, or the node's ahead");
    assert_int_equal(put_new(&k, "lab", ID2, t + 30), 204);
    nodes_are(2);
    end(&c);
}

/* Its end is what is sealed, whatever the header says. */
static void an_entry_ends_by_its_own_time(void **state) {
    (void)state;
    struct key k;
    struct cli c;
    begin_keyed(&c, &k);
    struct note e;
    write_note(&e, &k, SEAL_RENDEZVOUS, "lab", ID1, NOW - 597);
    assert_int_equal(send_note("PUT", "lab", ID1, "Moyai-Lifetime: 3600\r\n", &e), 204);
    do {
        usleep(50000);
        ask(&r, "GET", "/lab", "", NULL, 0);
    } while (r.n > 0); /* the alarm guards */
    assert_int_equal(send_note("PUT", "lab", ID1, "Moyai-Lifetime: 3600\r\n", &e), 409);
    end(&c);
}

static void a_port_in_use_is_named(void **state) {
    (void)state;
    struct cli c, d;
    begin(&c, NULL, NULL);
    char text[40];
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    assert_int_equal(cli_do(&d, "endpoint", "--listen", text, NULL), 1);
    assert_non_null(strstr(d.text[1].p, text));
    cli_free(&d);
    assert_int_equal(cli_do(&d, "endpoint", "--listen", "127.0.0.1:0", "--port-file", "/nowhere/port", NULL), 1);
    assert_non_null(strstr(d.text[1].p, "/nowhere/port"));
    cli_free(&d);
    end(&c);
}

static void where_to_listen_is_checked(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"--listen", "99999", "--listen: '99999': a port is a number from 0 to 65535"},
        {"--listen", "99999999999999999999", "a port is a number from 0 to 65535"},
        {"--listen", "127.0.0.1:70000", "\"127.0.0.1:70000\": a port is a number from 0 to 65535"},
        {"--listen", "[::1]:x", "\"[::1]:x\": a port is a number from 0 to 65535"},
        {"--listen", "[::1", "\"[::1\": the ']' is missing"},
        {"--listen", "127.1", "\"127.1\": not a numeric address"},
        {"--listen", "", "--listen: it is empty; is a variable not set?"},
        {"--listen", ":99999", "--listen: ':99999': a port is a number from 0 to 65535"},
        {"--listen", ":7471x", "--listen: ':7471x': a port is a number from 0 to 65535"},
        {"--listen", ":-1", "--listen: ':-1': a port is a number from 0 to 65535"},
        {"--listen", ":", "--listen: ':': a port is a number from 0 to 65535"},
        {"--memory", "99999999999T", "--memory: '99999999999T' is not a size from 64k to 1024T"},
        {"--entries", "0", "--entries: '0' is not a number from 1 to 1000000000"},
    };
    struct cli c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(cli_do(&c, "endpoint", wrong[i][0], wrong[i][1], NULL), 2);
        if (!strstr(c.text[1].p, wrong[i][2])) fail_msg("%s: %s", wrong[i][1], c.text[1].p);
        cli_free(&c);
    }
    /* Without a port it is the default's, which somebody has: we, or another program. */
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7471), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0) assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(cli_do(&c, "endpoint", "--listen", "127.0.0.1", NULL), 1);
    assert_non_null(strstr(c.text[1].p, "cannot listen at 127.0.0.1:7471: another program does"));
    cli_free(&c);
    /* A port alone may have the colon that it has behind an address. */
    assert_int_equal(cli_do(&c, "endpoint", "--listen", ":7471", NULL), 1);
    assert_non_null(strstr(c.text[1].p, "7471"));
    cli_free(&c);
    close(fd);
    assert_int_equal(cli_do(&c, "endpoint", "--listen", "192.0.2.1:0", NULL), 1);
    assert_non_null(strstr(c.text[1].p, "cannot listen at 192.0.2.1: that is no address of this host"));
    cli_free(&c);
}

/* What nobody can have sealed any more is not taken, so nothing is. */
static void who_has_keys_that_have_ended_says_so(void **state) {
    (void)state;
    char path[100];
    struct cli c;
    struct key k;
    assert_int_equal(key_new(&k, NULL), 0);
    k.until = (int64_t)time(NULL) - 10;
    write_keys("ended", &k, NULL, path);
    assert_int_equal(cli_do(&c, "endpoint", "--listen", "127.0.0.1:0", "--key-file", path, NULL), 1);
    assert_non_null(strstr(c.text[1].p, "moyai endpoint: each key in "));
    assert_non_null(strstr(c.text[1].p, " has ended, by this host's clock"));
    cli_free(&c);
    /* Nor can its members have anything to do with others. */
    static const char *const verbs[] = {"node", "run", "ps"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            cli_do(&c, verbs[i], "--grid", "http://127.0.0.1:1/lab", "--key-file", path, i == 1 ? "true" : NULL, NULL),
            i == 1 ? 125 : 1);
        if (!strstr(c.text[1].p, " has ended, by this host's clock")) fail_msg("%s: %s", verbs[i], c.text[1].p);
        cli_free(&c);
    }
}

/* Of a FIFO it waits for the reader, serving, and can be ended. */
static void a_fifo_for_the_port(void **state) {
    (void)state;
    char fifo[100], at[40], text[16] = "";
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    port = test_free_port();
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd;
    snprintf(at, sizeof at, "127.0.0.1:%u", port);
    for (int read_it = 0; read_it < 2; read_it++) {
        struct cli c;
        cli_start(&c, NULL, "endpoint", "--listen", at, "--port-file", fifo, NULL);
        for (bool there = false; !there; close(fd)) {
            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            there = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
            if (!there) usleep(1000);
        }
        ask(&r, "GET", "/lab", "", NULL, 0);
        assert_int_equal(r.status, 200);
        if (read_it) {
            fd = open(fifo, O_RDONLY | O_CLOEXEC);
            assert_true(read(fd, text, sizeof text - 1) > 0);
            assert_int_equal(atoi(text), port);
            close(fd);
            (void)cli_line(&c, 1, "serving http://127.0.0.1:");
        }
        end(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_kept),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(garbage_harms_nobody),
        cmocka_unit_test(strangers_keep_nobody_out),
        cmocka_unit_test(too_few_files_are_no_server),
        cmocka_unit_test(with_a_key_only_members_are_taken),
        cmocka_unit_test(captured_entries_are_worth_nothing),
        cmocka_unit_test(an_entry_ends_by_its_own_time),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(where_to_listen_is_checked),
        cmocka_unit_test(who_has_keys_that_have_ended_says_so),
        cmocka_unit_test(a_fifo_for_the_port),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
