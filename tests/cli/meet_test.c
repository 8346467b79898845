/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes meet at a server: the asking side (overlay/io/meet.h) against `moyai endpoint`, and against servers that lie.
 */
#include "tests/cli/kit.h"
#include "tests/support/port.h"

#include "exec/exec.h"
#include "link/key.h"
#include "overlay/io/meet.h"
#include "overlay/peers_entry.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[64], key_path[100];

/* What a node has heard. */
struct ear {
    struct exec *x;
    struct meet *m;
    struct keyfile *keys;
    atomic_bool stop;
    int done, asked, code, entries;
    size_t foreign;
    int counted;
    enum met_what what;
    unsigned bad; /* places that were not well, a bit each */
    char text[300], last[100];
};

static void on_entry(void *ctx, const uint8_t *p, size_t n) {
    struct ear *e = ctx;
    e->entries++;
    snprintf(e->last, sizeof e->last, "%.*s", (int)n, (const char *)p);
}
static void on_asked(void *ctx, size_t place, const char *url, int code, enum met_what what, const char *text) {
    struct ear *e = ctx;
    (void)url;
    if (code < 0) e->bad |= 1u << place;
    e->asked++;
    e->code = code;
    e->what = what;
    if (code < 0) snprintf(e->text, sizeof e->text, "%s", text);
}
static void on_done(void *ctx) {
    struct ear *e = ctx;
    e->done++;
    atomic_store(&e->stop, true);
    exec_kick(e->x);
}
static void on_foreign(void *ctx, size_t place, const char *url, size_t n) {
    struct ear *e = ctx;
    (void)place, (void)url;
    e->foreign = n;
    e->counted++;
}
static const struct meet_ops ops = {.entry = on_entry, .asked = on_asked, .foreign = on_foreign, .done = on_done};

static void open_ear(struct ear *e, const char *const *urls, size_t n) {
    memset(e, 0, sizeof *e);
    assert_int_equal(exec_new(&e->x, NULL, NULL), 0);
    assert_int_equal(keyfile_open(&e->keys, key_path, NULL), 0);
    exec_lock(e->x);
    assert_int_equal(meet_new(&e->m, e->x, e->keys, urls, n, false, &ops, e, NULL), 0);
}

static void close_ear(struct ear *e) {
    meet_free(e->m);
    exec_unlock(e->x);
    exec_free(e->x);
    keyfile_close(e->keys);
}

static void leave(struct ear *e, uint8_t who, const char *text) {
    uint8_t id[16] = {who};
    assert_int_equal(meet_entry(e->m, id, (const uint8_t *)text, strlen(text), 60 * MOYAI_SEC), 0);
}

/* As nodes do. */
static void leave_made(struct ear *e, uint8_t who, int64_t made) {
    uint8_t id[16] = {who}, plain[PEERS_ENTRY_MAX];
    struct peers_entry of = {.made = made, .e = {.id = {{who}}, .lifetime = 60}};
    assert_int_equal(meet_entry(e->m, id, plain, peers_entry_put(plain, &of), 60 * MOYAI_SEC), 0);
}

static void look(struct ear *e) {
    e->entries = e->asked = e->done = 0;
    e->bad = 0;
    atomic_store(&e->stop, false);
    struct moyai_error why = {0};
    int rc = meet_look(e->m, &why);
    if (rc < 0) fail_msg("%s", why.text);
    assert_int_equal(exec_serve(e->x, &e->stop, moyai_now() + 100 * MOYAI_SEC), 0);
    assert_int_equal(e->done, 1);
}

static int set_up(void **state) {
    if (kit_setup(state) != 0) return -1;
    unsetenv("http_proxy");
    snprintf(dir, sizeof dir, "/tmp/moyai-cli-meet-%d", (int)getpid());
    snprintf(key_path, sizeof key_path, "%s/key", dir);
    struct keyring r = {.n = 1};
    return mkdir(dir, 0700) | key_new(&r.key[0], NULL) | keyfile_write(&r, key_path, true, NULL);
}

static int tear_down(void **state) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) | kit_teardown(state);
}

static void begin_server(struct cli *c, char url[100], const char *grid, bool key) {
    cli_start(c, NULL, "endpoint", "--listen", "127.0.0.1:0", key ? "--key-file" : NULL, key_path, NULL);
    const char *line = cli_line(c, 1, "http://");
    int n = 0;
    assert_int_equal(sscanf(strstr(line, "http://"), "%60[^/]//%n", url, &n), 1);
    snprintf(url, 100, "%.40s", strstr(line, "http://"));
    *strchr(url + 7, '/') = 0;
    strcat(url, "/");
    strcat(url, grid);
}

static void end_server(struct cli *c) {
    kill(c->pid, SIGTERM);
    assert_int_equal(cli_wait(c), 0);
    cli_free(c);
}

static void members_meet(void **state) {
    (void)state;
    struct cli c;
    char url[100], other[110];
    begin_server(&c, url, "lab", false);
    const char *const urls[] = {url};
    struct ear a, b;
    open_ear(&a, urls, 1);
    open_ear(&b, urls, 1);
    look(&a); /* nothing of its own to leave yet */
    assert_int_equal(a.code, 0);
    assert_int_equal(a.entries, 0);
    leave(&a, 1, "I am a");
    look(&a);
    assert_int_equal(a.entries, 1); /* its own */
    leave(&b, 2, "I am b");
    look(&b);
    assert_int_equal(b.entries, 2);
    leave(&a, 1, "I am a, elsewhere");
    look(&a);
    assert_int_equal(a.entries, 2);
    close_ear(&b); /* takes its entry back */
    look(&a);
    assert_int_equal(a.entries, 1);
    assert_string_equal(a.last, "I am a, elsewhere");
    /* Without the key nothing is understood. */
    struct keyring r = {.n = 1}, before;
    assert_int_equal(keyfile_read(&before, key_path, NULL), 0);
    assert_int_equal(key_new(&r.key[0], NULL), 0);
    assert_int_equal(keyfile_write(&r, key_path, false, NULL), 0);
    open_ear(&b, urls, 1);
    look(&b);
    assert_int_equal(b.code, 0);
    assert_int_equal(b.entries, 0);
    assert_int_equal(b.foreign, 1);
    assert_int_equal(b.counted, 1);
    close_ear(&b);
    assert_int_equal(keyfile_write(&before, key_path, false, NULL), 0);
    /* Another grid of the same server; a slash at the end does no harm. */
    snprintf(other, sizeof other, "%s2/", url);
    const char *const others[] = {other};
    open_ear(&b, others, 1);
    leave(&b, 2, "I am b");
    look(&b);
    assert_int_equal(b.code, 0);
    assert_int_equal(b.entries, 1);
    close_ear(&b);
    close_ear(&a);
    end_server(&c);
}

/* Where nobody listens, and of a host that has no address: in words that do not depend on who has asked for us. */
static void who_is_not_there_is_said_in_the_system_s_words(void **state) {
    (void)state;
    char closed[60];
    snprintf(closed, sizeof closed, "http://127.0.0.1:%u/g", test_free_port());
    const struct {
        const char *url, *text;
    } wrong[] = {
        {closed, "Connection refused"},
        {"http://host.invalid:7471/g", "cannot find the address of host.invalid: "},
        {"http://us:er@host.invalid:80/g", "cannot find the address of host.invalid: "},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ear a;
        const char *const urls[] = {wrong[i].url};
        open_ear(&a, urls, 1);
        look(&a);
        assert_int_equal(a.code, MOYAI_EUNREACHABLE);
        assert_int_equal(a.what, i == 0 ? MET_REFUSED : MET_OTHER);
        /* Why there is no address is said in the resolver's words, or that it is silent. */
        const size_t n = strlen(wrong[i].text);
        if (strncmp(a.text, wrong[i].text, n) != 0 || (i > 0) != (a.text[n] != 0)) fail_msg("%s", a.text);
        close_ear(&a);
    }
}

/* A server with the key takes what nodes leave and take back, and says why it refuses what is old. */
static void a_server_with_the_key_knows_members(void **state) {
    (void)state;
    struct cli c;
    char url[100];
    begin_server(&c, url, "lab", true);
    const char *const urls[] = {url};
    struct ear a, b;
    open_ear(&a, urls, 1);
    open_ear(&b, urls, 1);
    const int64_t now = (int64_t)time(NULL);
    leave_made(&a, 1, now);
    look(&a);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.entries, 1);
    leave_made(&b, 2, now - 5);
    look(&b);
    assert_int_equal(b.entries, 2);
    leave_made(&a, 1, now - 3);
    look(&a);
    assert_int_equal(a.code, MOYAI_EPROTO);
    if (!strstr(a.text, "it does not take our entry: \"there is an entry of this node that was made 3 s later"))
        fail_msg("%s", a.text);
    assert_int_equal(a.what, MET_CLOCK);
    assert_int_equal(a.entries, 2);
    close_ear(&b); /* takes its entry back */
    look(&a);
    assert_int_equal(a.entries, 1);
    leave_made(&a, 1, now + 900);
    look(&a);
    if (!strstr(a.text, "this server's clock is behind, or the node's ahead")) fail_msg("%s", a.text);
    leave(&a, 1, "I am a");
    look(&a);
    assert_int_equal(a.code, MOYAI_EPROTO); /* status 400 */
    assert_int_equal(a.what, MET_OTHER);
    leave_made(&a, 1, now + 900); /* and then the clock was set right */
    look(&a);
    close_ear(&a);
    open_ear(&b, urls, 1);
    leave_made(&b, 3, now);
    look(&b);
    assert_int_equal(b.entries, 1); /* its own */
    close_ear(&b);
    end_server(&c);
}

/* Connections of this process over IP; none may be left to a program that is started. */
static int connections(void) {
    int n = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage a;
        socklen_t len = sizeof a;
        if (getsockname(fd, (struct sockaddr *)&a, &len) < 0 || a.ss_family != AF_INET) continue;
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        n++;
    }
    return n;
}

/* A forked child holds no connection to the server, which would outlive the node. */
static void a_child_holds_no_connection(void **state) {
    (void)state;
    struct cli c;
    char url[100];
    int status;
    begin_server(&c, url, "lab", false);
    const char *const urls[] = {url};
    struct ear a;
    open_ear(&a, urls, 1);
    leave(&a, 1, "I am a");
    look(&a);
    exec_unlock(a.x);
    assert_int_equal(connections(), 1); /* is kept open */
    pid_t child = fork();
    if (child == 0) _exit(connections());
    exec_lock(a.x);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    look(&a); /* the parent's is as it was */
    assert_int_equal(a.code, 0);
    assert_int_equal(a.entries, 1);
    close_ear(&a);
    assert_int_equal(connections(), 0);
    end_server(&c);
}

/* Several places: the ones that are dead stop nobody. */
static void dead_places_are_passed_over(void **state) {
    (void)state;
    struct cli c;
    char url[100];
    begin_server(&c, url, "lab", false);
    const char *const urls[] = {"http://127.0.0.1:1/lab", url, "http://host.invalid:1/lab"};
    struct ear a;
    open_ear(&a, urls, 3);
    leave(&a, 1, "I am a");
    look(&a);
    assert_int_equal(a.asked, 3);
    assert_int_equal(a.bad, 5);
    assert_true(a.text[0]);
    assert_int_equal(a.entries, 1);
    end_server(&c);
    look(&a);
    assert_int_equal(a.entries, 0);
    close_ear(&a);
}

static void addresses_are_checked(void **state) {
    (void)state;
    struct ear a;
    open_ear(&a, NULL, 0);
    static const char *const bad[] = {"",
                                      "file:x",
                                      "http://",
                                      "http://host:1",
                                      "http://host:1/",
                                      "http:///lab",
                                      "http://host:1/lab/x/?n",
                                      "http://host:1/lab?n=1",
                                      "ftp://host/lab"};
    struct meet *m;
    struct moyai_error e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(meet_new(&m, a.x, a.keys, &bad[i], 1, false, &ops, &a, &e), MOYAI_EINVAL);
    close_ear(&a);
}

/* ---- servers that lie ------------------------------------------------------------------------ */

struct liar {
    int listener;
    const char *text;
    size_t n;
    bool hang;
    atomic_bool stop;
    pthread_t thread;
    char url[60];
};

static void *lie(void *arg) {
    struct liar *l = arg;
    while (!l->stop) {
        struct pollfd p = {.fd = l->listener, .events = POLLIN};
        if (poll(&p, 1, 20) != 1) continue;
        int fd = accept(l->listener, NULL, NULL);
        char sink[8192];
        (void)!read(fd, sink, sizeof sink);
        for (size_t at = 0; at < l->n;) {
            ssize_t k = send(fd, l->text + at, l->n - at, MSG_NOSIGNAL);
            if (k <= 0) break;
            at += (size_t)k;
        }
        while (l->hang && !l->stop) usleep(10000);
        close(fd);
    }
    return NULL;
}

static void begin_liar(struct liar *l, const char *text, size_t n, bool hang) {
    *l = (struct liar){.text = text, .n = n, .hang = hang};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(l->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(l->listener, 10), 0);
    assert_int_equal(getsockname(l->listener, (struct sockaddr *)&a, &len), 0);
    snprintf(l->url, sizeof l->url, "http://127.0.0.1:%u/lab", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&l->thread, NULL, lie, l), 0);
}

static void end_liar(struct liar *l) {
    l->stop = true;
    pthread_join(l->thread, NULL);
    close(l->listener);
}

static void lies_are_refused(void **state) {
    (void)state;
    enum { HUGE_ANSWER = 2 << 20 };
    char *huge = calloc(1, HUGE_ANSWER);
    int n = sprintf(huge, "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
    memset(huge + n, 'x', (size_t)(HUGE_ANSWER - n));
    /* A head without an end, and answers that say only that another will come. */
    char *head = malloc(HUGE_ANSWER), *early = malloc(HUGE_ANSWER);
    n = sprintf(head, "HTTP/1.1 200 OK\r\n");
    for (int i = n; i < HUGE_ANSWER; i++) head[i] = "X-A: yyyyyyyyyyyyyyyyyyyyyyy\r\n"[(i - n) % 30];
    for (int i = 0; i < HUGE_ANSWER; i++) early[i] = "HTTP/1.1 100 Continue\r\n\r\n"[i % 25];
    static const char half[] = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n0123";
    static const char torn[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\n0123456789abcdef\x05\x00xy";
    static const char zero[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 18\r\nConnection: close\r\n\r\n0123456789abcdef\x00\x00";
    static const char noise[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\n0123456789abcdef\x02\x00xy";
    static const char page[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    static const char moved[] = "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n";
    const struct {
        const char *text;
        size_t n;
        int code;
        const char *why;
    } lies[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", 21, MOYAI_EUNREACHABLE, "what answers there is no HTTP server"},
        {"", 0, MOYAI_EUNREACHABLE, "it ends the connection without an answer"},
        {huge, HUGE_ANSWER, MOYAI_EUNREACHABLE, "its answer is longer than 526592 bytes"},
        {head, HUGE_ANSWER, MOYAI_EUNREACHABLE, "its answer is longer than 65536 bytes"},
        {early, HUGE_ANSWER, MOYAI_EUNREACHABLE, "its answer is longer than 65536 bytes"},
        {half, sizeof half - 1, MOYAI_EUNREACHABLE, "it ends the connection in the middle of its answer"},
        {torn, sizeof torn - 1, MOYAI_EPROTO, "not a moyai endpoint"},
        {zero, sizeof zero - 1, MOYAI_EPROTO, "not a moyai endpoint"},
        {noise, sizeof noise - 1, 0, ""}, /* well formed, and nobody's whom we know: passed over */
        {page, sizeof page - 1, MOYAI_EPROTO, "it answers with status 404"},
        {moved, sizeof moved - 1, MOYAI_EPROTO, "it answers with status 302"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct liar l;
        struct ear a;
        begin_liar(&l, lies[i].text, lies[i].n, false);
        const char *const urls[] = {l.url};
        open_ear(&a, urls, 1);
        look(&a);
        assert_int_equal(a.code, lies[i].code);
        assert_int_equal(a.what, i < 2 ? MET_NO_ENDPOINT : MET_OTHER);
        if (!strstr(a.text, lies[i].why)) fail_msg("lie %zu: %s", i, a.text);
        assert_int_equal(a.foreign, 0);
        assert_int_equal(a.entries, 0);
        close_ear(&a);
        end_liar(&l);
    }
    free(huge);
    free(head);
    free(early);
}

static void says_of(const char *url, int code, const char *text) {
    struct ear a;
    const char *const urls[] = {url};
    open_ear(&a, urls, 1);
    look(&a);
    assert_int_equal(a.code, code);
    if (strncmp(a.text, text, strlen(text)) != 0) fail_msg("not \"%s\" but \"%s\"", text, a.text);
    close_ear(&a);
}

/* Who has given the address of a server wonders what else was asked, and by whose order; a password is nobody's. */
static void a_proxy_of_the_environment_is_named(void **state) {
    (void)state;
    char closed[60], proxy[80], text[200];
    const unsigned port = test_free_port();
    snprintf(closed, sizeof closed, "http://127.0.0.1:%u/g", test_free_port());
    snprintf(proxy, sizeof proxy, "http://us:er@127.0.0.1:%u/", port);
    setenv("http_proxy", proxy, 1);
    snprintf(text, sizeof text, "Connection refused (asked through the proxy 127.0.0.1:%u, by $http_proxy)", port);
    says_of(closed, MOYAI_EUNREACHABLE, text);
    says_of("http://host.invalid:7471/g", MOYAI_EUNREACHABLE, text);
    setenv("no_proxy", "127.0.0.1", 1); /* it is not asked */
    struct ear a;
    const char *const urls[] = {closed};
    open_ear(&a, urls, 1);
    look(&a);
    assert_string_equal(a.text, "Connection refused");
    close_ear(&a);
    unsetenv("no_proxy");
    unsetenv("http_proxy");
    setenv("ALL_PROXY", "proxy.invalid:3128", 1);
    says_of(closed, MOYAI_EUNREACHABLE, "cannot find the address of proxy.invalid");
    unsetenv("ALL_PROXY");
    /* What it answers is its answer. */
    static const char bad[] = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    struct liar l;
    begin_liar(&l, bad, sizeof bad - 1, false);
    snprintf(proxy, sizeof proxy, "%.*s", (int)(strrchr(l.url, '/') - l.url), l.url);
    setenv("http_proxy", proxy, 1);
    says_of(closed, MOYAI_EPROTO, "it answers with status 502 (asked through the proxy 127.0.0.1:");
    unsetenv("http_proxy");
    end_liar(&l);
}

/* A server that says nothing does not keep a node from ending. */
static void a_silent_server_holds_nobody(void **state) {
    (void)state;
    struct liar l;
    struct ear a;
    begin_liar(&l, "", 0, true);
    const char *const urls[] = {l.url, l.url};
    open_ear(&a, urls, 2);
    leave(&a, 1, "I am a");
    struct moyai_error why;
    assert_int_equal(meet_look(a.m, &why), 0);
    atomic_bool never = false;
    (void)exec_serve(a.x, &never, moyai_now() + 100 * MOYAI_MS);
    assert_int_equal(a.done, 0);
    close_ear(&a);
    assert_int_equal(a.done + a.asked, 0);
    end_liar(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_meet),
        cmocka_unit_test(a_server_with_the_key_knows_members),
        cmocka_unit_test(a_child_holds_no_connection),
        cmocka_unit_test(dead_places_are_passed_over),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(who_is_not_there_is_said_in_the_system_s_words),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(a_proxy_of_the_environment_is_named),
        cmocka_unit_test(a_silent_server_holds_nobody),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
