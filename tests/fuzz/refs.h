/* SPDX-License-Identifier: Apache-2.0 */
/* References for targets that decode values: they count their owners, and none may be left over. */
#ifndef TESTS_FUZZ_REFS_H
#define TESTS_FUZZ_REFS_H

#include "wire/codec.h"

struct fuzz_refs {
    struct codec_refs refs; /* ctx is this */
    long alive;
};
void fuzz_refs_init(struct fuzz_refs *r);
void fuzz_refs_drop(moyai_ref *ref);

#endif
