/* SPDX-License-Identifier: Apache-2.0 */
/* What a service manager is told of a service: the protocol of sd_notify(3), without that library. */
#ifndef CLI_NOTIFY_H
#define CLI_NOTIFY_H

#include <moyai.h>

struct notify {
    char *where; /* NULL: nobody wants to know */
    const char *title;
};

/* Takes NOTIFY_SOCKET out of the environment: what is started from here is not the service. title: for a message,
 * borrowed. While there is one thread only. */
void notify_begin(struct notify *n, const char *title);
/* Assignments, divided by newlines, such as READY=1. That it cannot be told is said, once. */
void notify_tell(struct notify *n, const char *fmt, ...) MOYAI_PRINTF(2, 3);
void notify_done(struct notify *n);

#endif
