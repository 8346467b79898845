/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous servers, asked by HTTP (doc/spec/07-rendezvous.md, 3). */
#include "overlay/io/meet_internal.h"

#include "base/dur.h"
#include "base/err.h"
#include "base/id.h"
#include "exec/process.h"
#include "link/hello.h"
#include "link/tcp.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MOST (128u * (18u + 4096u))
#define HEAD_MOST   (64u << 10)
#define CONNECT_MS  5000L
#define ANSWER_MS   15000L
#define GOODBYE_MS  1000L
#define URL_MOST    600u
#define YOUNG       45 /* seconds: after so long all nodes have looked at a server again */
#define SAID        140u

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
    process_take(PROCESS_LIBRARIES);
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
    process_release(PROCESS_LIBRARIES);
    return rc;
}

/* ---- one request, on the thread -------------------------------------------------------------- */

struct transfer {
    uint8_t *p; /* the answer; or what is sent */
    size_t n, at, most;
    size_t head; /* bytes of the answer's head */
    size_t over; /* it was longer than that, and curl was told to give up */
    bool young;  /* the server has begun just now, it says, so long ago: */
    moyai_dur age;
    char by[40], proxy[TCP_HOST]; /* the variable of the environment that has it asked through a proxy, and that */
};

static size_t on_answer(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    n *= size;
    if (n > t->most - t->n) {
        t->over = t->most;
        return 0;
    }
    memcpy(t->p + t->n, p, n);
    t->n += n;
    return n;
}

/* A line of the answer's head, with its end. */
static void head_line(struct transfer *t, const char *p, size_t n) {
    static const char name[] = "Moyai-Age:";
    const char *end = p + n;
    int64_t age = 0;
    if (n < sizeof name || strncasecmp(p, name, sizeof name - 1) != 0) return;
    for (p += sizeof name - 1; p < end && *p == ' ';) p++;
    if (p == end || *p < '0' || *p > '9') return;
    for (; p < end && *p >= '0' && *p <= '9' && age < YOUNG; p++) age = age * 10 + (*p - '0');
    t->young = age < YOUNG;
    t->age = age * MOYAI_SEC;
}

/* Also of answers that say only that another follows: there may be no end of them. */
static size_t on_head(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    t->head += n * size;
    head_line(t, p, n * size);
    if (t->head <= HEAD_MOST) return n * size;
    t->over = HEAD_MOST;
    return 0;
}

static size_t on_upload(char *p, size_t size, size_t n, void *arg) {
    struct transfer *t = arg;
    n *= size;
    if (n > t->n - t->at) n = t->n - t->at;
    memcpy(p, t->p + t->at, n);
    t->at += n;
    return n;
}

/*
 * Whether a proxy is asked is for curl to decide, by several variables; which one it was it tells in what it says of
 * its work only. Nothing secret is kept: a proxy's address may have a password.
 */
static int on_word(CURL *c, curl_infotype kind, char *p, size_t n, void *arg) {
    struct transfer *t = arg;
    char text[600], by[sizeof t->by], url[500];
    (void)c;
    if (kind != CURLINFO_TEXT || n == 0 || n >= sizeof text) return 0;
    memcpy(text, p, n);
    text[n] = 0;
    if (sscanf(text, "Uses proxy env variable %39[A-Za-z_] == '%499[^']'", by, url) != 2) return 0;
    if (strcasecmp(by, "no_proxy") == 0) return 0;
    const char *from = strstr(url, "://");
    from = from ? from + 3 : url;
    size_t len = strcspn(from, "/");
    const char *user = memrchr(from, '@', len);
    if (user) {
        len -= (size_t)(user + 1 - from);
        from = user + 1;
    }
    char at[sizeof t->proxy];
    snprintf(at, sizeof at, "%.*s", (int)len, from);
    hello_text(t->proxy, sizeof t->proxy, at);
    snprintf(t->by, sizeof t->by, "%s", by);
    return 0;
}

/* What was reached, or not, is the proxy: the address that its user has given is not to blame. */
static void blame_proxy(const struct transfer *down, struct moyai_error *why) {
    if (!why || !down->proxy[0]) return;
    const size_t n = strlen(why->text);
    snprintf(why->text + n, sizeof why->text - n, " (asked through the proxy %s, by $%s)", down->proxy, down->by);
}

/*
 * curl's connections stay open between requests. Programs that are started do not get them, and a child that is forked
 * closes them: else the server would see a connection of a node that has ended.
 */
struct http_socket {
    struct exec_kept kept;
    struct http_socket *next;
};

static void lock_node(const struct place *p) {
    if (!p->node_locked) exec_lock(p->m->x);
}

static void unlock_node(const struct place *p) {
    if (!p->node_locked) exec_unlock(p->m->x);
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *a) {
    (void)purpose;
    struct place *p = arg;
    lock_node(p); /* nobody forks before it is known: the child would have lost it */
    struct http_socket *s = malloc(sizeof *s);
    int fd = s ? socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol) : -1;
    if (fd >= 0) {
        exec_keep(p->m->x, &s->kept, fd);
        s->next = p->sockets;
        p->sockets = s;
    } else {
        free(s);
    }
    unlock_node(p);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_close(void *arg, curl_socket_t fd) {
    struct place *p = arg;
    lock_node(p);
    for (struct http_socket **at = &p->sockets, *s; (s = *at); at = &s->next) {
        if (s->kept.fd != fd) continue;
        *at = s->next;
        exec_keep_close(&s->kept);
        free(s);
        break;
    }
    unlock_node(p);
    return 0;
}

/* The host of a url that was checked, for people. */
static void host_of(const char *url, char out[TCP_HOST]) {
    const char *from = strstr(url, "://") + 3;
    size_t n = strcspn(from, "/");
    const char *user = memrchr(from, '@', n);
    if (user) {
        n -= (size_t)(user + 1 - from);
        from = user + 1;
    }
    const char *port = memrchr(from, ':', n);
    bool named = port && port > from && port[strspn(port + 1, "0123456789") + 1] == '/';
    snprintf(out, TCP_HOST, "%.*s", (int)(named ? port - from : (ptrdiff_t)n), from);
}

/* The resolver's reason, which curl does not pass on: it is asked again, as what failed for curl fails at once. */
static int no_address(const char *host, struct moyai_error *why) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *list = NULL;
    const int rc = getaddrinfo(host, NULL, &hints, &list);
    if (rc == 0) freeaddrinfo(list); /* meanwhile it has one */
    return err_set(why, MOYAI_EUNREACHABLE, "cannot find the address of %.100s%s%s", host, rc ? ": " : "",
                   rc ? gai_strerror(rc) : "");
}

/* curl knows neither what we ask for nor why we stop it. What a member's address is not reached for is said in the same
 * words: those of the system, and with the name of a host that has no address (dial.c). */
static int failed(struct place *p, CURL *c, CURLcode result, const struct transfer *down, struct moyai_error *why) {
    const char *text = curl.easy_strerror(result);
    char host[TCP_HOST];
    long sys = 0;
    double named = 0;
    host_of(p->url, host);
    if (down->proxy[0]) {
        snprintf(host, sizeof host, "%s", down->proxy); /* the only address that is asked for */
        char *port = strrchr(host, ':');
        if (port && !strchr(port, ']')) *port = 0;
    }
    if (down->over) return err_set(why, MOYAI_EUNREACHABLE, "its answer is longer than %zu bytes", down->over);
    switch ((int)result) {
    case CURLE_COULDNT_CONNECT:
        if (curl.easy_getinfo(c, CURLINFO_OS_ERRNO, &sys) == CURLE_OK && sys > 0) text = strerror((int)sys);
        if (sys == ECONNREFUSED) p->what = MET_REFUSED;
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return no_address(host, why);
    case CURLE_UNSUPPORTED_PROTOCOL: /* an answer of "HTTP/0.9", without a head: the address was checked before */
    case CURLE_WEIRD_SERVER_REPLY:
        text = "what answers there is no HTTP server";
        p->what = MET_NO_ENDPOINT;
        break;
    case CURLE_GOT_NOTHING:
        text = "it ends the connection without an answer";
        p->what = MET_NO_ENDPOINT;
        break;
    case CURLE_PARTIAL_FILE:
        text = "it ends the connection in the middle of its answer";
        break;
    case CURLE_OPERATION_TIMEDOUT:
        if (curl.easy_getinfo(c, CURLINFO_NAMELOOKUP_TIME, &named) == CURLE_OK && named <= 0)
            return err_set(why, MOYAI_EUNREACHABLE, "cannot find the address of %.100s: no name server answers", host);
        text = "it does not answer in time";
        p->what = MET_SILENT;
        break;
    case CURLE_OUT_OF_MEMORY: /* so curl says it of a line that is longer than it takes */
        text = "its answer has a line that is too long, or there is no memory left";
        break;
    default:
        break;
    }
    return err_set(why, MOYAI_EUNREACHABLE, "%s", text);
}

/* What it says of why it refuses, in words of its own. */
static void said(const struct transfer *down, char out[SAID]) {
    char line[SAID];
    size_t n = down->n < SAID - 1 ? down->n : SAID - 1;
    memcpy(line, down->p, n);
    line[n] = 0;
    line[strcspn(line, "\r\n")] = 0;
    hello_text(out, SAID, line);
}

/* method: NULL: GET. Returns 0 or a code with its text; to the end, or until the node ends (ECLOSED) unless goodbye. */
static int request(struct place *p, const char *method, const char *url, struct transfer *up, struct transfer *down,
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
    }
    if (method) curl.easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    curl.easy_setopt(c, CURLOPT_URL, url);
    curl.easy_setopt(c, CURLOPT_HTTPHEADER, heads);
    curl.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
    curl.easy_setopt(c, CURLOPT_WRITEDATA, down);
    curl.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    curl.easy_setopt(c, CURLOPT_HEADERDATA, down);
    curl.easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl.easy_setopt(c, CURLOPT_OPENSOCKETDATA, p);
    curl.easy_setopt(c, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl.easy_setopt(c, CURLOPT_CLOSESOCKETDATA, p);
    curl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(c, CURLOPT_DEBUGFUNCTION, on_word);
    curl.easy_setopt(c, CURLOPT_DEBUGDATA, down);
    curl.easy_setopt(c, CURLOPT_VERBOSE, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl.easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* a name server that is silent holds up nobody's end */
#endif
    curl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.easy_setopt(c, CURLOPT_USERAGENT, "moyai");
    curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, goodbye ? GOODBYE_MS : CONNECT_MS);
    curl.easy_setopt(c, CURLOPT_TIMEOUT_MS, goodbye ? GOODBYE_MS : ANSWER_MS);
    int running = 1, rc = 0;
    CURLcode result = CURLE_FAILED_INIT;
    if (curl.multi_add_handle(p->multi, c) == CURLM_OK) {
        while (running && (goodbye || !place_stopping(p))) {
            if (curl.multi_perform(p->multi, &running) != CURLM_OK) break;
            if (running && curl.multi_poll(p->multi, NULL, 0, 1000, NULL) != CURLM_OK) break;
        }
        int left;
        for (CURLMsg *msg; (msg = curl.multi_info_read(p->multi, &left));)
            if (msg->msg == CURLMSG_DONE) result = msg->data.result;
        curl.multi_remove_handle(p->multi, c);
    }
    long status = 0;
    curl.easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (running)
        rc = err_set(why, MOYAI_ECLOSED, "the node ends");
    else if (result != CURLE_OK)
        rc = failed(p, c, result, down, why);
    else if (status == 403) {
        rc = err_set(why, MOYAI_EPERM, "it does not take entries sealed with our key");
        p->what = MET_KEY;
    } else if (status == 409) {
        char text[SAID];
        p->what = MET_CLOCK;
        said(down, text);
        rc = text[0] ? err_set(why, MOYAI_EPROTO, "it does not take our entry: \"%s\"", text)
                     : err_set(why, MOYAI_EPROTO, "it does not take our entry, and does not say why");
    } else if (status < 200 || status > 299)
        rc = err_set(why, MOYAI_EPROTO, "it answers with status %ld%s", status,
                     status == 404   ? ": not a moyai endpoint, or not the name of a grid"
                     : status == 507 ? ": it is full, or out of memory"
                                     : "");
    if (rc < 0 && !running) blame_proxy(down, why);
    curl.easy_cleanup(c);
    curl.slist_free_all(heads);
    return rc;
}

/* ---- a place --------------------------------------------------------------------------------- */

/* The entries of an answer. EPROTO: not of that form. */
static int take(struct place *p, const uint8_t *s, size_t n, struct moyai_error *why) {
    const uint8_t *from = s, *end = s + n;
    while (n > 0) {
        size_t len = n < 18 ? 0 : s[16] | (size_t)s[17] << 8;
        if (len == 0 || len > MEET_SEALED_MAX || len > n - 18)
            return err_set(why, MOYAI_EPROTO, "its answer is not a row of entries: not a moyai endpoint");
        place_count(p, s + 18, len);
        s += 18 + len;
        n -= 18 + len;
    }
    place_counted(p);
    for (size_t len; from < end; from += 18 + len) {
        len = from[16] | (size_t)from[17] << 8;
        place_take(p, from + 18, len);
    }
    return 0;
}

static int begin(struct place *p, struct moyai_error *why) {
    int rc = load(why);
    if (rc < 0) return rc;
    if (!p->answer && !(p->answer = malloc(ANSWER_MOST))) return err_set(why, MOYAI_ENOMEM, "out of memory");
    if (p->multi) return 0;
    CURLM *multi = curl.multi_init();
    if (!multi) return err_set(why, MOYAI_ENOMEM, "out of memory");
    place_multi(p, multi);
    return 0;
}

int meet_http_ask(struct place *p, struct moyai_error *why) {
    char url[URL_MOST + 40];
    struct place_entry e;
    int rc = begin(p, why);
    if (rc < 0) return rc;
    place_entry(p, &e);
    if (e.n) {
        struct transfer up = {.p = e.sealed, .n = e.n}, none = {.p = p->answer, .most = ANSWER_MOST};
        snprintf(url, sizeof url, "%s/%s", p->url, e.id);
        rc = request(p, "PUT", url, &up, &none, e.lifetime, false, why);
    }
    if (rc == MOYAI_EUNREACHABLE || rc == MOYAI_ECLOSED) return rc;
    /* Others' entries serve also if ours was refused. */
    enum met_what what = p->what;
    struct transfer down = {.p = p->answer, .most = ANSWER_MOST};
    struct moyai_error why_get = {0};
    int rc_get = request(p, NULL, p->url, NULL, &down, 0, false, &why_get);
    if (rc_get == 0) rc_get = take(p, p->answer, down.n, &why_get);
    if (rc == 0 && rc_get < 0) {
        rc = rc_get;
        *why = why_get;
    } else {
        p->what = what;
    }
    if (rc == 0 && down.young) snprintf(why->text, sizeof why->text, "it began %s ago", DUR(down.age));
    return rc;
}

void meet_http_goodbye(struct place *p) {
    char url[URL_MOST + 40];
    struct place_entry e;
    place_withdrawal(p, &e);
    if (!e.n) return;
    struct transfer up = {.p = e.sealed, .n = e.n}, down = {.p = p->answer, .most = ANSWER_MOST};
    snprintf(url, sizeof url, "%s/%s", p->url, e.id);
    (void)request(p, "DELETE", url, &up, &down, e.lifetime, true, NULL); /* it ends by itself, too */
}

void meet_http_wake(struct place *p) {
    curl.multi_wakeup(p->multi);
}

void meet_http_done(struct place *p) {
    p->node_locked = true;
    if (p->multi) curl.multi_cleanup(p->multi);
    for (struct http_socket *s; (s = p->sockets); free(s)) { /* a child has closed them, and curl knows other numbers */
        p->sockets = s->next;
        exec_keep_close(&s->kept);
    }
    free(p->answer);
}

const char *meet_http_grid(const char *url) {
    return strrchr(url, '/') + 1;
}

int meet_http_check(const char *url, struct moyai_error *reterr) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (strncmp(url, schemes[i], n) != 0) continue;
        size_t len = strlen(url);
        const char *host = url + n, *slash = memchr(host, '/', len - n);
        size_t name = slash ? strcspn(slash + 1, "?#") : 0;
        if (!slash || slash == host || name == 0 || slash[1 + name] != 0)
            return err_set(reterr, MOYAI_EINVAL, "\"%.100s\": not of the form http://HOST:PORT/GRID", url);
        if (len >= URL_MOST) return err_set(reterr, MOYAI_EINVAL, "\"%.100s...\": too long", url);
        return 0;
    }
    return err_set(reterr, MOYAI_EINVAL, "\"%.100s\": not an http:// address", url);
}
