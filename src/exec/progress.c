/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/impl.h"
int progress_start(struct exec *x, struct moyai_error *reterr) {
    (void)x;
    (void)reterr;
    return 0;
}
void progress_stop(struct exec *x) {
    (void)x;
}
void progress_rouse(struct exec *x) {
    (void)x;
}
void progress_yield(struct exec *x) {
    (void)x;
}
void overflow_thread_begin(void) {}
void overflow_thread_end(void) {}
void watch_done(struct exec *x) {
    (void)x;
}
