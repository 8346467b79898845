/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One CBOR item as we understand it: its tags read, its length checked, text checked to be UTF-8, typed arrays and
 * references recognised. The common first step of both decoders (codec_get.c, value.c). Of a list or map only the
 * head is read.
 */
#ifndef WIRE_ITEM_H
#define WIRE_ITEM_H

#include "wire/head.h"
#include "wire/number.h"
#include "wire/typed.h"

enum item_kind {
    ITEM_NULL, /* undefined too */
    ITEM_NUMBER,
    ITEM_TEXT,
    ITEM_BYTES,
    ITEM_ARRAY,
    ITEM_REF,
    ITEM_LIST,
    ITEM_MAP,
    ITEM_BREAK, /* ends a list or map of indefinite length; an error elsewhere */
};

struct item {
    enum item_kind kind;
    size_t used; /* bytes of the item; of a list or map: those before its first part */
    union {
        struct number num;
        struct {                 /* text, bytes, array */
            const uint8_t *data; /* the content; in chunks: the first chunk's head */
            size_t n;            /* bytes of content, chunk heads not counted */
            bool chunked;
            bool swap;          /* array: elements are in the other byte order */
            uint8_t elem;       /* array: enum moyai_elem */
            const uint8_t *tag; /* array: the byte that holds the tag's number */
        };
        const uint8_t *ref; /* 32 bytes */
        struct {            /* list, map */
            uint64_t count; /* parts of a list, pairs of a map */
            bool indefinite;
        };
    };
};

/* 0, or EDATA, ETYPE (no kind of ours), EDEPTH (tags); *why then says what is wrong, without a full stop. Counts of
 * lists and maps are at most the bytes that follow. */
int item_get(const uint8_t *p, size_t n, struct item *it, const char **why);

/* Bytes or an array whose content lies elsewhere: the heads alone are at p, and n is their length to the byte. The
 * content is what they say, c bytes at `content`. EDATA: they are something else. */
int item_get_lent(const uint8_t *p, size_t n, const uint8_t *content, size_t c, struct item *it);

/* Copy the content of text, bytes or an array to `to` (it->n bytes), from chunks too, elements in our byte order. */
void item_copy(const struct item *it, void *to);

const char *item_name(const struct item *it); /* "text", "array of double" ... */

/* The reference's CBOR: 47 bytes. */
#define ITEM_REF_SIZE 47u
void item_put_ref(uint8_t to[ITEM_REF_SIZE], const uint8_t ids[32]);

#endif
