/* SPDX-License-Identifier: Apache-2.0 */
#include "link/hello.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct moyai_node_id node_a = {{0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
static const struct moyai_node_id node_b = {{0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
static const uint8_t host[16] = {9, 8, 7, 6, 5, 4, 3, 2, 1};

static struct link_hello sample(void) {
    struct link_hello h;
    hello_fill(&h, &node_a, host, "worker 7", 1u << 20, 1ull << 40);
    h.n_endpoints = 2;
    strcpy(h.endpoints[0], "192.0.2.1:9123");
    strcpy(h.endpoints[1], "[2001:db8::1]:9123");
    return h;
}

static size_t encode_ok(const struct link_hello *h, uint8_t out[HELLO_MAX]) {
    struct moyai_error e = {0};
    int n = hello_encode(h, out, &e);
    if (n < 0) fail_msg("hello_encode: %s", e.text);
    return (size_t)n;
}

/* Equal in all that is sent. */
static void assert_same(const struct link_hello *x, const struct link_hello *y) {
    uint8_t a[HELLO_MAX], b[HELLO_MAX];
    size_t n = encode_ok(x, a);
    assert_int_equal(encode_ok(y, b), n);
    assert_memory_equal(a, b, n);
}

/* Refused with this code and a text with this word, and *h untouched. The bytes are exactly as long as they are: a
 * read beyond them is seen by the sanitizers. */
static void refused(const uint8_t *p, size_t n, int code, const char *word) {
    uint8_t *exact = malloc(n ? n : 1);
    assert_non_null(exact);
    memcpy(exact, p, n);
    struct link_hello h, before;
    memset(&h, 0x5a, sizeof h);
    before = h;
    struct moyai_error e = {0};
    int rc = hello_decode(exact, n, &h, &e);
    if (rc != code) fail_msg("%d (%s) and not %d", rc, e.text, code);
    assert_int_equal(e.code, code);
    if (!strstr(e.text, word)) fail_msg("'%s' is not in '%s'", word, e.text);
    assert_memory_equal(&h, &before, sizeof h);
    free(exact);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void fill_tells_about_this_process(void **state) {
    (void)state;
    struct link_hello h;
    hello_fill(&h, &node_a, host, NULL, 1u << 20, 77);
    assert_int_equal(h.pid, getpid());
    assert_int_equal(h.pointer_bits, sizeof(void *) * 8);
    uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    assert_int_equal(h.big_endian, first == 0);
    assert_string_equal(h.version, moyai_version());
    assert_string_equal(h.title, "");
    assert_true(h.machine[0] != 0);
    assert_int_equal(h.max_message, 77);
    assert_int_equal(h.n_endpoints, 0);
}

static void round_trip(void **state) {
    (void)state;
    struct link_hello h = sample(), back;
    uint8_t a[HELLO_MAX];
    size_t n = encode_ok(&h, a);
    struct moyai_error e = {0};
    assert_int_equal(hello_decode(a, n, &back, &e), 0);
    assert_same(&back, &h);
    assert_int_equal(back.proto_min, 1);
    assert_int_equal(back.proto_max, 1);
    assert_string_equal(back.version, h.version);
    assert_memory_equal(&back.node, &node_a, sizeof node_a);
    assert_memory_equal(back.host, host, sizeof host);
    assert_int_equal(back.pid, getpid());
    assert_int_equal(back.big_endian, h.big_endian);
    assert_int_equal(back.pointer_bits, h.pointer_bits);
    assert_string_equal(back.machine, h.machine);
    assert_int_equal(back.max_frame, 1u << 20);
    assert_true(back.max_message == 1ull << 40);
    assert_string_equal(back.title, "worker 7");
    assert_int_equal(back.n_endpoints, 2);
    assert_string_equal(back.endpoints[0], "192.0.2.1:9123");
    assert_string_equal(back.endpoints[1], "[2001:db8::1]:9123");
}

static void the_largest_fits(void **state) {
    (void)state;
    struct link_hello h = sample(), back;
    h.proto_min = h.proto_max = UINT32_MAX;
    h.pid = INT64_MAX;
    h.max_frame = UINT32_MAX;
    h.max_message = UINT64_MAX;
    memset(h.version, 'v', sizeof h.version - 1);
    memset(h.machine, 'm', sizeof h.machine - 1);
    memset(h.title, 't', sizeof h.title - 1);
    h.n_endpoints = HELLO_ENDPOINTS;
    for (uint32_t i = 0; i < HELLO_ENDPOINTS; i++) memset(h.endpoints[i], 'e', sizeof h.endpoints[i] - 1);
    uint8_t a[HELLO_MAX];
    (void)encode_ok(&h, a);
    h.proto_min = 1; /* else it is decoded no further than this */
    size_t n = encode_ok(&h, a);
    assert_int_equal(hello_decode(a, n, &back, NULL), 0);
    assert_same(&back, &h);
}

static void any_cut_is_refused(void **state) {
    (void)state;
    struct link_hello h = sample();
    uint8_t a[HELLO_MAX + 1];
    size_t n = encode_ok(&h, a);
    for (size_t i = 0; i < n; i++) refused(a, i, MOYAI_EDATA, "hello");
    a[n] = 0;
    refused(a, n + 1, MOYAI_EDATA, "too many");
    static const uint8_t big[HELLO_MAX + 1];
    refused(big, sizeof big, MOYAI_ETOOBIG, "4096");
}

/* Whatever is accepted encodes again, and decodes to the same. */
static void any_damage_is_survived(void **state) {
    (void)state;
    struct link_hello h = sample();
    uint8_t a[HELLO_MAX], b[HELLO_MAX];
    size_t n = encode_ok(&h, a), accepted = 0;
    struct moyai_rng rng;
    rng_seed(&rng, 20261127);
    for (size_t i = 0; i < n; i++) {
        for (unsigned bit = 0; bit < 9; bit++) {
            uint8_t *exact = malloc(n);
            assert_non_null(exact);
            memcpy(exact, a, n);
            if (bit < 8)
                exact[i] ^= (uint8_t)(1u << bit);
            else
                rng_bytes(&rng, exact + i, n - i);
            struct link_hello x, y;
            /* One of another version has been decoded in part. */
            if (hello_decode(exact, n, &x, NULL) == 0 && x.proto_min == 1) {
                accepted++;
                size_t m = encode_ok(&x, b);
                assert_int_equal(hello_decode(b, m, &y, NULL), 0);
                assert_same(&x, &y);
            }
            free(exact);
        }
    }
    assert_true(accepted > 100); /* flips in ids and texts mostly */
}

static void what_may_not_be_sent(void **state) {
    (void)state;
    uint8_t out[HELLO_MAX];
    struct moyai_error e;
#define BAD(change, word)                                                                                              \
    do {                                                                                                               \
        struct link_hello h = sample();                                                                                \
        change;                                                                                                        \
        assert_int_equal(hello_encode(&h, out, &e), MOYAI_EINVAL);                                                     \
        assert_int_equal(e.code, MOYAI_EINVAL);                                                                        \
        if (!strstr(e.text, word)) fail_msg("'%s' is not in '%s'", word, e.text);                                      \
    } while (0)
    BAD(h.proto_min = 0, "range");
    BAD(h.proto_min = 3, "range");
    BAD(memset(&h.node, 0, sizeof h.node), "node id");
    BAD(h.pid = -1, "process id");
    BAD(h.pointer_bits = 48, "48");
    BAD(h.max_frame = HELLO_MIN_FRAME - 1, "4095");
    BAD(h.n_endpoints = HELLO_ENDPOINTS + 1, "9 endpoints");
    BAD(strcpy(h.title, "a\nb"), "title");
    BAD(strcpy(h.title, "\xff"), "title");
    BAD(memset(h.title, 'x', sizeof h.title), "title");
    BAD(strcpy(h.machine, "\x7f"), "machine");
    BAD(strcpy(h.version, "\x1b[31m"), "release");
    BAD(strcpy(h.endpoints[1], "\t"), "endpoints");
#undef BAD
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A hello with n further pairs behind its own; the map of the sample has 13: one byte of head. */
static size_t with_pairs(uint8_t out[HELLO_MAX], const void *pairs, size_t len, unsigned n) {
    struct link_hello h = sample();
    size_t at = encode_ok(&h, out);
    assert_int_equal(out[0], 0xa0 | 13);
    assert_true(13 + n < 24);
    out[0] = (uint8_t)(0xa0 | (13 + n));
    memcpy(out + at, pairs, len);
    return at + len;
}

static void unknown_keys_are_skipped(void **state) {
    (void)state;
    uint8_t a[HELLO_MAX];
    static const uint8_t pairs[] = {
        0x18, 99,   0x01,                               /* 99: 1 */
        0x18, 100,  0x82, 0x63, 'a',  'b',  'c',  0xa1, /* 100: ["abc", {1: h'00'}] */
        0x01, 0x41, 0x00,                               /**/
        0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* 2^64 - 1: null */
        0xff, 0xf6,                                     /**/
        0x0f, 0xc1, 0x1a, 0x00, 0x00, 0x00, 0x00,       /* 15: 1(0) */
    };
    size_t n = with_pairs(a, pairs, sizeof pairs, 4);
    struct link_hello h = sample(), back;
    struct moyai_error e = {0};
    if (hello_decode(a, n, &back, &e) < 0) fail_msg("%s", e.text);
    assert_same(&back, &h);
    for (size_t i = 0; i < n; i++) refused(a, i, MOYAI_EDATA, "hello");
}

/* Said only by who looks at others; who says nothing is none. */
static void an_observer_says_so(void **state) {
    (void)state;
    static const uint8_t no[] = {0x0d, 0xf4}, wrong[] = {0x0d, 0x01};
    uint8_t a[HELLO_MAX];
    struct link_hello h = sample(), back;
    assert_int_equal(hello_decode(a, encode_ok(&h, a), &back, NULL), 0);
    assert_false(back.observer);
    h.observer = true;
    assert_int_equal(hello_decode(a, encode_ok(&h, a), &back, NULL), 0);
    assert_true(back.observer);
    assert_same(&back, &h);
    assert_int_equal(hello_decode(a, with_pairs(a, no, sizeof no, 1), &back, NULL), 0);
    assert_false(back.observer);
    refused(a, with_pairs(a, wrong, sizeof wrong, 1), MOYAI_EDATA, "'observer' has a wrong type");
}

/* A node of a grid of one host, or an older one, does not say that it speaks the leave protocol. */
static void the_leave_protocol_is_said(void **state) {
    (void)state;
    static const uint8_t none[] = {0x0e, 0x00}, wrong[] = {0x0e, 0xf5};
    uint8_t a[HELLO_MAX];
    struct link_hello h = sample(), back;
    assert_int_equal(hello_decode(a, encode_ok(&h, a), &back, NULL), 0);
    assert_int_equal(back.leave, 0);
    h.leave = HELLO_LEAVE;
    h.observer = true;
    assert_int_equal(hello_decode(a, encode_ok(&h, a), &back, NULL), 0);
    assert_int_equal(back.leave, HELLO_LEAVE);
    assert_same(&back, &h);
    assert_int_equal(hello_decode(a, with_pairs(a, none, sizeof none, 1), &back, NULL), 0);
    assert_int_equal(back.leave, 0);
    refused(a, with_pairs(a, wrong, sizeof wrong, 1), MOYAI_EDATA, "'leave protocol version' has a wrong type");
}

static void keys_are_unsigned_and_single(void **state) {
    (void)state;
    uint8_t a[HELLO_MAX];
    static const uint8_t text_key[] = {0x61, 'k', 0x01}, negative[] = {0x20, 0x01}, twice[] = {0x05, 0x01};
    refused(a, with_pairs(a, text_key, sizeof text_key, 1), MOYAI_EDATA, "key");
    refused(a, with_pairs(a, negative, sizeof negative, 1), MOYAI_EDATA, "key");
    refused(a, with_pairs(a, twice, sizeof twice, 1), MOYAI_EDATA, "'process id' is there twice");
}

static void hostile_values_are_refused(void **state) {
    (void)state;
    uint8_t a[HELLO_MAX];
    /* An array that claims 2^60 elements, a string longer than all there is, nesting beyond the limit. */
    static const uint8_t array[] = {0x18, 99, 0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0},
                         text[] = {0x18, 99, 0x7b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    refused(a, with_pairs(a, array, sizeof array, 1), MOYAI_EDATA, "hello");
    refused(a, with_pairs(a, text, sizeof text, 1), MOYAI_EDATA, "hello");
    uint8_t deep[102] = {0x18, 99};
    memset(deep + 2, 0x81, 99);
    deep[101] = 0;
    refused(a, with_pairs(a, deep, sizeof deep, 1), MOYAI_EDEPTH, "hello");
    static const uint8_t others[][2] = {{0x80, 0}, {0x01, 0}, {0xf6, 0}, {0xbf, 0xff}, {0x9f, 0xff}};
    for (size_t i = 0; i < 5; i++) refused(others[i], others[i][1] ? 2 : 1, MOYAI_EDATA, "map");
    static const uint8_t empty[] = {0xa0};
    refused(empty, 1, MOYAI_EDATA, "'lowest protocol version' is missing");
}

/* Leave out or spoil each field of a hello in turn: pairs are found by decoding the keys, which are 0..12 in order. */
static void each_field_is_needed_and_checked(void **state) {
    (void)state;
    static const char *names[] = {"lowest protocol version",
                                  "highest protocol version",
                                  "release",
                                  "node id",
                                  "host id",
                                  "process id",
                                  "byte order",
                                  "pointer bits",
                                  "machine",
                                  "frame limit",
                                  "message limit",
                                  "title"};
    struct link_hello h = sample();
    h.n_endpoints = 0;
    uint8_t a[HELLO_MAX], b[HELLO_MAX];
    size_t n = encode_ok(&h, a);
    size_t at[14] = {1}; /* where each pair begins */
    for (unsigned k = 0; k < 13; k++) {
        size_t p = at[k];
        assert_int_equal(a[p++], k);
        unsigned major = a[p] >> 5, info = a[p] & 31;
        p++;
        uint64_t arg = info;
        if (info >= 24 && major != 7) {
            arg = 0;
            for (unsigned i = 0; i < 1u << (info - 24); i++) arg = arg << 8 | a[p++];
        }
        if (major == 2 || major == 3) p += arg;
        at[k + 1] = p;
    }
    assert_int_equal(at[13], n);
    for (unsigned k = 0; k < 12; k++) {
        size_t m = at[k];
        memcpy(b, a, m);
        memcpy(b + m, a + at[k + 1], n - at[k + 1]);
        b[0]--;
        char text[80];
        snprintf(text, sizeof text, "'%s' is missing", names[k]);
        refused(b, n - (at[k + 1] - at[k]), MOYAI_EDATA, text);

        /* null in its place */
        memcpy(b, a, m);
        b[m] = (uint8_t)k;
        b[m + 1] = 0xf6;
        memcpy(b + m + 2, a + at[k + 1], n - at[k + 1]);
        snprintf(text, sizeof text, "'%s' has a wrong", names[k]);
        refused(b, m + 2 + n - at[k + 1], MOYAI_EDATA, text);
    }
    /* Endpoints may be missing. */
    memcpy(b, a, at[12]);
    b[0]--;
    struct link_hello back;
    assert_int_equal(hello_decode(b, at[12], &back, NULL), 0);
    assert_same(&back, &h);
}

/* ---- versions -------------------------------------------------------------------------------- */

static void picks_the_highest_common_version(void **state) {
    (void)state;
    struct link_hello mine = sample(), theirs = sample();
    theirs.node = node_b;
    static const uint32_t ranges[][5] = {
        {1, 1, 1, 1, 1}, {1, 3, 2, 5, 3}, {2, 5, 1, 3, 3}, {1, 9, 4, 4, 4}, {4, 4, 1, 9, 4}, {2, 2, 2, 9, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        mine.proto_min = ranges[i][0], mine.proto_max = ranges[i][1];
        theirs.proto_min = ranges[i][2], theirs.proto_max = ranges[i][3];
        assert_int_equal(hello_accept(&mine, &theirs, NULL), ranges[i][4]);
        assert_int_equal(hello_accept(&theirs, &mine, NULL), ranges[i][4]);
    }
}

static void refuses_loudly_on_both_sides(void **state) {
    (void)state;
    struct link_hello mine = sample(), theirs = sample();
    theirs.node = node_b;
    theirs.proto_min = 7, theirs.proto_max = 9;
    strcpy(mine.version, "0.1.0");
    strcpy(theirs.version, "3.4.5");
    struct moyai_error e = {0};
    assert_int_equal(hello_accept(&mine, &theirs, &e), MOYAI_EVERSION);
    assert_non_null(strstr(e.text, "moyai 0.1.0) speaks 1,"));
    assert_non_null(strstr(e.text, "moyai 3.4.5) speaks 7 to 9"));
    assert_non_null(strstr(e.text, "bb0102030405060708090a0b0c0d0e0f"));
    assert_int_equal(hello_accept(&theirs, &mine, &e), MOYAI_EVERSION);
    assert_non_null(strstr(e.text, "moyai 0.1.0) speaks 1"));
    assert_non_null(strstr(e.text, "moyai 3.4.5) speaks 7 to 9"));
}

/* A hello of the far future need not make sense beyond the version range. */
static void a_future_hello_is_understood_that_far(void **state) {
    (void)state;
    static const uint8_t future[] = {0xa5, 0x00, 0x07, 0x01, 0x09, 0x02, 0x65, '3',  '.', '4',
                                     '.',  '5',  0x05, 0x82, 0x01, 0x02, 0x18, 0x63, 0xf6};
    struct link_hello mine = sample(), theirs;
    struct moyai_error e = {0};
    if (hello_decode(future, sizeof future, &theirs, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(theirs.proto_min, 7);
    assert_int_equal(theirs.proto_max, 9);
    assert_string_equal(theirs.version, "3.4.5");
    assert_int_equal(hello_accept(&mine, &theirs, &e), MOYAI_EVERSION);
    assert_non_null(strstr(e.text, "3.4.5"));
    assert_non_null(strstr(e.text, "7 to 9"));
    /* The same without a common version being out of question. */
    uint8_t present[sizeof future];
    memcpy(present, future, sizeof future);
    present[2] = 1;
    refused(present, sizeof present, MOYAI_EDATA, "'node id' is missing");
}

static void refuses_itself(void **state) {
    (void)state;
    struct link_hello h = sample();
    struct moyai_error e = {0};
    assert_int_equal(hello_accept(&h, &h, &e), MOYAI_EPROTO);
    assert_non_null(strstr(e.text, "itself"));
}

static void texts_are_made_fit(void **state) {
    (void)state;
    char t[8];
    hello_text(t, sizeof t, "plain");
    assert_string_equal(t, "plain");
    hello_text(t, sizeof t, "1234567890");
    assert_string_equal(t, "1234567");
    hello_text(t, sizeof t, "12345\xc3\xa9");
    assert_string_equal(t, "12345\xc3\xa9");
    hello_text(t, sizeof t, "123456\xc3\xa9"); /* does not fit whole */
    assert_string_equal(t, "123456");
    hello_text(t, sizeof t, "a\nb\x7f\xff\xc3");
    assert_string_equal(t, "a?b???");
    hello_text(t, 1, "x");
    assert_string_equal(t, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill_tells_about_this_process),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(the_largest_fits),
        cmocka_unit_test(any_cut_is_refused),
        cmocka_unit_test(any_damage_is_survived),
        cmocka_unit_test(what_may_not_be_sent),
        cmocka_unit_test(unknown_keys_are_skipped),
        cmocka_unit_test(an_observer_says_so),
        cmocka_unit_test(the_leave_protocol_is_said),
        cmocka_unit_test(keys_are_unsigned_and_single),
        cmocka_unit_test(hostile_values_are_refused),
        cmocka_unit_test(each_field_is_needed_and_checked),
        cmocka_unit_test(picks_the_highest_common_version),
        cmocka_unit_test(refuses_loudly_on_both_sides),
        cmocka_unit_test(a_future_hello_is_understood_that_far),
        cmocka_unit_test(refuses_itself),
        cmocka_unit_test(texts_are_made_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
