/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types shared by all public headers: visibility, time, identifiers.
 *
 * Everything here is plain data; any thread may use it.
 */
#ifndef MOYAI_BASE_H
#define MOYAI_BASE_H

#if defined(__cplusplus)
#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "moyai needs C++17 or later: compile with -std=c++17"
#endif
#elif !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#error "moyai needs C11 or later, for MOYAI_ARGS and MOYAI_INTO: compile with -std=c11 or -std=c17"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOYAI_API               __attribute__((visibility("default")))
#define MOYAI_MUST_USE          __attribute__((warn_unused_result))
#define MOYAI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MOYAI_API
#define MOYAI_MUST_USE
#define MOYAI_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A point in time: nanoseconds of CLOCK_BOOTTIME, which goes on while the machine sleeps. */
typedef uint64_t moyai_ns;

/* A duration in nanoseconds. Negative durations are treated as zero. */
typedef int64_t moyai_dur;

#define MOYAI_US      ((moyai_dur)1000)
#define MOYAI_MS      ((moyai_dur)1000000)
#define MOYAI_SEC     ((moyai_dur)1000000000)
#define MOYAI_FOREVER INT64_MAX

/* A node: 128 random bits drawn at each start and never stored. */
struct moyai_node_id {
    uint8_t b[16];
};

/* An object: 128 random bits. */
struct moyai_object_id {
    uint8_t b[16];
};

typedef struct moyai_node moyai_node;       /* this process's membership of a grid */
typedef struct moyai_ref moyai_ref;         /* a reference to an object, local or remote */
typedef struct moyai_future moyai_future;   /* the result of a call, sooner or later */
typedef struct moyai_request moyai_request; /* a call being executed */
typedef struct moyai_set moyai_set;         /* futures waited for together */
typedef struct moyai_value moyai_value;     /* a structured value (moyai/value.h) */

/* The library's version as "major.minor.patch". Static; any thread. */
MOYAI_API const char *moyai_version(void);

/* Now, on the clock all deadlines use. Any thread. */
MOYAI_API moyai_ns moyai_now(void);

#ifdef __cplusplus
}
#endif
#endif
