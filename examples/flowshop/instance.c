/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taillard's benchmark ("Benchmarks for basic scheduling problems", EJOR 64, 1993): 12 sizes of ten
 * instances each, given by the seed of a multiplicative congruential generator (a = 16807, modulus 2^31-1).
 * A duration is 1 + floor(99 u) with u the generator's next number in (0, 1); here in integers, which gives
 * the same values. The matrix is filled machine by machine.
 *
 * The file format in circulation holds, per instance, a line of labels, a line "n m seed upper lower", a line
 * of labels, and m lines of n numbers: a row is a *machine*. Reading it the other way round gives another
 * problem without any error for square instances, hence the insistence on lines below.
 */
#include "instance.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT (16u << 20) /* bytes of an instance file */

static const int taillard_size[12][2] = {{20, 5},  {20, 10},  {20, 20},  {50, 5},   {50, 10},  {50, 20},
                                         {100, 5}, {100, 10}, {100, 20}, {200, 10}, {200, 20}, {500, 20}};

static const int32_t taillard_seed[120] = {
    873654221,  379008056,  1866992158, 216771124,  495070989,  402959317,  1369363414, 2021925980, 573109518,
    88325120,   587595453,  1401007982, 873136276,  268827376,  1634173168, 691823909,  73807235,   1273398721,
    2065119309, 1672900551, 479340445,  268827376,  1958948863, 918272953,  555010963,  2010851491, 1519833303,
    1748670931, 1923497586, 1829909967, 1328042058, 200382020,  496319842,  1203030903, 1730708564, 450926852,
    1303135678, 1273398721, 587288402,  248421594,  1958948863, 575633267,  655816003,  1977864101, 93805469,
    1803345551, 49612559,   1899802599, 2013025619, 578962478,  1539989115, 691823909,  655816003,  1315102446,
    1949668355, 1923497586, 1805594913, 1861070898, 715643788,  464843328,  896678084,  1179439976, 1122278347,
    416756875,  267829958,  1835213917, 1328833962, 1418570761, 161033112,  304212574,  1539989115, 655816003,
    960914243,  1915696806, 2013025619, 1168140026, 1923497586, 167698528,  1528387973, 993794175,  450926852,
    1462772409, 1021685265, 83696007,   508154254,  1861070898, 26482542,   444956424,  2115448041, 118254244,
    471503978,  1215892992, 135346136,  1602504050, 160037322,  551454346,  519485142,  383947510,  1968171878,
    540872513,  2013025619, 475051709,  914834335,  810642687,  1019331795, 2056065863, 1342855162, 1325809384,
    1988803007, 765656702,  1368624604, 450181436,  1927888393, 1759567256, 606425239,  19268348,   1298201670,
    2041736264, 379756761,  28837162};

static struct instance *instance_new(const char *name, int n, int m, struct fail *f) {
    struct instance *in = calloc(1, sizeof *in + (size_t)n * (size_t)m * sizeof in->p[0]);
    if (!in) {
        (void)fail_set(f, "%s: out of memory", name);
        return NULL;
    }
    (void)snprintf(in->name, sizeof in->name, "%s", name[0] ? name : "-");
    for (char *c = in->name; *c; c++)
        if (!isprint((unsigned char)*c)) *c = '?';
    in->n = n;
    in->m = m;
    return in;
}

int instance_generate(struct instance **ret, const char *name, int n, int m, int32_t seed, struct fail *f) {
    if (n < 1 || n > INSTANCE_MAX_JOBS || m < 1 || m > INSTANCE_MAX_MACHINES)
        return fail_set(f, "%s: %d jobs on %d machines, supported are 1 to %d on 1 to %d", name, n, m,
                        INSTANCE_MAX_JOBS, INSTANCE_MAX_MACHINES);
    if (seed < 1 || seed == INT32_MAX) return fail_set(f, "%s: seed %d is not within 1..2^31-2", name, seed);
    struct instance *in = instance_new(name, n, m, f);
    if (!in) return -1;
    int64_t x = seed;
    for (int k = 0; k < n * m; k++) {
        x = x * 16807 % INT32_MAX;
        in->p[k] = (int32_t)(1 + x * 99 / INT32_MAX);
    }
    *ret = in;
    return 0;
}

int instance_taillard(struct instance **ret, int number, struct fail *f) {
    if (number < 1 || number > 120) return fail_set(f, "ta%03d: Taillard's instances are ta001 to ta120", number);
    char name[16];
    (void)snprintf(name, sizeof name, "ta%03d", number);
    const int *size = taillard_size[(number - 1) / 10];
    return instance_generate(ret, name, size[0], size[1], taillard_seed[number - 1], f);
}

/* The text of a file, line by line. */
struct lines {
    const char *at, *end;
    const char *label;
    int number; /* of the line last taken, from 1 */
};

/* Takes the next line that is not blank; false at the end. */
static bool lines_next(struct lines *l, const char **begin, const char **end) {
    while (l->at < l->end) {
        const char *nl = memchr(l->at, '\n', (size_t)(l->end - l->at));
        const char *a = l->at, *b = nl ? nl : l->end;
        l->at = nl ? nl + 1 : l->end;
        l->number++;
        while (a < b && isspace((unsigned char)*a)) a++;
        while (b > a && isspace((unsigned char)b[-1])) b--;
        if (a == b) continue;
        *begin = a;
        *end = b;
        return true;
    }
    return false;
}

/* Takes a number of 0..max from *at; -1: there is none (*f says why). */
static int64_t take_number(const struct lines *l, const char **at, const char *end, int64_t max, struct fail *f) {
    const char *a = *at;
    while (a < end && isspace((unsigned char)*a)) a++;
    const char *b = a;
    int64_t value = 0;
    for (; b < end && isdigit((unsigned char)*b); b++) {
        value = value * 10 + (*b - '0');
        if (value > max) break;
    }
    while (b < end && !isspace((unsigned char)*b)) { /* the whole word, for the message */
        if (!isdigit((unsigned char)*b)) value = -1;
        b++;
    }
    *at = b;
    int shown = b - a > 40 ? 40 : (int)(b - a);
    if (value < 0) return fail_set(f, "%s:%d: '%.*s' is not a number", l->label, l->number, shown, a);
    if (value > max)
        return fail_set(f, "%s:%d: %.*s is larger than %lld", l->label, l->number, shown, a, (long long)max);
    return value;
}

static bool more_words(const char *at, const char *end) {
    while (at < end && isspace((unsigned char)*at)) at++;
    return at < end;
}

static int take_label(struct lines *l, const char *what, struct fail *f) {
    const char *a, *b;
    if (!lines_next(l, &a, &b)) return fail_set(f, "%s:%d: the file ends before %s", l->label, l->number, what);
    if (isdigit((unsigned char)*a) || *a == '-' || *a == '+')
        return fail_set(f, "%s:%d: a number where a line of labels (%s) is expected", l->label, l->number, what);
    return 0;
}

/* The line "n m seed upper lower". */
static int take_sizes(struct lines *l, int64_t size[5], struct fail *f) {
    static const int64_t max[5] = {INSTANCE_MAX_JOBS, INSTANCE_MAX_MACHINES, INT64_MAX / 100, INT32_MAX, INT32_MAX};
    const char *a, *b;
    if (!lines_next(l, &a, &b)) return fail_set(f, "%s:%d: the file ends before the sizes", l->label, l->number);
    for (int k = 0; k < 5; k++) {
        if (!more_words(a, b))
            return fail_set(f, "%s:%d: %d numbers, expected 5: jobs machines seed upper-bound lower-bound", l->label,
                            l->number, k);
        size[k] = take_number(l, &a, b, max[k], f);
        if (size[k] < 0) return -1;
    }
    if (more_words(a, b)) return fail_set(f, "%s:%d: more than the 5 numbers expected", l->label, l->number);
    if (size[0] < 1 || size[1] < 1) return fail_set(f, "%s:%d: no jobs or no machines", l->label, l->number);
    return 0;
}

static int take_row(struct lines *l, struct instance *in, int j, struct fail *f) {
    const char *a, *b;
    if (!lines_next(l, &a, &b))
        return fail_set(f, "%s:%d: the file ends after %d of %d rows", l->label, l->number, j, in->m);
    for (int i = 0; i < in->n; i++) {
        if (!more_words(a, b))
            return fail_set(f, "%s:%d: row %d has %d numbers, expected %d (a row is a machine, a column a job)",
                            l->label, l->number, j + 1, i, in->n);
        int64_t time = take_number(l, &a, b, INSTANCE_MAX_TIME, f);
        if (time < 0) return -1;
        in->p[j * in->n + i] = (int32_t)time;
    }
    if (more_words(a, b))
        return fail_set(f, "%s:%d: row %d has more than %d numbers (a row is a machine, a column a job)", l->label,
                        l->number, j + 1, in->n);
    return 0;
}

static int take_instance(struct lines *l, struct instance **ret, int index, struct fail *f) {
    int64_t size[5];
    if (take_label(l, "jobs, machines, ...", f) || take_sizes(l, size, f)) return -1;
    char name[64]; /* cut by instance_new */
    const char *base = strrchr(l->label, '/');
    (void)snprintf(name, sizeof name, "%.20s:%d", base && base[1] ? base + 1 : l->label, index);
    struct instance *in = instance_new(name, (int)size[0], (int)size[1], f);
    if (!in) return -1;
    in->known_upper = (int32_t)size[3];
    in->known_lower = (int32_t)size[4];
    int rc = take_label(l, "processing times", f);
    for (int j = 0; rc == 0 && j < in->m; j++) rc = take_row(l, in, j, f);
    if (rc) {
        instance_free(in);
        return -1;
    }
    *ret = in;
    return 0;
}

int instance_parse(struct instance **ret, const char *text, size_t n, const char *label, int index, struct fail *f) {
    if (index < 1) return fail_set(f, "%s: instances are numbered from 1, not %d", label, index);
    struct lines l = {.at = text, .end = text + n, .label = label};
    for (int k = 1;; k++) {
        const char *a, *b;
        struct lines ahead = l;
        if (!lines_next(&ahead, &a, &b)) {
            if (k == 1) return fail_set(f, "%s: no instance in this file", label);
            return fail_set(f, "%s: instance %d of %d asked for", label, index, k - 1);
        }
        struct instance *in;
        if (take_instance(&l, &in, k, f)) return -1;
        if (k == index) {
            *ret = in;
            return 0;
        }
        instance_free(in);
    }
}

int instance_read(struct instance **ret, const char *path, int index, struct fail *f) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail_set(f, "%s: %s", path, strerror(errno));
    struct bytes text = {0};
    char block[16384];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0 && text.n <= FILE_LIMIT) bytes_put_text(&text, block, got);
    int rc;
    if (ferror(file))
        rc = fail_set(f, "%s: %s", path, strerror(errno));
    else if (text.failed)
        rc = fail_set(f, "%s: out of memory", path);
    else if (text.n > FILE_LIMIT)
        rc = fail_set(f, "%s: larger than %u bytes", path, FILE_LIMIT);
    else
        rc = instance_parse(ret, (const char *)text.p, text.n, path, index, f);
    (void)fclose(file); /* only read from */
    bytes_done(&text);
    return rc;
}

/* "ta" and three digits: the number; otherwise -1. */
static int taillard_number(const char *name) {
    if (name[0] != 't' || name[1] != 'a') return -1;
    int number = 0;
    for (int k = 2; k < 5; k++) {
        if (!isdigit((unsigned char)name[k])) return -1;
        number = number * 10 + (name[k] - '0');
    }
    return name[5] ? -1 : number;
}

int instance_open(struct instance **ret, const char *name, struct fail *f) {
    int number = taillard_number(name);
    if (number >= 0) return instance_taillard(ret, number, f);
    const char *colon = strrchr(name, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (colon == name || digits == 0 || digits > 6 || colon[1 + digits]) return instance_read(ret, name, 1, f);
    char path[4096];
    if ((size_t)(colon - name) >= sizeof path) return fail_set(f, "%.40s...: the name is too long", name);
    memcpy(path, name, (size_t)(colon - name));
    path[colon - name] = 0;
    return instance_read(ret, path, atoi(colon + 1), f);
}

/* Saved form: name length 1, name, n 2, m 2, known_lower 4, known_upper 4, width 1 (2 or 4: bytes a
 * duration takes, the least that holds them all), durations. */
void instance_save(const struct instance *in, struct bytes *out) {
    int width = 2;
    for (int k = 0; k < in->n * in->m; k++)
        if (in->p[k] > UINT16_MAX) width = 4;
    size_t length = strlen(in->name);
    bytes_put(out, (uint32_t)length, 1);
    bytes_put_text(out, in->name, length);
    bytes_put(out, (uint32_t)in->n, 2);
    bytes_put(out, (uint32_t)in->m, 2);
    bytes_put(out, (uint32_t)in->known_lower, 4);
    bytes_put(out, (uint32_t)in->known_upper, 4);
    bytes_put(out, (uint32_t)width, 1);
    for (int k = 0; k < in->n * in->m; k++) bytes_put(out, (uint32_t)in->p[k], width);
}

int instance_load(struct instance **ret, const uint8_t *bytes, size_t size, struct fail *f) {
    struct cursor c = {.p = bytes, .left = size};
    char name[sizeof(*ret)->name] = {0};
    uint32_t length = cursor_get(&c, 1);
    if (length < 1 || length >= sizeof name) return fail_set(f, "instance: a name of %u bytes", length);
    for (uint32_t k = 0; k < length; k++) {
        name[k] = (char)cursor_get(&c, 1);
        if (!c.failed && !isprint((unsigned char)name[k])) return fail_set(f, "instance: a name that is not text");
    }
    uint32_t n = cursor_get(&c, 2), m = cursor_get(&c, 2);
    uint32_t lower = cursor_get(&c, 4), upper = cursor_get(&c, 4);
    uint32_t width = cursor_get(&c, 1);
    if (c.failed) return fail_set(f, "instance: %zu bytes are too few", size);
    if (n < 1 || n > INSTANCE_MAX_JOBS || m < 1 || m > INSTANCE_MAX_MACHINES)
        return fail_set(f, "instance: %u jobs on %u machines", n, m);
    if (lower > INT32_MAX || upper > INT32_MAX || (width != 2 && width != 4))
        return fail_set(f, "instance: malformed header");
    if (c.left != (size_t)n * m * width) return fail_set(f, "instance: %zu bytes of durations", c.left);
    struct instance *in = instance_new(name, (int)n, (int)m, f);
    if (!in) return -1;
    in->known_lower = (int32_t)lower;
    in->known_upper = (int32_t)upper;
    for (uint32_t k = 0; k < n * m; k++) {
        uint32_t time = cursor_get(&c, (int)width);
        if (time > INSTANCE_MAX_TIME) {
            instance_free(in);
            return fail_set(f, "instance: a duration of %u", time);
        }
        in->p[k] = (int32_t)time;
    }
    *ret = in;
    return 0;
}

uint32_t instance_fingerprint(const struct instance *in) { /* FNV-1a over 32-bit words */
    uint32_t h = 2166136261u;
    h = (h ^ (uint32_t)in->n) * 16777619u;
    h = (h ^ (uint32_t)in->m) * 16777619u;
    for (int k = 0; k < in->n * in->m; k++) h = (h ^ (uint32_t)in->p[k]) * 16777619u;
    return h;
}

int32_t instance_makespan(const struct instance *in, const uint16_t *perm, int k) {
    int32_t done[INSTANCE_MAX_MACHINES] = {0}; /* when each machine has finished the jobs so far */
    for (int a = 0; a < k; a++) {
        int32_t t = 0;
        for (int j = 0; j < in->m; j++) {
            t = (t > done[j] ? t : done[j]) + in->p[j * in->n + perm[a]];
            done[j] = t;
        }
    }
    return done[in->m - 1];
}

void instance_free(struct instance *in) {
    free(in);
}
