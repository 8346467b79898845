/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendezvous entries as text.
 *
 * The decoder is the encoder's mirror, line by line; what remains (other ways to write a number or an escape) is ruled
 * out at the end by encoding what was read and comparing: whatever is accepted is exactly what the encoder writes.
 */
#include "overlay/io/entry.h"

#include "base/err.h"
#include "base/id.h"
#include "base/utf8.h"
#include "link/hash128.h"
#include "link/hello.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FORMAT 1

static const char upper_hex[] = "0123456789ABCDEF";

/* ---- writing --------------------------------------------------------------------------------- */

struct writer {
    char *p;
    size_t n;
};

/* Nothing below can run out of room: the longest text of each field, all of it escaped. */
_Static_assert(3 * (ENTRY_DIR_MAX + ENTRY_TITLE_MAX) + 512 < ENTRY_MAX, "any node entry fits");
_Static_assert(3 * ENTRY_NAME_MAX + 512 < ENTRY_MAX, "any name entry fits");

static void put(struct writer *w, const char *s) {
    size_t n = strlen(s);
    memcpy(w->p + w->n, s, n);
    w->n += n;
}

static void put_escape(struct writer *w, uint8_t c) {
    char e[4] = {'%', upper_hex[c >> 4], upper_hex[c & 15], 0};
    put(w, e);
}

static void put_text(struct writer *w, const char *key, const char *s) {
    put(w, key);
    put(w, " ");
    size_t n = strlen(s);
    for (size_t i = 0; i < n;) {
        size_t k = utf8_length((const uint8_t *)s + i, n - i);
        uint8_t c = (uint8_t)s[i];
        if (k == 0 || c < 0x20 || c == 0x7f || c == '%') {
            put_escape(w, c);
            i++;
        } else {
            memcpy(w->p + w->n, s + i, k);
            w->n += k;
            i += k;
        }
    }
    put(w, "\n");
}

static void put_number(struct writer *w, const char *key, uint64_t x) {
    char text[24];
    snprintf(text, sizeof text, " %" PRIu64 "\n", x);
    put(w, key);
    put(w, text);
}

static void put_id(struct writer *w, const char *key, const uint8_t id[16]) {
    char hex[33];
    id_format(id, hex);
    put(w, key);
    put(w, " ");
    put(w, hex);
    put(w, "\n");
}

static void put_kind(struct writer *w, const char *kind) {
    put(w, "moyai ");
    put_number(w, kind, FORMAT);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    const char *p, *end;
    unsigned line;
};

/* The value of the next line, which must be "<key> <value>\n". */
static const char *get(struct reader *r, const char *key, size_t *len, struct moyai_error *reterr) {
    size_t k = strlen(key);
    r->line++;
    const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
    if (!nl) {
        err_set(reterr, MOYAI_EDATA, "line %u is cut off or missing", r->line);
        return NULL;
    }
    size_t n = (size_t)(nl - r->p);
    if (n <= k || memcmp(r->p, key, k) != 0 || r->p[k] != ' ') {
        err_set(reterr, MOYAI_EDATA, "line %u is not '%s ...'", r->line, key);
        return NULL;
    }
    const char *v = r->p + k + 1;
    *len = n - k - 1;
    r->p = nl + 1;
    return v;
}

static bool get_number(struct reader *r, const char *key, uint64_t max, uint64_t *ret, struct moyai_error *reterr) {
    size_t n;
    const char *v = get(r, key, &n, reterr);
    if (!v) return false;
    uint64_t x = 0;
    bool good = n > 0;
    for (size_t i = 0; good && i < n; i++) {
        good = v[i] >= '0' && v[i] <= '9';
        uint64_t digit = (uint64_t)(v[i] - '0');
        good = good && digit <= max && x <= (max - digit) / 10;
        if (good) x = 10 * x + digit;
    }
    if (!good) {
        err_set(reterr, MOYAI_EDATA, "line %u: '%s' is not a number up to %" PRIu64, r->line, key, max);
        return false;
    }
    *ret = x;
    return true;
}

static bool get_id(struct reader *r, const char *key, uint8_t id[16], struct moyai_error *reterr) {
    size_t n;
    const char *v = get(r, key, &n, reterr);
    if (!v) return false;
    if (id_parse(v, n, id)) return true;
    err_set(reterr, MOYAI_EDATA, "line %u: '%s' is not 32 hex digits", r->line, key);
    return false;
}

static int hex_digit(char c) {
    const char *at = c ? strchr(upper_hex, c) : NULL;
    return at ? (int)(at - upper_hex) : -1;
}

static bool get_text(struct reader *r, const char *key, char *s, size_t size, struct moyai_error *reterr) {
    size_t n;
    const char *v = get(r, key, &n, reterr);
    if (!v) return false;
    size_t out = 0;
    for (size_t i = 0; i < n; i++, out++) {
        if (out + 1 >= size) {
            err_set(reterr, MOYAI_EDATA, "line %u: '%s' is longer than %zu bytes", r->line, key, size - 1);
            return false;
        }
        int c = (uint8_t)v[i];
        if (c == '%') {
            int hi = n - i > 2 ? hex_digit(v[i + 1]) : -1, lo = n - i > 2 ? hex_digit(v[i + 2]) : -1;
            if (hi < 0 || lo < 0) {
                err_set(reterr, MOYAI_EDATA, "line %u: '%s' has a '%%' without two hex digits", r->line, key);
                return false;
            }
            c = hi << 4 | lo;
            i += 2;
        }
        if (c == 0) {
            err_set(reterr, MOYAI_EDATA, "line %u: '%s' has a zero byte", r->line, key);
            return false;
        }
        s[out] = (char)c;
    }
    s[out] = 0;
    return true;
}

static int get_kind(struct reader *r, const char *kind, struct moyai_error *reterr) {
    size_t n;
    const char *v = get(r, "moyai", &n, reterr);
    size_t k = strlen(kind);
    if (!v) return MOYAI_EDATA;
    if (n <= k || memcmp(v, kind, k) != 0 || v[k] != ' ')
        return err_set(reterr, MOYAI_EDATA, "line 1 is not 'moyai %s ...'", kind);
    struct reader version = {v, v + n + 1, 0}; /* with its newline */
    uint64_t x;
    if (!get_number(&version, kind, UINT32_MAX, &x, reterr)) return MOYAI_EDATA;
    if (x != FORMAT)
        return err_set(reterr, MOYAI_EVERSION, "a %s entry of format %" PRIu64 "; this moyai (%s) knows format %d",
                       kind, x, moyai_version(), FORMAT);
    return 0;
}

/* The last line and, with what the encoder makes of it, the whole. */
static int get_end(struct reader *r, const char *p, size_t n, const char *again, int again_n,
                   struct moyai_error *reterr) {
    if (r->end - r->p != 4 || memcmp(r->p, "end\n", 4) != 0)
        return err_set(reterr, MOYAI_EDATA, "line %u is not 'end', or something follows it", r->line + 1);
    if ((size_t)again_n != n || memcmp(p, again, n) != 0)
        return err_set(reterr, MOYAI_EDATA, "a number or text is not written in its only way");
    return 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void rdv_node_fill(struct rdv_node *n, const struct moyai_node_id *id, const uint8_t host[16], const char *run_dir,
                   const char *title) {
    memset(n, 0, sizeof *n);
    n->id = *id;
    memcpy(n->host, host, sizeof n->host);
    n->pid = getpid();
    n->started = (uint64_t)time(NULL);
    snprintf(n->run_dir, sizeof n->run_dir, "%s", run_dir);
    memcpy(n->title, title, utf8_cut(title, strlen(title), ENTRY_TITLE_MAX));
}

void entry_called(char out[ENTRY_CALLED], const uint8_t id[16], const char *title, int64_t pid) {
    char hex[33], clean[64];
    id_format(id, hex);
    hello_text(clean, sizeof clean, title);
    int n = snprintf(out, ENTRY_CALLED, "node %.8s", hex);
    if (pid > 0 && clean[0])
        snprintf(out + n, ENTRY_CALLED - (size_t)n, " (%s, pid %" PRId64 ")", clean, pid);
    else if (pid > 0)
        snprintf(out + n, ENTRY_CALLED - (size_t)n, " (pid %" PRId64 ")", pid);
}

int entry_encode_node(const struct rdv_node *in, char out[ENTRY_MAX], struct moyai_error *reterr) {
    if (id_zero(in->id.b)) return err_set(reterr, MOYAI_EINVAL, "a node id is not zero");
    if (in->pid < 0) return err_set(reterr, MOYAI_EINVAL, "a process id is not negative");
    if (in->run_dir[0] != '/' || !memchr(in->run_dir, 0, sizeof in->run_dir))
        return err_set(reterr, MOYAI_EINVAL, "a run directory is an absolute path of at most %d bytes", ENTRY_DIR_MAX);
    if (!memchr(in->title, 0, sizeof in->title) || !utf8_valid(in->title, strlen(in->title)))
        return err_set(reterr, MOYAI_EINVAL, "a title is at most %d bytes of UTF-8", ENTRY_TITLE_MAX);
    struct writer w = {out, 0};
    put_kind(&w, "node");
    put_id(&w, "id", in->id.b);
    put_id(&w, "host", in->host);
    put_number(&w, "pid", (uint64_t)in->pid);
    put_number(&w, "started", in->started);
    put_text(&w, "run-dir", in->run_dir);
    put_text(&w, "title", in->title);
    if (in->leaving) put_number(&w, "leaving", 1);
    put(&w, "end\n");
    return (int)w.n;
}

int entry_decode_node(const char *p, size_t n, struct rdv_node *ret, struct moyai_error *reterr) {
    struct reader r = {p, p + n, 0};
    struct rdv_node x;
    memset(&x, 0, sizeof x);
    int rc = get_kind(&r, "node", reterr);
    if (rc < 0) return rc;
    uint64_t pid;
    if (!get_id(&r, "id", x.id.b, reterr) || !get_id(&r, "host", x.host, reterr) ||
        !get_number(&r, "pid", INT64_MAX, &pid, reterr) || !get_number(&r, "started", UINT64_MAX, &x.started, reterr) ||
        !get_text(&r, "run-dir", x.run_dir, sizeof x.run_dir, reterr) ||
        !get_text(&r, "title", x.title, sizeof x.title, reterr))
        return MOYAI_EDATA;
    uint64_t leaving = 0;
    if (r.end - r.p > 8 && memcmp(r.p, "leaving ", 8) == 0 && !get_number(&r, "leaving", 1, &leaving, reterr))
        return MOYAI_EDATA;
    x.leaving = leaving;
    x.pid = (int64_t)pid;
    char again[ENTRY_MAX];
    int again_n = entry_encode_node(&x, again, reterr);
    if (again_n < 0) {
        if (reterr) reterr->code = MOYAI_EDATA;
        return MOYAI_EDATA;
    }
    rc = get_end(&r, p, n, again, again_n, reterr);
    if (rc == 0) *ret = x;
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

int entry_check_name(const char *name, struct moyai_error *reterr) {
    size_t n = strnlen(name, ENTRY_NAME_MAX + 1);
    if (n == 0) return err_set(reterr, MOYAI_EINVAL, "a name is empty");
    if (n > ENTRY_NAME_MAX)
        return err_set(reterr, MOYAI_EINVAL, "name '%.40s...' is longer than %d bytes", name, ENTRY_NAME_MAX);
    if (!utf8_valid(name, n)) return err_set(reterr, MOYAI_EINVAL, "name '%s' is not UTF-8", name);
    return 0;
}

int entry_encode_name(const struct rdv_name *in, char out[ENTRY_MAX], struct moyai_error *reterr) {
    int rc = entry_check_name(in->name, reterr);
    if (rc < 0) return rc;
    if (id_zero(in->object.b) || id_zero(in->node.b))
        return err_set(reterr, MOYAI_EINVAL, "the object's or the node's id of a name is zero");
    struct writer w = {out, 0};
    put_kind(&w, "name");
    put_text(&w, "name", in->name);
    put_id(&w, "object", in->object.b);
    put_id(&w, "node", in->node.b);
    put(&w, "end\n");
    return (int)w.n;
}

int entry_decode_name(const char *p, size_t n, struct rdv_name *ret, struct moyai_error *reterr) {
    struct reader r = {p, p + n, 0};
    struct rdv_name x;
    memset(&x, 0, sizeof x);
    int rc = get_kind(&r, "name", reterr);
    if (rc < 0) return rc;
    if (!get_text(&r, "name", x.name, sizeof x.name, reterr) || !get_id(&r, "object", x.object.b, reterr) ||
        !get_id(&r, "node", x.node.b, reterr))
        return MOYAI_EDATA;
    char again[ENTRY_MAX];
    int again_n = entry_encode_name(&x, again, reterr);
    if (again_n < 0) {
        if (reterr) reterr->code = MOYAI_EDATA;
        return MOYAI_EDATA;
    }
    rc = get_end(&r, p, n, again, again_n, reterr);
    if (rc == 0) *ret = x;
    return rc;
}

void entry_file_of_name(const char *name, char out[ENTRY_FILE_MAX + 1]) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    char text[3 * ENTRY_NAME_MAX + 1];
    struct writer w = {text, 0};
    for (const char *c = name; *c; c++) {
        if (strchr(plain, *c) && !(c == name && *c == '.'))
            text[w.n++] = *c;
        else
            put_escape(&w, (uint8_t)*c);
    }
    if (w.n > ENTRY_FILE_MAX) {
        uint8_t hash[16];
        hash128(name, strlen(name), hash);
        memcpy(text, "%%", 2);
        id_format(hash, text + 2);
        w.n = 34;
    }
    memcpy(out, text, w.n);
    out[w.n] = 0;
}
