/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/value_json.h"

#include "base/err.h"
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 32 /* of structured values: moyai/value.h */

/* X(name, type, element, least, most, read as integer) for the integers */
#define INTEGER_ELEMS(X)                                                                                               \
    X(u8, uint8_t, MOYAI_ELEM_U8, 0, UINT8_MAX)                                                                        \
    X(u16, uint16_t, MOYAI_ELEM_U16, 0, UINT16_MAX)                                                                    \
    X(u32, uint32_t, MOYAI_ELEM_U32, 0, UINT32_MAX)                                                                    \
    X(i8, int8_t, MOYAI_ELEM_I8, INT8_MIN, INT8_MAX)                                                                   \
    X(i16, int16_t, MOYAI_ELEM_I16, INT16_MIN, INT16_MAX)                                                              \
    X(i32, int32_t, MOYAI_ELEM_I32, INT32_MIN, INT32_MAX)                                                              \
    X(i64, int64_t, MOYAI_ELEM_I64, INT64_MIN, INT64_MAX)

/* ---- reading --------------------------------------------------------------------------------- */

int value_json_read(const char *text, json_t **ret, struct moyai_error *why) {
    json_error_t e;
    json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (j) {
        *ret = j;
        return 0;
    }
    if (json_error_code(&e) == json_error_numeric_overflow) /* it is JSON, which knows no limits */
        return err_set(why, MOYAI_EINVAL, "'%.60s'%s is %s (column %d)", text, strlen(text) > 60 ? "..." : "",
                       !strstr(e.text, "integer")   ? "larger than a double"
                       : strstr(e.text, "negative") ? "less than -2^63, the least integer there is"
                                                    : "larger than 2^63 - 1; up to 2^64 - 1 it is written {\"$uint\": "
                                                      "\"...\"}",
                       e.column);
    return err_set(why, MOYAI_EINVAL, "'%.60s' is not JSON: %.100s (column %d)%s", text, e.text, e.column,
                   strpbrk(text, "\"[{") ? "" : "; a text has quotes within: '\"text\"'");
}

static int no_memory(struct moyai_error *why) {
    return err_set(why, MOYAI_ENOMEM, "out of memory for a value");
}

static int made(moyai_value *v, moyai_value **ret, struct moyai_error *why) {
    if (!v) return no_memory(why);
    *ret = v;
    return 0;
}

static int digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

/* Bytes written to out, which has room for 3/4 of n; -1: not base64. */
static ssize_t base64_read(const char *text, size_t n, uint8_t *out) {
    size_t k = 0;
    uint32_t bits = 0;
    if (n % 4) return -1;
    size_t pad = n && text[n - 1] == '=' ? text[n - 2] == '=' ? 2 : 1 : 0;
    for (size_t i = 0; i < n - pad; i++) {
        int d = digit_of(text[i]);
        if (d < 0) return -1;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 == 0) continue;
        out[k++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return pad && (bits & (pad == 2 ? 0xf : 0x3)) ? -1 : (ssize_t)k;
}

static int read_bytes(const json_t *j, moyai_value **ret, struct moyai_error *why) {
    if (!json_is_string(j)) return err_set(why, MOYAI_EINVAL, "$bytes: its value is a text in base64");
    size_t n = json_string_length(j);
    uint8_t *p = malloc(n / 4 * 3 + 1);
    if (!p) return no_memory(why);
    ssize_t k = base64_read(json_string_value(j), n, p);
    int rc = k < 0 ? err_set(why, MOYAI_EINVAL, "$bytes: '%.60s' is not base64", json_string_value(j))
                   : made(moyai_value_new(moyai_bytes(p, (size_t)k)), ret, why);
    free(p);
    return rc;
}

static bool special_double(const json_t *j, double *ret) {
    const char *text = json_string_value(j);
    if (!text) return false;
    if (strcmp(text, "nan") == 0)
        *ret = NAN;
    else if (strcmp(text, "inf") == 0)
        *ret = INFINITY;
    else if (strcmp(text, "-inf") == 0)
        *ret = -INFINITY;
    else
        return false;
    return true;
}

/* An integer is taken if it is exactly that in floating point. */
static bool get_double(const json_t *j, double *ret) {
    if (json_is_integer(j)) {
        *ret = (double)json_integer_value(j);
        return fabs(*ret) < 0x1p63 && (json_int_t)*ret == json_integer_value(j);
    }
    if (!json_is_real(j)) return special_double(j, ret);
    *ret = json_real_value(j);
    return true;
}

static bool get_u64(const json_t *j, uint64_t *ret) {
    const char *text = json_string_value(j);
    if (json_is_integer(j)) {
        *ret = (uint64_t)json_integer_value(j);
        return json_integer_value(j) >= 0;
    }
    if (!text || !*text || strspn(text, "0123456789") != strlen(text)) return false;
    errno = 0;
    *ret = strtoull(text, NULL, 10);
    return errno == 0;
}

static bool put_elem(enum moyai_elem elem, const json_t *j, void *p, size_t i) {
    double d = 0;
    switch (elem) {
#define X(name, type, elem_, least, most)                                                                              \
    case elem_:                                                                                                        \
        if (!json_is_integer(j) || json_integer_value(j) < (json_int_t)least ||                                        \
            json_integer_value(j) > (json_int_t)most)                                                                  \
            return false;                                                                                              \
        ((type *)p)[i] = (type)json_integer_value(j);                                                                  \
        return true;
        INTEGER_ELEMS(X)
#undef X
    case MOYAI_ELEM_U64:
        return get_u64(j, (uint64_t *)p + i);
    case MOYAI_ELEM_F32:
        if (!get_double(j, &d) || (isfinite(d) && isinf((float)d))) return false;
        ((float *)p)[i] = (float)d; /* as in C: to the nearest */
        return true;
    case MOYAI_ELEM_F64:
        return get_double(j, (double *)p + i);
    }
    return false;
}

static const char *const elem_names[] = {"u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64"};
enum { N_ELEMS = sizeof elem_names / sizeof elem_names[0] };

const char *value_json_mark(const char *text) {
    static const char *const types[N_ELEMS] = {"uint8", "uint16", "uint32", "uint64", "int8",
                                               "int16", "int32",  "int64",  "float",  "double"};
    for (size_t i = 0; i < N_ELEMS; i++)
        if (strcspn(text, " ") == strlen(types[i]) && strncmp(text, types[i], strlen(types[i])) == 0)
            return elem_names[i];
    return NULL;
}

/* One number rounded to float, for methods that take no other. */
static int read_float(const json_t *j, moyai_value **ret, struct moyai_error *why) {
    float x;
    double d;
    if (!put_elem(MOYAI_ELEM_F32, j, &x, 0)) {
        char *text = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
        int rc = err_set(why, MOYAI_ERANGE, "$f32: %.60s %s", text ? text : "this number",
                         get_double(j, &d) ? "is too large for a float"
                                           : "has too many digits for an integer here; with a point it is rounded");
        free(text);
        return rc;
    }
    return made(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_FLOAT, .v.f = x}), ret, why);
}

static int not_elem(const json_t *j, size_t i, const char *elem, struct moyai_error *why) {
    char *text = json_dumps(j, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    int rc = err_set(why, MOYAI_ERANGE, "element %zu of an array, %.60s, is no %s", i + 1, text ? text : "", elem);
    free(text);
    return rc;
}

static int read_array(const json_t *j, enum moyai_elem elem, moyai_value **ret, struct moyai_error *why) {
    double d;
    if (elem == MOYAI_ELEM_F32 && json_is_number(j)) return read_float(j, ret, why);
    if (!json_is_array(j) && elem == MOYAI_ELEM_F32)
        return err_set(why, MOYAI_EINVAL, "$f32: its value must be an array or a number%s",
                       special_double(j, &d) ? "; what is none is written {\"$float\": \"...\"}" : "");
    if (!json_is_array(j)) return err_set(why, MOYAI_EINVAL, "$%s: its value must be an array", elem_names[elem]);
    size_t n = json_array_size(j);
    uint64_t *p = calloc(n + 1, sizeof *p);
    if (!p) return no_memory(why);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        if (!put_elem(elem, json_array_get(j, i), p, i)) rc = not_elem(json_array_get(j, i), i, elem_names[elem], why);
    const struct moyai_arg a = {.tag = MOYAI_T_ARRAY, .elem = (uint8_t)elem, .v.p = p, .n = n};
    if (rc == 0) rc = made(moyai_value_new(a), ret, why);
    free(p);
    return rc;
}

static int read_any(moyai_node *n, const json_t *j, int depth, moyai_value **ret, struct moyai_error *why);

static int too_deep(struct moyai_error *why) {
    return err_set(why, MOYAI_EDEPTH, "lists and maps are nested more than %d deep", DEPTH_MOST);
}

static int read_list(moyai_node *n, const json_t *j, int depth, moyai_value **ret, struct moyai_error *why) {
    if (!json_is_array(j)) return err_set(why, MOYAI_EINVAL, "$list: its value must be an array");
    if (depth == DEPTH_MOST) return too_deep(why);
    size_t count = json_array_size(j), k = 0;
    moyai_value **items = calloc(count + 1, sizeof(moyai_value *));
    if (!items) return no_memory(why);
    int rc = 0;
    for (; k < count && rc == 0; k++) rc = read_any(n, json_array_get(j, k), depth + 1, &items[k], why);
    if (rc == 0) {
        rc = made(moyai_value_list(items, count), ret, why);
    } else {
        for (size_t i = 0; i < k; i++) moyai_value_free(items[i]);
    }
    free(items);
    return rc;
}

static int read_map(moyai_node *n, const json_t *j, int depth, moyai_value **ret, struct moyai_error *why) {
    if (!json_is_object(j)) return err_set(why, MOYAI_EINVAL, "$map: its value is an object");
    if (depth == DEPTH_MOST) return too_deep(why);
    size_t count = json_object_size(j), k = 0;
    moyai_value **items = calloc(count + 1, sizeof(moyai_value *));
    const char **keys = calloc(count + 1, sizeof *keys);
    int rc = items && keys ? 0 : no_memory(why);
    const char *key;
    json_t *item;
    if (rc == 0) json_object_foreach((json_t *)(uintptr_t)j, key, item) {
            keys[k] = key;
            rc = read_any(n, item, depth + 1, &items[k], why);
            k++;
            if (rc < 0) break;
        }
    if (rc == 0) {
        rc = made(moyai_value_map(keys, items, count), ret, why);
    } else {
        for (size_t i = 0; i < k; i++) moyai_value_free(items[i]);
    }
    free(items);
    free(keys);
    return rc;
}

/* An object with a key that begins with '$': what the key says. */
static int read_marked(moyai_node *n, const char *key, const json_t *j, int depth, moyai_value **ret,
                       struct moyai_error *why) {
    const char *text = json_string_value(j);
    if (strcmp(key, "$bytes") == 0) return read_bytes(j, ret, why);
    if (strcmp(key, "$list") == 0) return read_list(n, j, depth, ret, why);
    if (strcmp(key, "$map") == 0) return read_map(n, j, depth, ret, why);
    for (size_t i = 0; i < N_ELEMS; i++)
        if (strcmp(key + 1, elem_names[i]) == 0) return read_array(j, (enum moyai_elem)i, ret, why);
    if (strcmp(key, "$ref") == 0) {
        moyai_ref *ref = NULL;
        int parsed = text ? moyai_ref_parse(n, text, &ref) : MOYAI_EINVAL;
        if (parsed == MOYAI_ENOMEM) return no_memory(why);
        if (parsed < 0)
            return err_set(why, MOYAI_EINVAL, "$ref: '%.80s' is no reference (moyai:OBJECT@NODE)", text ? text : "");
        int rc = made(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_REF, .v.p = ref}), ret, why);
        moyai_ref_unref(ref);
        return rc;
    }
    if (strcmp(key, "$float") == 0) {
        struct moyai_arg a = {.tag = MOYAI_T_DOUBLE};
        if (!special_double(j, &a.v.d))
            return err_set(why, MOYAI_EINVAL, "$float: its value must be \"nan\", \"inf\" or \"-inf\"");
        return made(moyai_value_new(a), ret, why);
    }
    if (strcmp(key, "$uint") == 0) {
        struct moyai_arg a = {.tag = MOYAI_T_UINT};
        if (!get_u64(j, &a.v.u)) return err_set(why, MOYAI_EINVAL, "$uint: its value is a text of digits, under 2^64");
        return made(moyai_value_new(a), ret, why);
    }
    return err_set(why, MOYAI_EINVAL,
                   "'%.40s' means nothing; a map with keys that begin with '$' is written {\"$map\": {...}}", key);
}

static const char *marked_key(const json_t *j) {
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)j, key, item) if (key[0] == '$') return key;
    return NULL;
}

static int read_any(moyai_node *n, const json_t *j, int depth, moyai_value **ret, struct moyai_error *why) {
    switch (json_typeof(j)) {
    case JSON_NULL:
        return made(moyai_value_new(moyai_null()), ret, why);
    case JSON_TRUE:
    case JSON_FALSE:
        return made(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_BOOL, .v.b = json_is_true(j)}), ret, why);
    case JSON_INTEGER:
        return made(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_INT, .v.i = json_integer_value(j)}), ret, why);
    case JSON_REAL:
        return made(moyai_value_new((struct moyai_arg){.tag = MOYAI_T_DOUBLE, .v.d = json_real_value(j)}), ret, why);
    case JSON_STRING:
        return made(moyai_value_new(moyai_text(json_string_value(j), json_string_length(j))), ret, why);
    case JSON_ARRAY: {
        size_t count = json_array_size(j), numbers = 0, reals = 0;
        for (size_t i = 0; i < count; i++) {
            numbers += json_is_number(json_array_get(j, i));
            reals += json_is_real(json_array_get(j, i));
        }
        if (count == 0 || numbers < count) return read_list(n, j, depth, ret, why);
        return read_array(j, reals ? MOYAI_ELEM_F64 : MOYAI_ELEM_I64, ret, why);
    }
    case JSON_OBJECT: {
        const char *key = marked_key(j);
        if (!key) return read_map(n, j, depth, ret, why);
        if (json_object_size(j) != 1)
            return err_set(why, MOYAI_EINVAL,
                           "'%.40s' stands alone in its object; a map with keys that begin with '$' is written "
                           "{\"$map\": {...}}",
                           key);
        return read_marked(n, key, json_object_get(j, key), depth, ret, why);
    }
    }
    return err_set(why, MOYAI_EINTERNAL, "a kind of JSON that there is not");
}

int value_of_json(moyai_node *n, const json_t *j, moyai_value **ret, struct moyai_error *why) {
    return read_any(n, j, 0, ret, why);
}

/* ---- printing -------------------------------------------------------------------------------- */

void json_print_text(FILE *f, const char *text, size_t n) {
    char some[JSON_WORST * 256];
    fputc('"', f);
    while (n > 0) {
        size_t k = n < 256 ? n : 256;
        while (k < n && k > 250 && ((uint8_t)text[k] & 0xc0) == 0x80) k--; /* not within a character */
        fwrite(some, 1, json_escape(some, text, k), f);
        text += k;
        n -= k;
    }
    fputc('"', f);
}

void json_print_field(FILE *f, const char *before, const char *key, const char *text) {
    fprintf(f, "%s\"%s\": ", before, key);
    json_print_text(f, text, strlen(text));
}

static void print_special(FILE *f, double x) {
    fputs(isnan(x) ? "\"nan\"" : x > 0 ? "\"inf\"" : "\"-inf\"", f);
}

/* The shortest that reads as the same; always with a point or an exponent. single: it was a float. */
static void print_double(FILE *f, double x, bool single) {
    char text[40];
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)x : back == x) break;
    }
    fprintf(f, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_bytes(FILE *f, const uint8_t *p, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    fputs("{\"$bytes\": \"", f);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = (uint32_t)p[i] << 16;
        if (i + 1 < n) bits |= (uint32_t)p[i + 1] << 8;
        if (i + 2 < n) bits |= p[i + 2];
        fputc(digits[bits >> 18], f);
        fputc(digits[bits >> 12 & 63], f);
        fputc(i + 1 < n ? digits[bits >> 6 & 63] : '=', f);
        fputc(i + 2 < n ? digits[bits & 63] : '=', f);
    }
    fputs("\"}", f);
}

static void print_elem(FILE *f, enum moyai_elem elem, const void *p, size_t i) {
    switch (elem) {
#define X(name, type, elem_, least, most)                                                                              \
    case elem_:                                                                                                        \
        fprintf(f, "%lld", (long long)((const type *)p)[i]);                                                           \
        return;
        INTEGER_ELEMS(X)
#undef X
    case MOYAI_ELEM_U64: {
        uint64_t u = ((const uint64_t *)p)[i];
        const char *quote = u > INT64_MAX ? "\"" : "";
        fprintf(f, "%s%" PRIu64 "%s", quote, u, quote);
        return;
    }
    case MOYAI_ELEM_F32:
    case MOYAI_ELEM_F64: {
        double d = elem == MOYAI_ELEM_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
        if (isfinite(d))
            print_double(f, d, elem == MOYAI_ELEM_F32);
        else
            print_special(f, d);
        return;
    }
    }
}

static bool all_finite(const double *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(p[i])) return false;
    return true;
}

static void print_array(FILE *f, const moyai_value *v) {
    const void *p = NULL;
    size_t n = 0;
    uint8_t elem = 0;
    for (; elem < N_ELEMS; elem++)
        if (moyai_value_get(v, (struct moyai_into_arg){.tag = MOYAI_T_ARRAY, .elem = elem, .p = &p, .n = &n}) == 0)
            break;
    if (elem == N_ELEMS) return;
    bool plain = n > 0 && (elem == MOYAI_ELEM_I64 || (elem == MOYAI_ELEM_F64 && all_finite(p, n)));
    if (!plain) fprintf(f, "{\"$%s\": ", elem_names[elem]);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "[", f);
        print_elem(f, (enum moyai_elem)elem, p, i);
    }
    fputs(n ? "]" : "[]", f);
    if (!plain) fputc('}', f);
}

static bool is_number(const moyai_value *v) {
    double d;
    return moyai_value_kind(v) == MOYAI_K_INT ||
           (moyai_value_kind(v) == MOYAI_K_DOUBLE && moyai_value_get(v, MOYAI_INTO(&d)->v[0]) == 0 && isfinite(d));
}

static void print_list(FILE *f, const moyai_value *v) {
    size_t n = moyai_value_count(v), numbers = 0;
    for (size_t i = 0; i < n; i++) numbers += is_number(moyai_value_at(v, i));
    bool marked = n > 0 && numbers == n;
    fputs(marked ? "{\"$list\": [" : "[", f);
    for (size_t i = 0; i < n; i++) {
        if (i) fputs(", ", f);
        value_print(f, moyai_value_at(v, i));
    }
    fputs(marked ? "]}" : "]", f);
}

static void print_map(FILE *f, const moyai_value *v) {
    size_t n = moyai_value_count(v);
    bool marked = false;
    for (size_t i = 0; i < n; i++) marked |= moyai_value_key(v, i)[0] == '$';
    fputs(marked ? "{\"$map\": {" : "{", f);
    for (size_t i = 0; i < n; i++) {
        const char *key = moyai_value_key(v, i);
        if (i) fputs(", ", f);
        json_print_text(f, key, strlen(key));
        fputs(": ", f);
        value_print(f, moyai_value_at(v, i));
    }
    fputs(marked ? "}}" : "}", f);
}

void value_print(FILE *f, const moyai_value *v) {
    const void *p = NULL;
    const char *text = NULL;
    size_t n = 0;
    double d = 0;
    int64_t i = 0;
    uint64_t u = 0;
    bool b = false;
    moyai_ref *ref = NULL;
    char line[MOYAI_REF_TEXT];
    int rc = 0;
    switch (moyai_value_kind(v)) {
    case MOYAI_K_NULL:
        fputs("null", f);
        break;
    case MOYAI_K_BOOL:
        rc = moyai_value_get(v, MOYAI_INTO(&b)->v[0]);
        fputs(b ? "true" : "false", f);
        break;
    case MOYAI_K_INT:
        rc = moyai_value_get(v, MOYAI_INTO(&i)->v[0]);
        fprintf(f, "%" PRId64, i);
        break;
    case MOYAI_K_UINT:
        rc = moyai_value_get(v, MOYAI_INTO(&u)->v[0]);
        fprintf(f, "{\"$uint\": \"%" PRIu64 "\"}", u);
        break;
    case MOYAI_K_DOUBLE:
        rc = moyai_value_get(v, MOYAI_INTO(&d)->v[0]);
        if (isfinite(d)) {
            print_double(f, d, false);
        } else {
            fputs("{\"$float\": ", f);
            print_special(f, d);
            fputc('}', f);
        }
        break;
    case MOYAI_K_TEXT:
        rc = moyai_value_get(v, (struct moyai_into_arg){.tag = MOYAI_T_TEXT, .p = &text, .n = &n});
        json_print_text(f, text ? text : "", n);
        break;
    case MOYAI_K_BYTES:
        rc = moyai_value_get(v, moyai_into_bytes(&p, &n));
        print_bytes(f, p, n);
        break;
    case MOYAI_K_ARRAY:
        print_array(f, v);
        break;
    case MOYAI_K_REF:
        rc = moyai_value_get(v, MOYAI_INTO(&ref)->v[0]);
        if (rc == 0) moyai_ref_format(ref, line);
        fprintf(f, "{\"$ref\": \"%s\"}", rc == 0 ? line : "");
        moyai_ref_unref(ref);
        break;
    case MOYAI_K_LIST:
        print_list(f, v);
        break;
    case MOYAI_K_MAP:
        print_map(f, v);
        break;
    }
    (void)rc; /* a value gives what it is of */
}
