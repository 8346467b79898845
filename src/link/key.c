/* SPDX-License-Identifier: Apache-2.0 */
#include "link/key.h"

#include "base/err.h"
#include "base/rng.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_MOST (64u * 1024)
#define ID_BYTES  8u

/* ---- keys ------------------------------------------------------------------------------------ */

int key_derive(const struct key *k, const char *label, uint8_t *out, size_t n) {
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *c = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    EVP_KDF_free(kdf);
    if (!c) return MOYAI_ENOMEM;
    char digest[] = "SHA256", salt[] = "moyai";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)k->secret, KEY_SECRET),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt - 1),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)label, strlen(label)),
        OSSL_PARAM_construct_end(),
    };
    int ok = EVP_KDF_derive(c, out, n, params);
    EVP_KDF_CTX_free(c);
    return ok == 1 ? 0 : MOYAI_ENOMEM;
}

static int key_name(struct key *k) {
    uint8_t id[ID_BYTES];
    int rc = key_derive(k, "moyai key id", id, sizeof id);
    if (rc < 0) return rc;
    for (size_t i = 0; i < ID_BYTES; i++) snprintf(k->id + 2 * i, 3, "%02x", id[i]);
    return 0;
}

int key_new(struct key *ret, struct moyai_error *reterr) {
    struct key k = {.until = INT64_MAX};
    int rc = rng_system(k.secret, KEY_SECRET);
    if (rc == 0) rc = key_name(&k);
    if (rc < 0) return err_set(reterr, rc, "cannot make a key: %s", moyai_strerror(rc));
    *ret = k;
    OPENSSL_cleanse(&k, sizeof k);
    return 0;
}

const struct key *keyring_find(const struct keyring *r, const char *id, size_t n, int64_t now) {
    if (n != KEY_ID - 1) return NULL;
    for (size_t i = 0; i < r->n; i++)
        if (memcmp(r->key[i].id, id, n) == 0 && now < r->key[i].until) return &r->key[i];
    return NULL;
}

const struct key *keyring_usable(const struct keyring *r, size_t i, int64_t now) {
    for (size_t k = 0; k < r->n; k++)
        if (now < r->key[k].until && i-- == 0) return &r->key[k];
    return NULL;
}

bool keyring_ended(const struct keyring *r, int64_t since, int64_t now) {
    for (size_t i = 0; i < r->n; i++)
        if (since < r->key[i].until && r->key[i].until <= now) return true;
    return false;
}

void keyring_wipe(struct keyring *r) {
    OPENSSL_cleanse(r, sizeof *r);
}

/* ---- text ------------------------------------------------------------------------------------ */

int key_parse_time(const char *text, int64_t *ret) {
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"};
    for (size_t i = 0; i < 2; i++) {
        struct tm t = {0};
        const char *end = strptime(text, forms[i], &t);
        if (!end || *end) continue;
        struct tm u = t;
        time_t s = timegm(&u);
        if (u.tm_mday != t.tm_mday || u.tm_mon != t.tm_mon) return MOYAI_EINVAL; /* there is no such day */
        *ret = (int64_t)s;
        return 0;
    }
    return MOYAI_EINVAL;
}

void key_format_time(int64_t at, char out[32]) {
    time_t t = (time_t)at;
    struct tm tm;
    out[0] = 0;
    if (at != INT64_MAX && gmtime_r(&t, &tm)) strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static bool hex(const char *text, uint8_t *out, size_t n) {
    if (strlen(text) != 2 * n) return false;
    for (size_t i = 0; i < 2 * n; i++) {
        char c = text[i];
        int x = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (x < 0) return false;
        out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | x : x << 4);
    }
    return true;
}

/* One line, which is changed. The texts never show a secret. */
static int parse_line(struct keyring *r, char *line, const char *shown, unsigned number, struct moyai_error *reterr) {
    char *save, *word[6];
    size_t n = 0;
    for (char *w = strtok_r(line, " \t\r", &save); w && n < 6; w = strtok_r(NULL, " \t\r", &save)) word[n++] = w;
    if (n == 0 || word[0][0] == '#') return 0;
    if (strcmp(word[0], "key") != 0 || (n != 3 && (n != 5 || strcmp(word[3], "until") != 0)))
        return err_set(reterr, MOYAI_EDATA, "%s:%u: not a line of the form \"key ID SECRET [until TIME]\"", shown,
                       number);
    struct key k = {.until = INT64_MAX};
    uint8_t id[ID_BYTES];
    if (!hex(word[1], id, sizeof id))
        return err_set(reterr, MOYAI_EDATA, "%s:%u: a key's id has 16 hex digits", shown, number);
    if (!hex(word[2], k.secret, KEY_SECRET))
        return err_set(reterr, MOYAI_EDATA, "%s:%u: a key's secret has 64 hex digits", shown, number);
    if (n == 5 && key_parse_time(word[4], &k.until) < 0)
        return err_set(reterr, MOYAI_EDATA, "%s:%u: \"%.40s\" is not a time such as 2026-12-31T00:00:00Z", shown,
                       number, word[4]);
    int rc = key_name(&k);
    if (rc < 0) return err_set(reterr, rc, "%s: %s", shown, moyai_strerror(rc));
    if (strcasecmp(k.id, word[1]) != 0)
        rc = err_set(reterr, MOYAI_EDATA,
                     "%s:%u: the key's id does not belong to its secret: the line was damaged, copy it again", shown,
                     number);
    else if (keyring_find(r, k.id, KEY_ID - 1, INT64_MIN))
        rc = err_set(reterr, MOYAI_EDATA, "%s:%u: key %s a second time", shown, number, k.id);
    else if (r->n == KEYS_MOST)
        rc = err_set(reterr, MOYAI_EDATA, "%s:%u: more than %u keys", shown, number, KEYS_MOST);
    else
        r->key[r->n++] = k;
    OPENSSL_cleanse(&k, sizeof k);
    return rc;
}

int keyring_parse(struct keyring *r, const char *text, size_t n, const char *shown, struct moyai_error *reterr) {
    memset(r, 0, sizeof *r);
    if (n > FILE_MOST)
        return err_set(reterr, MOYAI_EDATA, "%s: larger than %u bytes: not a key file", shown, FILE_MOST);
    if (memchr(text, 0, n)) return err_set(reterr, MOYAI_EDATA, "%s: holds a zero byte: not a key file", shown);
    char *copy = malloc(n + 1);
    if (!copy) return err_set(reterr, MOYAI_ENOMEM, "%s: out of memory", shown);
    memcpy(copy, text, n);
    copy[n] = 0;
    int rc = 0;
    unsigned number = 0;
    for (char *line = copy, *next; line && rc == 0; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        rc = parse_line(r, line, shown, ++number, reterr);
    }
    if (rc == 0 && r->n == 0)
        rc = err_set(reterr, MOYAI_EDATA,
                     "%s: holds no key: remove it, and copy it from a host of the grid, or make the first "
                     "with: moyai key new --key-file %s",
                     shown, shown);
    OPENSSL_cleanse(copy, n);
    free(copy);
    if (rc < 0) keyring_wipe(r);
    return rc;
}

/* The text of a file; *n its length. NULL: out of memory. */
static char *format(const struct keyring *r, size_t *n) {
    size_t cap = 512 + r->n * 160;
    char *text = malloc(cap);
    if (!text) return NULL;
    size_t at =
        (size_t)snprintf(text, cap,
                         "# The keys of a moyai grid. Who holds one is trusted with all that the grid's users may do:\n"
                         "# keep this file to yourself (mode 0600), copy it by ssh only. Of the keys that have not\n"
                         "# ended the first is offered and each is accepted.\n");
    for (size_t i = 0; i < r->n; i++) {
        char until[32];
        key_format_time(r->key[i].until, until);
        at += (size_t)snprintf(text + at, cap - at, "key %s ", r->key[i].id);
        for (size_t k = 0; k < KEY_SECRET; k++)
            at += (size_t)snprintf(text + at, cap - at, "%02x", r->key[i].secret[k]);
        at += (size_t)snprintf(text + at, cap - at, "%s%s\n", until[0] ? " until " : "", until);
    }
    *n = at;
    return text;
}

/* ---- files ----------------------------------------------------------------------------------- */

int keyfile_path(char **ret, const char *option, struct moyai_error *reterr) {
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int rc = 0;
    if (option) {
        path = strdup(option);
        if (!path) rc = -1;
    } else if (base && base[0] == '/') {
        rc = asprintf(&path, "%s/moyai/key", base);
    } else {
        char buffer[4096];
        struct passwd pw, *found = NULL;
        if (!home || home[0] != '/') {
            (void)getpwuid_r(geteuid(), &pw, buffer, sizeof buffer, &found);
            home = found && found->pw_dir && found->pw_dir[0] == '/' ? found->pw_dir : NULL;
        }
        if (!home)
            return err_set(reterr, MOYAI_ENOENT,
                           "no home directory for a key file: give one with --key-file or MOYAI_KEY_FILE");
        rc = asprintf(&path, "%s/.config/moyai/key", home);
    }
    if (rc < 0) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    *ret = path;
    return 0;
}

/* The rules for a key file that is open. */
static int check(const struct stat *st, const char *path, struct moyai_error *reterr) {
    if (!S_ISREG(st->st_mode)) return err_set(reterr, MOYAI_EPERM, "key file %s: not a regular file", path);
    if (st->st_uid != geteuid())
        return err_set(reterr, MOYAI_EPERM, "key file %s: belongs to user %u, not to user %u who runs this", path,
                       (unsigned)st->st_uid, (unsigned)geteuid());
    if (st->st_mode & 077)
        return err_set(reterr, MOYAI_EPERM,
                       "key file %s: mode %04o lets others see it; if it is a key file, do: chmod 600 %s", path,
                       (unsigned)st->st_mode & 07777, path);
    return 0;
}

static int read_keys(struct keyring *r, const char *path, struct stat *st, struct moyai_error *reterr) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return err_set(reterr, MOYAI_ENOENT,
                           "no key file %s: copy it from a host of the grid, or make the first with: "
                           "moyai key new --key-file %s",
                           path, path);
        return err_sys(reterr, errno, "key file %s", path);
    }
    char *text = malloc(FILE_MOST + 1);
    size_t n = 0;
    int rc = 0;
    if (!text)
        rc = err_set(reterr, MOYAI_ENOMEM, "out of memory");
    else if (fstat(fd, st) < 0)
        rc = err_sys(reterr, errno, "key file %s", path);
    else
        rc = check(st, path, reterr);
    while (rc == 0 && n <= FILE_MOST) {
        ssize_t k = read(fd, text + n, FILE_MOST + 1 - n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) rc = err_sys(reterr, errno, "key file %s", path);
        if (k <= 0) break;
        n += (size_t)k;
    }
    close(fd);
    if (rc == 0) rc = keyring_parse(r, text, n, path, reterr);
    if (text) OPENSSL_cleanse(text, n);
    free(text);
    return rc;
}

int keyfile_read(struct keyring *r, const char *path, struct moyai_error *reterr) {
    struct stat st;
    return read_keys(r, path, &st, reterr);
}

/* Make the directories of a path, mode 0700; those that are there stay as they are. */
static int make_parents(const char *path, struct moyai_error *reterr) {
    char *copy = strdup(path);
    if (!copy) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    int rc = 0;
    for (char *slash = strchr(copy + 1, '/'); slash && rc == 0; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(copy, 0700) < 0 && errno != EEXIST) rc = err_sys(reterr, errno, "cannot make the directory %s", copy);
        *slash = '/';
    }
    free(copy);
    return rc;
}

static int write_all(int fd, const char *p, size_t n) {
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        p += k;
        n -= (size_t)k;
    }
    return fsync(fd);
}

int keyfile_write(const struct keyring *r, const char *path, bool exclusive, struct moyai_error *reterr) {
    int rc = make_parents(path, reterr);
    if (rc < 0) return rc;
    char *beside = NULL, *real = exclusive ? NULL : realpath(path, NULL); /* where it is a link, what it leads to */
    if (real) path = real;
    size_t n;
    char *text = format(r, &n);
    if (!text || asprintf(&beside, "%s.%d.new", path, (int)getpid()) < 0) {
        free(text);
        free(real);
        return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    (void)unlink(beside); /* of an earlier process of this number that was killed */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fchmod(fd, 0600) < 0 || write_all(fd, text, n) < 0) {
        rc = err_sys(reterr, errno, "cannot write the key file %s", beside);
    } else if (exclusive && link(beside, path) < 0) {
        rc = errno == EEXIST ? err_set(reterr, MOYAI_EEXIST, "key file %s is there already", path)
                             : err_sys(reterr, errno, "cannot write the key file %s", path);
    } else if (!exclusive && rename(beside, path) < 0) {
        rc = err_sys(reterr, errno, "cannot write the key file %s", path);
    }
    if (fd >= 0) {
        close(fd);
        if (exclusive || rc < 0) (void)unlink(beside);
    }
    OPENSSL_cleanse(text, n);
    free(text);
    free(beside);
    free(real);
    return rc;
}

/* ---- a file that is watched for changes ------------------------------------------------------ */

struct keyfile {
    char *path;
    struct keyring keys;
    struct stat st; /* of what was read last */
};

static bool same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_uid == b->st_uid && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int keyfile_open(struct keyfile **ret, const char *path, struct moyai_error *reterr) {
    struct keyfile *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    }
    int rc = read_keys(&f->keys, path, &f->st, reterr);
    if (rc == 0) rc = keyfile_usable(f, reterr);
    if (rc < 0) {
        keyfile_close(f);
        return rc;
    }
    *ret = f;
    return 0;
}

int keyfile_usable(const struct keyfile *f, struct moyai_error *reterr) {
    if (keyring_usable(&f->keys, 0, (int64_t)time(NULL))) return 0;
    return err_set(
        reterr, MOYAI_EPERM,
        "each key in %.150s has ended, by this host's clock: copy the file of a host that is in the grid, or "
        "add a key with 'moyai key rotate' and copy it to all",
        f->path);
}

void keyfile_close(struct keyfile *f) {
    if (!f) return;
    keyring_wipe(&f->keys);
    free(f->path);
    free(f);
}

int keyfile_refresh(struct keyfile *f, struct moyai_error *reterr) {
    struct stat st = {0};
    if (stat(f->path, &st) < 0) memset(&st, 0, sizeof st);
    if (same(&st, &f->st)) return 0;
    f->st = st;
    struct keyring fresh;
    int rc = read_keys(&fresh, f->path, &f->st, reterr);
    if (rc < 0) return rc;
    bool changed = memcmp(&fresh, &f->keys, sizeof fresh) != 0;
    f->keys = fresh;
    keyring_wipe(&fresh);
    return changed;
}

const struct keyring *keyfile_keys(const struct keyfile *f) {
    return &f->keys;
}
