/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

static bool is_tail(uint8_t c) {
    return (c & 0xc0) == 0x80;
}

size_t utf8_length(const uint8_t *p, size_t n) {
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    if (c < 0xc2) return 0; /* a tail, or overlong */
    if (c < 0xe0) return n >= 2 && is_tail(p[1]) ? 2 : 0;
    if (c < 0xf0) {
        if (n < 3 || !is_tail(p[1]) || !is_tail(p[2])) return 0;
        if (c == 0xe0 && p[1] < 0xa0) return 0;  /* overlong */
        if (c == 0xed && p[1] >= 0xa0) return 0; /* a surrogate */
        return 3;
    }
    if (c > 0xf4 || n < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3])) return 0;
    if (c == 0xf0 && p[1] < 0x90) return 0;  /* overlong */
    if (c == 0xf4 && p[1] >= 0x90) return 0; /* above U+10FFFF */
    return 4;
}

bool utf8_valid(const void *text, size_t n) {
    const uint8_t *p = text;
    size_t i = 0;
    while (i < n) {
        while (n - i >= 8) { /* most text is ASCII */
            uint64_t w;
            memcpy(&w, p + i, 8);
            if (w & 0x8080808080808080u) break;
            i += 8;
        }
        if (i == n) break;
        size_t k = utf8_length(p + i, n - i);
        if (k == 0) return false;
        i += k;
    }
    return true;
}

size_t utf8_cut(const char *p, size_t n, size_t limit) {
    if (n <= limit) return n;
    while (limit > 0 && is_tail((uint8_t)p[limit])) limit--;
    return limit;
}
