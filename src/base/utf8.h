/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Are all n bytes well-formed? NUL counts as a character. */
bool utf8_valid(const void *p, size_t n);

/* Length in bytes of the well-formed character at p (n > 0 bytes are there); 0 if it is not well-formed. */
size_t utf8_length(const uint8_t *p, size_t n);

/* The largest m <= limit (and <= n) that does not cut a character of the well-formed text p. */
size_t utf8_cut(const char *p, size_t n, size_t limit);

#endif
