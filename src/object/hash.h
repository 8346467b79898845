/* SPDX-License-Identifier: Apache-2.0 */
/* uthash as the object layer wants it: keys of 8 bytes or more, and a table that cannot grow is an error. */
#ifndef OBJECT_HASH_H
#define OBJECT_HASH_H

#include <stdint.h>
#include <string.h>

#define HASH_FUNCTION(keyptr, keylen, hashv)                                                                           \
    do {                                                                                                               \
        uint64_t h_;                                                                                                   \
        memcpy(&h_, keyptr, sizeof h_);                                                                                \
        (hashv) = (unsigned)(h_ ^ (h_ >> 32)); /* keys are random bits or pointers */                                  \
    } while (0)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
