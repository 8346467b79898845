/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values through real calls, there and back, within the process and to another: every type and its extremes, arrays of
 * every element type and size, references, structured values; and what does not fit leaves everything as it was.
 */
#include "tests/public/kit.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>

/* ---- the callee ------------------------------------------------------------------------------ */

/* X(name, type, least, most) */
#define INTEGERS(X)                                                                                                    \
    X(bool, bool, 0, 1)                                                                                                \
    X(char, char, CHAR_MIN, CHAR_MAX)                                                                                  \
    X(schar, signed char, SCHAR_MIN, SCHAR_MAX)                                                                        \
    X(short, short, SHRT_MIN, SHRT_MAX)                                                                                \
    X(int, int, INT_MIN, INT_MAX)                                                                                      \
    X(long, long, LONG_MIN, LONG_MAX)                                                                                  \
    X(llong, long long, LLONG_MIN, LLONG_MAX)                                                                          \
    X(uchar, unsigned char, 0, UCHAR_MAX)                                                                              \
    X(ushort, unsigned short, 0, USHRT_MAX)                                                                            \
    X(uint, unsigned, 0, UINT_MAX)                                                                                     \
    X(ulong, unsigned long, 0, ULONG_MAX)                                                                              \
    X(ullong, unsigned long long, 0, ULLONG_MAX)

#define OTHERS(X)                                                                                                      \
    X(float, float, , )                                                                                                \
    X(double, double, , )                                                                                              \
    X(text, const char *, , )

#define X(name, type, least, most)                                                                                     \
    static int echo_##name(moyai_request *rq, void *self) {                                                            \
        (void)self;                                                                                                    \
        type x;                                                                                                        \
        int rc = moyai_args(rq, MOYAI_INTO(&x));                                                                       \
        return rc < 0 ? rc : moyai_return(rq, MOYAI_ARGS(x));                                                          \
    }
INTEGERS(X)
OTHERS(X)
#undef X

static int echo_bytes(moyai_request *rq, void *self) {
    (void)self;
    const void *p;
    size_t n;
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_bytes(&p, &n))));
    return moyai_return(rq, MOYAI_ARGS(moyai_bytes(p, n)));
}

static int echo_ref(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *r = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&r)));
    int rc = moyai_return(rq, MOYAI_ARGS(r, moyai_self(rq)));
    moyai_ref_unref(r);
    return rc;
}

static int echo_value(moyai_request *rq, void *self) {
    (void)self;
    moyai_value *v = NULL;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&v)));
    int rc = moyai_return(rq, MOYAI_ARGS(v));
    moyai_value_free(v);
    return rc;
}

/* Element i of an array is a function of i and a seed, exact in every element type. */
static uint64_t element(size_t i, uint64_t seed) {
    return (i * 0x9e3779b97f4a7c15u + seed) >> 57;
}

/* The array must be whole and aligned; it goes back with its length. */
#define X(name, type, elem)                                                                                            \
    static bool whole_##name(const type *p, size_t n, uint64_t seed) {                                                 \
        if ((uintptr_t)p % sizeof(type) != 0) return false;                                                            \
        for (size_t i = 0; i < n; i++)                                                                                 \
            if (p[i] != (type)element(i, seed)) return false;                                                          \
        return true;                                                                                                   \
    }                                                                                                                  \
    static int array_##name(moyai_request *rq, void *self) {                                                           \
        (void)self;                                                                                                    \
        const type *p = NULL;                                                                                          \
        size_t n = 1;                                                                                                  \
        uint64_t seed;                                                                                                 \
        const char *text; /* an odd length before it, so that alignment is not by chance */                            \
        int rc = moyai_args(rq, MOYAI_INTO(&text, &seed, moyai_into_##name(&p, &n)));                                  \
        if (rc < 0) return rc;                                                                                         \
        if (!whole_##name(p, n, seed)) return moyai_raise(rq, MOYAI_EDATA, #name " of %zu", n);                        \
        return moyai_return(rq, MOYAI_ARGS(text, n, moyai_##name(p, n)));                                              \
    }
MOYAI_ARRAY_TABLE(X)
#undef X

static int sixteen(moyai_request *rq, void *self) {
    (void)self;
    int v[16];
    KIT_OK(moyai_args(rq, MOYAI_INTO(&v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10],
                                     &v[11], &v[12], &v[13], &v[14], &v[15])));
    return moyai_return(rq, MOYAI_ARGS(v[15], v[14], v[13], v[12], v[11], v[10], v[9], v[8], v[7], v[6], v[5], v[4],
                                       v[3], v[2], v[1], v[0]));
}

/* call_back(ref, x): calls ref.echo_int(x). */
static int call_back(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *r = NULL;
    int x, y = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&r, &x)));
    KIT_OK(moyai_call(r, "echo_int", MOYAI_ARGS(x), MOYAI_INTO(&y), NULL));
    moyai_ref_unref(r);
    return moyai_return(rq, MOYAI_ARGS(y));
}

/* pass_on(to, ref, x): to.call_back(ref, x). */
static int pass_on(moyai_request *rq, void *self) {
    (void)self;
    moyai_ref *to = NULL, *r = NULL;
    int x, y = 0;
    KIT_OK(moyai_args(rq, MOYAI_INTO(&to, &r, &x)));
    KIT_OK(moyai_call(to, "call_back", MOYAI_ARGS(r, x), MOYAI_INTO(&y), NULL));
    moyai_ref_unref(to);
    moyai_ref_unref(r);
    return moyai_return(rq, MOYAI_ARGS(y));
}

/* Reads its arguments, which are (1, ref, "text"), wrongly in several ways: nothing is stored. */
static int wrong(moyai_request *rq, void *self) {
    (void)self;
    int64_t i = -1, j = -2;
    moyai_ref *r = NULL;
    const char *t = NULL;
    bool b = true;
    KIT_RC(moyai_args(rq, MOYAI_NONE), MOYAI_EARGS);
    KIT_RC(moyai_args(rq, MOYAI_INTO(&i, &r)), MOYAI_EARGS);
    KIT_RC(moyai_args(rq, MOYAI_INTO(&i, &r, &t, &j)), MOYAI_EARGS);
    KIT_RC(moyai_args(rq, MOYAI_INTO(&i, &r, &j)), MOYAI_ETYPE);
    KIT_RC(moyai_args(rq, MOYAI_INTO(&i, &t, &t)), MOYAI_ETYPE);
    KIT_RC(moyai_args(rq, MOYAI_INTO(&b, &r, &b)), MOYAI_ETYPE);
    FIBER_ASSERT(i == -1 && j == -2 && !r && !t && b);
    KIT_OK(moyai_args(rq, MOYAI_INTO(&i, &r, &t))); /* it can still be read, and again */
    moyai_ref_unref(r);
    KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_skip(), moyai_skip(), &t)));
    FIBER_ASSERT(i == 1 && strcmp(t, "text") == 0);
    /* The last results count, also after ones that failed. */
    KIT_OK(moyai_return(rq, MOYAI_ARGS("not this")));
    KIT_RC(moyai_return(rq, MOYAI_ARGS("\xff")), MOYAI_EARGS);
    return moyai_return(rq, MOYAI_ARGS(moyai_null(), "but this"));
}

/* where(bytes): where they lie, what they are the sum of before and after others have run, and that again. */
static int where(moyai_request *rq, void *self) {
    (void)self;
    const uint8_t *p;
    size_t n;
    uint64_t sum[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        KIT_OK(moyai_args(rq, MOYAI_INTO(moyai_into_u8s(&p, &n))));
        for (size_t k = 0; k < n; k++) sum[i] += p[k];
        (void)moyai_sleep_masked(moyai_request_node(rq), MOYAI_MS);
    }
    return moyai_return(rq, MOYAI_ARGS((uint64_t)(uintptr_t)p, sum[0], sum[1]));
}

/* ask(): does a call to oneself, made by a method, lend? */
static int ask(moyai_request *rq, void *self) {
    (void)self;
    static uint8_t bytes[100000];
    uint64_t at = 0, a, b;
    KIT_OK(
        moyai_call(moyai_self(rq), "where", MOYAI_ARGS(moyai_u8s(bytes, sizeof bytes)), MOYAI_INTO(&at, &a, &b), NULL));
    return moyai_return(rq, MOYAI_ARGS(at == (uintptr_t)bytes));
}

static const struct moyai_method methods[] = {
#define X(name, type, least, most) {"echo_" #name, echo_##name},
    INTEGERS(X) OTHERS(X)
#undef X
#define X(name, type, elem) {"array_" #name, array_##name},
        MOYAI_ARRAY_TABLE(X)
#undef X
            {"echo_bytes", echo_bytes},
    {"echo_ref", echo_ref},
    {"where", where},
    {"ask", ask},
    {"echo_value", echo_value},
    {"sixteen", sixteen},
    {"call_back", call_back},
    {"pass_on", pass_on},
    {"wrong", wrong},
    {NULL, NULL}};
static const struct moyai_class cls = MOYAI_CLASS("Echo", methods, NULL);

static int role_echo(int argc, char **argv) {
    (void)argc;
    return kit_serve(NULL, &cls, NULL, argv[0]);
}

/* ---- the caller ------------------------------------------------------------------------------ */

static moyai_node *node;
static moyai_ref *refs[2];
static pid_t pid;

static int open_world(void **state) {
    (void)state;
    node = kit_node(NULL);
    refs[0] = kit_object(node, &cls, NULL);
    pid = kit_child("echo", "echo", NULL);
    refs[1] = kit_lookup(node, "echo");
    return 0;
}

static int close_world(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) moyai_ref_unref(refs[i]);
    moyai_node_free(node);
    kit_end(pid);
    return 0;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static void integers(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
#define X(name, type, least, most)                                                                                     \
    for (int k = 0; k < 5; k++) {                                                                                      \
        const type values[] = {0, 1, least, most, (type)(most / 3)};                                                   \
        type y = (type)!values[k];                                                                                     \
        KIT_OK(moyai_call(refs[i], "echo_" #name, MOYAI_ARGS(values[k]), MOYAI_INTO(&y), NULL));                       \
        FIBER_ASSERT(y == values[k]);                                                                                  \
    }
        INTEGERS(X)
#undef X
    }
}

static void floats(void **state) {
    (void)state;
    const float f[] = {0, -0.0f, 1.5f, -FLT_MAX, FLT_MIN, FLT_TRUE_MIN, INFINITY, -INFINITY, NAN, 0.1f};
    const double d[] = {0, -0.0, 1.5, -DBL_MAX, DBL_MIN, DBL_TRUE_MIN, INFINITY, -INFINITY, NAN, 0.1};
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof f / sizeof f[0]; k++) {
            float x = 7;
            KIT_OK(moyai_call(refs[i], "echo_float", MOYAI_ARGS(f[k]), MOYAI_INTO(&x), NULL));
            FIBER_ASSERT(isnan(f[k]) ? isnan(x) : memcmp(&x, &f[k], sizeof x) == 0);
            double y = 7;
            KIT_OK(moyai_call(refs[i], "echo_double", MOYAI_ARGS(d[k]), MOYAI_INTO(&y), NULL));
            FIBER_ASSERT(isnan(d[k]) ? isnan(y) : memcmp(&y, &d[k], sizeof y) == 0);
        }
    }
}

/* A number goes into every type that holds it exactly, and into no other. */
static void conversions(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        moyai_ref *r = refs[i];
        int8_t small = 5;
        uint64_t u = 5;
        double d = 0;
        float f = 0;
        bool b = false;
        KIT_OK(moyai_call(r, "echo_double", MOYAI_ARGS(3), MOYAI_INTO(&small), NULL)); /* int, double, int8 */
        FIBER_ASSERT_INT(small, 3);
        KIT_OK(moyai_call(r, "echo_llong", MOYAI_ARGS(-4.0), MOYAI_INTO(&d), NULL));
        FIBER_ASSERT(d == -4.0);
        KIT_OK(moyai_call(r, "echo_bool", MOYAI_ARGS(1), MOYAI_INTO(&b), NULL));
        FIBER_ASSERT(b);
        KIT_OK(moyai_call(r, "echo_ullong", MOYAI_ARGS(UINT64_MAX), MOYAI_INTO(&u), NULL));
        FIBER_ASSERT(u == UINT64_MAX);
        KIT_OK(moyai_call(r, "echo_float", MOYAI_ARGS(16777216), MOYAI_INTO(&f), NULL));
        KIT_RC(moyai_call(r, "echo_float", MOYAI_ARGS(16777217), MOYAI_INTO(&f), NULL), MOYAI_ERANGE);
        KIT_RC(moyai_call(r, "echo_float", MOYAI_ARGS(0.1), MOYAI_INTO(&f), NULL), MOYAI_ERANGE);
        KIT_RC(moyai_call(r, "echo_bool", MOYAI_ARGS(2), MOYAI_INTO(&b), NULL), MOYAI_ERANGE);
        KIT_RC(moyai_call(r, "echo_uint", MOYAI_ARGS(-1), MOYAI_INTO(&u), NULL), MOYAI_ERANGE);
        KIT_RC(moyai_call(r, "echo_llong", MOYAI_ARGS(UINT64_MAX), MOYAI_INTO(&u), NULL), MOYAI_ERANGE);
        KIT_RC(moyai_call(r, "echo_int", MOYAI_ARGS(1.5), MOYAI_INTO(&u), NULL), MOYAI_ERANGE);
        KIT_RC(moyai_call(r, "echo_int", MOYAI_ARGS(200), MOYAI_INTO(&small), NULL), MOYAI_ERANGE); /* the result */
        KIT_RC(moyai_call(r, "echo_text", MOYAI_ARGS(1), MOYAI_INTO(&u), NULL), MOYAI_ETYPE);
        KIT_RC(moyai_call(r, "echo_int", MOYAI_ARGS("1"), MOYAI_INTO(&u), NULL), MOYAI_ETYPE);
        FIBER_ASSERT(small == 3 && u == UINT64_MAX && f == 16777216 && b);
    }
}

static void sixteen_values(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        int v[16];
        KIT_OK(moyai_call(refs[i], "sixteen", MOYAI_ARGS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                          MOYAI_INTO(&v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10],
                                     &v[11], &v[12], &v[13], &v[14], &v[15]),
                          NULL));
        for (int k = 0; k < 16; k++) FIBER_ASSERT_INT(v[k], 15 - k);
    }
}

static void what_does_not_fit_leaves_everything_as_it_was(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *t = NULL;
        int x = 4;
        moyai_future *f = moyai_call_async(refs[i], "wrong", MOYAI_ARGS(1, refs[0], "text"));
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&x, &t)), MOYAI_ETYPE); /* null is no number */
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&t)), MOYAI_EARGS);
        FIBER_ASSERT(x == 4 && !t);
        moyai_value *v = NULL;
        KIT_RC(moyai_future_get(f, MOYAI_INTO(&v, &x)), MOYAI_ETYPE); /* made on the way, and freed */
        FIBER_ASSERT(!v);
        KIT_OK(moyai_future_get(f, MOYAI_INTO(moyai_skip(), &t)));
        FIBER_ASSERT(strcmp(t, "but this") == 0);
        moyai_future_free(f);
    }
}

/* ---- text and bytes -------------------------------------------------------------------------- */

static void texts_and_bytes(void **state) {
    (void)state;
    static char buf[1 << 20];
    static const size_t sizes[] = {0,    1,    22,   23,    24,    255,   256,           300,
                                   4095, 4096, 5000, 65535, 65536, 65537, sizeof buf - 1};
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            size_t n = sizes[k], m = 7;
            memset(buf, 'a', n);
            buf[n] = 0;
            const char *t = NULL;
            const void *p = NULL;
            KIT_OK(moyai_call(refs[i], "echo_text", MOYAI_ARGS(buf), MOYAI_INTO(&t), NULL));
            FIBER_ASSERT(strcmp(t, buf) == 0);
            KIT_OK(moyai_call(refs[i], "echo_text", MOYAI_ARGS(moyai_text(buf, n)), MOYAI_INTO(&t), NULL));
            FIBER_ASSERT(strcmp(t, buf) == 0);
            memset(buf, 0xff, n); /* bytes may be anything */
            KIT_OK(moyai_call(refs[i], "echo_bytes", MOYAI_ARGS(moyai_bytes(buf, n)),
                              MOYAI_INTO(moyai_into_bytes(&p, &m)), NULL));
            FIBER_ASSERT(m == n && memcmp(p, buf, n) == 0);
        }
        const char *t = NULL;
        KIT_OK(moyai_call(refs[i], "echo_text", MOYAI_ARGS("\xe8\x88\xab \xf0\x9f\x9a\xa4"), MOYAI_INTO(&t), NULL));
        FIBER_ASSERT(strcmp(t, "\xe8\x88\xab \xf0\x9f\x9a\xa4") == 0);
    }
}

/* Results of a synchronous call live until the next one of this fiber that has results or fails. */
static void results_of_synchronous_calls_live_on(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *t = NULL, *u = NULL;
        int x = 0;
        KIT_OK(moyai_call(refs[i], "echo_text", MOYAI_ARGS("stays"), MOYAI_INTO(&t), NULL));
        for (int k = 0; k < 100; k++) {
            moyai_future *f = moyai_call_async(refs[i], "echo_text", MOYAI_ARGS("another"));
            KIT_OK(moyai_future_get(f, MOYAI_INTO(&u)));
            FIBER_ASSERT(strcmp(u, "another") == 0);
            moyai_future_free(f);
            KIT_OK(moyai_call(refs[i], "echo_text", MOYAI_ARGS("unread"), MOYAI_NONE, NULL));
            FIBER_ASSERT(strcmp(t, "stays") == 0);
        }
        KIT_OK(moyai_call(refs[i], "call_back", MOYAI_ARGS(refs[0], 3), MOYAI_INTO(&x), NULL)); /* t is gone */
        FIBER_ASSERT_INT(x, 3);
    }
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* n bytes or a little less: there and back, whole and aligned on both sides. */
#define X(name, type, elem)                                                                                            \
    static void try_##name(moyai_ref *ref, size_t bytes, int shift) {                                                  \
        size_t n = bytes / sizeof(type), there = 1, m = 1;                                                             \
        type *p = malloc(n * sizeof(type) + 1);                                                                        \
        const type *q = NULL;                                                                                          \
        const char *text = NULL;                                                                                       \
        FIBER_ASSERT(p);                                                                                               \
        for (size_t i = 0; i < n; i++) p[i] = (type)element(i, bytes);                                                 \
        moyai_future *f = moyai_call_async(                                                                            \
            ref, "array_" #name, MOYAI_ARGS(moyai_text("seven..", (size_t)shift), bytes, moyai_##name(p, n)));         \
        KIT_OK(moyai_future_get(f, MOYAI_INTO(&text, &there, moyai_into_##name(&q, &m))));                             \
        memset(p, 0xee, n * sizeof(type)); /* it was lent until now */                                                 \
        FIBER_ASSERT_INT(strlen(text), shift);                                                                         \
        FIBER_ASSERT_INT(there, n);                                                                                    \
        FIBER_ASSERT_INT(m, n);                                                                                        \
        FIBER_ASSERT(whole_##name(q, n, bytes));                                                                       \
        moyai_future_free(f);                                                                                          \
        free(p);                                                                                                       \
    }
MOYAI_ARRAY_TABLE(X)
#undef X

static void arrays(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 8, 16, 250, 3000, 5000, 65535, 65536, 65536 + 64, 1 << 20};
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            int shift = (int)(k % 8);
#define X(name, type, elem) try_##name(refs[i], sizes[k], shift % 8);
            MOYAI_ARRAY_TABLE(X)
#undef X
        }
}

static void large_arrays(void **state) {
    (void)state;
    const size_t n = (size_t)FIBER_SCALE(64, 8, 4) << 20;
    try_u8s(refs[1], n, 3);
    try_doubles(refs[1], n, 5);
    try_u16s(refs[0], n, 1);
}

static void every_large_array(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
#define X(name, type, elem) try_##name(refs[i], (size_t)64 << 20, 5);
        MOYAI_ARRAY_TABLE(X)
#undef X
    }
}

/* An array of another element type is another type. */
static void arrays_keep_their_type(void **state) {
    (void)state;
    static const int32_t v[3] = {1, 2, 3};
    for (int i = 0; i < 2; i++) {
        moyai_future *f = moyai_call_async(refs[i], "array_u32s", MOYAI_ARGS("", 0, moyai_i32s(v, 3)));
        KIT_FAILED(f, MOYAI_ETYPE, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        moyai_future_free(f);
        f = moyai_call_async(refs[i], "array_i32s", MOYAI_ARGS("", 0, moyai_bytes(v, sizeof v)));
        KIT_FAILED(f, MOYAI_ETYPE, MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED);
        moyai_future_free(f);
    }
}

/* ---- references ------------------------------------------------------------------------------ */

static void references(void **state) {
    (void)state;
    pid_t third = kit_child("echo", "third", NULL);
    moyai_ref *other = kit_lookup(node, "third");
    moyai_ref *all[] = {refs[0], refs[1], other};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            moyai_ref *same = NULL, *itself = NULL, *parsed = NULL;
            KIT_OK(moyai_call(all[i], "echo_ref", MOYAI_ARGS(all[k]), MOYAI_INTO(&same, &itself), NULL));
            FIBER_ASSERT(moyai_ref_equal(same, all[k]) && moyai_ref_equal(itself, all[i]));
            FIBER_ASSERT(moyai_ref_equal(same, itself) == (i == k));
            FIBER_ASSERT(moyai_ref_hash(same) == moyai_ref_hash(all[k]));
            FIBER_ASSERT(moyai_ref_is_local(same) == (k == 0));
            FIBER_ASSERT(moyai_node_id_equal(moyai_ref_home(same), moyai_ref_home(all[k])));
            struct moyai_object_id a = moyai_ref_object(same), b = moyai_ref_object(all[k]);
            FIBER_ASSERT(memcmp(&a, &b, sizeof a) == 0);
            char text[MOYAI_REF_TEXT], again[MOYAI_REF_TEXT];
            moyai_ref_format(same, text);
            FIBER_ASSERT_INT(strlen(text), MOYAI_REF_TEXT - 1);
            KIT_OK(moyai_ref_parse(node, text, &parsed));
            moyai_ref_format(parsed, again);
            FIBER_ASSERT(strcmp(text, again) == 0 && moyai_ref_equal(parsed, all[k]));
            int y = 0;
            KIT_OK(moyai_call(parsed, "echo_int", MOYAI_ARGS(k), MOYAI_INTO(&y), NULL));
            FIBER_ASSERT_INT(y, k);
            KIT_OK(moyai_call(all[i], "call_back", MOYAI_ARGS(same, 10 + k), MOYAI_INTO(&y), NULL));
            FIBER_ASSERT_INT(y, 10 + k);
            for (int j = 0; j < 3; j++) { /* by the hand of another */
                KIT_OK(moyai_call(all[i], "pass_on", MOYAI_ARGS(all[j], same, 20), MOYAI_INTO(&y), NULL));
                FIBER_ASSERT_INT(y, 20);
            }
            moyai_ref_unref(same);
            moyai_ref_unref(itself);
            moyai_ref_unref(parsed);
        }
    }
    static const char *const bad[] = {"",
                                      "moyai:",
                                      "moyai:00@00",
                                      "moyaj:00000000000000000000000000000000@00000000000000000000000000000000",
                                      "moyai:0000000000000000000000000000000g@00000000000000000000000000000000",
                                      "moyai:00000000000000000000000000000000@00000000000000000000000000000000 "};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        moyai_ref *r = NULL;
        KIT_RC(moyai_ref_parse(node, bad[k], &r), MOYAI_EINVAL);
        FIBER_ASSERT(!r);
    }
    FIBER_ASSERT(moyai_ref_equal(NULL, NULL) && !moyai_ref_equal(refs[0], NULL));
    moyai_ref_unref(moyai_ref_ref(other));
    moyai_ref_unref(other);
    moyai_ref_unref(NULL);
    kit_end(third);
}

/* ---- structured values ----------------------------------------------------------------------- */

static moyai_value *build(int depth) {
    static const double d[3] = {1, 2.5, -3};
    static const uint16_t u[2] = {1, 65535};
    moyai_value *items[] = {
        moyai_value_new(moyai_null()),
        moyai_value_new(MOYAI_ARG((bool)true)),
        moyai_value_new(MOYAI_ARG(INT64_MIN)),
        moyai_value_new(MOYAI_ARG(UINT64_MAX)),
        moyai_value_new(MOYAI_ARG(2.5)),
        moyai_value_new(MOYAI_ARG("text")),
        moyai_value_new(moyai_bytes("\0\xff", 2)),
        moyai_value_new(moyai_doubles(d, 3)),
        moyai_value_new(moyai_u16s(u, 2)),
        moyai_value_new(MOYAI_ARG(refs[0])),
        moyai_value_list(NULL, 0),
        moyai_value_map(NULL, NULL, 0),
    };
    moyai_value *list = moyai_value_list(items, sizeof items / sizeof items[0]);
    if (depth > 0) {
        const char *keys[] = {"deeper", "list"};
        moyai_value *parts[] = {build(depth - 1), list};
        return moyai_value_map(keys, parts, 2);
    }
    return list;
}

static void structured_values(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int depth = 0; depth < 30; depth += 7) {
            moyai_value *v = build(depth), *w = NULL;
            FIBER_ASSERT(v);
            KIT_OK(moyai_call(refs[i], "echo_value", MOYAI_ARGS(v), MOYAI_INTO(&w), NULL));
            FIBER_ASSERT(moyai_value_equal(v, w));
            const moyai_value *list = w;
            for (int k = 0; k < depth; k++) list = moyai_value_find(list, "deeper");
            FIBER_ASSERT_INT(moyai_value_count(list), 12);
            moyai_ref *r = NULL;
            KIT_OK(moyai_value_get(moyai_value_at(list, 9), MOYAI_DEST(&r)));
            FIBER_ASSERT(moyai_ref_equal(r, refs[0]));
            int y = 0;
            KIT_OK(moyai_call(r, "echo_int", MOYAI_ARGS(8), MOYAI_INTO(&y), NULL));
            moyai_ref_unref(r);
            moyai_value_free(v);
            moyai_value_free(w);
        }
        /* A value that is a scalar is that scalar, and the other way round. */
        moyai_value *v = moyai_value_new(MOYAI_ARG(41)), *w = NULL;
        int x = 0;
        KIT_OK(moyai_call(refs[i], "echo_int", MOYAI_ARGS(v), MOYAI_INTO(&x), NULL));
        FIBER_ASSERT_INT(x, 41);
        KIT_OK(moyai_call(refs[i], "echo_value", MOYAI_ARGS(41), MOYAI_INTO(&w), NULL));
        FIBER_ASSERT(moyai_value_equal(v, w));
        FIBER_ASSERT_INT(moyai_value_kind(w), MOYAI_K_INT);
        moyai_value_free(v);
        moyai_value_free(w);
    }
}

enum { LENT = 100000 };

static void call_and_see(moyai_ref *ref, const uint8_t *p, size_t n, bool lent) {
    uint64_t at = 0, before = 0, after = 0, sum = 0;
    for (size_t i = 0; i < n; i++) sum += p[i];
    KIT_OK(moyai_call(ref, "where", MOYAI_ARGS(moyai_u8s(p, n)), MOYAI_INTO(&at, &before, &after), NULL));
    FIBER_ASSERT(before == sum && after == sum);
    FIBER_ASSERT((at == (uintptr_t)p) == lent);
}

static void call_from_a_fiber(void *bytes) {
    call_and_see(refs[0], bytes, LENT, true);
    ((uint8_t *)bytes)[0] = 99;
}

static void *call_from_a_thread(void *bytes) {
    call_and_see(refs[0], bytes, LENT, true);
    moyai_node_stop(node);
    return NULL;
}

/* Within a process large arrays are not copied where the caller cannot come back before the callee. Else they are: a
 * caller that is forced open, cancelled or late may do with its memory what it likes. */
static void large_arrays_are_lent_within_a_process(void **state) {
    (void)state;
    uint8_t *p = malloc(LENT);
    for (int i = 0; i < LENT; i++) p[i] = (uint8_t)(i * 7);
    call_and_see(refs[0], p, LENT, true);
    call_and_see(refs[0], p, 65536, true);
    call_and_see(refs[0], p, 65535, false);
    call_and_see(refs[0], p + 1, LENT - 1, true);
    KIT_OK(moyai_go(node, call_from_a_fiber, p));
    KIT_UNTIL(node, p[0] == 99);
    pthread_t t;
    FIBER_ASSERT_INT(pthread_create(&t, NULL, call_from_a_thread, p), 0);
    KIT_OK(moyai_node_serve(node, MOYAI_FOREVER));
    pthread_join(t, NULL);
    bool lent = true;
    KIT_OK(moyai_call(refs[0], "ask", MOYAI_NONE, MOYAI_INTO(&lent), NULL));
    FIBER_ASSERT(!lent);

    uint64_t at = 0, before, after;
    moyai_future *pending = NULL;
    KIT_OK(moyai_call(refs[0], "where", MOYAI_ARGS(moyai_u8s(p, LENT)), MOYAI_INTO(&at, &before, &after), &pending));
    FIBER_ASSERT(at != (uintptr_t)p);
    /* Given up while the method reads: what it reads stays as it was, for the memory is the caller's again. */
    for (int i = 0; i < 3; i++) {
        uint8_t *q = malloc(LENT);
        memset(q, 1, LENT);
        moyai_future *f = moyai_call_async(refs[0], "where", MOYAI_ARGS(moyai_u8s(q, LENT)));
        kit_settle(node);
        if (i == 0) moyai_future_cancel(f);
        if (i == 1) moyai_future_deadline(f, 0);
        if (i == 1) KIT_RC(moyai_future_get(f, MOYAI_NONE), MOYAI_ETIMEDOUT);
        moyai_future_free(f);
        free(q);
    }
    call_and_see(refs[0], p, LENT, true); /* they have gone on and ended */
    free(p);
}

static int tests(void) {
#define WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
    const struct CMUnitTest all[] = {
        WORLD(integers),
        WORLD(floats),
        WORLD(conversions),
        WORLD(sixteen_values),
        WORLD(what_does_not_fit_leaves_everything_as_it_was),
        WORLD(texts_and_bytes),
        WORLD(results_of_synchronous_calls_live_on),
        WORLD(arrays),
        WORLD(large_arrays),
        WORLD(large_arrays_are_lent_within_a_process),
        WORLD(arrays_keep_their_type),
        WORLD(references),
        WORLD(structured_values),
    };
    const struct CMUnitTest more[] = {WORLD(every_large_array)};
    return kit_long() ? cmocka_run_group_tests(more, NULL, NULL) : cmocka_run_group_tests(all, NULL, NULL);
}

int main(int argc, char **argv) {
    static const struct kit_role roles[] = {{"echo", role_echo}, {NULL, NULL}};
    return kit_main(argc, argv, roles, tests);
}
