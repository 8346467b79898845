/* SPDX-License-Identifier: Apache-2.0 */
/* bench/baseline: the baselines alone, to see what this machine gives. */
#include "bench/baseline.h"
#include "bench/bench.h"

int main(void) {
    printf("ping-pong of 64 bytes, median: %.2f us\n", baseline_latency(64, 10000) * 1e6);
    printf("requests and replies of 64 bytes, pipelined: %.2f million/s\n", baseline_rate(10000000, 3) / 1e6);
    printf("1 MiB writes into a warm buffer of 64 MiB: %.2f GB/s\n", baseline_bulk(64u << 20, 16) / 1e9);
    return 0;
}
