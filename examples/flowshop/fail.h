/* SPDX-License-Identifier: Apache-2.0 */
/* How the solver's functions say what went wrong: they return -1 and fill in one line of text. */
#ifndef FLOWSHOP_FAIL_H
#define FLOWSHOP_FAIL_H

struct fail {
    char text[256]; /* UTF-8, no newline; valid only after a function has returned -1 */
};

/* Fills *f (may be NULL) and returns -1, so that "return fail_set(f, ...)" is one line. */
int fail_set(struct fail *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
