/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/places.h"

#include "base/err.h"
#include "link/tcp.h"
#include "overlay/io/onehost.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool begins(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

const char *places_path(const char *url) {
    if (strncmp(url, "file:", 5) != 0) return NULL;
    const char *path = url + 5;
    if (strncmp(path, "///", 3) == 0) path += 2;
    return path[0] == '/' && path[1] != '/' ? path : NULL;
}

static int parse_fds(struct places *p, const char *s, struct moyai_error *reterr) {
    char *end;
    long in = strtol(s + 3, &end, 10), out = -1;
    bool ok = end != s + 3 && *end == ',';
    if (ok) {
        const char *second = end + 1;
        out = strtol(second, &end, 10);
        ok = end != second && !*end;
    }
    if (!ok || in < 0 || out < 0 || in > 1 << 20 || out > 1 << 20)
        return err_set(reterr, MOYAI_EINVAL, "\"%.60s\" is no pair of descriptors: fd:R,W", s);
    if (p->in >= 0) return err_set(reterr, MOYAI_EINVAL, "two fd: addresses: a grid has one at most");
    p->in = (int)in;
    p->out = (int)out;
    return 0;
}

static int add_directory(struct places *p, char *s, struct moyai_error *reterr) {
    if (!places_path(s))
        return err_set(reterr, MOYAI_EINVAL, "\"%.100s\" is no rendezvous: file:/DIR has an absolute path", s);
    if (p->file) return err_set(reterr, MOYAI_EINVAL, "two file: addresses: a grid has one directory at most");
    p->file = s;
    return 1;
}

const char *places_reason(const char *s, struct moyai_error *scratch) {
    char host[TCP_HOST];
    uint16_t port;
    if (strncasecmp(s, "https:", 6) == 0)
        return "there is no https:, and no need of it: what is sent over http: is sealed with the grid's key";
    if (strstr(s, "://")) return NULL;
    if (strncasecmp(s, "http/", 5) == 0) return "a ':' is missing: http://HOST:PORT/GRID";
    if (strchr(s, ',')) return "several addresses are separated by spaces";
    if (*s != '/' && strchr(s, ':') && strchr(strchr(s, ':'), '/'))
        return "a member's address is HOST:PORT alone; that of an endpoint begins with http://";
    if (!strchr(s, ':') || tcp_split(s, true, host, &port, scratch) == 0) return NULL;
    const char *quoted = strstr(scratch->text, "\": ");
    return quoted ? quoted + 3 : scratch->text;
}

/* 1: s is theirs now; 0: it is not; or the error. */
static int add(struct places *p, char *s, struct moyai_error *reterr) {
    char host[TCP_HOST];
    uint16_t port;
    struct moyai_error why = {0};
    if (begins(s, "file:")) return add_directory(p, s, reterr);
    if (s[0] == '/') {
        char *url;
        if (asprintf(&url, "file:%s", s) < 0) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
        int rc = add_directory(p, url, reterr);
        if (rc < 1) free(url);
        return rc < 0 ? rc : 0;
    }
    if (begins(s, "http:")) {
        if (p->n_http == PLACES_MOST) return err_set(reterr, MOYAI_EINVAL, "more than %u http: addresses", PLACES_MOST);
        p->http[p->n_http++] = s; /* who uses it says what is wrong with it */
        return 1;
    }
    if (begins(s, "fd:")) return parse_fds(p, s, reterr);
    if (strstr(s, "://") || tcp_split(s, true, host, &port, &why) < 0) {
        const char *reason = places_reason(s, &why);
        return err_set(
            reterr, MOYAI_EINVAL,
            "\"%.100s\" is no rendezvous%s%s: /DIR, file:/DIR, http://HOST:PORT/GRID, fd:R,W, or HOST:PORT of "
            "a member",
            s, reason ? ": " : "", reason ? reason : "");
    }
    if (p->n_member == PLACES_MOST) return err_set(reterr, MOYAI_EINVAL, "more than %u members", PLACES_MOST);
    p->member[p->n_member++] = s;
    return 1;
}

int places_parse(struct places *p, const char *text, struct moyai_error *reterr) {
    *p = (struct places){.in = -1, .out = -1};
    int rc = 0;
    bool any = false;
    while (rc >= 0) {
        text += strspn(text, " \t\n");
        size_t n = strcspn(text, " \t\n");
        if (n == 0) break;
        any = true;
        char *s = strndup(text, n);
        text += n;
        rc = s ? add(p, s, reterr) : err_set(reterr, MOYAI_ENOMEM, "out of memory");
        if (rc < 1) free(s);
    }
    if (rc >= 0 && !any) rc = err_set(reterr, MOYAI_EINVAL, "no rendezvous given");
    if (rc < 0) places_done(p);
    return rc < 0 ? rc : 0;
}

static bool holds(const char *dir, const char *file) {
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", dir, file) < (int)sizeof path && access(path, F_OK) == 0;
}

bool places_may_be_grid(const char *path) {
    static const char *const ours[] = {"n", "e", PLACES_ONE_HOST};
    DIR *d = opendir(path);
    if (!d) return true; /* who uses it says why not */
    bool no_entries = true, grid = false;
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        no_entries = false;
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) grid |= strcmp(e->d_name, ours[i]) == 0;
    }
    closedir(d);
    return no_entries || grid;
}

int places_kind(const struct places *p, const char *key, bool *wide, struct moyai_error *reterr) {
    const char *dir = p->file ? places_path(p->file) : NULL;
    const bool alone = p->n_http + p->n_member == 0 && p->in < 0;
    *wide = true;
    if (!dir) return 0;
    if (alone && holds(dir, PLACES_ONE_HOST)) {
        *wide = false;
    } else if (alone && (!key || !*key)) {
        if (holds(dir, "e"))
            return err_set(
                reterr, MOYAI_EPERM,
                "the grid in \"%.150s\" is one of several hosts: MOYAI_KEY_FILE or --key-file must name its key", dir);
        *wide = false;
    }
    return *wide ? onehost_check(dir, alone, reterr) : 0;
}

void places_done(struct places *p) {
    free(p->file);
    for (size_t i = 0; i < p->n_http; i++) free(p->http[i]);
    for (size_t i = 0; i < p->n_member; i++) free(p->member[i]);
    *p = (struct places){.in = -1, .out = -1};
}
