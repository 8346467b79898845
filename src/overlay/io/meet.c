/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/meet.h"

#include "base/err.h"
#include "base/id.h"
#include "link/seal.h"
#include "link/tcp.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_MOST (128u * (18u + 4096u))
#define CONNECT_MS  5000L
#define ANSWER_MS   15000L
#define GOODBYE_MS  1000L
#define URL_MOST    600u

/* ---- libcurl, when it is needed -------------------------------------------------------------- */

static struct curl {
    void *so;
    CURLcode (*global_init)(long);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_cleanup)(CURLM *);
    CURLMcode (*multi_add_handle)(CURLM *, CURL *);
    CURLMcode (*multi_remove_handle)(CURLM *, CURL *);
    CURLMcode (*multi_perform)(CURLM *, int *);
    CURLMcode (*multi_poll)(CURLM *, struct curl_waitfd *, unsigned, int, int *);
    CURLMcode (*multi_wakeup)(CURLM *);
    CURLMsg *(*multi_info_read)(CURLM *, int *);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *);
    CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
    CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
    const char *(*easy_strerror)(CURLcode);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free_all)(struct curl_slist *);
} curl;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
/* curl's headers check the types of options by macros that take the functions' own names. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

static int load(struct moyai_error *reterr) {
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
        {"curl_global_init", offsetof(struct curl, global_init)},
        {"curl_multi_init", offsetof(struct curl, multi_init)},
        {"curl_multi_cleanup", offsetof(struct curl, multi_cleanup)},
        {"curl_multi_add_handle", offsetof(struct curl, multi_add_handle)},
        {"curl_multi_remove_handle", offsetof(struct curl, multi_remove_handle)},
        {"curl_multi_perform", offsetof(struct curl, multi_perform)},
        {"curl_multi_poll", offsetof(struct curl, multi_poll)},
        {"curl_multi_wakeup", offsetof(struct curl, multi_wakeup)},
        {"curl_multi_info_read", offsetof(struct curl, multi_info_read)},
        {"curl_easy_init", offsetof(struct curl, easy_init)},
        {"curl_easy_cleanup", offsetof(struct curl, easy_cleanup)},
        {"curl_easy_setopt", offsetof(struct curl, easy_setopt)},
        {"curl_easy_getinfo", offsetof(struct curl, easy_getinfo)},
        {"curl_easy_strerror", offsetof(struct curl, easy_strerror)},
        {"curl_slist_append", offsetof(struct curl, slist_append)},
        {"curl_slist_free_all", offsetof(struct curl, slist_free_all)},
    };
    int rc = 0;
    pthread_mutex_lock(&loading);
    if (!curl.so) {
        struct curl c = {.so = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL)};
        for (size_t i = 0; c.so && i < sizeof functions / sizeof functions[0]; i++) {
            void *f = dlsym(c.so, functions[i].name);
            if (!f) {
                dlclose(c.so);
                c.so = NULL;
            } else {
                memcpy((char *)&c + functions[i].at, &f, sizeof f);
            }
        }
        if (!c.so || c.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
            rc = err_set(reterr, MOYAI_ESYS,
                         "an http:// rendezvous needs libcurl.so.4 of version 7.68 or later: install libcurl4");
        else
            curl = c; /* it stays for good */
    }
    pthread_mutex_unlock(&loading);
    return rc;
}

/* ---- state ----------------------------------------------------------------------------------- */

struct place {
    char *url; /* without a '/' at the end */
};

struct meet {
    struct exec *x;
    const struct keyfile *keys;
    const struct meet_ops *ops;
    void *ctx;
    size_t n;
    struct place place[MEET_PLACES];

    /* Between the node and the thread, under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool wanted, stop;
    CURLM *multi; /* made with the thread */
    pthread_t thread;
    bool started;

    /* Node lock. */
    uint8_t id[16];
    uint8_t *entry;
    size_t n_entry;
    moyai_dur lifetime;
    bool left; /* something of ours may be at the places */
};

/* ---- one request, on the thread -------------------------------------------------------------- */

struct transfer {
    uint8_t *p; /* the answer; or what is sent */
    size_t n, at, most;
};

static size_t on_answer(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    n *= size;
    if (n > t->most - t->n) return 0; /* too much: curl gives up */
    memcpy(t->p + t->n, p, n);
    t->n += n;
    return n;
}

static size_t on_upload(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    n *= size;
    if (n > t->n - t->at) n = t->n - t->at;
    memcpy(p, t->p + t->at, n);
    t->at += n;
    return n;
}

static bool stopping(struct meet *m) {
    pthread_mutex_lock(&m->mutex);
    bool stop = m->stop;
    pthread_mutex_unlock(&m->mutex);
    return stop;
}

/* method: NULL: GET. Returns 0 or a code with its text; to the end, or until the node ends (ECLOSED) unless goodbye. */
static int request(struct meet *m, const char *method, const char *url, struct transfer *up, struct transfer *down,
                   moyai_dur lifetime, bool goodbye, struct moyai_error *why) {
    CURL *c = curl.easy_init();
    struct curl_slist *heads = curl.slist_append(NULL, "Expect:"); /* no waiting for "100 Continue" */
    if (!c || !heads) {
        if (c) curl.easy_cleanup(c);
        curl.slist_free_all(heads);
        return err_set(why, MOYAI_ENOMEM, "out of memory");
    }
    if (up) {
        char head[64];
        int64_t seconds = lifetime / MOYAI_SEC;
        snprintf(head, sizeof head, "Moyai-Lifetime: %lld",
                 (long long)(seconds < 1      ? 1
                             : seconds > 3600 ? 3600
                                              : seconds));
        struct curl_slist *more = curl.slist_append(heads, head);
        if (more) heads = more;
        curl.easy_setopt(c, CURLOPT_UPLOAD, 1L);
        curl.easy_setopt(c, CURLOPT_READFUNCTION, on_upload);
        curl.easy_setopt(c, CURLOPT_READDATA, up);
        curl.easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)up->n);
    } else if (method) {
        curl.easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    }
    curl.easy_setopt(c, CURLOPT_URL, url);
    curl.easy_setopt(c, CURLOPT_HTTPHEADER, heads);
    curl.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
    curl.easy_setopt(c, CURLOPT_WRITEDATA, down);
    curl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.easy_setopt(c, CURLOPT_USERAGENT, "moyai");
    curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, goodbye ? GOODBYE_MS : CONNECT_MS);
    curl.easy_setopt(c, CURLOPT_TIMEOUT_MS, goodbye ? GOODBYE_MS : ANSWER_MS);
    int running = 1, rc = 0;
    CURLcode result = CURLE_FAILED_INIT;
    if (curl.multi_add_handle(m->multi, c) == CURLM_OK) {
        while (running && (goodbye || !stopping(m))) {
            if (curl.multi_perform(m->multi, &running) != CURLM_OK) break;
            if (running && curl.multi_poll(m->multi, NULL, 0, 1000, NULL) != CURLM_OK) break;
        }
        int left;
        for (CURLMsg *msg; (msg = curl.multi_info_read(m->multi, &left));)
            if (msg->msg == CURLMSG_DONE) result = msg->data.result;
        curl.multi_remove_handle(m->multi, c);
    }
    long status = 0;
    curl.easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (running)
        rc = err_set(why, MOYAI_ECLOSED, "the node ends");
    else if (result != CURLE_OK)
        rc = err_set(why, MOYAI_EUNREACHABLE, "%s", curl.easy_strerror(result));
    else if (status == 403)
        rc = err_set(why, MOYAI_EPERM, "it does not take entries sealed with our key");
    else if (status < 200 || status > 299)
        rc = err_set(why, MOYAI_EPROTO, "it answers with status %ld%s", status,
                     status == 404 ? ": not a moyai endpoint, or not the name of a grid" : "");
    curl.easy_cleanup(c);
    curl.slist_free_all(heads);
    return rc;
}

/* ---- looking, on the thread ------------------------------------------------------------------ */

/* The entry, sealed with the first key, as of now. Node lock held. 0: none. */
static size_t sealed_entry(struct meet *m, uint8_t *out) {
    const struct key *k = keyring_usable(keyfile_keys(m->keys), 0, (int64_t)time(NULL));
    if (!k || m->n_entry == 0) return 0;
    return seal(k, SEAL_RENDEZVOUS, m->entry, m->n_entry, out) == 0 ? m->n_entry + SEAL_MORE : 0;
}

/* The entries of an answer. Node lock held. -1: not of that form. */
static int take(struct meet *m, const uint8_t *p, size_t n) {
    uint8_t plain[4096];
    while (n > 0) {
        size_t len = n < 18 ? 0 : p[16] | (size_t)p[17] << 8, got;
        if (len == 0 || len > 4096 || len > n - 18) return -1;
        if (unseal(keyfile_keys(m->keys), (int64_t)time(NULL), SEAL_RENDEZVOUS, p + 18, len, plain, &got) == 0 &&
            !stopping(m))
            m->ops->entry(m->ctx, plain, got);
        p += 18 + len;
        n -= 18 + len;
    }
    return 0;
}

static void ask(struct meet *m, const struct place *place, uint8_t *answer) {
    char url[URL_MOST + 40], id[33];
    uint8_t sealed[MEET_ENTRY_MAX + SEAL_MORE];
    struct moyai_error why = {0};
    struct transfer none = {.p = answer, .most = ANSWER_MOST};
    exec_lock(m->x);
    size_t n = sealed_entry(m, sealed);
    id_format(m->id, id);
    moyai_dur lifetime = m->lifetime;
    if (n) m->left = true;
    exec_unlock(m->x);
    int rc = 0;
    if (n) {
        snprintf(url, sizeof url, "%s/%s", place->url, id);
        struct transfer up = {.p = sealed, .n = n};
        rc = request(m, "PUT", url, &up, &none, lifetime, false, &why);
    }
    /* Others' entries serve also if ours was refused. */
    struct transfer down = {.p = answer, .most = ANSWER_MOST};
    struct moyai_error why_get = {0};
    int rc_get = rc == MOYAI_EUNREACHABLE || rc == MOYAI_ECLOSED
                     ? rc
                     : request(m, NULL, place->url, NULL, &down, 0, false, &why_get);
    exec_lock(m->x);
    if (rc_get == 0 && take(m, answer, down.n) < 0)
        rc_get = err_set(&why_get, MOYAI_EPROTO, "its answer is not a row of entries: not a moyai endpoint");
    if (rc == 0) why = why_get;
    if (rc == 0) rc = rc_get;
    if (!stopping(m)) m->ops->asked(m->ctx, place->url, rc, why.text);
    exec_unlock(m->x);
}

static void say_goodbye(struct meet *m, uint8_t *answer) {
    char url[URL_MOST + 40], id[33];
    id_format(m->id, id); /* nobody changes it any more */
    for (size_t i = 0; i < m->n; i++) {
        struct transfer down = {.p = answer, .most = ANSWER_MOST};
        snprintf(url, sizeof url, "%s/%s", m->place[i].url, id);
        (void)request(m, "DELETE", url, NULL, &down, 0, true, NULL); /* it ends by itself, too */
    }
}

static void *run(void *arg) {
    struct meet *m = arg;
    uint8_t *answer = malloc(ANSWER_MOST);
    pthread_mutex_lock(&m->mutex);
    while (!m->stop) {
        if (!m->wanted) {
            pthread_cond_wait(&m->cond, &m->mutex);
            continue;
        }
        m->wanted = false;
        pthread_mutex_unlock(&m->mutex);
        for (size_t i = 0; answer && i < m->n && !stopping(m); i++) ask(m, &m->place[i], answer);
        exec_lock(m->x);
        if (!stopping(m)) m->ops->done(m->ctx);
        exec_attention(m->x);
        exec_unlock(m->x);
        pthread_mutex_lock(&m->mutex);
    }
    pthread_mutex_unlock(&m->mutex);
    if (answer && m->left) say_goodbye(m, answer);
    free(answer);
    return NULL;
}

/* ---- the node's side ------------------------------------------------------------------------- */

static int check_url(const char *url, struct moyai_error *reterr) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (strncmp(url, schemes[i], n) != 0) continue;
        const char *host = url + n, *slash = strchr(host, '/');
        size_t len = strlen(url), name = slash ? strcspn(slash + 1, "?#") : 0;
        if (!slash || slash == host || name == 0 || slash[1 + name] != 0)
            return err_set(reterr, MOYAI_EINVAL, "\"%.100s\": not of the form http://HOST:PORT/GRID", url);
        if (len >= URL_MOST) return err_set(reterr, MOYAI_EINVAL, "\"%.100s...\": too long", url);
        return 0;
    }
    return err_set(reterr, MOYAI_EINVAL, "\"%.100s\": not an http:// address", url);
}

int meet_new(struct meet **ret, struct exec *x, const struct keyfile *keys, const char *const *urls, size_t n,
             const struct meet_ops *ops, void *ctx, struct moyai_error *reterr) {
    if (n > MEET_PLACES) return err_set(reterr, MOYAI_EINVAL, "more than %u rendezvous servers", MEET_PLACES);
    for (size_t i = 0; i < n; i++) {
        int rc = check_url(urls[i], reterr);
        if (rc < 0) return rc;
    }
    struct meet *m = calloc(1, sizeof *m);
    if (!m) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->cond, NULL);
    m->x = x;
    m->keys = keys;
    m->ops = ops;
    m->ctx = ctx;
    for (; m->n < n; m->n++) {
        char *url = m->place[m->n].url = strdup(urls[m->n]);
        if (!url) {
            meet_free(m);
            return err_set(reterr, MOYAI_ENOMEM, "out of memory");
        }
        size_t len = strlen(url);
        if (url[len - 1] == '/') url[len - 1] = 0;
    }
    *ret = m;
    return 0;
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

static int start(struct meet *m, struct moyai_error *reterr) {
    int rc = load(reterr);
    if (rc < 0) return rc;
    if (!m->multi && !(m->multi = curl.multi_init())) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the user's threads */
    rc = pthread_create(&m->thread, NULL, run, m);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) return err_set(reterr, MOYAI_ELIMIT, "cannot start a thread: %s", strerror(rc));
    m->started = true;
    return 0;
}

int meet_look(struct meet *m, struct moyai_error *reterr) {
    if (!m->started) {
        int rc = start(m, reterr);
        if (rc < 0) return rc;
    }
    pthread_mutex_lock(&m->mutex);
    m->wanted = true;
    pthread_cond_signal(&m->cond);
    pthread_mutex_unlock(&m->mutex);
    return 0;
}

void meet_free(struct meet *m) {
    if (!m) return;
    if (m->started) {
        pthread_mutex_lock(&m->mutex);
        m->stop = true;
        pthread_cond_signal(&m->cond);
        pthread_mutex_unlock(&m->mutex);
        curl.multi_wakeup(m->multi);
        exec_unlock(m->x);
        pthread_join(m->thread, NULL);
        exec_lock(m->x);
    }
    if (m->multi) curl.multi_cleanup(m->multi);
    for (size_t i = 0; i < m->n; i++) free(m->place[i].url);
    pthread_mutex_destroy(&m->mutex);
    pthread_cond_destroy(&m->cond);
    free(m->entry);
    free(m);
}
