/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors.
 *
 * Every function that can fail returns 0 or a negative code of the table below. A code is for
 * programs and never changes its meaning; a text is for people and may change. The category says
 * whose fault it is and what to do, so that retry logic needs no list of codes. moyai_last_error() has the details.
 *
 * NULL where a node, a reference, a future, a set, a request or a value belongs is MOYAI_EINVAL. Functions that return
 * no code do nothing then and answer NULL, 0 or false, but for those that a loop asks whether it may end, which answer
 * true: moyai_node_stopping, moyai_cancelled, moyai_future_ready. Without a node there is no last error to set.
 */
#ifndef MOYAI_ERROR_H
#define MOYAI_ERROR_H

#include <moyai/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum moyai_category {
    MOYAI_CAT_OK,
    MOYAI_CAT_SIGNAL,   /* not an error: a blocking call was forced open */
    MOYAI_CAT_RETRY,    /* the same call may succeed later */
    MOYAI_CAT_CLOSED,   /* the other side or the path is gone */
    MOYAI_CAT_PEER,     /* the other side did something wrong */
    MOYAI_CAT_USAGE,    /* the caller did something wrong */
    MOYAI_CAT_RESOURCE, /* memory, descriptors, disk, limits */
    MOYAI_CAT_DATA,     /* bytes that are not what they claim to be */
    MOYAI_CAT_STATE,    /* right call, wrong moment */
    MOYAI_CAT_INTERNAL, /* a bug in moyai */
};

/* X(name, value, category, text) */
#define MOYAI_ERROR_TABLE(X)                                                                                           \
    X(MOYAI_SIGNALLED, -1, SIGNAL, "forced open by a signal")                                                          \
    X(MOYAI_EINVAL, -2, USAGE, "invalid argument")                                                                     \
    X(MOYAI_EARGS, -3, USAGE, "wrong number of values, or one that cannot be sent")                                    \
    X(MOYAI_ENOMETHOD, -4, USAGE, "the object has no such method")                                                     \
    X(MOYAI_ENOOBJECT, -5, CLOSED, "the object does not exist or has ended")                                           \
    X(MOYAI_ENOENT, -6, USAGE, "no such name")                                                                         \
    X(MOYAI_EEXIST, -7, USAGE, "the name is taken")                                                                    \
    X(MOYAI_ETIMEDOUT, -8, RETRY, "the deadline passed")                                                               \
    X(MOYAI_ECANCELED, -9, STATE, "cancelled")                                                                         \
    X(MOYAI_EAGAIN, -10, RETRY, "no room at the moment")                                                               \
    X(MOYAI_EBUSY, -11, RETRY, "the node is at its limit of calls in progress")                                        \
    X(MOYAI_ENOMEM, -12, RESOURCE, "out of memory")                                                                    \
    X(MOYAI_EDEAD, -13, CLOSED, "the process of the other side has died")                                              \
    X(MOYAI_EUNREACHABLE, -14, CLOSED, "the other side cannot be reached")                                             \
    X(MOYAI_ELEAVING, -15, RETRY, "the node is leaving")                                                               \
    X(MOYAI_ECLOSED, -16, CLOSED, "closed")                                                                            \
    X(MOYAI_EPROTO, -17, PEER, "the other side broke the protocol")                                                    \
    X(MOYAI_EVERSION, -18, PEER, "no common protocol version")                                                         \
    X(MOYAI_EDATA, -19, DATA, "malformed data")                                                                        \
    X(MOYAI_ETYPE, -20, DATA, "the value has another type")                                                            \
    X(MOYAI_ERANGE, -21, DATA, "the value does not fit")                                                               \
    X(MOYAI_ETOOBIG, -22, RESOURCE, "larger than the limit")                                                           \
    X(MOYAI_EDEPTH, -23, RESOURCE, "nested too deeply")                                                                \
    X(MOYAI_EPERM, -24, USAGE, "not permitted")                                                                        \
    X(MOYAI_EFORK, -25, STATE, "the handle belongs to the parent process")                                             \
    X(MOYAI_ESTATE, -26, STATE, "not possible in the present state")                                                   \
    X(MOYAI_ELIMIT, -27, RESOURCE, "a limit of the operating system")                                                  \
    X(MOYAI_ENOSPC, -28, RESOURCE, "no space left on the disk")                                                        \
    X(MOYAI_ESYS, -29, RESOURCE, "the operating system reported an error")                                             \
    X(MOYAI_EUSER, -30, PEER, "the method failed")                                                                     \
    X(MOYAI_EINTERNAL, -31, INTERNAL, "internal error, please report")

enum moyai_err {
    MOYAI_OK = 0,
#define MOYAI_X(name, value, category, text) name = value,
    MOYAI_ERROR_TABLE(MOYAI_X)
#undef MOYAI_X
};

/* Where a call failed: the three scenarios of S0/3.2, and the caller's own side. */
enum moyai_where {
    MOYAI_AT_CALLER, /* refused or given up on this side */
    MOYAI_AT_METHOD, /* the method raised it; it is carried over as it was raised */
    MOYAI_AT_PATH,   /* the path between caller and callee broke and could not be mended */
    MOYAI_AT_PEER,   /* the callee's process failed, or its node refused the call */
};

/* Whether the method may have run. Only MOYAI_NEVER_EXECUTED makes a retry safe for any method. */
enum moyai_executed {
    MOYAI_MAY_HAVE_EXECUTED,
    MOYAI_NEVER_EXECUTED,
    MOYAI_WAS_EXECUTED,
};

/* A text that would be longer loses its middle: who failed is in front, the reason at the end. */
#define MOYAI_ERROR_TEXT 256

/* An error with its circumstances. Plain data, freely copied. */
struct moyai_error {
    int code; /* enum moyai_err, or a method's own code, -1000 and below */
    int sys;  /* errno behind MOYAI_ESYS and its kin, else 0 */
    enum moyai_where where;
    enum moyai_executed executed;
    struct moyai_node_id origin; /* the node that reported it; all zero: this one */
    char text[MOYAI_ERROR_TEXT]; /* UTF-8, one line, no newline at the end */
};

/* The table's text for a code; for -1000 and below "the method failed with a code of its own", for all others "unknown
 * error". Static; any thread. */
MOYAI_API const char *moyai_strerror(int code);

/* The code's name, for example "MOYAI_EDEAD"; "own code" for -1000 and below, "MOYAI_E?" for all others. Static; any
 * thread. */
MOYAI_API const char *moyai_err_name(int code);

/* The code's category; codes of -1000 and below are a method's own: MOYAI_CAT_PEER. Any thread. */
MOYAI_API enum moyai_category moyai_err_category(int code);

/* The category's name in lower case. Static; any thread. */
MOYAI_API const char *moyai_category_name(enum moyai_category category);

#ifdef __cplusplus
}
#endif
#endif
