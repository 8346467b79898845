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

/* Is this well-formed character one that a terminal obeys, or some do: U+0000 to U+001F, U+007F to U+009F? */
bool utf8_control(const uint8_t *p);

/* The largest m <= limit (and <= n) that does not cut a character of the well-formed text p. */
size_t utf8_cut(const char *p, size_t n, size_t limit);

/* Copy n bytes of anything to `to` as one line of well-formed text: line ends and tabs become spaces, other control
 * characters and ill-formed bytes '?'. Writes at most cap - 1 bytes, whole characters, and a NUL (cap > 0). Returns the
 * bytes written without the NUL. */
size_t utf8_line(char *to, size_t cap, const char *from, size_t n);

/* The length of what snprintf left in buf, given what it returned: a character cut at the end is left out. */
size_t utf8_printed(const char *buf, size_t size, int printed);

#endif
