/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_wire_get, _peek, _put_head: the first byte is the frame's type, the rest its payload. What is accepted is
 * written again byte for byte, and a look at the beginning alone agrees with reading it whole.
 */
#include "overlay/session_wire.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct session_chunk chunks[SESSION_CHUNKS], peeked[SESSION_CHUNKS];
    struct session_frame f = {.chunks = chunks}, g = {.chunks = peeked};
    struct moyai_error e;
    size_t head, head2;
    uint8_t again[SESSION_WIRE_HEAD_MAX];
    if (size == 0) return 0;
    uint8_t type = data[0];
    const uint8_t *p = data + 1;
    size_t n = size - 1;
    memset(&e, 0, sizeof e);
    int rc = session_wire_get(type, p, n, &f, &head, &e);
    for (size_t have = 0; have <= n; have += 1 + have / 8) {
        g.chunks = peeked;
        if (!session_wire_peek(type, p, have, n, &g, &head2)) continue;
        FUZZ_CHECK(rc == 0 && head2 == head && head2 <= have && g.id == f.id && g.n_chunks == f.n_chunks);
    }
    if (rc < 0) {
        FUZZ_CHECK(rc == MOYAI_EPROTO && e.code == rc && e.text[0]);
        return 0;
    }
    FUZZ_CHECK(head <= n && head <= sizeof again && session_wire_head_size(&f) == head);
    session_wire_put_head(again, &f);
    FUZZ_CHECK(memcmp(again, p, head) == 0);
    return 0;
}
