/* SPDX-License-Identifier: Apache-2.0 */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

int fail_set(struct fail *f, const char *fmt, ...) {
    if (!f) return -1;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(f->text, sizeof f->text, fmt, ap); /* a text that is cut off is still a text */
    va_end(ap);
    return -1;
}
