/* SPDX-License-Identifier: Apache-2.0 */
/* peers_entry_get: what is accepted is written again byte for byte. */
#include "overlay/peers_entry.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct peers_entry e;
    uint8_t again[PEERS_ENTRY_MAX];
    int rc = peers_entry_get(data, size, &e);
    FUZZ_CHECK(rc == 0 || rc == MOYAI_EDATA || rc == MOYAI_EVERSION);
    if (rc < 0) return 0;
    FUZZ_CHECK(peers_entry_put(again, &e) == size && memcmp(again, data, size) == 0);
    int64_t left = peers_entry_left(&e, 1700000000);
    FUZZ_CHECK(left <= (int64_t)e.e.lifetime && (left >= 0 || left < -PEERS_ENTRY_SKEW));
    return 0;
}
