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

bool utf8_control(const uint8_t *p) {
    return p[0] < 0x20 || p[0] == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
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

size_t utf8_line(char *to, size_t cap, const char *from, size_t n) {
    const uint8_t *p = (const uint8_t *)from;
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t k = utf8_length(p + i, n - i), m = k ? k : 1;
        if (at + m > cap - 1) break;
        i += m;
        if (k > 0 && !utf8_control(p + i - m)) {
            memcpy(to + at, p + i - m, k);
            at += k;
        } else {
            const uint8_t c = p[i - m];
            to[at++] = c == '\n' || c == '\r' || c == '\t' ? ' ' : '?';
        }
    }
    to[at] = 0;
    return at;
}

size_t utf8_printed(const char *buf, size_t size, int printed) {
    if (printed < 0) return 0; /* an encoding error: no text is better than none of the rest */
    if ((size_t)printed < size) return (size_t)printed;
    size_t end = size - 1;
    for (size_t back = 1; back <= 3 && back < end; back++) {
        uint8_t c = (uint8_t)buf[end - back];
        if (c < 0x80) break;
        if (c < 0xc0) continue; /* a tail: its head is further left */
        size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
        return want > back ? end - back : end;
    }
    return end;
}
