/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/gridfile.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FORM                                                                                                           \
    "forward HOST1 HOST2 [reverse] [user=USER] [port=PORT] [jump=HOST,...] [listen=PORT] [to=[HOST:]PORT], or a "      \
    "comment that begins with #"

struct where {
    const char *path;
    unsigned line;
    struct moyai_error *reterr;
};

static int bad(const struct where *w, const char *fmt, ...) MOYAI_PRINTF(2, 3);
static int bad(const struct where *w, const char *fmt, ...) {
    char text[MOYAI_ERROR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(w->reterr, MOYAI_EINVAL, "\"%.80s\", line %u: %s", w->path, w->line, text);
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Nothing that ssh could take for an option, nor a shell for anything. */
static bool plain(const char *s, const char *letters) {
    return s[0] && s[0] != '-' && s[strspn(s, letters)] == 0;
}

static int take(const struct where *w, const char *what, const char *value, const char *letters, char *out,
                size_t room) {
    if (!plain(value, letters))
        return bad(w, "%s \"%.60s\" is not made of letters, digits, '.', '_' and '-' that do not begin with '-'", what,
                   value);
    if (strlen(value) >= room) return bad(w, "%s \"%.40s...\" is longer than %zu bytes", what, value, room - 1);
    strcpy(out, value);
    return 0;
}

/* No part of a host's name is empty, but for the dot behind it. */
static bool is_name(const char *s) {
    return s[0] != '.' && !strstr(s, "..");
}

static int take_host(const struct where *w, const char *value, char *out, size_t room) {
    int rc = take(w, "host", value, LETTERS, out, room);
    if (rc == 0 && !is_name(value)) rc = bad(w, "\"%.60s\" is no name of a host: a part of it is empty", value);
    return rc;
}

static bool is_port(const char *s, uint16_t *ret) {
    size_t n = strlen(s);
    unsigned long port = n >= 1 && n <= 5 && s[strspn(s, "0123456789")] == 0 ? strtoul(s, NULL, 10) : 0;
    *ret = (uint16_t)port;
    return port >= 1 && port <= 65535;
}

static int take_port(const struct where *w, const char *what, const char *value, uint16_t *ret) {
    if (!is_port(value, ret)) return bad(w, "%s%.40s is no port, a number from 1 to 65535", what, value);
    return 0;
}

/* [USER@]HOST[:PORT], where HOST may be an IPv6 address in brackets. Is written to. */
static bool is_jump(char *s) {
    char *at = strchr(s, '@'), *colon;
    uint16_t port;
    if (at) {
        *at = 0;
        if (!plain(s, LETTERS)) return false;
        s = at + 1;
    }
    if (*s == '[') {
        struct in6_addr address;
        char *close = strchr(s, ']');
        if (!close) return false;
        *close = 0;
        if (inet_pton(AF_INET6, s + 1, &address) != 1) return false;
        return close[1] == 0 || (close[1] == ':' && is_port(close + 2, &port));
    }
    if ((colon = strchr(s, ':'))) *colon = 0;
    return plain(s, LETTERS) && is_name(s) && (!colon || is_port(colon + 1, &port));
}

static int take_jump(const struct where *w, const char *value, struct gridfile_line *l) {
    int rc = take(w, "jump host", value, LETTERS "@:,[]", l->jump, sizeof l->jump);
    for (const char *s = l->jump; rc == 0; s++) {
        char one[sizeof l->jump];
        size_t n = strcspn(s, ",");
        memcpy(one, s, n);
        one[n] = 0;
        if (!is_jump(one)) rc = bad(w, "jump=%.60s is no list of [USER@]HOST[:PORT] with commas between them", value);
        if (!*(s += n)) break;
    }
    return rc;
}

static int take_to(const struct where *w, char *value, struct gridfile_line *l) {
    char *colon = strrchr(value, ':');
    if (colon) {
        *colon = 0;
        int rc = take_host(w, value, l->to_host, sizeof l->to_host);
        if (rc < 0) return rc;
        value = colon + 1;
    }
    return take_port(w, "to=", value, &l->to);
}

static int take_option(const struct where *w, char *word, struct gridfile_line *l, unsigned *seen) {
    static const char *const names[] = {"reverse", "user=", "port=", "jump=", "listen=", "to="};
    unsigned i = 0, n = sizeof names / sizeof names[0];
    while (i < n && (i == 0 ? strcmp(word, names[i]) : strncmp(word, names[i], strlen(names[i])))) i++;
    if (i == n) return bad(w, "\"%.60s\" is none of reverse, user=, port=, jump=, listen= and to=", word);
    if (*seen & 1u << i) return bad(w, "%s is given twice", names[i]);
    *seen |= 1u << i;
    char *value = word + strlen(names[i]);
    switch (i) {
    case 0:
        l->reverse = true;
        return 0;
    case 1:
        return take(w, "user", value, LETTERS, l->user, sizeof l->user);
    case 2:
        return take_port(w, "port=", value, &l->port);
    case 3:
        return take_jump(w, value, l);
    case 4:
        return take_port(w, "listen=", value, &l->listen);
    default:
        return take_to(w, value, l);
    }
}

static int take_line(const struct where *w, char *text, struct gridfile_line *l) {
    static const char blank[] = " \t\r";
    char *rest, *word = strtok_r(text, blank, &rest);
    *l = (struct gridfile_line){.number = w->line, .to = GRIDFILE_TO, .to_host = "127.0.0.1"};
    if (strcmp(word, "forward") != 0) return bad(w, "\"%.60s\" is not understood; accepted is: " FORM, word);
    for (int i = 0; i < 2; i++) {
        word = strtok_r(NULL, blank, &rest);
        if (!word) return bad(w, "a host is missing; accepted is: " FORM);
        int rc = take_host(w, word, l->host[i], sizeof l->host[i]);
        if (rc < 0) return rc;
    }
    if (gridfile_is_host(l->host[0], l->host[1])) return bad(w, "the two hosts are the same, %s", l->host[1]);
    unsigned seen = 0;
    while ((word = strtok_r(NULL, blank, &rest))) {
        int rc = word[0] == '#' ? 1 : take_option(w, word, l, &seen);
        if (rc < 0) return rc;
        if (rc > 0) break;
    }
    if (l->reverse && !l->listen)
        return bad(w, "reverse needs listen=PORT, a free port that ssh is to open at %s", l->host[0]);
    return 0;
}

int gridfile_parse(struct gridfile *g, const char *path, const char *text, size_t n, struct moyai_error *reterr) {
    struct where w = {.path = path, .reterr = reterr};
    const char *end = text + n;
    size_t found = 0;
    if (n > GRIDFILE_MOST) return err_set(reterr, MOYAI_EINVAL, "\"%.80s\" is longer than 64 KiB: no grid file", path);
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop ? stop : end) - text);
        char line[1024];
        w.line++;
        if (memchr(text, 0, len)) return bad(&w, "a zero byte: no text");
        size_t skip = 0;
        while (skip < len && strchr(" \t\r", text[skip])) skip++;
        if (skip < len && text[skip] != '#') {
            if (len >= sizeof line) return bad(&w, "longer than %zu bytes", sizeof line - 1);
            if (found == GRIDFILE_LINES) return bad(&w, "more than %u lines say forward", GRIDFILE_LINES);
            memcpy(line, text, len);
            line[len] = 0;
            struct gridfile_line *l = &g->line[found];
            int rc = take_line(&w, line, l);
            if (rc < 0) return rc;
            for (size_t i = 0; i < found; i++) {
                const struct gridfile_line *other = &g->line[i];
                if (gridfile_hash(other) == gridfile_hash(l))
                    return bad(&w, "it says the same as line %u", other->number);
                if (l->listen && l->listen == other->listen && gridfile_is_host(l->host[0], other->host[0]))
                    return bad(&w, "listen=%u of %s is taken by line %u: give each a port of its own", l->listen,
                               l->host[0], other->number);
            }
            found++;
        }
        text += len + (stop != NULL);
    }
    g->n = found;
    return 0;
}

bool gridfile_is_host(const char *name, const char *host) {
    size_t n = strcspn(name, "."), h = strcspn(host, ".");
    if (strcasecmp(name, host) == 0) return true;
    return n == h && strncasecmp(name, host, n) == 0 && (!name[n] || !host[h]);
}

uint64_t gridfile_hash(const struct gridfile_line *l) {
    char text[1024];
    int n = snprintf(text, sizeof text, "%s %s %d %s %u %s %u %s:%u", l->host[0], l->host[1], l->reverse, l->user,
                     l->port, l->jump, l->listen, l->to_host, l->to);
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
    for (int i = 0; i < n; i++) h = (h ^ (uint8_t)tolower((unsigned char)text[i])) * UINT64_C(1099511628211);
    return h;
}
