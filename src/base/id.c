/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

void id_format(const uint8_t id[16], char text[33]) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < 16; i++) {
        text[2 * i] = hex[id[i] >> 4];
        text[2 * i + 1] = hex[id[i] & 15];
    }
    text[32] = 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool id_parse(const char *text, size_t n, uint8_t id[16]) {
    uint8_t b[16];
    if (n != 32) return false;
    for (size_t i = 0; i < 16; i++) {
        int hi = hex_digit(text[2 * i]), lo = hex_digit(text[2 * i + 1]);
        if (hi < 0 || lo < 0) return false;
        b[i] = (uint8_t)(hi * 16 + lo);
    }
    memcpy(id, b, 16);
    return true;
}
