/* SPDX-License-Identifier: Apache-2.0 */
/* JSON strings. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stddef.h>

#define JSON_WORST 6u /* bytes that one byte of text may become */

/* Write n bytes of anything as the inside of a JSON string, without the quotes and without a NUL; ill-formed UTF-8
 * becomes U+FFFD, and control characters are written as numbers: those of ASCII, as JSON wants it, and the others,
 * which a terminal may obey. `to` has room for JSON_WORST * n bytes. Returns the bytes written. */
size_t json_escape(char *to, const char *text, size_t n);

#endif
