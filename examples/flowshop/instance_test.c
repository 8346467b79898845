/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include <unistd.h>

static int64_t sum_of(const struct instance *in) {
    int64_t sum = 0;
    for (int k = 0; k < in->n * in->m; k++) sum += in->p[k];
    return sum;
}

static void generator_gives_the_published_matrices(void **state) {
    (void)state;
    static const struct {
        int number, n, m;
        int64_t sum;
    } known[] = {{1, 20, 5, 5153},    {11, 20, 10, 10329},   {21, 20, 20, 20273}, {31, 50, 5, 12077},
                 {41, 50, 10, 25100}, {51, 50, 20, 51911},   {56, 50, 20, 49030}, {60, 50, 20, 50602},
                 {61, 100, 5, 25797}, {120, 500, 20, 499516}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        struct instance *in = test_taillard(known[k].number);
        assert_int_equal(in->n, known[k].n);
        assert_int_equal(in->m, known[k].m);
        assert_int_equal(sum_of(in), known[k].sum);
        instance_free(in);
    }
    static const int first[] = {54, 83, 15, 71, 77, 36, 53, 38, 27, 87}, last[] = {58, 56, 20, 85, 53};
    struct instance *in = test_taillard(1);
    for (int i = 0; i < 10; i++) assert_int_equal(in->p[i], first[i]);
    for (int i = 0; i < 5; i++) assert_int_equal(in->p[4 * 20 + i], last[i]);
    assert_string_equal(in->name, "ta001");
    instance_free(in);
}

static void generator_refuses_what_is_not_there(void **state) {
    (void)state;
    struct instance *in = NULL;
    struct fail f;
    assert_int_equal(instance_taillard(&in, 0, &f), -1);
    assert_int_equal(instance_open(&in, "ta121", &f), -1);
    assert_string_equal(f.text, "ta121: Taillard's instances are ta001 to ta120");
    assert_int_equal(instance_generate(&in, "x", 513, 5, 1, &f), -1);
    assert_int_equal(instance_generate(&in, "x", 5, 65, 1, &f), -1);
    assert_int_equal(instance_generate(&in, "x", 5, 5, 0, &f), -1);
    assert_int_equal(instance_generate(&in, "x", 5, 5, INT32_MAX, NULL), -1);
    assert_null(in);
}

static void makespan_follows_the_definition(void **state) {
    (void)state;
    /* Two machines, three jobs: (3,2) (1,4) (2,2). Order 1 0 2: machine 2 works from 1 to 9 without a gap. */
    static const char text[] = "n m seed ub lb\n3 2 0 9 9\ntimes\n3 1 2\n2 4 2\n";
    struct instance *in;
    struct fail f;
    assert_int_equal(instance_parse(&in, text, strlen(text), "two", 1, &f), 0);
    static const uint16_t good[] = {1, 0, 2}, bad[] = {0, 2, 1};
    assert_int_equal(instance_makespan(in, good, 3), 9);
    assert_int_equal(instance_makespan(in, bad, 3), 11);
    assert_int_equal(instance_makespan(in, good, 1), 5);
    assert_int_equal(instance_makespan(in, good, 0), 0);
    assert_int_equal(in->known_upper, 9);
    assert_string_equal(in->name, "two:1");
    instance_free(in);
}

static const char two_instances[] =
    "number of jobs, number of machines, initial seed, upper bound and lower bound :\r\n"
    "          4           2   873654221        1278        1232\r\n"
    "processing times :\r\n"
    " 54 83 15 71\r\n"
    " 79  3 11 99\r\n"
    "\n"
    "number of jobs, number of machines, initial seed, upper bound and lower bound :\n"
    "2 3 1 0 0\n"
    "processing times :\n"
    "1 2\n"
    "3 4\n"
    "\t5 1000000";

static void file_with_several_instances(void **state) {
    (void)state;
    char path[] = "/tmp/flowshop-instance-XXXXXX", name[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, two_instances, strlen(two_instances)), (ssize_t)strlen(two_instances));
    (void)close(fd);
    struct instance *in = NULL;
    struct fail f;
    assert_int_equal(instance_open(&in, path, &f), 0);
    assert_int_equal(in->n, 4);
    assert_int_equal(in->m, 2);
    assert_int_equal(in->known_upper, 1278);
    assert_int_equal(in->known_lower, 1232);
    assert_int_equal(in->p[1 * 4 + 3], 99);
    instance_free(in);

    (void)snprintf(name, sizeof name, "%s:2", path);
    assert_int_equal(instance_open(&in, name, &f), 0);
    assert_int_equal(in->n, 2);
    assert_int_equal(in->m, 3);
    assert_int_equal(in->p[2 * 2 + 1], 1000000);
    instance_free(in);

    in = NULL;
    (void)snprintf(name, sizeof name, "%s:3", path);
    assert_int_equal(instance_open(&in, name, &f), -1);
    assert_non_null(strstr(f.text, "instance 3 of 2 asked for"));
    (void)snprintf(name, sizeof name, "%s:0", path);
    assert_int_equal(instance_open(&in, name, &f), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(instance_open(&in, path, &f), -1);
    assert_non_null(strstr(f.text, "No such file"));
    assert_int_equal(instance_open(&in, "/tmp", &f), -1);
    assert_null(in);
}

static void broken_files_are_named_by_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } broken[] = {
        {"", "f: no instance in this file"},
        {" \n\n", "f: no instance in this file"},
        {"3 2 1 0 0\nt\n1 2 3\n1 2 3\n", "f:1: a number where a line of labels (jobs, machines, ...) is expected"},
        {"n m\n", "f:1: the file ends before the sizes"},
        {"n m\n3 2 1 0\n", "f:2: 4 numbers, expected 5: jobs machines seed upper-bound lower-bound"},
        {"n m\n3 2 1 0 0 0\n", "f:2: more than the 5 numbers expected"},
        {"n m\n3 2 1 0 x\n", "f:2: 'x' is not a number"},
        {"n m\n3 -2 1 0 0\n", "f:2: '-2' is not a number"},
        {"n m\n0 2 1 0 0\n", "f:2: no jobs or no machines"},
        {"n m\n513 2 1 0 0\n", "f:2: 513 is larger than 512"},
        {"n m\n3 65 1 0 0\n", "f:2: 65 is larger than 64"},
        {"n m\n3 99999999999999999999999 1 0 0\n", "f:2: 99999999999999999999999 is larger than 64"},
        {"n m\n3 2 1 0 0\n1 2 3\n1 2 3\n", "f:3: a number where a line of labels (processing times) is expected"},
        {"n m\n3 2 1 0 0\nt\n1 2 3\n", "f:4: the file ends after 1 of 2 rows"},
        {"n m\n3 2 1 0 0\nt\n1 2\n1 2 3\n",
         "f:4: row 1 has 2 numbers, expected 3 (a row is a machine, a column a job)"},
        {"n m\n3 2 1 0 0\nt\n1 2 3\n\n1 2 3 4\n",
         "f:6: row 2 has more than 3 numbers (a row is a machine, a column a job)"},
        {"n m\n3 2 1 0 0\nt\n1 2.5 3\n1 2 3\n", "f:4: '2.5' is not a number"},
        {"n m\n3 2 1 0 0\nt\n1 2 3\n1 1000001 3\n", "f:5: 1000001 is larger than 1000000"},
        {"n m\n2 3 1 0 0\nt\n1 2 3\n4 5 6\n",
         "f:4: row 1 has more than 2 numbers (a row is a machine, a column a job)"},
    };
    for (size_t k = 0; k < sizeof broken / sizeof broken[0]; k++) {
        struct instance *in = NULL;
        struct fail f;
        size_t n = strlen(broken[k].text);
        char *exact = malloc(n + 1); /* of the very size, so that reading on is noticed */
        assert_non_null(exact);
        memcpy(exact, broken[k].text, n);
        assert_int_equal(instance_parse(&in, exact, n, "f", 1, &f), -1);
        assert_string_equal(f.text, broken[k].message);
        assert_null(in);
        free(exact);
    }
}

static void any_text_is_an_instance_or_an_error(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    int good = 0;
    for (int round = 0; round < 20000; round++) {
        size_t n = strlen(two_instances);
        char *text = malloc(n);
        assert_non_null(text);
        memcpy(text, two_instances, n);
        if (random_below(&random, 3) == 0) n = (size_t)random_below(&random, (int)n);
        for (int k = random_below(&random, 4); k > 0 && n > 0; k--)
            text[random_below(&random, (int)n)] = (char)random_below(&random, 256);
        struct instance *in;
        struct fail f = {.text = ""};
        if (instance_parse(&in, text, n, "f", 1 + random_below(&random, 2), &f)) {
            assert_true(f.text[0] != 0);
        } else {
            good++;
            assert_true(sum_of(in) >= 0 && in->n >= 1 && in->m >= 1);
            instance_free(in);
        }
        free(text);
    }
    assert_true(good > 100 && good < 19900);
}

static void saved_instances_come_back(void **state) {
    (void)state;
    uint64_t random = test_seed(__func__);
    for (int round = 0; round < 50; round++) {
        struct instance *in = test_instance(&random, 1 + random_below(&random, 40), 1 + random_below(&random, 20),
                                            round % 2 ? 99 : 1000000);
        in->known_upper = 77;
        struct bytes b = {0};
        instance_save(in, &b);
        assert_false(b.failed);
        struct instance *back = NULL;
        struct fail f;
        assert_int_equal(instance_load(&back, b.p, b.n, &f), 0);
        assert_int_equal(back->n, in->n);
        assert_int_equal(back->m, in->m);
        assert_int_equal(back->known_upper, 77);
        assert_memory_equal(back->p, in->p, (size_t)in->n * (size_t)in->m * sizeof in->p[0]);
        assert_string_equal(back->name, in->name);
        assert_int_equal(instance_fingerprint(back), instance_fingerprint(in));
        back->p[0]++;
        assert_int_not_equal(instance_fingerprint(back), instance_fingerprint(in));
        instance_free(back);
        for (size_t cut = 0; cut < b.n; cut++) {
            uint8_t *exact = malloc(cut + 1);
            assert_non_null(exact);
            memcpy(exact, b.p, cut);
            assert_int_equal(instance_load(&back, exact, cut, &f), -1);
            free(exact);
            cut += cut > 60 ? 97 : 0;
        }
        for (int k = 0; k < 100; k++) {
            size_t at = (size_t)random_below(&random, b.n < 64 ? (int)b.n : 64);
            uint8_t old = b.p[at];
            b.p[at] = (uint8_t)random_below(&random, 256);
            if (instance_load(&back, b.p, b.n, &f) == 0) instance_free(back);
            b.p[at] = old;
        }
        bytes_done(&b);
        instance_free(in);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generator_gives_the_published_matrices),
        cmocka_unit_test(generator_refuses_what_is_not_there),
        cmocka_unit_test(makespan_follows_the_definition),
        cmocka_unit_test(file_with_several_instances),
        cmocka_unit_test(broken_files_are_named_by_line),
        cmocka_unit_test(any_text_is_an_instance_or_an_error),
        cmocka_unit_test(saved_instances_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
