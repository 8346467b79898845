/* SPDX-License-Identifier: Apache-2.0 */
#include "base/events.h"

#include "base/json.h"
#include "base/utf8.h"
#include "tests/support/alloc.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[64], path[160];
    struct moyai_log log;
    int complaints;
    char id[64];
};

static void complain(const struct log_event *ev, void *arg) {
    struct fixture *f = arg;
    f->complaints++;
    snprintf(f->id, sizeof f->id, "%s", ev->id);
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f) return -1;
    strcpy(f->dir, "/tmp/moyai-events-test-XXXXXX");
    if (!mkdtemp(f->dir)) return -1;
    snprintf(f->path, sizeof f->path, "%s/e", f->dir);
    if (log_init(&f->log, NULL, NULL) < 0) return -1;
    log_set_sink(&f->log, complain, f);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    log_done(&f->log);
    unlink(f->path);
    int rc = rmdir(f->dir);
    free(f);
    return rc;
}

/* All of the file; the caller frees it. */
static char *content(const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static size_t lines(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void lines_as_specified(void **state) {
    struct fixture *f = *state;
    struct events *e;
    struct moyai_node_id node = {{0x8a, 0x0f}};
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    EVENT(e, &node, "call-begin", event_int("n", -3), event_text("name", "a\"b\\c\n\x01\xff é"),
          event_double("x", 0.1));
    EVENT(e, NULL, "odd", event_double("nan", NAN), event_double("inf", -INFINITY), event_text("none", NULL),
          event_int("min", INT64_MIN));
    events_write(e, NULL, "bare", NULL, 0);
    events_close(e);
    char *text = content(f->path);
    assert_int_equal(lines(text), 4);
    char version[16];
    long pid, wall, mono;
    assert_int_equal(sscanf(text,
                            "{\"moyai-events\":1,\"moyai\":\"%15[0-9.]\",\"pid\":%ld,\"wall\":%ld,\"mono\":%ld}\n",
                            version, &pid, &wall, &mono),
                     4);
    assert_string_equal(version, moyai_version());
    assert_int_equal(pid, getpid());
    assert_true(wall > 1700000000000000000 && mono > 0);
    assert_non_null(strstr(text, ",\"node\":\"8a0f0000000000000000000000000000\",\"kind\":\"call-begin\",\"n\":-3,"
                                 "\"name\":\"a\\\"b\\\\c\\n\\u0001\\ufffd é\",\"x\":0.10000000000000001}\n"));
    assert_non_null(
        strstr(text, ",\"kind\":\"odd\",\"nan\":null,\"inf\":null,\"none\":null,\"min\":-9223372036854775808}\n"));
    assert_non_null(strstr(text, ",\"kind\":\"bare\"}\n"));
    free(text);
    EVENT(NULL, NULL, "x", event_int("n", 1));
    events_write(NULL, NULL, "x", NULL, 0);
    events_flush(NULL);
    events_close(NULL);
    assert_int_equal(f->complaints, 0);
}

static void json_escapes_every_byte(void **state) {
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char in[1] = {(char)c}, out[JSON_WORST + 1], want[8];
        size_t n = json_escape(out, in, 1);
        out[n] = 0;
        if (c == '\n') {
            strcpy(want, "\\n");
        } else if (c == '\t') {
            strcpy(want, "\\t");
        } else if (c == '\r') {
            strcpy(want, "\\r");
        } else if (c == '\b') {
            strcpy(want, "\\b");
        } else if (c == '\f') {
            strcpy(want, "\\f");
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(want, sizeof want, "\\u%04x", c);
        } else if (c == '"' || c == '\\') {
            snprintf(want, sizeof want, "\\%c", c);
        } else if (c < 0x80) {
            snprintf(want, sizeof want, "%c", c);
        } else {
            strcpy(want, "\\ufffd");
        }
        assert_string_equal(out, want);
    }
    for (unsigned c = 0x80; c < 0xc0; c++) { /* of two bytes; the first half a terminal may obey */
        char in[2] = {(char)0xc2, (char)c}, out[2 * JSON_WORST + 1], want[8];
        out[json_escape(out, in, 2)] = 0;
        snprintf(want, sizeof want, c < 0xa0 ? "\\u%04x" : "\xc2%c", c);
        assert_string_equal(out, want);
    }
}

static void texts_are_cut(void **state) {
    struct fixture *f = *state;
    struct events *e;
    char *large = malloc(3 * EVENTS_TEXT);
    memset(large, 1, 3 * EVENTS_TEXT);
    large[3 * EVENTS_TEXT - 1] = 0;
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    EVENT(e, NULL, "large", event_text("a", large), event_text("b", large), event_text("c", large),
          event_text("d", large));
    events_close(e);
    char *text = content(f->path);
    assert_int_equal(lines(text), 2);
    assert_in_range(strlen(text), 4 * 6 * EVENTS_TEXT, 4 * 6 * EVENTS_TEXT + 500);
    free(text);
    free(large);
}

static void what_is_gathered_is_written_in_time(void **state) {
    struct fixture *f = *state;
    struct events *e;
    struct stat st;
    moyai_ns start = moyai_now();
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    EVENT(e, NULL, "k", event_int("i", 0));
    bool young = moyai_now() - start < (moyai_ns)EVENTS_FLUSH_TIME; /* a busy machine may have taken longer */
    assert_int_equal(stat(f->path, &st), 0);
    if (young) assert_int_equal(st.st_size, 0); /* gathered */
    events_flush(e);
    char *text = content(f->path);
    assert_int_equal(lines(text), 2);
    free(text);
    for (int i = 0; i < 3000; i++) EVENT(e, NULL, "k", event_int("i", i)); /* by size: more than one buffer */
    assert_int_equal(stat(f->path, &st), 0);
    assert_in_range(st.st_size, EVENTS_BUFFER, 3000 * 100);
    events_close(e);
    text = content(f->path);
    assert_int_equal(lines(text), 3002);
    free(text);
}

static void the_first_writer_empties_the_file(void **state) {
    struct fixture *f = *state;
    struct events *a, *b;
    FILE *old = fopen(f->path, "w");
    fputs("of an earlier run\n", old);
    fclose(old);
    assert_int_equal(events_open(&a, f->path, &f->log, NULL), 0);
    EVENT(a, NULL, "a", event_int("i", 1));
    events_flush(a);
    assert_int_equal(events_open(&b, f->path, &f->log, NULL), 0); /* another node, or a child: it appends */
    EVENT(b, NULL, "b", event_int("i", 1));
    EVENT(a, NULL, "a", event_int("i", 2));
    events_close(b);
    events_close(a);
    char *text = content(f->path);
    assert_int_equal(lines(text), 5);
    assert_null(strstr(text, "earlier"));
    assert_non_null(strstr(text, "\"kind\":\"b\""));
    free(text);
}

static void percent_p_is_the_process(void **state) {
    struct fixture *f = *state;
    struct events *e;
    char want[160];
    snprintf(f->path, sizeof f->path, "%s/%%p-%%x-%%p", f->dir);
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    events_close(e);
    snprintf(want, sizeof want, "%s/%d-%%x-%d", f->dir, (int)getpid(), (int)getpid());
    snprintf(f->path, sizeof f->path, "%s", want);
    char *text = content(want);
    assert_non_null(text);
    free(text);
}

static void what_cannot_be_opened_is_named(void **state) {
    struct fixture *f = *state;
    struct events *e = NULL;
    struct moyai_error err;
    assert_int_equal(events_open(&e, "/nowhere/at/all", &f->log, &err), MOYAI_ESYS);
    assert_non_null(strstr(err.text, "\"/nowhere/at/all\""));
    assert_int_equal(events_open(&e, f->dir, &f->log, &err), MOYAI_ESYS);
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_true(events_open(&e, f->path, &f->log, &err) < 0); /* without a reader, and... */
    int rd = open(f->path, O_RDONLY | O_NONBLOCK);
    assert_int_equal(events_open(&e, f->path, &f->log, &err), MOYAI_EINVAL); /* ...with one, it could block the run */
    assert_non_null(strstr(err.text, "is not a file"));
    close(rd);
    assert_null(e);
    assert_int_equal(f->complaints, 0);
}

static void a_full_disk_ends_it_with_one_line(void **state) {
    struct fixture *f = *state;
    struct events *e;
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(events_open(&e, "/dev/full", &f->log, NULL), 0);
        for (int i = 0; i < 5000; i++) EVENT(e, NULL, "k", event_int("i", i));
        events_flush(e);
        events_close(e);
        assert_int_equal(f->complaints, 1);
        assert_string_equal(f->id, "MOYAI-EVENTS-LOST");
    }
    /* a file that may not grow: the first part of a write succeeds */
    struct rlimit old, small;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 1000;
    f->complaints = 0;
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < 5000; i++) EVENT(e, NULL, "k", event_int("i", i));
    events_close(e);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(f->complaints, 1);
}

static void a_forked_child_is_silent(void **state) {
    struct fixture *f = *state;
    struct events *e;
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    EVENT(e, NULL, "parent", event_int("i", 1));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        EVENT(e, NULL, "child", event_int("i", 1));
        events_flush(e);
        events_close(e);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    EVENT(e, NULL, "parent", event_int("i", 2));
    events_close(e);
    char *text = content(f->path);
    assert_int_equal(lines(text), 3);
    assert_null(strstr(text, "child"));
    free(text);
}

static void without_memory(void **state) {
    struct fixture *f = *state;
    struct events *e = NULL;
    for (long k = 1; alloc_next(&k, ALLOC_ONE); k++) {
        int rc = events_open(&e, f->path, &f->log, NULL);
        if (rc == 0) {
            char text[4000];
            memset(text, 'x', sizeof text - 1);
            text[sizeof text - 1] = 0;
            for (int i = 0; i < 40; i++) EVENT(e, NULL, "k", event_text("t", text));
            events_close(e);
        } else {
            assert_int_equal(rc, MOYAI_ENOMEM);
            assert_true(alloc_hit());
        }
    }
    alloc_disarm();
    char *text = content(f->path);
    assert_int_equal(lines(text), 41); /* of the last round, in which nothing failed */
    free(text);
}

static void *many(void *e) {
    for (int i = 0; i < 2000; i++) EVENT((struct events *)e, NULL, "thread", event_int("i", i));
    return NULL;
}

static void several_threads(void **state) {
    struct fixture *f = *state;
    struct events *e;
    pthread_t t[3];
    assert_int_equal(events_open(&e, f->path, &f->log, NULL), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, many, e), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    events_close(e);
    char *text = content(f->path), *p = text;
    assert_int_equal(lines(text), 6001);
    for (int i = 0; i < 6001; i++) { /* whole lines */
        char *end = strchr(p, '\n');
        assert_true(p[0] == '{' && end[-1] == '}');
        p = end + 1;
    }
    free(text);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(lines_as_specified),
        T(json_escapes_every_byte),
        T(texts_are_cut),
        T(what_is_gathered_is_written_in_time),
        T(the_first_writer_empties_the_file),
        T(percent_p_is_the_process),
        T(what_cannot_be_opened_is_named),
        T(a_full_disk_ends_it_with_one_line),
        T(a_forked_child_is_silent),
        T(without_memory),
        T(several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
