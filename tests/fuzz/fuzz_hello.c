/* SPDX-License-Identifier: Apache-2.0 */
/* hello_decode, hello_encode: decode, encode, decode is a fixed point. */
#include "link/hello.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct link_hello a, b;
    struct moyai_error e;
    uint8_t p[HELLO_MAX], q[HELLO_MAX];
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    int rc = hello_decode(data, size, &a, &e);
    if (rc < 0) {
        FUZZ_CHECK(e.code == rc && e.text[0]);
        return 0;
    }
    int n = hello_encode(&a, p, &e);
    if (n < 0) return 0; /* of a version too new to be understood: decoded as far as that */
    FUZZ_CHECK(hello_decode(p, (size_t)n, &b, &e) == 0);
    FUZZ_CHECK(hello_encode(&b, q, &e) == n && memcmp(p, q, (size_t)n) == 0);
    FUZZ_CHECK(hello_accept(&a, &b, &e) < 0); /* it carries this node's own id */
    return 0;
}
