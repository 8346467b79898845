/* SPDX-License-Identifier: Apache-2.0 */
#include "link/seal.h"

#include "base/rng.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define ID    8u
#define SALT  16u
#define HEAD  (ID + SALT)
#define TAG   16u
#define NONCE 12u

/* Key and nonce of one seal. */
static int derive(const struct key *k, const char *purpose, const uint8_t *salt, uint8_t secret[32 + NONCE]) {
    char label[12 + SEAL_PURPOSE + 1 + 2 * SALT];
    int n = snprintf(label, sizeof label, "moyai seal %.*s ", (int)SEAL_PURPOSE, purpose);
    for (size_t i = 0; i < SALT; i++) n += snprintf(label + n, sizeof label - (size_t)n, "%02x", salt[i]);
    return key_derive(k, label, secret, 32 + NONCE);
}

static EVP_CIPHER_CTX *cipher(const struct key *k, const char *purpose, const uint8_t *head, int encrypt) {
    uint8_t secret[32 + NONCE];
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int some;
    bool ok = c && derive(k, purpose, head + ID, secret) == 0 &&
              EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, secret, secret + 32, encrypt) == 1 &&
              EVP_CipherUpdate(c, NULL, &some, head, HEAD) == 1;
    OPENSSL_cleanse(secret, sizeof secret);
    if (ok) return c;
    EVP_CIPHER_CTX_free(c);
    return NULL;
}

void seal_for_grid(char out[SEAL_PURPOSE + 1], const char *purpose, const char *grid) {
    snprintf(out, SEAL_PURPOSE + 1, "%s %s", purpose, grid);
}

int seal(const struct key *k, const char *purpose, const uint8_t *p, size_t n, uint8_t *out) {
    if (n > INT32_MAX) return MOYAI_ETOOBIG;
    for (size_t i = 0; i < ID; i++) { /* the id's digits as bytes */
        unsigned x;
        if (sscanf(k->id + 2 * i, "%2x", &x) != 1) return MOYAI_EINVAL;
        out[i] = (uint8_t)x;
    }
    int rc = rng_system(out + ID, SALT);
    if (rc < 0) return rc;
    EVP_CIPHER_CTX *c = cipher(k, purpose, out, 1);
    int some = 0, rest = 0;
    bool ok = c && EVP_CipherUpdate(c, out + HEAD, &some, p, (int)n) == 1 &&
              EVP_CipherFinal_ex(c, out + HEAD + some, &rest) == 1 &&
              EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, TAG, out + HEAD + n) == 1;
    EVP_CIPHER_CTX_free(c);
    return ok ? 0 : MOYAI_ENOMEM;
}

int unseal(const struct keyring *r, int64_t now, const char *purpose, const uint8_t *p, size_t n, uint8_t *out,
           size_t *ret) {
    if (n < SEAL_MORE || n > INT32_MAX) return MOYAI_EDATA;
    char id[KEY_ID];
    for (size_t i = 0; i < ID; i++) snprintf(id + 2 * i, 3, "%02x", p[i]);
    const struct key *k = keyring_find(r, id, KEY_ID - 1, now);
    if (!k) return MOYAI_EPERM;
    EVP_CIPHER_CTX *c = cipher(k, purpose, p, 0);
    if (!c) return MOYAI_ENOMEM;
    uint8_t tag[TAG];
    int some = 0, rest = 0;
    size_t m = n - SEAL_MORE;
    memcpy(tag, p + HEAD + m, TAG);
    bool ok = EVP_CipherUpdate(c, out, &some, p + HEAD, (int)m) == 1 &&
              EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TAG, tag) == 1 &&
              EVP_CipherFinal_ex(c, out + some, &rest) == 1;
    EVP_CIPHER_CTX_free(c);
    if (!ok) {
        OPENSSL_cleanse(out, m); /* what cannot be believed is not shown */
        return MOYAI_EDATA;
    }
    *ret = m;
    return 0;
}
