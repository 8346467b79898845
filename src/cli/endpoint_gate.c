/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/endpoint_gate.h"

#include "base/err.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define OTHER_FILES 40u /* descriptors that are no connections */
#define LEAST       8u
#define FILES_LEAST 32u /* for so many, with the few of OTHER_FILES that are there always */
#define SAY_AGAIN   (60 * (moyai_ns)MOYAI_SEC)

struct guest {
    struct crowd_member place; /* in none: it has been shown out */
    uint64_t source;
    char from[TCP_TEXT];
    int fd; /* open until MHD_CONNECTION_NOTIFY_CLOSED has been told */
};

int gate_init(struct gate *g, size_t most, struct moyai_error *reterr) {
    struct rlimit files;
    size_t want = most + GATE_MORE + OTHER_FILES;
    *g = (struct gate){.most = most};
    pthread_mutex_init(&g->mutex, NULL);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= want) return 0;
    files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= want) return 0;
    if (files.rlim_cur < FILES_LEAST)
        return err_set(reterr, MOYAI_ELIMIT,
                       "this process may have %llu files open, and needs %u: raise the hard limit (ulimit -Hn)",
                       (unsigned long long)files.rlim_cur, FILES_LEAST);
    g->most = files.rlim_cur > GATE_MORE + OTHER_FILES + LEAST ? files.rlim_cur - GATE_MORE - OTHER_FILES : LEAST;
    return 0;
}

/* The mutex is held. */
static void show_out(struct gate *g, struct crowd_member *m, bool for_another) {
    struct guest *who = (struct guest *)((char *)m - offsetof(struct guest, place));
    g->shown_out += for_another;
    if (for_another) memcpy(g->who, who->from, sizeof g->who);
    crowd_remove(&g->crowd, m);
    (void)shutdown(who->fd, SHUT_RDWR);
}

static void name(struct guest *who, const struct sockaddr *from) {
    struct tcp_addr a = {.n = 0};
    const bool v4 = from && from->sa_family == AF_INET, v6 = from && from->sa_family == AF_INET6;
    if (!v4 && !v6) return;
    a.n = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    memcpy(&a.ss, from, a.n);
    tcp_format(&a, who->from);
    char *port = strrchr(who->from, ':');
    if (port) *port = 0;
}

static void come(struct gate *g, struct MHD_Connection *c, void **context) {
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD),
                                   *from = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct guest *who = fd ? calloc(1, sizeof *who) : NULL;
    if (!who) {
        if (fd) (void)shutdown(fd->connect_fd, SHUT_RDWR);
        return;
    }
    who->fd = fd->connect_fd;
    who->source = from ? tcp_source(from->client_addr) : 0;
    name(who, from ? from->client_addr : NULL);
    pthread_mutex_lock(&g->mutex);
    if (g->crowd.n >= g->most) show_out(g, crowd_victim(&g->crowd), true);
    crowd_add(&g->crowd, &who->place, who->source, moyai_now());
    pthread_mutex_unlock(&g->mutex);
    *context = who;
}

void gate_on_connection(void *arg, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode why) {
    struct gate *g = arg;
    struct guest *who = *context;
    if (why == MHD_CONNECTION_NOTIFY_STARTED) {
        come(g, c, context);
    } else if (who) {
        pthread_mutex_lock(&g->mutex);
        crowd_remove(&g->crowd, &who->place);
        pthread_mutex_unlock(&g->mutex);
        free(who);
        *context = NULL;
    }
}

void gate_answered(struct gate *g, struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *i = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct guest *who = i ? i->socket_context : NULL;
    if (!who) return;
    pthread_mutex_lock(&g->mutex);
    if (who->place.in) {
        crowd_remove(&g->crowd, &who->place);
        crowd_add(&g->crowd, &who->place, who->source, moyai_now());
    }
    pthread_mutex_unlock(&g->mutex);
}

bool gate_look(struct gate *g, char line[GATE_LINE]) {
    moyai_ns now = moyai_now();
    pthread_mutex_lock(&g->mutex);
    for (struct crowd_member *m; (m = crowd_before(&g->crowd, now - GATE_SECONDS * (moyai_ns)MOYAI_SEC));)
        show_out(g, m, false);
    const size_t n = g->shown_out;
    const bool due = n > 0 && (g->said == 0 || now - g->said >= SAY_AGAIN);
    if (due) {
        snprintf(
            line, GATE_LINE,
            "there were %zu connections, as many as may be: %zu %s closed for others that came, each of the address "
            "that had most, as %s the last one",
            g->most, n, n == 1 ? "was" : "were", g->who);
        g->shown_out = 0;
        g->said = now;
    }
    pthread_mutex_unlock(&g->mutex);
    return due;
}
