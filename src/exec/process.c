/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belongs to the process: the execs that there are, a few locks, and fork.
 *
 * The order of locks is that of enum process_lock, with the node locks in its second place. So who has found an exec in
 * the list *pins* it, and releases PROCESS_EXECS before he takes the exec's lock; a pinned exec stays in the list.
 *
 * A forked child has copies of all descriptors: of the listening socket, whose refusal tells others that the parent has
 * died, and of the links, whose end does. So the child closes what its parent's execs watch, and forgets them. To find
 * the lists whole, and every lock of the process free, whoever forks holds all locks meanwhile: he takes them in their
 * order, one after the other, waiting for each like anybody else. Since nobody who holds a node's lock waits for
 * another node's, or for a fork, that comes to an end. It is announced to all nodes before, by lock_close: each driver
 * gives its lock away within a turn, a millisecond at most, and stays out, which makes room for the others.
 * PROCESS_NODES, the first, is also what makes one fork wait for the other; and no exec comes or goes while somebody
 * forks, so that the list can be gone through without its lock.
 *
 * Dropped: to try all node locks at one moment, and to let go of them if one was taken. With some busy nodes that
 * moment may never come.
 */
#include "exec/process.h"

#include "exec/impl.h"

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
} locks[PROCESS_LOCKS] = {
    [PROCESS_NODES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER},
    [PROCESS_EXECS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER},
    [PROCESS_OVERFLOW] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER},
    [PROCESS_LIBRARIES] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER},
};

/* Under PROCESS_EXECS. */
static struct exec *all_execs; /* by all_next */
static bool forking;           /* none comes or goes */

/* ---- fork ------------------------------------------------------------------------------------ */

static void before_fork(void) {
    pthread_mutex_lock(&locks[PROCESS_NODES].mutex);
    pthread_mutex_lock(&locks[PROCESS_EXECS].mutex);
    forking = true;
    for (struct exec *x = all_execs; x; x = x->all_next) {
        x->pins++;
        lock_close(&x->lock);
    }
    pthread_mutex_unlock(&locks[PROCESS_EXECS].mutex);
    for (struct exec *x = all_execs; x; x = x->all_next) exec_lock(x);
    for (int i = PROCESS_EXECS; i < PROCESS_LOCKS; i++) pthread_mutex_lock(&locks[i].mutex);
}

static void after_fork(void) {
    for (struct exec *x = all_execs; x; x = x->all_next) {
        x->pins--;
        exec_unlock(x);
        lock_open(&x->lock);
    }
    forking = false;
    pthread_cond_broadcast(&locks[PROCESS_EXECS].cond);
    for (int i = PROCESS_LOCKS; i-- > 0;) pthread_mutex_unlock(&locks[i].mutex);
}

static void after_fork_child(void) {
    for (struct exec *x = all_execs; x; x = x->all_next) loop_close_fds(x);
    /* Threads that there are no more may have waited there. */
    for (int i = 0; i < PROCESS_LOCKS; i++) locks[i].cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    after_fork();
    all_execs = NULL;
}

static void watch_fork(void) {
    (void)pthread_atfork(before_fork, after_fork, after_fork_child); /* out of memory: as if it were not needed */
}

/* ---- locks ----------------------------------------------------------------------------------- */

void process_take(enum process_lock which) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    pthread_mutex_lock(&locks[which].mutex);
}

void process_release(enum process_lock which) {
    pthread_mutex_unlock(&locks[which].mutex);
}

void process_wait(enum process_lock which) {
    pthread_cond_wait(&locks[which].cond, &locks[which].mutex);
}

void process_wake(enum process_lock which) {
    pthread_cond_broadcast(&locks[which].cond);
}

/* ---- execs ----------------------------------------------------------------------------------- */

void process_exec_begin(struct exec *x) {
    static uint64_t ids; /* never 0, never used twice */
    process_take(PROCESS_EXECS);
    while (forking) process_wait(PROCESS_EXECS);
    x->id = ++ids;
    x->all_next = all_execs;
    all_execs = x;
    process_release(PROCESS_EXECS);
}

void process_exec_end(struct exec *x) {
    process_take(PROCESS_EXECS);
    while (x->pins > 0) process_wait(PROCESS_EXECS);
    for (struct exec **p = &all_execs; *p; p = &(*p)->all_next)
        if (*p == x) {
            *p = x->all_next;
            break;
        }
    process_release(PROCESS_EXECS);
}

bool process_exec_lives(const struct exec *x, uint64_t id) {
    for (const struct exec *e = all_execs; e; e = e->all_next)
        if (e == x) return e->id == id;
    return false;
}
