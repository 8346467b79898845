/* SPDX-License-Identifier: Apache-2.0 */
/* frame_get_head and frame_put_head: what is accepted is written again byte for byte. */
#include "tests/fuzz/fuzz.h"
#include "wire/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (size_t at = 0; at + FRAME_HEAD <= size; at += FRAME_HEAD) {
        struct frame_head h;
        struct moyai_error e;
        uint8_t again[FRAME_HEAD];
        int rc = frame_get_head(data + at, &h, &e);
        FUZZ_CHECK(rc == frame_get_head(data + at, &h, NULL));
        if (rc < 0) {
            FUZZ_CHECK(rc == e.code && e.text[0] &&
                       (rc == MOYAI_EVERSION || rc == MOYAI_EPROTO || rc == MOYAI_ETOOBIG));
            continue;
        }
        FUZZ_CHECK(h.length <= FRAME_MAX);
        frame_put_head(again, &h);
        FUZZ_CHECK(memcmp(again, data + at, FRAME_HEAD) == 0);
    }
    return 0;
}
