/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of the wire into C types: exactly, or not at all.
 *
 * An integer destination takes integers in its range and floats without a fraction in its range (-0.0 is 0); a
 * floating destination takes what it holds exactly, NaN and the infinities included; bool takes bools, 0 and 1.
 */
#ifndef WIRE_NUMBER_H
#define WIRE_NUMBER_H

#include <moyai/value.h>

enum number_kind {
    NUMBER_NONE,  /* not a number */
    NUMBER_BOOL,  /* u is 0 or 1; only a bool takes it */
    NUMBER_UINT,  /* u */
    NUMBER_NEG,   /* -1 - u: down to -2^64 */
    NUMBER_FLOAT, /* d */
};

struct number {
    enum number_kind kind;
    union {
        uint64_t u;
        double d;
    };
};

static inline struct number number_of_int(int64_t i) {
    struct number x = {i < 0 ? NUMBER_NEG : NUMBER_UINT, {i < 0 ? (uint64_t)~i : (uint64_t)i}};
    return x;
}

/* A value on its way into a destination, by the destination's tag: BOOL, INT..., UINT..., FLOAT, DOUBLE here. */
union number_slot {
    bool b;
    int64_t i;
    uint64_t u;
    float f;
    double d;
};

/* A numeric destination (enum moyai_tag)? */
static inline bool number_is_tag(uint8_t tag) {
    return (1u << MOYAI_T_BOOL | 1u << MOYAI_T_INT | 1u << MOYAI_T_UINT | 1u << MOYAI_T_FLOAT | 1u << MOYAI_T_DOUBLE |
            1u << MOYAI_T_INT8 | 1u << MOYAI_T_INT16 | 1u << MOYAI_T_INT32 | 1u << MOYAI_T_UINT8 |
            1u << MOYAI_T_UINT16 | 1u << MOYAI_T_UINT32) >>
               (tag & 31) &
           (tag < 32);
}

/* 0; ETYPE (not a number, or a bool and the tag is another); ERANGE. */
int number_convert(struct number x, uint8_t tag, union number_slot *to);

/* Store a converted number where the destination points. */
void number_store(const union number_slot *from, uint8_t tag, void *p);

/* As people write it, shortest; "" if it is none, "true" and "false". */
#define NUMBER_TEXT 32
void number_format(struct number x, char ret[NUMBER_TEXT]);

#endif
