/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/meet_fd.h"

#include "base/err.h"
#include "base/rng.h"
#include "link/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD     "moyai 1 "
#define HEAD_LEN 8u
#define LINE     4096u /* PIPE_BUF: what a pipe takes at once stays in one piece */
#define SEEN     1024u /* others that are remembered, to tell newcomers */
#define ANSWERS  4u    /* that a newcomer gets, on average */
#define SPEAKERS 32u   /* at each look */
#define PAUSE    (200 * MOYAI_MS)

struct meet_fd {
    struct exec *x;
    const struct keyfile *keys;
    const struct meet_fd_ops *ops;
    void *ctx;
    int in, out; /* of our own; -1: ended */
    bool in_socket, out_socket;
    struct exec_fd *watched;
    struct exec_timer answer;
    struct moyai_rng rng;
    bool spoken, troubled, foreign;
    size_t n_seen, next_seen;
    uint64_t seen[SEEN]; /* beginnings of ids */
    size_t n;            /* of the line that is being read; beyond LINE: it is too long */
    char line[LINE];
};

/* ---- descriptors ----------------------------------------------------------------------------- */

/* A descriptor of our own that does not wait: opened anew, since what is set on the one given would hold for all who
 * share it. Sockets cannot be opened, but asked not to wait each time. */
static int own(int fd, int mode, bool *is_socket, int *ret, struct moyai_error *reterr) {
    struct stat st;
    char path[40];
    if (fstat(fd, &st) < 0) return err_set(reterr, MOYAI_EINVAL, "descriptor %d: %s", fd, strerror(errno));
    *is_socket = S_ISSOCK(st.st_mode);
    if (!*is_socket && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return err_set(reterr, MOYAI_EINVAL, "descriptor %d is neither a pipe nor a socket", fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int mine = *is_socket ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (mine < 0)
        return err_sys(reterr, errno, "descriptor %d cannot be %s", fd, mode == O_RDONLY ? "read" : "written");
    *ret = mine;
    return 0;
}

/* A pipe that nobody reads would end the process: its signal is not the program's concern. */
static ssize_t write_pipe(int fd, const char *p, size_t n) {
    sigset_t set, before, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    ssize_t m = write(fd, p, n);
    int e = errno;
    if (m < 0 && e == EPIPE && !sigismember(&pending, SIGPIPE)) (void)sigtimedwait(&set, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = e;
    return m;
}

static void trouble(struct meet_fd *m, int code, const char *text) {
    if (!m->troubled) m->ops->trouble(m->ctx, code, text);
    m->troubled = true;
}

/* ---- saying ---------------------------------------------------------------------------------- */

/* Is that node a new one? The id is where an entry has it: behind 16 bytes of its own head and 8 of the frame's. */
static bool is_new(struct meet_fd *m, const uint8_t *entry, size_t n) {
    uint64_t id;
    if (n < 24 + sizeof id) return false;
    memcpy(&id, entry + 24, sizeof id);
    for (size_t i = 0; i < m->n_seen; i++)
        if (m->seen[i] == id) return false;
    m->seen[m->next_seen] = id;
    m->next_seen = (m->next_seen + 1) % SEEN;
    if (m->n_seen < SEEN) m->n_seen++;
    return true;
}

static void say(struct meet_fd *m) {
    uint8_t entry[MEET_FD_ENTRY_MAX], sealed[MEET_FD_ENTRY_MAX + SEAL_MORE];
    char line[LINE + 1];
    size_t n = m->out >= 0 ? m->ops->own(m->ctx, entry) : 0;
    const struct key *k = keyring_usable(keyfile_keys(m->keys), 0, (int64_t)time(NULL));
    struct moyai_error why;
    if (keyfile_usable(m->keys, &why) < 0) trouble(m, MOYAI_ESTATE, why.text);
    if (n == 0 || n > sizeof entry || !k || seal(k, SEAL_RENDEZVOUS, entry, n, sealed) < 0) return;
    (void)is_new(m, entry, n); /* we hear ourselves */
    memcpy(line, HEAD, HEAD_LEN);
    size_t at = HEAD_LEN;
    for (size_t i = 0; i < n + SEAL_MORE; i++) at += (size_t)snprintf(line + at, 3, "%02x", sealed[i]);
    line[at++] = '\n';
    ssize_t sent = m->out_socket ? send(m->out, line, at, MSG_DONTWAIT | MSG_NOSIGNAL) : write_pipe(m->out, line, at);
    /* One that takes nothing now is tried again at the next look. Of a part of a line the rest would come too late. */
    if (sent == (ssize_t)at) m->troubled = false;
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        trouble(m, MOYAI_EUNREACHABLE, strerror(errno));
    else if (sent >= 0 && sent < (ssize_t)at)
        (void)!(m->out_socket ? send(m->out, "\n", 1, MSG_DONTWAIT | MSG_NOSIGNAL) : write_pipe(m->out, "\n", 1));
}

void meet_fd_look(struct meet_fd *m) {
    if (m->spoken && rng_below(&m->rng, m->n_seen + 1) >= SPEAKERS) return;
    m->spoken = true;
    exec_timer_clear(m->x, &m->answer);
    say(m);
}

static void on_answer(struct exec *x, struct exec_timer *t) {
    (void)x;
    say((struct meet_fd *)((char *)t - offsetof(struct meet_fd, answer)));
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* A newcomer has an answer from some. */
static void met(struct meet_fd *m, const uint8_t *entry, size_t n) {
    if (!is_new(m, entry, n) || rng_below(&m->rng, m->n_seen) >= ANSWERS || exec_timer_is_set(&m->answer)) return;
    exec_timer_set(m->x, &m->answer, moyai_now() + rng_below(&m->rng, (uint64_t)PAUSE));
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void take_line(struct meet_fd *m) {
    uint8_t sealed[LINE / 2], plain[LINE / 2];
    size_t n = 0, got;
    if (m->n <= HEAD_LEN || m->n > LINE || memcmp(m->line, HEAD, HEAD_LEN) != 0) return;
    for (size_t i = HEAD_LEN; i + 1 < m->n; i += 2) {
        int a = digit(m->line[i]), b = digit(m->line[i + 1]);
        if (a < 0 || b < 0) return;
        sealed[n++] = (uint8_t)(a << 4 | b);
    }
    int rc = unseal(keyfile_keys(m->keys), (int64_t)time(NULL), SEAL_RENDEZVOUS, sealed, n, plain, &got);
    if (rc == MOYAI_EPERM && !m->foreign) {
        m->foreign = true;
        m->ops->trouble(m->ctx, rc, "what is said there is sealed with another key");
    }
    if (rc < 0) return;
    met(m, plain, got);
    m->ops->entry(m->ctx, plain, got);
}

static void on_readable(struct exec_fd *f, int events, void *arg) {
    struct meet_fd *m = arg;
    (void)events;
    for (int i = 0; i < 16; i++) { /* then others have a turn */
        char buf[4096];
        ssize_t n = m->in_socket ? recv(m->in, buf, sizeof buf, MSG_DONTWAIT) : read(m->in, buf, sizeof buf);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            exec_fd_events(f, 0);
            trouble(m, MOYAI_ECLOSED, n == 0 ? "it has ended" : strerror(errno));
            return;
        }
        for (ssize_t k = 0; k < n; k++)
            if (buf[k] == '\n') {
                take_line(m);
                m->n = 0;
            } else if (m->n < LINE) {
                m->line[m->n++] = buf[k];
            } else {
                m->n = LINE + 1;
            }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

int meet_fd_new(struct meet_fd **ret, struct exec *x, const struct keyfile *keys, int in, int out,
                const struct meet_fd_ops *ops, void *ctx, struct moyai_error *reterr) {
    struct meet_fd *m = calloc(1, sizeof *m);
    if (!m) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    m->x = x;
    m->keys = keys;
    m->ops = ops;
    m->ctx = ctx;
    m->in = m->out = -1;
    uint64_t seed = moyai_now();
    (void)rng_system(&seed, sizeof seed);
    rng_seed(&m->rng, seed);
    exec_timer_init(&m->answer, on_answer);
    int rc = own(in, O_RDONLY, &m->in_socket, &m->in, reterr);
    if (rc == 0) rc = own(out, O_WRONLY, &m->out_socket, &m->out, reterr);
    if (rc == 0) {
        m->watched = exec_fd_new(x, m->in, UV_READABLE, on_readable, m);
        if (!m->watched) rc = err_set(reterr, MOYAI_ENOMEM, "out of memory, or descriptor %d cannot be waited for", in);
    }
    if (rc < 0)
        meet_fd_free(m);
    else
        *ret = m;
    return rc;
}

void meet_fd_free(struct meet_fd *m) {
    if (!m) return;
    exec_timer_clear(m->x, &m->answer);
    if (m->watched)
        exec_fd_free(m->watched, true, NULL);
    else if (m->in >= 0)
        close(m->in);
    if (m->out >= 0) close(m->out);
    free(m);
}
