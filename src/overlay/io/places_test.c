/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/places.h"

#include "link/rundir.h"
#include "overlay/io/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void every_kind_is_taken(void **state) {
    (void)state;
    struct places p;
    assert_int_equal(places_parse(&p, " http://a:1/G  file:/tmp/x\thost:4711\n[::1]:2 fd:3,4 http://b:2/H ", NULL), 0);
    assert_string_equal(p.file, "file:/tmp/x");
    assert_int_equal(p.n_http, 2);
    assert_string_equal(p.http[1], "http://b:2/H");
    assert_int_equal(p.n_member, 2);
    assert_string_equal(p.member[0], "host:4711");
    assert_string_equal(p.member[1], "[::1]:2");
    assert_int_equal(p.in, 3);
    assert_int_equal(p.out, 4);
    places_done(&p);
    assert_null(p.file);
    assert_int_equal(places_parse(&p, "a:1 /tmp/x", NULL), 0);
    assert_string_equal(p.file, "file:/tmp/x");
    assert_int_equal(p.n_member, 1);
    places_done(&p);
}

/* 1: of several hosts; 0: of one; or the error. */
static int kind(const char *text, const char *key, struct moyai_error *e) {
    struct places p;
    bool wide = false;
    assert_int_equal(places_parse(&p, text, NULL), 0);
    int rc = places_kind(&p, key, &wide, e);
    places_done(&p);
    return rc < 0 ? rc : wide;
}

static void a_directory_is_of_either_kind(void **state) {
    (void)state;
    struct moyai_error e;
    char dir[] = "/tmp/moyai-places-XXXXXX", url[64], sub[64], mixed[80];
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s", dir);
    snprintf(mixed, sizeof mixed, "%s a:1", url);
    assert_int_equal(kind("http://a/G", NULL, &e), 1);
    assert_int_equal(kind("file:/x fd:0,1", NULL, &e), 1);
    assert_int_equal(kind("file:/nonexistent/x", NULL, &e), 0);
    assert_int_equal(kind(mixed, NULL, &e), 1);
    assert_int_equal(kind(url, NULL, &e), 0);
    assert_int_equal(kind(url, "", &e), 0);
    assert_int_equal(kind(url, "/my/key", &e), 1);
    snprintf(sub, sizeof sub, "%s/e", dir); /* others are there with a key */
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(kind(url, NULL, &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, dir));
    assert_non_null(strstr(e.text, "MOYAI_KEY_FILE"));
    assert_int_equal(kind(url, "/my/key", &e), 1);
    rmdir(sub);
    snprintf(sub, sizeof sub, "%s/" PLACES_ONE_HOST, dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(kind(url, "/my/key", &e), 0);
    assert_int_equal(kind(mixed, NULL, &e), 1);
    rmdir(sub);
    rmdir(dir);
}

/* Where nodes live that have begun without a key, nobody meets with one: they, and who comes to them, have none. */
static void one_host_s_nodes_keep_others_out(void **state) {
    (void)state;
    struct moyai_error e;
    struct rdv *r;
    struct rundir *d;
    struct rdv_node n;
    struct moyai_node_id id = {{7}};
    char base[] = "/tmp/moyai-places-XXXXXX", dir[64], url[80], run_dir[64], mixed[90], command[200];
    int l;
    assert_non_null(mkdtemp(base));
    snprintf(dir, sizeof dir, "%s/grid", base);
    snprintf(url, sizeof url, "file:%s", dir);
    snprintf(mixed, sizeof mixed, "a:1 %s", url);
    snprintf(run_dir, sizeof run_dir, "%s/run", base);
    assert_int_equal(rdv_open(&r, url, &e), 0);
    assert_int_equal(kind(url, "/my/key", &e), 1); /* looked at only */
    assert_int_equal(rundir_open(&d, run_dir, &e), 0);
    assert_int_equal(rundir_listen(d, &id, &l, &e), 0);
    rdv_node_fill(&n, &id, rundir_host(d), run_dir, "worker");
    assert_int_equal(rdv_put_node(r, &n, &e), 0);
    assert_int_equal(kind(url, NULL, &e), 0);
    assert_int_equal(kind(url, "/my/key", &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, dir));
    assert_non_null(strstr(e.text, "(node 07000000 (worker, pid "));
    assert_non_null(strstr(e.text, " lives there): do not name a key (MOYAI_KEY_FILE or --key-file)"));
    assert_int_equal(kind(mixed, NULL, &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, "name it alone, and do not name a key"));
    /* It is dead. */
    close(l);
    assert_int_equal(kind(url, "/my/key", &e), 1);
    assert_int_equal(kind(mixed, NULL, &e), 1);
    /* One of whom nothing can be known from here; and what is no entry. */
    n.host[0] ^= 1;
    assert_int_equal(rdv_put_node(r, &n, &e), 0);
    assert_int_equal(kind(url, "/my/key", &e), MOYAI_EPERM);
    assert_non_null(strstr(e.text, "or has left its entry in n/: remove that if it has ended): do not name a key"));
    n.host[15] ^= 1;
    assert_int_equal(rdv_put_node(r, &n, &e), 0);
    assert_int_equal(kind(url, "/my/key", &e), MOYAI_EPERM);
    assert_non_null(
        strstr(e.text, " of another host (or it has left its entry in n/): end them, or remove that, before"));
    n.started = 1; /* before this host did */
    assert_int_equal(rdv_put_node(r, &n, &e), 0);
    assert_int_equal(kind(url, "/my/key", &e), 1);
    snprintf(command, sizeof command, "cd %s/n && for f in x %032d; do echo moyai node 1 > $f; done; mkfifo %032d", dir,
             1, 2);
    assert_int_equal(system(command), 0);
    assert_int_equal(kind(url, "/my/key", &e), 1);
    rdv_close(r);
    rundir_close(d);
    snprintf(command, sizeof command, "rm -r %s", base);
    assert_int_equal(system(command), 0);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "no rendezvous"},
        {"  ", "no rendezvous"},
        {"ftp://nowhere", "ftp://nowhere"},
        {"host", "host"},
        {"host:0", "host:0"},
        {"host:66000", "66000"},
        {"fd:1", "fd:1"},
        {"fd:1,", "fd:1,"},
        {"fd:1,2x", "fd:1,2x"},
        {"fd:-1,2", "fd:-1,2"},
        {"fd:1,2 fd:3,4", "two fd:"},
        {"fd:,", "fd:,"},
        {"file:/a file:/b", "two"},
        {"tmp/x", "\"tmp/x\" is no rendezvous: /DIR, file:/DIR, "},
        {"a:99999", "\"a:99999\" is no rendezvous: a port is a number from 1 to 65535: /DIR, "},
        {"http//a:1/x", "\"http//a:1/x\" is no rendezvous: a ':' is missing: http://HOST:PORT/GRID: /DIR, "},
        {"HTTP//a:1", "\"HTTP//a:1\" is no rendezvous: a ':' is missing: "},
        {"a:1/x", "\"a:1/x\" is no rendezvous: a member's address is HOST:PORT alone; that of an endpoint begins"},
        {"a/b:1", "\"a/b:1\" is no rendezvous: a host has no '/' in it: /DIR, "},
        {":1", "\":1\" is no rendezvous: no host: HOST:PORT: /DIR, "},
        {"::1:7472", "\"::1:7472\" is no rendezvous: write an IPv6 address in brackets: "},
        {"a:1,b:2", "\"a:1,b:2\" is no rendezvous: several addresses are separated by spaces: /DIR"},
        {"https://a/x", "\"https://a/x\" is no rendezvous: there is no https:, "},
        {"//tmp/x", "has an absolute path"},
        {"/tmp/x file:/tmp/y", "two file: addresses"},
        {"/tmp/x /tmp/y", "two file: addresses"},
        {"file:/a nonsense", "nonsense"},
        {"file:a", "file:a"},
        {"file:", "\"file:\""},
        {"file://host/a", "absolute path"},
    };
    struct places p;
    struct moyai_error e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(places_parse(&p, bad[i][0], &e), MOYAI_EINVAL);
        assert_non_null(strstr(e.text, bad[i][1]));
        assert_null(p.file);
        assert_int_equal(p.in, -1);
    }
    char many[300] = "";
    for (unsigned i = 0; i <= PLACES_MOST; i++) {
        assert_int_equal(places_parse(&p, i ? many : "a:1", NULL), 0);
        places_done(&p);
        strcat(many, "http://a:1/G ");
    }
    assert_int_equal(places_parse(&p, many, NULL), MOYAI_EINVAL);
    many[0] = 0;
    for (unsigned i = 0; i <= PLACES_MOST; i++) strcat(many, "a:1 ");
    assert_int_equal(places_parse(&p, many, NULL), MOYAI_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_taken), cmocka_unit_test(a_directory_is_of_either_kind),
        cmocka_unit_test(one_host_s_nodes_keep_others_out), cmocka_unit_test(what_is_wrong_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
