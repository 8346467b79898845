/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One datagram to the socket that NOTIFY_SOCKET names: a path, or after '@' a name in the abstract namespace. Both are
 * what systemd promises to keep (sd_notify(3), "Notes").
 */
#include "cli/notify.h"

#include "cli/cli.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

void notify_begin(struct notify *n, const char *title) {
    const char *where = getenv("NOTIFY_SOCKET");
    *n = (struct notify){.where = where && *where ? strdup(where) : NULL, .title = title};
    (void)unsetenv("NOTIFY_SOCKET");
}

static int tell(const char *where, const char *text) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const struct timeval most = {.tv_sec = 1}; /* a manager that stands still is not waited for */
    const size_t len = strlen(where);
    if (where[0] != '/' && where[0] != '@') return EAFNOSUPPORT;
    if (len < 2) return EINVAL;
    if (len >= sizeof to.sun_path) return ENAMETOOLONG;
    memcpy(to.sun_path, where, len);
    if (where[0] == '@') to.sun_path[0] = 0;
    /* An abstract name has no end of its own, a path's is counted. */
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (where[0] == '/'));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    const int e = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to, size) < 0 ? errno : 0;
    close(fd);
    return e;
}

void notify_tell(struct notify *n, const char *fmt, ...) {
    char text[256];
    if (!n->where) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const int e = tell(n->where, text);
    if (e == 0) return;
    cli_say(n->title,
            "warning: cannot tell the service manager at '%s' (NOTIFY_SOCKET), which may end this service: %s",
            n->where, strerror(e));
    notify_done(n);
}

void notify_done(struct notify *n) {
    free(n->where);
    n->where = NULL;
}
