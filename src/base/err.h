/* SPDX-License-Identifier: Apache-2.0 */
/* Filling errors: every layer returns a code and, where asked, a text that names the thing. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <moyai/error.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

/* Fill *reterr (may be NULL) and return code, so that "return err_set(reterr, MOYAI_EINVAL, ...)" is one
 * line. err_sys takes the errno: ENOSPC, EMFILE and their kin get codes of their own. A text that is too long loses its
 * middle. */
int err_set(struct moyai_error *reterr, int code, const char *fmt, ...) MOYAI_PRINTF(3, 4);
int err_vset(struct moyai_error *reterr, int code, const char *fmt, va_list ap) MOYAI_PRINTF(3, 0);
int err_sys(struct moyai_error *reterr, int sys, const char *fmt, ...) MOYAI_PRINTF(3, 4);

/* No error: what = {0} would say, without the clearing of a text that is empty anyway. For what is done for each call.
 */
static inline void err_none(struct moyai_error *e) {
    memset(e, 0, offsetof(struct moyai_error, text));
    e->text[0] = 0;
}

/* Put context before the text that is there ("cannot start node: ..."); returns reterr->code. Where there is no room,
 * contexts of one word between the new one and the reason are left out first. */
int err_prefix(struct moyai_error *reterr, const char *fmt, ...) MOYAI_PRINTF(2, 3);

/* n bytes of anything as one line of well-formed UTF-8 that fits `cap` bytes with its NUL (32 at least): a longer one
 * loses its middle. */
void err_fit(char *text, size_t cap, const char *from, size_t n);

/* The code for an errno, without a text. */
int err_of_errno(int sys);

#endif
