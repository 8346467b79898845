/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grid keys: the secrets that the nodes of one grid share, and the file that holds them.
 *
 * A key file has one line a key, in order of preference:
 *
 *     key 4f3c2a1b09887766 <64 hex digits> [until 2026-12-31T00:00:00Z]
 *
 * The first one that has not ended is offered, each that has not ended is accepted. The id is made from the
 * secret, so a line with a mistyped digit is found out. The file must be the user's own, at mode 0600.
 *
 * Secrets are never used themselves: for each purpose another secret is derived (RFC 5869, HKDF with SHA-256).
 */
#ifndef LINK_KEY_H
#define LINK_KEY_H

#include <moyai/error.h>

#define KEY_SECRET 32u
#define KEY_ID     17u /* 16 hex digits and NUL */
#define KEYS_MOST  64u

struct key {
    char id[KEY_ID];
    uint8_t secret[KEY_SECRET];
    int64_t until; /* seconds since 1970, UTC; INT64_MAX: no end */
};

struct keyring {
    size_t n;
    struct key key[KEYS_MOST];
};

/* A new random key without an end. 0 or MOYAI_ESYS. */
int key_new(struct key *ret, struct moyai_error *reterr) MOYAI_MUST_USE;

/* n bytes for one purpose. The label names it and is part of the protocol. 0 or MOYAI_ENOMEM. n <= 64. */
int key_derive(const struct key *k, const char *label, uint8_t *out, size_t n) MOYAI_MUST_USE;

/* The key of that id that has not ended; NULL: none. */
const struct key *keyring_find(const struct keyring *r, const char *id, size_t n, int64_t now);
/* The i-th key that has not ended, in the file's order; NULL: no such. */
const struct key *keyring_usable(const struct keyring *r, size_t i, int64_t now);

/* Has a key ended since then (seconds since 1970), and by now? */
bool keyring_ended(const struct keyring *r, int64_t since, int64_t now);

void keyring_wipe(struct keyring *r);

/* Text of a file to keys. EDATA: the text names file (`shown`) and line; the ring is empty then. */
int keyring_parse(struct keyring *r, const char *text, size_t n, const char *shown,
                  struct moyai_error *reterr) MOYAI_MUST_USE;

/* "2026-12-31T00:00:00Z" or "2026-12-31" in UTC, whatever $TZ says. EINVAL. */
int key_parse_time(const char *text, int64_t *ret) MOYAI_MUST_USE;
void key_format_time(int64_t t, char out[32]); /* "" for INT64_MAX */

/*
 * Where the key file is: `option` if it is not NULL, else $XDG_CONFIG_HOME/moyai/key, else ~/.config/moyai/key of the
 * user's entry in the password file where $HOME is missing. ENOENT: there is no such place. *ret is malloc'ed.
 */
int keyfile_path(char **ret, const char *option, struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * Read a key file. ENOENT (none there), EPERM (not a regular file, not the user's own, open to others: the text says
 * which and what to do), EDATA, ENOMEM, ESYS.
 */
int keyfile_read(struct keyring *r, const char *path, struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * Write it: to a new file of mode 0600 beside it that then takes its place, so that a full disk or a kill leaves the
 * old one as it was. The directory is made (mode 0700) if it is missing. `exclusive`: EEXIST if one is there already.
 */
int keyfile_write(const struct keyring *r, const char *path, bool exclusive, struct moyai_error *reterr) MOYAI_MUST_USE;

/* ---- a file that is watched for changes ------------------------------------------------------ */

struct keyfile;

/* Not thread-safe; the path is copied. Errors as of keyfile_read, and EPERM: each of its keys has ended. */
int keyfile_open(struct keyfile **ret, const char *path, struct moyai_error *reterr) MOYAI_MUST_USE;
void keyfile_close(struct keyfile *f);
/* 0; EPERM: each of its keys has ended by now, and the text says so and what to do. */
int keyfile_usable(const struct keyfile *f, struct moyai_error *reterr);

/* Read it again if it has changed. 1: the keys have changed; 0: they have not; an error: the new file is no good and
 * the old keys stay (said once for each state of the file; then 0 until it changes again). */
int keyfile_refresh(struct keyfile *f, struct moyai_error *reterr);
const struct keyring *keyfile_keys(const struct keyfile *f);

#endif
