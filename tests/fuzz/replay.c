/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target without libFuzzer.
 *
 *     fuzz_x PATH...                            each file, or each file of a directory, once
 *     fuzz_x --mutate SECONDS [--seed N] PATH...  then random changes to them for so long
 *
 * While it mutates, the input at hand lies in ./crash-<program>-<seed> (a mapped file, so it survives any crash),
 * which is removed at the end; give it as PATH to see the crash again.
 */
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"

#include <moyai/base.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX 65536u

struct input {
    uint8_t *p;
    size_t n;
};
struct corpus {
    struct input *v;
    size_t n;
};

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

static void add_file(struct corpus *c, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) die(path);
    struct input in = {malloc(INPUT_MAX), 0};
    struct input *v = realloc(c->v, (c->n + 1) * sizeof *v);
    if (!in.p || !v) die("memory");
    in.n = fread(in.p, 1, INPUT_MAX, f);
    fclose(f);
    c->v = v;
    c->v[c->n++] = in;
}

static void add_path(struct corpus *c, const char *path) {
    struct stat st;
    if (stat(path, &st) < 0) die(path);
    if (!S_ISDIR(st.st_mode)) {
        add_file(c, path);
        return;
    }
    DIR *d = opendir(path);
    if (!d) die(path);
    for (struct dirent *e; (e = readdir(d));) {
        char file[4096];
        if (e->d_name[0] == '.') continue;
        if ((size_t)snprintf(file, sizeof file, "%s/%s", path, e->d_name) >= sizeof file) die(path);
        add_file(c, file);
    }
    closedir(d);
}

/* In memory of its own size, so that a sanitizer or valgrind sees each byte read beyond. */
static void run(const uint8_t *p, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) die("memory");
    if (n) memcpy(copy, p, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static size_t mutate(struct moyai_rng *rng, const struct corpus *c, uint8_t *p) {
    static const uint8_t odd[] = {0x00, 0x01, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x5b, 0x5f, 0x7f,
                                  0x80, 0x9b, 0x9f, 0xbb, 0xbf, 0xc0, 0xd8, 0xf9, 0xfe, 0xff};
    const struct input *in = &c->v[rng_below(rng, c->n)];
    size_t n = in->n;
    memcpy(p, in->p, n);
    for (uint64_t k = 1 + rng_below(rng, 6); k > 0; k--) {
        size_t at = (size_t)rng_below(rng, n + 1), len = (size_t)rng_below(rng, 9);
        switch (rng_below(rng, 6)) {
        case 0: /* change bytes */
            for (size_t i = at; i < n && i < at + len; i++) p[i] = (uint8_t)rng_next(rng);
            break;
        case 1: /* flip a bit */
            if (at < n) p[at] ^= (uint8_t)(1u << rng_below(rng, 8));
            break;
        case 2: /* a byte that means something */
            if (at < n) p[at] = odd[rng_below(rng, sizeof odd)];
            break;
        case 3: /* remove */
            if (len > n - at) len = n - at;
            memmove(p + at, p + at + len, n - at - len);
            n -= len;
            break;
        case 4: /* insert */
            if (n + len > INPUT_MAX) break;
            memmove(p + at + len, p + at, n - at);
            rng_bytes(rng, p + at, len);
            n += len;
            break;
        default: { /* a part of another input */
            const struct input *other = &c->v[rng_below(rng, c->n)];
            size_t from = (size_t)rng_below(rng, other->n + 1), part = (size_t)rng_below(rng, other->n - from + 1);
            if (at + part > INPUT_MAX) break;
            memcpy(p + at, other->p + from, part);
            if (n < at + part) n = at + part;
        }
        }
    }
    return n;
}

static void mutate_for(const struct corpus *c, const char *program, long seconds, uint64_t seed) {
    char path[256];
    const char *slash = strrchr(program, '/');
    snprintf(path, sizeof path, "crash-%s-%" PRIu64, slash ? slash + 1 : program, seed);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, INPUT_MAX) < 0) die(path);
    uint8_t *p = mmap(NULL, INPUT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) die(path);
    struct moyai_rng rng;
    rng_seed(&rng, seed);
    printf("seed %" PRIu64 "\n", seed);
    fflush(stdout);
    moyai_ns end = moyai_now() + (moyai_ns)seconds * 1000000000u;
    uint64_t runs = 0;
    do {
        for (int i = 0; i < 256; i++, runs++) {
            size_t n = mutate(&rng, c, p);
            memset(p + n, 0, INPUT_MAX - n < 64 ? INPUT_MAX - n : 64); /* what is seen again is n bytes and zeros */
            run(p, n);
        }
    } while (moyai_now() < end);
    munmap(p, INPUT_MAX);
    close(fd);
    unlink(path);
    printf("%" PRIu64 " mutated inputs\n", runs);
}

int main(int argc, char **argv) {
    struct corpus c = {0};
    long seconds = 0;
    uint64_t seed;
    if (rng_system(&seed, sizeof seed) < 0) die("getrandom");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutate") == 0 && i + 1 < argc) {
            seconds = strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
        } else {
            add_path(&c, argv[i]);
        }
    }
    if (c.n == 0) {
        fprintf(stderr, "usage: %s [--mutate SECONDS [--seed N]] PATH...\n", argv[0]);
        return 2;
    }
    run(NULL, 0);
    for (size_t i = 0; i < c.n; i++) { /* whole, and cut at every place */
        run(c.v[i].p, c.v[i].n);
        for (size_t n = 0; n < c.v[i].n && n < 512; n++) run(c.v[i].p, n);
    }
    printf("%zu inputs\n", c.n);
    if (seconds > 0) mutate_for(&c, argv[0], seconds, seed);
    for (size_t i = 0; i < c.n; i++) free(c.v[i].p);
    free(c.v);
    return 0;
}
