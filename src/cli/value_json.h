/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as JSON, and back: the mapping of moyai-call(1). What is printed can be given, and becomes the same value.
 *
 *   null, true, "text"        as they are
 *   1                         an integer of 64 bits; 1.0, 1e3: a double
 *   [1, 2], [1.5, 2]          numbers only: an array of int64, or of double if one of them is
 *   ["a", 1], []              a list
 *   {"a": 1}                  a map
 *   {"$bytes": "base64"}      bytes
 *   {"$ref": "moyai:..."}     a reference
 *   {"$u8": [1, 2]}           an array of that element type: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64
 *   {"$f32": 0.1}             a number rounded to float
 *   {"$list": [1, 2]}         a list of numbers
 *   {"$map": {"$x": 1}}       a map one of whose keys begins with '$'
 *   {"$float": "nan"}         nan, inf or -inf; in arrays of f32 and f64 just the text
 *   {"$uint": "1844..."}      an integer above INT64_MAX; in arrays of u64 just the text
 */
#ifndef CLI_VALUE_JSON_H
#define CLI_VALUE_JSON_H

#include <jansson.h>
#include <moyai.h>
#include <stdio.h>

/* EINVAL: text is not JSON; where. *ret is for json_decref. */
int value_json_read(const char *text, json_t **ret, struct moyai_error *why);

/* EINVAL, ERANGE, EDEPTH, ENOMEM, with the text. n: the node of references. */
int value_of_json(moyai_node *n, const json_t *j, moyai_value **ret, struct moyai_error *why);

/* The mark, as in {"$f64": ...}, of the element type that a text begins with ("double is expected"); NULL: none. */
const char *value_json_mark(const char *text);

/* On one line, without a newline. */
void value_print(FILE *f, const moyai_value *v);
void json_print_text(FILE *f, const char *text, size_t n);                             /* with its quotes */
void json_print_field(FILE *f, const char *before, const char *key, const char *text); /* before is printed as it is */

#endif
