/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections of an endpoint server: a request and its answer have their time, from when the connection was taken
 * or the answer before it was given, whatever arrives meanwhile; and who comes when there are as many as there may be
 * is let in for another (base/crowd.h). libmicrohttpd alone closes only what is silent, and refuses whoever comes last.
 *
 * Who keeps the server should know of it: those that are closed for others are counted, and told of at most once a
 * minute.
 *
 * Who has to go is shut down here, and closed by libmicrohttpd. Callbacks come from its thread, gate_look from any
 * other.
 */
#ifndef CLI_ENDPOINT_GATE_H
#define CLI_ENDPOINT_GATE_H

#include "base/crowd.h"
#include "link/tcp.h"

#include <microhttpd.h>
#include <pthread.h>

#define GATE_SECONDS 10
#define GATE_MORE    64u /* that are on their way out besides */
#define GATE_LINE    250

struct gate {
    pthread_mutex_t mutex;
    struct crowd crowd;
    size_t most;
    size_t shown_out;   /* for others, of which nothing has been said */
    char who[TCP_TEXT]; /* the last of them */
    moyai_ns said;
};

/* most: less if the system's limit of descriptors, which is raised as far as may be, does not give as many. ELIMIT: it
 * gives too few for any. */
int gate_init(struct gate *g, size_t most, struct moyai_error *reterr);

/* For MHD_OPTION_NOTIFY_CONNECTION; arg is the gate. */
void gate_on_connection(void *arg, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode why);
void gate_answered(struct gate *g, struct MHD_Connection *c); /* its time begins anew */
/* Now and then: whose time is over? true: the line is to be said. */
bool gate_look(struct gate *g, char line[GATE_LINE]);

#endif
