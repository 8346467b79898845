/* SPDX-License-Identifier: Apache-2.0 */
/* The few functions of moyai/base.h. */
#include <moyai/base.h>
#include <moyai/version.h>

#include <time.h>

const char *moyai_version(void) {
    return MOYAI_VERSION_TEXT;
}

moyai_ns moyai_now(void) {
    struct timespec t;
    /* Cannot fail: the clock exists since Linux 2.6.39 and t is ours. */
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (moyai_ns)t.tv_sec * 1000000000u + (moyai_ns)t.tv_nsec;
}
