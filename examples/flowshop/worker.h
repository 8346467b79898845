/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: joins the master and searches what it is given. */
#ifndef FLOWSHOP_WORKER_H
#define FLOWSHOP_WORKER_H

/* pid_file (may be NULL) gets the process id once the master has taken the worker in. Exit status: 0 when the master
 * has ended. */
int worker_main(const char *pid_file);

#endif
