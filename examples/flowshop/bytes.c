/* SPDX-License-Identifier: Apache-2.0 */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *bytes_more(struct bytes *b, size_t n) {
    if (b->failed) return NULL;
    if (b->room - b->n < n) {
        size_t room = (b->n + n) * 2 + 64;
        uint8_t *p = realloc(b->p, room);
        if (!p) {
            b->failed = true;
            return NULL;
        }
        b->p = p;
        b->room = room;
    }
    uint8_t *at = b->p + b->n;
    b->n += n;
    return at;
}

void bytes_put(struct bytes *b, uint32_t value, int width) {
    uint8_t *at = bytes_more(b, (size_t)width);
    if (!at) return;
    for (int i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void bytes_put_text(struct bytes *b, const char *text, size_t n) {
    uint8_t *at = bytes_more(b, n);
    if (at && n > 0) memcpy(at, text, n);
}

void bytes_done(struct bytes *b) {
    free(b->p);
    *b = (struct bytes){0};
}

uint32_t cursor_get(struct cursor *c, int width) {
    if (c->failed || c->left < (size_t)width) {
        c->failed = true;
        return 0;
    }
    uint32_t value = 0;
    for (int i = 0; i < width; i++) value |= (uint32_t)c->p[i] << (8 * i);
    c->p += width;
    c->left -= (size_t)width;
    return value;
}
