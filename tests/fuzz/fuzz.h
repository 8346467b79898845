/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one file with this function; it takes any bytes and ends the process when a law is broken. It is
 * built twice: with libFuzzer (ninja fuzz-targets in a build directory of clang with -Dfuzz=true), and with replay.c,
 * which runs it over its corpus in the normal tests and can mutate the corpus without clang.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
