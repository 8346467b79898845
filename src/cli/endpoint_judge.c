/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/endpoint_judge.h"

#include "base/err.h"
#include "base/id.h"
#include "cli/endpoint_store.h"
#include "link/seal.h"
#include "overlay/peers_entry.h"

_Static_assert(PEERS_ENTRY_MAX + SEAL_MORE <= ENDPOINT_ENTRY_MAX, "any entry fits");

int endpoint_judge(const struct keyring *keys, int64_t now, const char *grid, const uint8_t id[16], bool withdraws,
                   const uint8_t *p, size_t n, struct endpoint_claim *ret, struct moyai_error *reterr) {
    uint8_t plain[ENDPOINT_ENTRY_MAX];
    char purpose[SEAL_PURPOSE + 1];
    struct peers_entry e;
    size_t got;
    seal_for_grid(purpose, withdraws ? SEAL_WITHDRAWAL : SEAL_RENDEZVOUS, grid);
    if (n > sizeof plain || unseal(keys, now, purpose, p, n, plain, &got) < 0)
        return err_set(reterr, MOYAI_EPERM, "not sealed with a key of this server, or not for this grid");
    int rc = peers_entry_get(plain, got, &e);
    if (rc < 0)
        return err_set(reterr, MOYAI_EDATA, "not an entry%s",
                       rc == MOYAI_EVERSION ? " of a version that this server knows" : "");
    if (!id_equal(e.e.id.b, id)) return err_set(reterr, MOYAI_EPERM, "the entry is another node's");
    int64_t left = peers_entry_left(&e, now);
    if (left < 0)
        return err_set(reterr, MOYAI_ESTATE,
                       "it seems to be made %lld s from now: this server's clock is behind, or the node's ahead",
                       (long long)-left);
    if (left == 0)
        return err_set(reterr, MOYAI_ESTATE,
                       "it was made %lld s ago and has ended: this server's clock is ahead, or the node's behind",
                       (long long)(now - e.made));
    *ret = (struct endpoint_claim){.made = e.made, .left = e.made + (int64_t)e.e.lifetime - now};
    return 0;
}
