/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check.h"

#include "overlay/session_internal.h"

#include <string.h>

size_t check_flow_size(uint32_t messages) {
    return sizeof(struct check_flow) + messages * sizeof(struct check_message);
}

void check_flow_init(struct check_flow *f, uint32_t messages) {
    memset(f, 0, check_flow_size(messages));
    f->room = messages;
}

static struct check_message *message(struct check_flow *f, uint64_t token) {
    return token >= 1 && token <= f->given ? &f->m[token - 1] : NULL;
}

const char *check_given(struct check_flow *f, uint64_t token, uint64_t length) {
    if (f->given == f->room || token != f->given + 1) return "test: messages are not numbered in order";
    f->m[f->given++].length = length;
    return NULL;
}

uint64_t check_bytes(const struct session_chunk *c) {
    return c->len + ((c->flags & (SESSION_BEGIN | SESSION_END)) == SESSION_BEGIN ? 16u : 8u);
}

const char *check_pulled(struct check_flow *f, const struct session_frame *frame, uint64_t payload) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < frame->n_chunks; i++) {
        const struct session_chunk *c = &frame->chunks[i];
        struct check_message *m = message(f, c->token);
        sum += check_bytes(c);
        if (!m || c->len == 0) return "a chunk of no message, or of no bytes";
        if (c->flags & SESSION_ABORT) continue;
        if (m->fate != CHECK_UNTOLD) return "bytes are asked for of a message whose fate was reported";
        if (c->offset + c->len > m->length) return "a chunk beyond the end of its message";
        if (!!(c->flags & SESSION_END) != (c->offset + c->len == m->length))
            return "END not at the end, or an end without";
        if (!!(c->flags & SESSION_BEGIN) != (c->offset == 0))
            return "BEGIN not at the beginning, or a beginning without";
        if (c->flags & SESSION_END) m->flying = 1;
    }
    return sum > payload ? "a frame exceeds its room or the path's credit" : NULL;
}

bool check_counts(const struct session *s, const struct session_frame *f) {
    if (f->id != s->id || s->state >= SESSION_ENDED) return false;
    switch (f->kind) {
    case SESSION_OPEN:
    case SESSION_RESUME:
        return f->path > s->path;
    case SESSION_RESUMED:
    case SESSION_CLOSE:
    case SESSION_CLOSED:
        return f->path > s->path || (f->path == s->path && s->path_up);
    case SESSION_ACCEPT:
    case SESSION_REFUSE:
    case SESSION_DATA:
    case SESSION_ACK:
    case SESSION_GRANT:
        break;
    }
    return false;
}

void check_counted(struct check_flow *f) {
    for (uint32_t i = 0; i < f->given; i++) f->m[i].flying = 0;
}

static const char *begins(struct check_flow *f, uint32_t number, struct check_message *m,
                          const struct session_effect *fx) {
    if (m->begun) return "a message began twice";
    if (number <= f->last_begun) return "messages did not begin in the order in which they were given";
    f->last_begun = number;
    m->begun = 1;
    if (fx->stream && f->arriving[fx->stream]) return "a message began on a stream that is in use";
    m->stream = fx->stream;
    f->arriving[fx->stream] = fx->stream ? number : 0;
    return NULL;
}

const char *check_delivered(struct check_flow *f, const struct session_frame *frame, const struct session_effect *fx) {
    if (fx->stream > CHECK_STREAMS) return "test: too many streams";
    if (fx->kind == SESSION_FX_ABORTED) {
        struct check_message *m = message(f, f->arriving[fx->stream]);
        f->arriving[fx->stream] = 0;
        if (!m) return "an abort of no message";
        m->aborted = 1;
        m->stream = 0;
        return NULL;
    }
    if (fx->index >= frame->n_chunks) return "a delivery of no chunk";
    const struct session_chunk *c = &frame->chunks[fx->index];
    struct check_message *m = message(f, c->token);
    if (!m) return "a delivery of no message";
    if (m->whole || m->aborted) return "a delivery of a message that has ended";
    if (fx->stream != c->stream || fx->skip + fx->len != c->len || fx->len == 0)
        return "a delivery that is not the chunk";
    if (fx->offset != c->offset + fx->skip || fx->offset != m->got)
        return "bytes at the wrong place, twice, or missing";
    if (fx->total != m->length) return "a wrong total";
    if (!!(fx->flags & SESSION_BEGIN) != (m->got == 0)) return "a wrong BEGIN";
    if (fx->flags & SESSION_BEGIN) {
        const char *broken = begins(f, (uint32_t)c->token, m, fx);
        if (broken) return broken;
    }
    if (m->stream != fx->stream) return "a message changed its stream";
    m->got += fx->len;
    m->whole = m->got == m->length;
    if (m->whole != !!(fx->flags & SESSION_END)) return "a wrong END";
    if (!m->whole) return NULL;
    f->arriving[fx->stream] = 0;
    m->stream = 0;
    if (m->fate == CHECK_NEVER) return "a message reported as never executed arrived";
    return NULL;
}

const char *check_reported(struct check_flow *f, const struct session_effect *fx) {
    struct check_message *m = message(f, fx->token);
    if (!m) return "a report of no message";
    if (m->fate != CHECK_UNTOLD) return "a message was reported twice";
    f->told++;
    if (fx->kind == SESSION_FX_ACKED) {
        m->fate = CHECK_ACKED;
        return m->whole ? NULL : "a message was acknowledged that did not arrive";
    }
    if (fx->executed == MOYAI_NEVER_EXECUTED) {
        m->fate = CHECK_NEVER;
        if (m->whole) return "a message that arrived was reported as never executed";
        return m->flying ? "never executed, said of what may have arrived" : NULL;
    }
    m->fate = CHECK_MAYBE;
    return m->flying ? NULL : "may have executed, said of what cannot have arrived";
}

const char *check_ended(const struct check_flow *f) {
    return f->told == f->given ? NULL : "an end with messages that were not reported";
}
