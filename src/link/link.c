/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A framed connection.
 *
 * Output: frames are gathered in one buffer; payload pieces of LINK_LARGE bytes and more are not copied
 * but referenced. The queue is a list of segments, each a run of the buffer or a borrowed run of
 * memory, and one writev takes as many as the socket accepts. A system call costs more than copying
 * some kilobytes, so small frames always share one.
 *
 * Input: one read fills the buffer, frames are handed up from there. For a large frame the layer above
 * names the destination; the following reads go there, with a short tail into the buffer so that the
 * next header comes along in the same system call.
 *
 * Over TLS (link/tls.h) the same queues are cut into records of at most TLS_RECORD bytes.
 *
 * A write error does not end the link: what the peer sent before it closed (a farewell) is still to be
 * read. The end is always told from the read side or from the loop.
 */
#include "link/link.h"

#include "base/err.h"
#include "link/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_BUFFER  (64u * 1024)
#define READ_TAIL    4096u          /* buffer space offered behind a placed payload */
#define READS_A_TURN 16             /* then other links get their turn */
#define OUT_MARK     (1024u * 1024) /* queued bytes at which link_room says 0 */
#define SEND_BUFFER  (1 << 20)      /* a fuller pipe puts the two sides to sleep less often */
#define IOV_MOST     64
#define TLS_RECORD   16384u

struct seg {
    const uint8_t *p; /* NULL: in the buffer */
    size_t at;        /* offset in the buffer */
    size_t n;
};

/* A queue of bytes to be written. */
struct outq {
    uint8_t *buf;
    size_t n, cap; /* bytes used, including those written already */
    struct seg *segs;
    size_t first, n_segs, cap_segs;
    size_t bytes;
};

/* Bytes held back by link_shape. */
struct held {
    struct held *next;
    moyai_ns due;
    size_t n;
    uint8_t data[];
};

struct link {
    struct exec *x;
    const struct link_ops *ops;
    void *owner;
    struct exec_fd *efd;
    int fd;
    struct tls *tls; /* NULL: in clear */
    bool shaking;    /* the handshake is not done: nothing is written or read */
    int events;
    bool write_dead; /* the peer takes nothing any more */
    bool down_told;
    bool freed; /* link_free during a callback: memory goes when the callback returns */
    bool in_callback;
    bool last; /* link_last: */
    struct outq out, dropped;

    /* input */
    uint8_t *rbuf;
    size_t rcap, rhave, roff;
    uint8_t *dest; /* placed payload still missing `want` bytes; NULL with want > 0: discard */
    size_t want, place_len;
    uint8_t *place_start;
    bool placing;
    struct frame_head place_head;
    uint8_t prefix[LINK_PREFIX];

    struct exec_timer again_timer; /* more has been read from the socket than handed up in one turn */

    /* the end, told by a timer when it does not come from the read side */
    struct exec_timer reset_timer;
    struct moyai_error why; /* of link_reset; code 0: not reset */

    /* shaping */
    moyai_dur delay;
    uint64_t rate;
    struct link_line own, *line; /* the simulated line: its own, or one that is shared */
    struct held *held_first, *held_last;
    size_t held_bytes;
    struct exec_timer shape_timer;
    struct outq ready; /* due, being written */
};

/* ---- queues ---------------------------------------------------------------------------------- */

static void outq_done(struct outq *q) {
    free(q->buf);
    free(q->segs);
    memset(q, 0, sizeof *q);
}

static int outq_seg_room(struct outq *q) {
    if (q->first + q->n_segs < q->cap_segs) return 0;
    if (q->first > 0) {
        memmove(q->segs, q->segs + q->first, q->n_segs * sizeof *q->segs);
        q->first = 0;
        if (q->n_segs < q->cap_segs) return 0;
    }
    size_t cap = q->cap_segs ? q->cap_segs * 2 : 16;
    struct seg *s = realloc(q->segs, cap * sizeof *s);
    if (!s) return MOYAI_ENOMEM;
    q->segs = s;
    q->cap_segs = cap;
    return 0;
}

/* Make room for n more bytes at buf + n, moving what is unwritten to the front if that serves. */
static int outq_buf_room(struct outq *q, size_t more) {
    if (q->bytes == 0) q->n = 0;
    if (q->cap - q->n >= more) return 0;
    size_t lo = q->n;
    for (size_t i = 0; i < q->n_segs; i++) {
        const struct seg *s = &q->segs[q->first + i];
        if (!s->p && s->at < lo) lo = s->at; /* not always in order: link_unborrow */
    }
    if (lo > 0 && q->cap - (q->n - lo) >= more) {
        memmove(q->buf, q->buf + lo, q->n - lo);
    } else {
        size_t cap = q->cap ? q->cap : 16 * 1024;
        while (cap - q->n < more) cap *= 2;
        uint8_t *b = realloc(q->buf, cap);
        if (!b) return MOYAI_ENOMEM;
        q->buf = b;
        q->cap = cap;
        lo = 0;
    }
    if (lo) {
        for (size_t i = 0; i < q->n_segs; i++)
            if (!q->segs[q->first + i].p) q->segs[q->first + i].at -= lo;
        q->n -= lo;
    }
    return 0;
}

/* n bytes of the buffer that the caller fills. */
static uint8_t *outq_reserve(struct outq *q, size_t n) {
    if (outq_buf_room(q, n) < 0) return NULL;
    struct seg *last = q->n_segs ? &q->segs[q->first + q->n_segs - 1] : NULL;
    if (last && !last->p && last->at + last->n == q->n) {
        last->n += n;
    } else {
        if (outq_seg_room(q) < 0) return NULL;
        q->segs[q->first + q->n_segs++] = (struct seg){NULL, q->n, n};
    }
    uint8_t *p = q->buf + q->n;
    q->n += n;
    q->bytes += n;
    return p;
}

static int outq_borrow(struct outq *q, const uint8_t *p, size_t n) {
    if (outq_seg_room(q) < 0) return MOYAI_ENOMEM;
    q->segs[q->first + q->n_segs++] = (struct seg){p, 0, n};
    q->bytes += n;
    return 0;
}

static void outq_consume(struct outq *q, size_t n) {
    q->bytes -= n;
    while (n > 0) {
        struct seg *s = &q->segs[q->first];
        size_t k = n < s->n ? n : s->n;
        if (s->p)
            s->p += k;
        else
            s->at += k;
        s->n -= k;
        n -= k;
        if (s->n == 0) {
            q->first++;
            q->n_segs--;
        }
    }
    if (q->n_segs == 0) q->first = 0;
    if (q->bytes == 0) q->n = 0;
}

static void outq_clear(struct outq *q) {
    q->first = q->n_segs = q->bytes = q->n = 0;
}

/* At most `most` bytes from the front in one piece; gathered in scratch if they lie apart. *n: how many. */
static const uint8_t *outq_front(const struct outq *q, uint8_t *scratch, size_t most, size_t *n) {
    const struct seg *s = &q->segs[q->first];
    *n = q->bytes < most ? q->bytes : most;
    if (s->n >= *n) return s->p ? s->p : q->buf + s->at;
    for (size_t at = 0; at < *n; s++) {
        size_t k = s->n < *n - at ? s->n : *n - at;
        memcpy(scratch + at, s->p ? s->p : q->buf + s->at, k);
        at += k;
    }
    return scratch;
}

/* As outq_write; full: no record that would have room for more. What is tried again is what was tried before, or more:
 * only then may the record be finished. */
static int outq_write_tls(struct outq *q, struct tls *tls, bool full) {
    while (q->bytes >= (full ? TLS_RECORD : 1)) {
        size_t n;
        const uint8_t *p = outq_front(q, tls_scratch(tls), TLS_RECORD, &n);
        ssize_t r = tls_write(tls, p, n, n < q->bytes);
        if (r == -EAGAIN) return 0;
        if (r < 0) return -1;
        outq_consume(q, (size_t)r);
    }
    return 1;
}

/* 1: all written; 0: the socket is full; -1: errno. */
static int outq_write(struct outq *q, int fd) {
    while (q->bytes > 0) {
        struct iovec iov[IOV_MOST];
        size_t n = q->n_segs < IOV_MOST ? q->n_segs : IOV_MOST;
        size_t sum = 0;
        for (size_t i = 0; i < n; i++) {
            const struct seg *s = &q->segs[q->first + i];
            iov[i].iov_base = s->p ? (void *)(uintptr_t)s->p : q->buf + s->at;
            iov[i].iov_len = s->n;
            sum += s->n;
        }
        struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
        ssize_t r = n == 1 ? send(fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL) : sendmsg(fd, &m, MSG_NOSIGNAL);
        if (r < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
            return -1;
        }
        outq_consume(q, (size_t)r);
        if ((size_t)r < sum) return 0;
    }
    return 1;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void link_destroy(struct link *l) {
    outq_done(&l->out);
    outq_done(&l->ready);
    outq_done(&l->dropped);
    for (struct held *h = l->held_first, *next; h; h = next) {
        next = h->next;
        free(h);
    }
    free(l->rbuf);
    free(l);
}

static void link_down(struct link *l, const struct moyai_error *why) {
    if (l->down_told) return;
    l->down_told = true;
    l->write_dead = true;
    exec_timer_clear(l->x, &l->reset_timer);
    exec_timer_clear(l->x, &l->shape_timer);
    exec_timer_clear(l->x, &l->again_timer);
    if (l->efd) exec_fd_events(l->efd, 0);
    l->ops->down(l, why);
}

static void reset_due(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct link *l = (struct link *)((char *)t - offsetof(struct link, reset_timer));
    struct moyai_error why = l->why;
    l->in_callback = true;
    link_down(l, &why);
    l->in_callback = false;
    if (l->freed) link_destroy(l);
}

void link_reset(struct link *l, int code, const char *text) {
    if (l->down_told || l->reset_timer.index != SIZE_MAX) return;
    err_set(&l->why, code, "%s", text);
    l->write_dead = true;
    outq_clear(&l->out);
    outq_clear(&l->ready);
    (void)shutdown(l->fd, SHUT_RDWR); /* best effort: the timer ends it in any case */
    exec_fd_events(l->efd, 0);
    exec_timer_set(l->x, &l->reset_timer, 1);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void want_events(struct link *l, int events) {
    if (l->events == events || l->down_told) return;
    l->events = events;
    exec_fd_events(l->efd, events);
}

static void write_queue(struct link *l, struct outq *q, bool full) {
    if (l->write_dead) {
        outq_clear(q);
        return;
    }
    if (l->shaking) return;
    int rc = l->tls ? outq_write_tls(q, l->tls, full) : outq_write(q, l->fd);
    if (rc < 0) {
        l->write_dead = true;
        outq_clear(q);
    }
    want_events(l, rc == 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

/* Take what is gathered and hold it until the simulated line would have delivered it. */
static void hold(struct link *l) {
    size_t n = l->out.bytes;
    struct held *h = malloc(sizeof *h + n);
    if (!h) return; /* stays queued; the next flush tries again */
    uint8_t *p = h->data;
    for (size_t i = 0; i < l->out.n_segs; i++) {
        const struct seg *s = &l->out.segs[l->out.first + i];
        memcpy(p, s->p ? s->p : l->out.buf + s->at, s->n);
        p += s->n;
    }
    outq_clear(&l->out);
    moyai_ns now = moyai_now();
    if (l->line->free < now) l->line->free = now;
    if (l->rate) l->line->free += (moyai_ns)((double)n * 1e9 / (double)l->rate);
    h->due = l->line->free + (moyai_ns)l->delay;
    h->n = n;
    h->next = NULL;
    if (l->held_last)
        l->held_last->next = h;
    else
        l->held_first = h;
    l->held_last = h;
    l->held_bytes += n;
    if (l->held_first == h) exec_timer_set(l->x, &l->shape_timer, h->due);
}

static void shape_due(struct exec *x, struct exec_timer *t) {
    struct link *l = (struct link *)((char *)t - offsetof(struct link, shape_timer));
    moyai_ns now = moyai_now();
    while (l->held_first && l->held_first->due <= now) {
        struct held *h = l->held_first;
        uint8_t *p = outq_reserve(&l->ready, h->n);
        if (!p) break; /* out of memory: tried again below */
        memcpy(p, h->data, h->n);
        l->held_bytes -= h->n;
        l->held_first = h->next;
        if (!l->held_first) l->held_last = NULL;
        free(h);
    }
    if (l->held_first) exec_timer_set(x, t, l->held_first->due > now ? l->held_first->due : now + 1000000);
    write_queue(l, &l->ready, false);
    if (l->held_bytes + l->ready.bytes < OUT_MARK / 2 && !l->down_told) {
        l->in_callback = true;
        l->ops->room(l);
        l->in_callback = false;
        if (l->freed) link_destroy(l);
    }
}

static void flush(struct link *l, bool full) {
    if (l->out.bytes == 0) return;
    if (l->delay || l->rate) {
        hold(l);
        return;
    }
    if (l->events & UV_WRITABLE) return; /* the socket is full: its readiness writes */
    write_queue(l, &l->out, full);
}

void link_flush(struct link *l) {
    flush(l, false);
}

void link_flush_full(struct link *l) {
    flush(l, true);
}

size_t link_queued(const struct link *l) {
    return l->out.bytes + l->held_bytes + l->ready.bytes;
}

size_t link_room(const struct link *l) {
    size_t q = link_queued(l);
    return l->down_told || q >= OUT_MARK ? 0 : OUT_MARK - q;
}

void link_last(struct link *l) {
    l->last = true;
}

uint8_t *link_reserve(struct link *l, const struct frame_head *h) {
    if (l->last) outq_clear(&l->dropped);
    uint8_t *p = outq_reserve(l->last ? &l->dropped : &l->out, FRAME_HEAD + h->length);
    if (!p) return NULL;
    frame_put_head(p, h);
    return p + FRAME_HEAD;
}

int link_send(struct link *l, const struct frame_head *h, const struct link_piece *pieces, size_t n) {
    /* Segment space first, so that nothing is half queued when memory is out. */
    size_t small = FRAME_HEAD;
    if (l->last) return 0;
    for (size_t i = 0; i < n; i++)
        if (pieces[i].n < LINK_LARGE) small += pieces[i].n;
    if (outq_buf_room(&l->out, small) < 0) return MOYAI_ENOMEM;
    while (l->out.cap_segs < l->out.first + l->out.n_segs + 2 * n + 1) {
        size_t cap = l->out.cap_segs ? l->out.cap_segs * 2 : 16;
        struct seg *s = realloc(l->out.segs, cap * sizeof *s);
        if (!s) return MOYAI_ENOMEM;
        l->out.segs = s;
        l->out.cap_segs = cap;
    }
    frame_put_head(outq_reserve(&l->out, FRAME_HEAD), h);
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].n == 0) continue;
        if (pieces[i].n >= LINK_LARGE)
            (void)outq_borrow(&l->out, pieces[i].p, pieces[i].n); /* cannot fail: reserved above */
        else
            memcpy(outq_reserve(&l->out, pieces[i].n), pieces[i].p, pieces[i].n);
    }
    return 0;
}

int link_unborrow(struct link *l, const void *p, size_t n) {
    const uint8_t *lo = p, *hi = lo + n;
    for (size_t i = 0; i < l->out.n_segs; i++) {
        struct seg *s = &l->out.segs[l->out.first + i];
        if (!s->p || s->p + s->n <= lo || s->p >= hi) continue;
        /* The copy goes to the end of the buffer, out of line; the segment points there. */
        size_t len = s->n;
        const uint8_t *from = s->p;
        if (outq_buf_room(&l->out, len) < 0) {
            link_reset(l, MOYAI_ENOMEM, "out of memory for borrowed data");
            return MOYAI_ENOMEM;
        }
        s = &l->out.segs[l->out.first + i];
        memcpy(l->out.buf + l->out.n, from, len);
        *s = (struct seg){NULL, l->out.n, len};
        l->out.n += len;
    }
    return 0;
}

/* ---- input ----------------------------------------------------------------------------------- */

void link_unplace(struct link *l, const void *p, size_t n) {
    const uint8_t *lo = p;
    if (l->placing && l->place_start && l->place_start >= lo && l->place_start < lo + n) {
        l->dest = NULL;
        l->place_start = NULL;
    }
}

static void link_fail(struct link *l, int code, const char *text) {
    struct moyai_error why;
    err_set(&why, code, "%s", text);
    link_down(l, &why);
}

static bool placed_done(struct link *l) {
    struct moyai_error why = {0};
    l->placing = false;
    int rc = l->ops->placed(l, &l->place_head, l->prefix, l->place_start, &why);
    if (rc < 0) {
        if (!why.code) err_set(&why, rc, "%s", moyai_strerror(rc));
        link_down(l, &why);
        return false;
    }
    return !l->down_told && !l->freed;
}

/* Move buffered bytes of a placed payload to where they belong. */
static void place_take(struct link *l) {
    size_t k = l->rhave - l->roff;
    if (k > l->want) k = l->want;
    if (l->dest) {
        memcpy(l->dest, l->rbuf + l->roff, k);
        l->dest += k;
    }
    l->roff += k;
    l->want -= k;
}

/* Hand up what the buffer holds. false: the link is down. */
static bool parse(struct link *l) {
    for (;;) {
        if (l->placing) {
            place_take(l);
            if (l->want > 0) return true;
            if (!placed_done(l)) return false;
            continue;
        }
        size_t have = l->rhave - l->roff;
        if (have < FRAME_HEAD) return true;
        struct frame_head h;
        struct moyai_error why = {0};
        int rc = frame_get_head(l->rbuf + l->roff, &h, &why);
        if (rc < 0) {
            link_down(l, &why);
            return false;
        }
        uint8_t *payload = l->rbuf + l->roff + FRAME_HEAD;
        if (have >= FRAME_HEAD + (size_t)h.length) {
            l->roff += FRAME_HEAD + h.length;
            rc = l->ops->frame(l, &h, payload, &why);
            if (rc < 0) {
                if (!why.code) err_set(&why, rc, "%s", moyai_strerror(rc));
                link_down(l, &why);
                return false;
            }
            if (l->down_told || l->freed) return false;
            continue;
        }
        if (h.length >= LINK_LARGE && have >= FRAME_HEAD + LINK_PREFIX) {
            uint8_t *dest = NULL;
            size_t head = l->ops->place(l, &h, payload, &dest);
            if (head > 0) {
                memcpy(l->prefix, payload, LINK_PREFIX);
                l->place_head = h;
                l->placing = true;
                l->place_start = l->dest = dest;
                l->want = h.length - head;
                l->roff += FRAME_HEAD + head;
                continue;
            }
        }
        /* Incomplete: the whole frame must fit behind roff. */
        size_t need = FRAME_HEAD + (size_t)h.length;
        if (l->rcap - l->roff < need) {
            memmove(l->rbuf, l->rbuf + l->roff, have);
            l->roff = 0;
            l->rhave = have;
            if (l->rcap < need) {
                uint8_t *b = realloc(l->rbuf, need);
                if (!b) {
                    link_fail(l, MOYAI_ENOMEM, "out of memory for a frame");
                    return false;
                }
                l->rbuf = b;
                l->rcap = need;
            }
        }
        return true;
    }
}

/* The same over TLS, which gives at most a record at a time. */
static int read_tls(struct link *l) {
    bool direct = l->placing && l->dest;
    ssize_t r = tls_read(l->tls, direct ? l->dest : l->rbuf + l->rhave, direct ? l->want : l->rcap - l->rhave);
    if (r == -EAGAIN) return 0;
    if (r <= 0) {
        struct moyai_error why = {0};
        if (r < 0)
            err_sys(&why, (int)-r, "connection lost");
        else
            snprintf(why.text, sizeof why.text, "end of file");
        link_down(l, &why);
        return -1;
    }
    if (direct) {
        l->dest += r;
        l->want -= (size_t)r;
    } else {
        l->rhave += (size_t)r;
    }
    if (!parse(l)) return -1;
    return tls_emptied(l->tls) ? 2 : 1;
}

/* One read. 1: more may be there; 2: that was all; 0: nothing was there; -1: down. */
static int read_once(struct link *l) {
    if (l->roff == l->rhave) l->roff = l->rhave = 0;
    if (l->rcap - l->rhave < FRAME_HEAD + LINK_PREFIX) {
        memmove(l->rbuf, l->rbuf + l->roff, l->rhave - l->roff);
        l->rhave -= l->roff;
        l->roff = 0;
    }
    if (l->tls) return read_tls(l);
    struct iovec iov[2];
    int n_iov = 0;
    size_t asked = 0, direct = 0;
    size_t tail = l->rcap - l->rhave;
    if (l->placing && l->dest) {
        iov[n_iov++] = (struct iovec){l->dest, l->want};
        direct = l->want;
        asked += l->want;
        if (tail > READ_TAIL) tail = READ_TAIL;
    }
    iov[n_iov++] = (struct iovec){l->rbuf + l->rhave, tail};
    asked += tail;
    ssize_t r;
    do r = n_iov == 1 ? read(l->fd, iov[0].iov_base, iov[0].iov_len) : readv(l->fd, iov, n_iov);
    while (r < 0 && errno == EINTR);
    if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (r <= 0) {
        struct moyai_error why = {0};
        if (r < 0)
            err_sys(&why, errno, "connection lost");
        else
            snprintf(why.text, sizeof why.text, "end of file");
        link_down(l, &why);
        return -1;
    }
    size_t got = (size_t)r;
    if (direct) {
        size_t k = got < direct ? got : direct;
        l->dest += k;
        l->want -= k;
        l->rhave += got - k;
    } else {
        l->rhave += got;
    }
    if (!parse(l)) return -1;
    return got == asked || (direct && got >= direct) ? 1 : 2;
}

/* true: the handshake is done. */
static bool shake(struct link *l) {
    struct moyai_error why;
    int rc = tls_handshake(l->tls, &why);
    if (rc < 0) {
        link_down(l, &why);
    } else if (rc == TLS_READY) {
        l->shaking = false;
        want_events(l, UV_READABLE);
    } else {
        want_events(l, rc == TLS_WANT_WRITE ? UV_READABLE | UV_WRITABLE : UV_READABLE);
    }
    return rc == TLS_READY;
}

static void on_ready(struct exec_fd *f, int events, void *arg) {
    (void)f;
    struct link *l = arg;
    if (l->down_told || l->why.code) return; /* reset: the timer tells the end */
    l->in_callback = true;
    if (l->shaking && shake(l)) events |= UV_READABLE | UV_WRITABLE;
    if (!l->shaking && !l->down_told && (events & UV_WRITABLE)) {
        struct outq *q = l->delay || l->rate ? &l->ready : &l->out;
        write_queue(l, q, false);
        if (link_room(l) > 0) l->ops->room(l);
    }
    if (!l->shaking && !l->down_told && (events & (UV_READABLE | UV_DISCONNECT))) {
        int rc = 1;
        for (int i = 0; i < READS_A_TURN && rc == 1; i++) rc = read_once(l);
        if (rc == 1 && l->tls && tls_pending(l->tls)) exec_timer_set(l->x, &l->again_timer, 1);
    }
    l->in_callback = false;
    if (l->freed) link_destroy(l);
}

static void again_due(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct link *l = (struct link *)((char *)t - offsetof(struct link, again_timer));
    on_ready(l->efd, UV_READABLE, l);
}

bool link_look(struct link *l) {
    if (l->down_told || l->why.code || l->shaking) return false;
    l->in_callback = true;
    int rc = read_once(l);
    l->in_callback = false;
    if (l->freed) link_destroy(l);
    return rc != 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct link *link_new(struct exec *x, int fd, struct tls *tls, const struct link_ops *ops, void *owner) {
    struct link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->x = x;
    l->fd = fd;
    l->ops = ops;
    l->owner = owner;
    l->line = &l->own;
    l->rcap = READ_BUFFER + FRAME_HEAD;
    l->rbuf = malloc(l->rcap);
    exec_timer_init(&l->reset_timer, reset_due);
    exec_timer_init(&l->shape_timer, shape_due);
    exec_timer_init(&l->again_timer, again_due);
    int room = SEND_BUFFER;
    if (!tls) (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room); /* the system gives what it allows */
    l->shaking = tls != NULL;
    l->events = tls ? UV_READABLE | UV_WRITABLE : UV_READABLE;
    if (l->rbuf) l->efd = exec_fd_new(x, fd, l->events, on_ready, l);
    if (!l->efd) {
        free(l->rbuf);
        free(l);
        return NULL;
    }
    l->tls = tls;
    return l;
}

void link_free(struct link *l) {
    if (!l || l->freed) return;
    if (!l->down_told && !l->write_dead && !l->shaking) {
        for (struct held *h = l->held_first; h; h = h->next) {
            uint8_t *p = outq_reserve(&l->ready, h->n);
            if (p) memcpy(p, h->data, h->n);
        }
        write_queue(l, &l->ready, false);
        if (l->ready.bytes == 0) write_queue(l, &l->out, false);
    }
    tls_free(l->tls); /* says goodbye, while the socket is open */
    l->tls = NULL;
    l->down_told = true;
    exec_timer_clear(l->x, &l->reset_timer);
    exec_timer_clear(l->x, &l->shape_timer);
    exec_timer_clear(l->x, &l->again_timer);
    exec_fd_free(l->efd, true, NULL);
    l->efd = NULL;
    l->freed = true;
    if (!l->in_callback) link_destroy(l);
}

const struct tls *link_tls(const struct link *l) {
    return l->tls;
}

int link_fd(const struct link *l) {
    return l->fd;
}

void *link_owner(const struct link *l) {
    return l->owner;
}

void link_shape(struct link *l, moyai_dur delay, uint64_t rate) {
    l->delay = delay;
    l->rate = rate;
}

void link_share(struct link *l, struct link_line *line) {
    l->line = line;
}
