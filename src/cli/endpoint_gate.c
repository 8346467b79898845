/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/endpoint_gate.h"

#include "link/tcp.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define OTHER_FILES 40u /* descriptors that are no connections */
#define LEAST       8u

struct guest {
    struct crowd_member place; /* in none: it has been shown out */
    uint64_t source;
    int fd; /* open until MHD_CONNECTION_NOTIFY_CLOSED has been told */
};

void gate_init(struct gate *g, size_t most) {
    struct rlimit files;
    size_t want = most + GATE_MORE + OTHER_FILES;
    *g = (struct gate){.most = most};
    pthread_mutex_init(&g->mutex, NULL);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= want) return;
    files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= want) return;
    g->most = files.rlim_cur > GATE_MORE + OTHER_FILES + LEAST ? files.rlim_cur - GATE_MORE - OTHER_FILES : LEAST;
}

/* The mutex is held. */
static void show_out(struct gate *g, struct crowd_member *m) {
    struct guest *who = (struct guest *)((char *)m - offsetof(struct guest, place));
    crowd_remove(&g->crowd, m);
    (void)shutdown(who->fd, SHUT_RDWR);
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
    pthread_mutex_lock(&g->mutex);
    if (g->crowd.n >= g->most) show_out(g, crowd_victim(&g->crowd));
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

void gate_look(struct gate *g) {
    moyai_ns now = moyai_now();
    pthread_mutex_lock(&g->mutex);
    for (struct crowd_member *m; (m = crowd_before(&g->crowd, now - GATE_SECONDS * (moyai_ns)MOYAI_SEC));)
        show_out(g, m);
    pthread_mutex_unlock(&g->mutex);
}
