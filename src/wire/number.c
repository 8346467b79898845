/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/number.h"

#include <moyai/error.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWO_63 9223372036854775808.0
#define TWO_64 18446744073709551616.0

/* A float without a fraction as an integer; ERANGE if it has one or is out of reach. */
static int whole(double d, struct number *x) {
    if (!(d >= -TWO_63 && d < TWO_64)) return MOYAI_ERANGE; /* NaN too */
    if (d < 0) {
        int64_t i = (int64_t)d;
        if ((double)i != d) return MOYAI_ERANGE;
        *x = number_of_int(i);
        return 0;
    }
    uint64_t u = (uint64_t)d;
    if ((double)u != d) return MOYAI_ERANGE;
    x->kind = NUMBER_UINT;
    x->u = u;
    return 0;
}

static int to_signed(struct number x, int64_t least, int64_t most, int64_t *to) {
    if (x.kind == NUMBER_UINT) {
        if (x.u > (uint64_t)most) return MOYAI_ERANGE;
        *to = (int64_t)x.u;
        return 0;
    }
    if (x.kind == NUMBER_NEG) {
        if (x.u > (uint64_t)most) return MOYAI_ERANGE; /* two's complement: least is -1 - most */
        *to = -1 - (int64_t)x.u;
        return *to < least ? MOYAI_ERANGE : 0;
    }
    if (x.kind == NUMBER_FLOAT && whole(x.d, &x) == 0) return to_signed(x, least, most, to);
    return x.kind == NUMBER_FLOAT ? MOYAI_ERANGE : MOYAI_ETYPE;
}

static int to_unsigned(struct number x, uint64_t most, uint64_t *to) {
    if (x.kind == NUMBER_UINT) {
        if (x.u > most) return MOYAI_ERANGE;
        *to = x.u;
        return 0;
    }
    if (x.kind == NUMBER_NEG) return MOYAI_ERANGE;
    if (x.kind == NUMBER_FLOAT && whole(x.d, &x) == 0) return to_unsigned(x, most, to);
    return x.kind == NUMBER_FLOAT ? MOYAI_ERANGE : MOYAI_ETYPE;
}

/* Does an unsigned integer fit into a significand of that many bits? Then its conversion is exact. */
static bool fits(uint64_t u, int bits) {
    return u == 0 || 64 - __builtin_clzll(u) - __builtin_ctzll(u) <= bits;
}

static int to_floating(struct number x, int bits, double *to) {
    switch (x.kind) {
    case NUMBER_UINT:
        if (!fits(x.u, bits)) return MOYAI_ERANGE;
        *to = (double)x.u;
        return 0;
    case NUMBER_NEG:
        if (x.u == UINT64_MAX) {
            *to = -TWO_64;
            return 0;
        }
        if (!fits(x.u + 1, bits)) return MOYAI_ERANGE;
        *to = -(double)(x.u + 1);
        return 0;
    case NUMBER_FLOAT:
        *to = x.d;
        return 0;
    case NUMBER_NONE:
    case NUMBER_BOOL:
        break;
    }
    return MOYAI_ETYPE;
}

int number_convert(struct number x, uint8_t tag, union number_slot *to) {
    int rc;
    switch ((enum moyai_tag)tag) {
    case MOYAI_T_BOOL:
        if (x.kind == NUMBER_BOOL) {
            to->b = x.u != 0;
            return 0;
        }
        if ((rc = to_unsigned(x, 1, &x.u)) < 0) return rc;
        to->b = x.u != 0;
        return 0;
    case MOYAI_T_INT:
        return to_signed(x, INT64_MIN, INT64_MAX, &to->i);
    case MOYAI_T_INT8:
        return to_signed(x, INT8_MIN, INT8_MAX, &to->i);
    case MOYAI_T_INT16:
        return to_signed(x, INT16_MIN, INT16_MAX, &to->i);
    case MOYAI_T_INT32:
        return to_signed(x, INT32_MIN, INT32_MAX, &to->i);
    case MOYAI_T_UINT:
        return to_unsigned(x, UINT64_MAX, &to->u);
    case MOYAI_T_UINT8:
        return to_unsigned(x, UINT8_MAX, &to->u);
    case MOYAI_T_UINT16:
        return to_unsigned(x, UINT16_MAX, &to->u);
    case MOYAI_T_UINT32:
        return to_unsigned(x, UINT32_MAX, &to->u);
    case MOYAI_T_DOUBLE:
        return to_floating(x, DBL_MANT_DIG, &to->d);
    case MOYAI_T_FLOAT: {
        double d;
        if ((rc = to_floating(x, FLT_MANT_DIG, &d)) < 0) return rc;
        if (isfinite(d) && (fabs(d) > (double)FLT_MAX || (double)(float)d != d)) return MOYAI_ERANGE;
        to->f = (float)d;
        return 0;
    }
    case MOYAI_T_NULL:
    case MOYAI_T_TEXT:
    case MOYAI_T_BYTES:
    case MOYAI_T_ARRAY:
    case MOYAI_T_REF:
    case MOYAI_T_VALUE:
    case MOYAI_T_SKIP:
        break;
    }
    return MOYAI_ETYPE;
}

/* By memcpy: the destination may be a long long where int64_t is a long. */
void number_store(const union number_slot *from, uint8_t tag, void *p) {
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
    } x;
    switch ((enum moyai_tag)tag) {
    case MOYAI_T_BOOL:
        memcpy(p, &from->b, sizeof from->b);
        return;
    case MOYAI_T_INT:
        memcpy(p, &from->i, sizeof from->i);
        return;
    case MOYAI_T_UINT:
        memcpy(p, &from->u, sizeof from->u);
        return;
    case MOYAI_T_FLOAT:
        memcpy(p, &from->f, sizeof from->f);
        return;
    case MOYAI_T_DOUBLE:
        memcpy(p, &from->d, sizeof from->d);
        return;
    case MOYAI_T_INT8:
        x.i8 = (int8_t)from->i;
        memcpy(p, &x, 1);
        return;
    case MOYAI_T_INT16:
        x.i16 = (int16_t)from->i;
        memcpy(p, &x, 2);
        return;
    case MOYAI_T_INT32:
        x.i32 = (int32_t)from->i;
        memcpy(p, &x, 4);
        return;
    case MOYAI_T_UINT8:
        x.u8 = (uint8_t)from->u;
        memcpy(p, &x, 1);
        return;
    case MOYAI_T_UINT16:
        x.u16 = (uint16_t)from->u;
        memcpy(p, &x, 2);
        return;
    case MOYAI_T_UINT32:
        x.u32 = (uint32_t)from->u;
        memcpy(p, &x, 4);
        return;
    case MOYAI_T_NULL:
    case MOYAI_T_TEXT:
    case MOYAI_T_BYTES:
    case MOYAI_T_ARRAY:
    case MOYAI_T_REF:
    case MOYAI_T_VALUE:
    case MOYAI_T_SKIP:
        return;
    }
}

void number_format(struct number x, char ret[NUMBER_TEXT]) {
    ret[0] = 0;
    switch (x.kind) {
    case NUMBER_NONE:
        return;
    case NUMBER_BOOL:
        snprintf(ret, NUMBER_TEXT, "%s", x.u ? "true" : "false");
        return;
    case NUMBER_UINT:
        snprintf(ret, NUMBER_TEXT, "%" PRIu64, x.u);
        return;
    case NUMBER_NEG:
        if (x.u == UINT64_MAX)
            strcpy(ret, "-18446744073709551616");
        else
            snprintf(ret, NUMBER_TEXT, "-%" PRIu64, x.u + 1);
        return;
    case NUMBER_FLOAT:
        for (int digits = DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
            snprintf(ret, NUMBER_TEXT, "%.*g", digits, x.d);
            if (strtod(ret, NULL) == x.d) break; /* never of NaN: which says the same with any digits */
        }
        for (char *c = ret; *c; c++) { /* of the program's locale */
            if (*c == ',') *c = '.';
        }
        return;
    }
}
