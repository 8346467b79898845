/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/met.h"

#include "base/dur.h"
#include "base/id.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t met_add(struct met *m, const char *place) {
    assert(m->n < sizeof m->of / sizeof m->of[0]);
    m->of[m->n].place = place;
    return m->n++;
}

bool met_tell(struct met *m, size_t place, int code, enum met_what what, const char *text) {
    struct met_place *p = &m->of[place];
    bool news = p->code != code;
    p->code = code;
    p->what = what;
    p->asked++;
    p->refused = code && (what == MET_REFUSED || what == MET_KEY_TOLD) ? p->refused + 1 : 0;
    if (code == 0) p->answered = true;
    snprintf(p->text, sizeof p->text, "%s", text);
    return news;
}

/* That there are some is news; that there are more of them is not. */
bool met_foreign(struct met *m, size_t place, size_t n) {
    struct met_place *p = &m->of[place];
    bool news = n > 0 && p->foreign == 0;
    p->foreign = n;
    return news;
}

void met_foreign_text(size_t n, char out[MET_TEXT]) {
    snprintf(out, MET_TEXT, "%zu entr%s there %s sealed with another key", n, n == 1 ? "y" : "ies",
             n == 1 ? "is" : "are");
}

bool met_ahead(struct met *m, int64_t seconds) {
    bool first = m->ahead == 0;
    m->ahead = seconds;
    m->is_ahead = true;
    return first;
}

/* The clocks have been set right, and who left that has left another. */
void met_looked(struct met *m) {
    if (!m->is_ahead) m->ahead = 0;
    m->is_ahead = false;
}

const char *met_ahead_text(const struct met *m, char out[MET_TEXT]) {
    snprintf(
        out, MET_TEXT,
        "an entry there seems to be made %lld s from now, and is not believed: this host's clock is behind, or the "
        "other's ahead",
        (long long)m->ahead);
    return out;
}

/* Where the grid is met entries are removed when their time is over: by another clock than this host's. */
void met_over(struct met *m, int64_t seconds) {
    if (m->over == 0 || seconds < m->over) m->over = seconds;
}

static const char ahead_text[] = "an entry there was over %s ago, and is not believed: this host's clock is ahead, or "
                                 "the other's behind, or its node has ended without a word";

enum met_what met_dial_what(const struct moyai_error *why) {
    if (!why) return MET_OTHER;
    if (why->sys == ECONNREFUSED) return MET_REFUSED;
    return why->code == MOYAI_EPERM ? MET_KEY_TOLD : why->code == MOYAI_ETIMEDOUT ? MET_SILENT : MET_OTHER;
}

static size_t find_failed(const struct met *m, const uint8_t id[16]) {
    size_t i = 0;
    const size_t n = m->n_failed < MET_FAILS ? m->n_failed : MET_FAILS;
    while (i < n && !id_equal(m->failed[i], id)) i++;
    return i < n ? i : MET_FAILS;
}

bool met_dial_has_failed(const struct met *m, const uint8_t id[16]) {
    return find_failed(m, id) < MET_FAILS;
}

static void note_failed(struct met *m, const uint8_t id[16], bool failed) {
    const size_t i = find_failed(m, id);
    if (failed && i == MET_FAILS) memcpy(m->failed[m->n_failed++ % MET_FAILS], id, 16);
    if (!failed && i < MET_FAILS) memset(m->failed[i], 0, 16);
}

void met_dial_failed(struct met *m, const uint8_t id[16], enum met_what what, const char *text) {
    char name[33];
    note_failed(m, id, what == MET_REFUSED || what == MET_SILENT || what == MET_OTHER);
    /* That another has no key that fits stays worth more, as long as it may be there. */
    if (m->dial[0] && m->dial_what == MET_KEY_TOLD && what != MET_KEY_TOLD && !id_equal(m->dial_id, id)) return;
    id_format(id, name);
    memcpy(m->dial_id, id, 16);
    m->dial_what = what;
    snprintf(m->dial, sizeof m->dial, "cannot connect to node %.8s: %s", name, text);
}

void met_dial_over(struct met *m, const uint8_t id[16]) {
    note_failed(m, id, false);
    if (id_equal(m->dial_id, id)) m->dial[0] = 0;
}

void met_full(struct met *m, const uint8_t id[16]) {
    if (!met_is_full(m, id)) memcpy(m->full[m->n_full++ % MET_FULLS], id, 16);
}

const char *met_full_text(bool observer) {
    return observer ? "it has no place for another observer now"
                    : "it has no place for a link more: let more nodes listen";
}

bool met_is_full(const struct met *m, const uint8_t id[16]) {
    for (size_t i = 0; i < m->n_full && i < MET_FULLS; i++)
        if (id_equal(m->full[i], id)) return true;
    return false;
}

bool met_nobody(const struct met *m, char *out, size_t n, unsigned *what) {
    size_t at = 0;
    bool well = m->others;
    out[0] = 0;
    *what = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct met_place *p = &m->of[i];
        char foreign[MET_TEXT];
        const char *text = p->code ? p->text : p->foreign ? foreign : NULL;
        met_foreign_text(p->foreign, foreign);
        if (p->own || (!text && p->answered)) well = true;
        if (p->own || !text || at >= n) continue;
        int k = snprintf(out + at, n - at, "%s%s%s%s", at ? "; " : "", m->n > 1 ? p->place : "", m->n > 1 ? ": " : "",
                         text);
        if (k > 0) at += (size_t)k;
        *what |= p->code ? p->what : MET_KEY;
    }
    bool places = at > 0;
    if (!places && m->dial[0]) {
        const int k = snprintf(out, n, "%s", m->dial);
        *what = m->dial_what;
        if (m->ahead && k > 0 && (size_t)k < n) {
            snprintf(out + k, n - (size_t)k,
                     "; an entry that seems to be made %lld s from now is not believed: clocks differ",
                     (long long)m->ahead);
            *what |= MET_CLOCK;
        }
    } else if (!places && m->ahead) {
        char text[MET_TEXT];
        snprintf(out, n, "%s", met_ahead_text(m, text));
        *what = MET_CLOCK;
    } else if (!places && m->over && !m->others) {
        snprintf(out, n, ahead_text, DUR((moyai_dur)m->over * MOYAI_SEC));
        *what = MET_CLOCK;
    }
    return places && !well;
}

bool met_settled(const struct met *m, bool new_too) {
    for (size_t i = 0; i < m->n; i++) {
        const struct met_place *p = &m->of[i];
        if (p->own) continue;
        if (p->asked < 2 || p->code) return false;
        if (!new_too && p->text[0] && p->foreign == 0) return false; /* who has another key was there in time */
    }
    return m->n > 0 && !m->others;
}

bool met_heard(const struct met *m) {
    for (size_t i = 0; i < m->n; i++)
        if (!m->of[i].own && (m->of[i].asked == 0 || m->of[i].code)) return false;
    return m->n > 0;
}

bool met_refused(const struct met *m) {
    bool some = false;
    for (size_t i = 0; i < m->n; i++) {
        if (m->of[i].own) continue;
        if (m->of[i].refused < MET_REFUSALS) return false;
        some = true;
    }
    return some && !m->others;
}

bool met_empty(const struct met *m) {
    for (size_t i = 0; i < m->n; i++) {
        const struct met_place *p = &m->of[i];
        if (!p->own && (p->asked < 2 || p->code || p->foreign)) return false;
    }
    return m->n > 0 && !m->ahead && !m->over;
}

static void add(char *out, size_t n, const char *fmt, ...) MOYAI_PRINTF(3, 4);
static void add(char *out, size_t n, const char *fmt, ...) {
    size_t at = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    if (at > 0 && at + 3 < n) at += (size_t)snprintf(out + at, n - at, "; ");
    (void)vsnprintf(out + at, n - at, fmt, ap);
    va_end(ap);
}

/* Of a place that is not this node's own, in words. */
static unsigned report(const struct met *m, const struct met_place *p, moyai_dur waited, char text[MET_TEXT]) {
    const bool http = strncmp(p->place, "http", 4) == 0;
    if (p->code) {
        snprintf(text, MET_TEXT, "%s", p->text);
        return p->what;
    }
    if (p->foreign) {
        met_foreign_text(p->foreign, text);
        return MET_KEY;
    }
    if (p->asked) {
        const bool file = strncmp(p->place, "file:", 5) == 0;
        snprintf(text, MET_TEXT, "it %s %s of this grid%s%.80s", file ? "can be read, and names" : "answers, and knows",
                 m->others ? "nodes" : "nobody", p->text[0] ? ": " : "", p->text);
        return MET_ANSWERS | (http && !m->others ? MET_EMPTY : http && p->text[0] ? MET_YOUNG : 0);
    }
    if (http && waited > MET_CONNECTED)
        snprintf(text, MET_TEXT, "it accepts the connection, and has not answered in full for %s", DUR(waited));
    else
        snprintf(text, MET_TEXT, "it has not answered");
    return p->answered ? MET_OTHER : MET_NOT_YET; /* descriptors never do */
}

unsigned met_report(const struct met *m, moyai_dur waited, char *out, size_t n) {
    unsigned what = m->others ? MET_ANSWERS : 0;
    out[0] = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct met_place *p = &m->of[i];
        char text[MET_TEXT] = "is this node's own address";
        if (!p->own) what |= report(m, p, waited, text);
        add(out, n, "%s: %s", p->place, text);
    }
    if (m->dial[0]) {
        add(out, n, "%s", m->dial);
        what |= m->dial_what;
    }
    /* Then others that an endpoint is still to hear of are not what is missing. */
    if (m->others && (!m->dial[0] || m->dial_what == MET_SILENT)) what = (what & ~(unsigned)MET_YOUNG) | MET_KNOWN;
    if (m->ahead) {
        char text[MET_TEXT];
        add(out, n, "%s", met_ahead_text(m, text));
        what |= MET_CLOCK;
    }
    if (m->over && !m->others) {
        add(out, n, ahead_text, DUR((moyai_dur)m->over * MOYAI_SEC));
        what = (what & ~(unsigned)MET_EMPTY) | MET_CLOCK;
    }
    return what;
}
