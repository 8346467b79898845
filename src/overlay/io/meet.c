/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/meet_internal.h"

#include "base/err.h"
#include "base/id.h"
#include "overlay/io/places.h"
#include "overlay/peers_entry.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct place_kind http = {meet_http_ask, meet_http_goodbye, meet_http_wake, meet_http_done};
static const struct place_kind directory = {.ask = meet_dir_ask, .goodbye = meet_dir_goodbye};

/* ---- what the kinds have of it --------------------------------------------------------------- */

bool place_stopping(struct place *p) {
    pthread_mutex_lock(&p->m->mutex);
    bool stop = p->m->stop;
    pthread_mutex_unlock(&p->m->mutex);
    return stop;
}

void place_multi(struct place *p, void *multi) {
    pthread_mutex_lock(&p->m->mutex);
    p->multi = multi;
    pthread_mutex_unlock(&p->m->mutex);
}

/* Node lock held. */
static void seal_up(struct place *p, const char *purpose, const uint8_t *what, size_t n, struct place_entry *e) {
    struct meet *m = p->m;
    const struct key *k = keyring_usable(keyfile_keys(m->keys), 0, (int64_t)time(NULL));
    e->n = k && n > 0 && seal(k, purpose, what, n, e->sealed) == 0 ? n + SEAL_MORE : 0;
    id_format(m->id, e->id);
    e->lifetime = m->lifetime;
}

void place_entry(struct place *p, struct place_entry *e) {
    struct meet *m = p->m;
    exec_lock(m->x);
    seal_up(p, p->purpose, m->entry, m->n_entry, e);
    exec_unlock(m->x);
    if (e->n) p->left = true;
}

/* An entry without addresses: what was made up to now is over. It carries the lifetime of those entries, as long as
 * which it must be remembered, and is not made before the last of them, also if the clock was set back a little. */
void place_withdrawal(struct place *p, struct place_entry *e) {
    struct meet *m = p->m;
    uint8_t plain[PEERS_ENTRY_MAX];
    char purpose[SEAL_PURPOSE + 1];
    struct peers_entry last, w = {.made = (int64_t)time(NULL)};
    exec_lock(m->x);
    if (peers_entry_get(m->entry, m->n_entry, &last) == 0 && last.made > w.made &&
        last.made - w.made <= PEERS_ENTRY_SKEW)
        w.made = last.made;
    memcpy(w.e.id.b, m->id, 16);
    w.e.lifetime = (uint32_t)(m->lifetime / MOYAI_SEC);
    seal_for_grid(purpose, SEAL_WITHDRAWAL, meet_http_grid(p->url));
    seal_up(p, purpose, plain, peers_entry_put(plain, &w), e);
    exec_unlock(m->x);
}

/* The node lock is held. */
static int open_entry(const struct place *p, const uint8_t *sealed, size_t n, uint8_t *plain, size_t *got) {
    if (n > MEET_SEALED_MAX) return MOYAI_ETOOBIG;
    return unseal(keyfile_keys(p->m->keys), (int64_t)time(NULL), p->purpose, sealed, n, plain, got);
}

void place_count(struct place *p, const uint8_t *sealed, size_t n) {
    uint8_t plain[MEET_SEALED_MAX];
    size_t got;
    exec_lock(p->m->x);
    /* Without a key of our own none is another. */
    p->foreign += open_entry(p, sealed, n, plain, &got) == MOYAI_EPERM && keyfile_usable(p->m->keys, NULL) == 0;
    exec_unlock(p->m->x);
}

void place_counted(struct place *p) {
    struct meet *m = p->m;
    exec_lock(m->x);
    if (m->ops->foreign && !place_stopping(p)) m->ops->foreign(m->ctx, (size_t)(p - m->place), p->url, p->foreign);
    exec_unlock(m->x);
}

void place_take(struct place *p, const uint8_t *sealed, size_t n) {
    struct meet *m = p->m;
    uint8_t plain[MEET_SEALED_MAX];
    size_t got;
    exec_lock(m->x);
    if (open_entry(p, sealed, n, plain, &got) == 0 && !place_stopping(p)) m->ops->entry(m->ctx, plain, got);
    exec_unlock(m->x);
}

/* ---- the threads ----------------------------------------------------------------------------- */

/* The mutex is held. */
static void want_all(struct meet *m) {
    m->asking = 0;
    for (size_t i = 0; i < m->n; i++) {
        m->place[i].wanted = m->place[i].started;
        m->asking += m->place[i].started;
    }
    pthread_cond_broadcast(&m->cond);
}

static void tell(struct place *p, int code, const char *text) {
    struct meet *m = p->m;
    struct moyai_error why;
    exec_lock(m->x);
    if (code == 0 && (code = keyfile_usable(m->keys, &why)) < 0) { /* what it said could not be read */
        text = why.text;
        p->what = MET_KEY_TOLD;
    }
    if (!place_stopping(p)) m->ops->asked(m->ctx, (size_t)(p - m->place), p->url, code, p->what, text);
    exec_unlock(m->x);
    pthread_mutex_lock(&m->mutex);
    bool last = --m->asking == 0;
    pthread_mutex_unlock(&m->mutex);
    if (!last) return;
    exec_lock(m->x);
    if (!place_stopping(p)) m->ops->done(m->ctx);
    exec_attention(m->x);
    exec_unlock(m->x);
    pthread_mutex_lock(&m->mutex);
    if (m->again) want_all(m);
    m->busy = m->again;
    m->again = false;
    pthread_mutex_unlock(&m->mutex);
}

static void *run(void *arg) {
    struct place *p = arg;
    struct meet *m = p->m;
    pthread_mutex_lock(&m->mutex);
    while (!m->stop) {
        if (!p->wanted) {
            pthread_cond_wait(&m->cond, &m->mutex);
            continue;
        }
        p->wanted = false;
        pthread_mutex_unlock(&m->mutex);
        struct moyai_error why = {0};
        p->foreign = 0;
        p->what = MET_OTHER;
        int rc = p->kind->ask(p, &why);
        tell(p, rc, why.text);
        pthread_mutex_lock(&m->mutex);
    }
    pthread_mutex_unlock(&m->mutex);
    if (p->left) p->kind->goodbye(p);
    return NULL;
}

/* ---- the node's side ------------------------------------------------------------------------- */

static int add(struct meet *m, const char *url, struct moyai_error *reterr) {
    struct place *p = &m->place[m->n];
    bool dir = places_path(url) != NULL;
    int rc = dir ? 0 : meet_http_check(url, reterr);
    if (rc < 0) return rc;
    p->url = strdup(url);
    if (!p->url) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    p->m = m;
    p->kind = dir ? &directory : &http;
    size_t len = strlen(p->url);
    if (p->url[len - 1] == '/') p->url[len - 1] = 0;
    if (dir)
        strcpy(p->purpose, SEAL_RENDEZVOUS);
    else
        seal_for_grid(p->purpose, SEAL_RENDEZVOUS, meet_http_grid(p->url));
    m->n++;
    return 0;
}

int meet_new(struct meet **ret, struct exec *x, const struct keyfile *keys, const char *const *urls, size_t n,
             bool looks, const struct meet_ops *ops, void *ctx, struct moyai_error *reterr) {
    if (n > MEET_PLACES) return err_set(reterr, MOYAI_EINVAL, "more than %u rendezvous", MEET_PLACES);
    struct meet *m = calloc(1, sizeof *m);
    if (!m) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->cond, NULL);
    m->x = x;
    m->keys = keys;
    m->looks = looks;
    m->ops = ops;
    m->ctx = ctx;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) rc = add(m, urls[i], reterr);
    if (rc < 0)
        meet_free(m);
    else
        *ret = m;
    return rc;
}

int meet_entry(struct meet *m, const uint8_t id[16], const uint8_t *p, size_t n, moyai_dur lifetime) {
    if (n > MEET_ENTRY_MAX) return MOYAI_ETOOBIG;
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) return MOYAI_ENOMEM;
    memcpy(copy, p, n);
    free(m->entry);
    m->entry = copy;
    m->n_entry = n;
    m->lifetime = lifetime;
    memcpy(m->id, id, 16);
    return 0;
}

/* Those that have none yet; the mutex is held. Where there is no thread for a place it is left out, and tried again at
 * the next look. */
static int start_threads(struct meet *m) {
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the user's threads */
    for (size_t i = 0; i < m->n; i++) {
        struct place *p = &m->place[i];
        if (p->started) continue;
        int e = pthread_create(&p->thread, NULL, run, p);
        p->started = e == 0;
        if (e) rc = e;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int meet_look(struct meet *m, struct moyai_error *reterr) {
    int rc = 0;
    pthread_mutex_lock(&m->mutex);
    if (m->busy) {
        m->again = true;
    } else {
        int e = start_threads(m);
        want_all(m);
        m->busy = m->asking > 0;
        if (!m->busy) rc = err_set(reterr, MOYAI_ELIMIT, "cannot start a thread: %s", strerror(e));
    }
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

void meet_free(struct meet *m) {
    if (!m) return;
    pthread_mutex_lock(&m->mutex);
    m->stop = true;
    pthread_cond_broadcast(&m->cond);
    for (size_t i = 0; i < m->n; i++)
        if (m->place[i].multi) m->place[i].kind->wake(&m->place[i]);
    pthread_mutex_unlock(&m->mutex);
    for (size_t i = 0; i < m->n; i++) {
        if (!m->place[i].started) continue;
        exec_unlock(m->x);
        pthread_join(m->place[i].thread, NULL);
        exec_lock(m->x);
    }
    for (size_t i = 0; i < m->n; i++) {
        if (m->place[i].kind->done) m->place[i].kind->done(&m->place[i]);
        free(m->place[i].url);
    }
    pthread_mutex_destroy(&m->mutex);
    pthread_cond_destroy(&m->cond);
    free(m->entry);
    free(m);
}
