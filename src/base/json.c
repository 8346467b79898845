/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/utf8.h"

#include <string.h>

static char *escape_control(char *to, uint8_t c) {
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = "btn\0fr"; /* 8, 9, 10, 12, 13 */
    *to++ = '\\';
    if (c >= 8 && c <= 13 && c != 11) {
        *to++ = shorts[c - 8];
        return to;
    }
    memcpy(to, "u00", 3);
    to[3] = hex[c >> 4];
    to[4] = hex[c & 15];
    return to + 5;
}

size_t json_escape(char *to, const char *text, size_t n) {
    const uint8_t *p = (const uint8_t *)text;
    char *at = to;
    for (size_t i = 0; i < n;) {
        size_t k = utf8_length(p + i, n - i);
        if (k == 0) {
            memcpy(at, "\\ufffd", 6);
            at += 6;
            i++;
        } else if (utf8_control(p + i)) {
            i += k;
            at = escape_control(at, p[i - 1]); /* the last byte is its number */
        } else {
            if (p[i] == '"' || p[i] == '\\') *at++ = '\\';
            memcpy(at, p + i, k);
            at += k;
            i += k;
        }
    }
    return (size_t)(at - to);
}
