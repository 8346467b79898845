/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello as a CBOR map. Keys and the types of their values:
 *
 *   0 lowest, 1 highest link protocol version   unsigned, 1..2^32-1
 *   2 release of the library                    text
 *   3 node id, 4 host id                        16 bytes each
 *   5 process id                                unsigned
 *   6 big-endian                                bool
 *   7 bits of a pointer                         32 or 64
 *   8 machine                                   text
 *   9 most payload bytes in a frame             unsigned, HELLO_MIN_FRAME..2^32-1
 *  10 most bytes in a message                   unsigned
 *  11 title                                     text
 *  12 endpoints (may be missing)                array of texts
 *  13 observer (may be missing: false)          bool
 *  14 leave protocol version (may be missing: 0) unsigned
 *
 * All lengths definite, each key at most once, texts UTF-8 without control characters. Other unsigned keys are
 * skipped, whatever their value. codec_skip has looked at all lengths and at the nesting before libcbor sees a byte.
 */
#include "link/hello.h"

#include "base/err.h"
#include "base/id.h"
#include "base/utf8.h"
#include "wire/codec.h"

#include <cbor.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum key {
    KEY_PROTO_MIN,
    KEY_PROTO_MAX,
    KEY_VERSION,
    KEY_NODE,
    KEY_HOST,
    KEY_PID,
    KEY_BIG_ENDIAN,
    KEY_POINTER_BITS,
    KEY_MACHINE,
    KEY_MAX_FRAME,
    KEY_MAX_MESSAGE,
    KEY_TITLE,
    KEY_ENDPOINTS,
    KEY_OBSERVER,
    KEY_LEAVE,
    KEYS
};

static const char *const key_names[KEYS] = {
    "lowest protocol version",
    "highest protocol version",
    "release",
    "node id",
    "host id",
    "process id",
    "byte order",
    "pointer bits",
    "machine",
    "frame limit",
    "message limit",
    "title",
    "endpoints",
    "observer",
    "leave protocol version",
};

#define KEYS_PROTO    (1u << KEY_PROTO_MIN | 1u << KEY_PROTO_MAX)
#define KEYS_REQUIRED ((1u << KEY_ENDPOINTS) - 1)

/* Well-formed and printable on one line? */
static bool text_fits(const void *text, size_t n) {
    const uint8_t *p = text;
    if (!utf8_valid(p, n)) return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] < 0x20 || p[i] == 0x7f) return false;
    return true;
}

void hello_text(char *dst, size_t cap, const char *src) {
    size_t n = strlen(src), out = 0;
    for (size_t i = 0; i < n;) {
        size_t k = utf8_length((const uint8_t *)src + i, n - i);
        bool good = k > 0 && text_fits(src + i, k);
        size_t m = good ? k : 1;
        if (out + m > cap - 1) break;
        if (good)
            memcpy(dst + out, src + i, k);
        else
            dst[out] = '?';
        out += m;
        i += k ? k : 1;
    }
    dst[out] = 0;
}

void hello_fill(struct link_hello *h, const struct moyai_node_id *node, const uint8_t host[16], const char *title,
                uint32_t max_frame, uint64_t max_message) {
    memset(h, 0, sizeof *h);
    h->proto_min = HELLO_PROTO_MIN;
    h->proto_max = HELLO_PROTO_MAX;
    hello_text(h->version, sizeof h->version, moyai_version());
    h->node = *node;
    memcpy(h->host, host, sizeof h->host);
    h->pid = getpid();
    h->big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    h->pointer_bits = (uint8_t)(8 * sizeof(void *));
    struct utsname u;
    hello_text(h->machine, sizeof h->machine, uname(&u) == 0 ? u.machine : "unknown");
    h->max_frame = max_frame;
    h->max_message = max_message;
    hello_text(h->title, sizeof h->title, title ? title : "");
}

/* What holds for every hello, sent or received. reterr says which field is wrong; returns false then. */
static bool check(const struct link_hello *h, int code, struct moyai_error *reterr) {
    if (h->proto_min == 0 || h->proto_min > h->proto_max)
        err_set(reterr, code, "hello: protocol versions %u to %u are no range", h->proto_min, h->proto_max);
    else if (id_zero(h->node.b))
        err_set(reterr, code, "hello: the node id is zero");
    else if (h->pid < 0)
        err_set(reterr, code, "hello: the process id is negative or too large");
    else if (h->pointer_bits != 32 && h->pointer_bits != 64)
        err_set(reterr, code, "hello: pointers of %u bits", h->pointer_bits);
    else if (h->max_frame < HELLO_MIN_FRAME)
        err_set(reterr, code, "hello: a frame limit of %u bytes, at least %u are needed", h->max_frame,
                HELLO_MIN_FRAME);
    else
        return true;
    return false;
}

/* ---- encoding -------------------------------------------------------------------------------- */

struct out {
    uint8_t *p;
    size_t n;
    const char *bad; /* the first field that may not be sent */
};

static void put_key(struct out *o, enum key k) {
    o->n += cbor_encode_uint(k, o->p + o->n, HELLO_MAX - o->n);
}

static void put_uint(struct out *o, enum key k, uint64_t x) {
    put_key(o, k);
    o->n += cbor_encode_uint(x, o->p + o->n, HELLO_MAX - o->n);
}

static void put_bytes(struct out *o, enum key k, const uint8_t b[16]) {
    put_key(o, k);
    o->n += cbor_encode_bytestring_start(16, o->p + o->n, HELLO_MAX - o->n);
    memcpy(o->p + o->n, b, 16);
    o->n += 16;
}

static void put_string(struct out *o, enum key k, const char *s, size_t size) {
    size_t n = strnlen(s, size);
    if (n == size || !text_fits(s, n)) {
        if (!o->bad) o->bad = key_names[k];
        return;
    }
    o->n += cbor_encode_string_start(n, o->p + o->n, HELLO_MAX - o->n);
    memcpy(o->p + o->n, s, n);
    o->n += n;
}

static void put_text(struct out *o, enum key k, const char *s, size_t size) {
    put_key(o, k);
    put_string(o, k, s, size);
}

/* No put can run out of room: heads of 9 bytes and each field at its largest. */
_Static_assert(KEYS * 18 + sizeof(struct link_hello) + HELLO_ENDPOINTS * 9 < HELLO_MAX, "any hello fits");

int hello_encode(const struct link_hello *h, uint8_t out[HELLO_MAX], struct moyai_error *reterr) {
    if (!check(h, MOYAI_EINVAL, reterr)) return MOYAI_EINVAL;
    if (h->n_endpoints > HELLO_ENDPOINTS)
        return err_set(reterr, MOYAI_EINVAL, "hello: %u endpoints, at most %u are allowed", h->n_endpoints,
                       HELLO_ENDPOINTS);
    struct out o = {out, 0, NULL};
    o.n += cbor_encode_map_start((size_t)(KEYS - !h->observer - !h->leave), o.p, HELLO_MAX);
    put_uint(&o, KEY_PROTO_MIN, h->proto_min);
    put_uint(&o, KEY_PROTO_MAX, h->proto_max);
    put_text(&o, KEY_VERSION, h->version, sizeof h->version);
    put_bytes(&o, KEY_NODE, h->node.b);
    put_bytes(&o, KEY_HOST, h->host);
    put_uint(&o, KEY_PID, (uint64_t)h->pid);
    put_key(&o, KEY_BIG_ENDIAN);
    o.n += cbor_encode_bool(h->big_endian, o.p + o.n, HELLO_MAX - o.n);
    put_uint(&o, KEY_POINTER_BITS, h->pointer_bits);
    put_text(&o, KEY_MACHINE, h->machine, sizeof h->machine);
    put_uint(&o, KEY_MAX_FRAME, h->max_frame);
    put_uint(&o, KEY_MAX_MESSAGE, h->max_message);
    put_text(&o, KEY_TITLE, h->title, sizeof h->title);
    put_key(&o, KEY_ENDPOINTS);
    o.n += cbor_encode_array_start(h->n_endpoints, o.p + o.n, HELLO_MAX - o.n);
    for (uint32_t i = 0; i < h->n_endpoints; i++)
        put_string(&o, KEY_ENDPOINTS, h->endpoints[i], sizeof h->endpoints[i]);
    if (h->observer) {
        put_key(&o, KEY_OBSERVER);
        o.n += cbor_encode_bool(true, o.p + o.n, HELLO_MAX - o.n);
    }
    if (h->leave) put_uint(&o, KEY_LEAVE, h->leave);
    if (o.bad)
        return err_set(reterr, MOYAI_EINVAL, "hello: '%s' is too long, not UTF-8, or has control characters", o.bad);
    return (int)o.n;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static bool get_uint(const cbor_item_t *v, uint64_t max, uint64_t *x) {
    if (!cbor_isa_uint(v)) return false;
    *x = cbor_get_int(v);
    return *x <= max;
}

static bool get_u32(const cbor_item_t *v, uint32_t *ret) {
    uint64_t x;
    if (!get_uint(v, UINT32_MAX, &x)) return false;
    *ret = (uint32_t)x;
    return true;
}

static bool get_bytes(const cbor_item_t *v, uint8_t b[16]) {
    if (!cbor_isa_bytestring(v) || !cbor_bytestring_is_definite(v) || cbor_bytestring_length(v) != 16) return false;
    memcpy(b, cbor_bytestring_handle(v), 16);
    return true;
}

static bool get_text(const cbor_item_t *v, char *s, size_t size) {
    if (!cbor_isa_string(v) || !cbor_string_is_definite(v)) return false;
    size_t n = cbor_string_length(v);
    if (n >= size || !text_fits(cbor_string_handle(v), n)) return false;
    if (n > 0) memcpy(s, cbor_string_handle(v), n);
    s[n] = 0;
    return true;
}

static bool get_bool(const cbor_item_t *v, bool *ret) {
    if (!cbor_isa_float_ctrl(v) || !cbor_float_ctrl_is_ctrl(v) || !cbor_is_bool(v)) return false;
    *ret = cbor_get_bool(v);
    return true;
}

static bool get_endpoints(const cbor_item_t *v, struct link_hello *h) {
    if (!cbor_isa_array(v) || !cbor_array_is_definite(v) || cbor_array_size(v) > HELLO_ENDPOINTS) return false;
    h->n_endpoints = (uint32_t)cbor_array_size(v);
    cbor_item_t **e = cbor_array_handle(v);
    for (uint32_t i = 0; i < h->n_endpoints; i++)
        if (!get_text(e[i], h->endpoints[i], sizeof h->endpoints[i])) return false;
    return true;
}

static bool get_field(enum key k, const cbor_item_t *v, struct link_hello *h) {
    uint64_t x;
    switch (k) {
    case KEY_PROTO_MIN:
        return get_u32(v, &h->proto_min);
    case KEY_PROTO_MAX:
        return get_u32(v, &h->proto_max);
    case KEY_VERSION:
        return get_text(v, h->version, sizeof h->version);
    case KEY_NODE:
        return get_bytes(v, h->node.b);
    case KEY_HOST:
        return get_bytes(v, h->host);
    case KEY_PID:
        if (!get_uint(v, INT64_MAX, &x)) return false;
        h->pid = (int64_t)x;
        return true;
    case KEY_BIG_ENDIAN:
        return get_bool(v, &h->big_endian);
    case KEY_POINTER_BITS:
        if (!get_uint(v, UINT8_MAX, &x)) return false;
        h->pointer_bits = (uint8_t)x;
        return true;
    case KEY_MACHINE:
        return get_text(v, h->machine, sizeof h->machine);
    case KEY_MAX_FRAME:
        return get_u32(v, &h->max_frame);
    case KEY_MAX_MESSAGE:
        return get_uint(v, UINT64_MAX, &h->max_message);
    case KEY_TITLE:
        return get_text(v, h->title, sizeof h->title);
    case KEY_ENDPOINTS:
        return get_endpoints(v, h);
    case KEY_OBSERVER:
        return get_bool(v, &h->observer);
    case KEY_LEAVE:
        return get_u32(v, &h->leave);
    case KEYS:
        break;
    }
    return false;
}

static int decode_map(const cbor_item_t *map, struct link_hello *h, struct moyai_error *reterr) {
    if (!cbor_isa_map(map) || !cbor_map_is_definite(map))
        return err_set(reterr, MOYAI_EDATA, "hello: not a map of definite length");
    const struct cbor_pair *pairs = cbor_map_handle(map);
    size_t n = cbor_map_size(map);
    uint32_t seen = 0, wrong = 0; /* sets of keys */
    for (size_t i = 0; i < n; i++) {
        uint64_t key;
        if (!get_uint(pairs[i].key, UINT64_MAX, &key))
            return err_set(reterr, MOYAI_EDATA, "hello: a key is not an unsigned integer");
        if (key >= KEYS) continue;
        uint32_t bit = 1u << key;
        if (seen & bit) return err_set(reterr, MOYAI_EDATA, "hello: '%s' is there twice", key_names[key]);
        seen |= bit;
        if (!get_field((enum key)key, pairs[i].value, h)) wrong |= bit;
    }
    bool range = (seen & ~wrong & KEYS_PROTO) == KEYS_PROTO && h->proto_min > 0 && h->proto_min <= h->proto_max;
    if (range && (h->proto_min > HELLO_PROTO_MAX || h->proto_max < HELLO_PROTO_MIN)) {
        /* No common version: nothing else in it need make sense, and hello_accept will refuse it. */
        struct link_hello slim = {.proto_min = h->proto_min, .proto_max = h->proto_max};
        if (seen & ~wrong & 1u << KEY_VERSION) memcpy(slim.version, h->version, sizeof slim.version);
        if (seen & ~wrong & 1u << KEY_NODE) slim.node = h->node;
        *h = slim;
        return 0;
    }
    for (unsigned k = 0; k < KEYS; k++) {
        if (wrong & 1u << k)
            return err_set(reterr, MOYAI_EDATA, "hello: '%s' has a wrong type, length or value", key_names[k]);
        if (KEYS_REQUIRED & ~seen & 1u << k)
            return err_set(reterr, MOYAI_EDATA, "hello: '%s' is missing", key_names[k]);
    }
    return check(h, MOYAI_EDATA, reterr) ? 0 : MOYAI_EDATA;
}

int hello_decode(const uint8_t *p, size_t n, struct link_hello *ret, struct moyai_error *reterr) {
    if (n > HELLO_MAX) return err_set(reterr, MOYAI_ETOOBIG, "hello: %zu bytes, at most %u are allowed", n, HELLO_MAX);
    size_t len;
    int rc = codec_skip(p, n, &len);
    if (rc < 0) return err_set(reterr, rc, "hello: %s", moyai_strerror(rc));
    if (len != n) return err_set(reterr, MOYAI_EDATA, "hello: %zu bytes too many", n - len);
    struct cbor_load_result result;
    cbor_item_t *map = cbor_load(p, n, &result);
    if (!map) {
        if (result.error.code == CBOR_ERR_MEMERROR) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
        return err_set(reterr, MOYAI_EDATA, "hello: malformed at byte %zu", result.error.position);
    }
    struct link_hello h;
    memset(&h, 0, sizeof h);
    rc = decode_map(map, &h, reterr);
    cbor_decref(&map);
    if (rc == 0) *ret = h;
    return rc;
}

/* ---- agreeing -------------------------------------------------------------------------------- */

static const char *range_text(const struct link_hello *h, char buf[32]) {
    if (h->proto_min == h->proto_max)
        snprintf(buf, 32, "%u", h->proto_min);
    else
        snprintf(buf, 32, "%u to %u", h->proto_min, h->proto_max);
    return buf;
}

int hello_accept(const struct link_hello *mine, const struct link_hello *theirs, struct moyai_error *reterr) {
    uint32_t high = mine->proto_max < theirs->proto_max ? mine->proto_max : theirs->proto_max;
    uint32_t low = mine->proto_min > theirs->proto_min ? mine->proto_min : theirs->proto_min;
    char id[33];
    id_format(theirs->node.b, id);
    if (low > high) {
        char a[32], b[32];
        return err_set(reterr, MOYAI_EVERSION,
                       "no common link protocol version: this node (moyai %s) speaks %s, node %s (moyai %s) speaks %s",
                       mine->version, range_text(mine, a), id,
                       *theirs->version ? theirs->version : "of unknown release", range_text(theirs, b));
    }
    if (id_equal(mine->node.b, theirs->node.b)) return err_set(reterr, MOYAI_EPROTO, "node %s has reached itself", id);
    return (int)high;
}
