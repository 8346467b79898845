/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing of a run outlives it, whoever is killed.
 *
 * `moyai run` is three processes, each the child of the one before and in a session of its own. The *front* is the one
 * the user has started: it has the terminal, gets the signals, and waits. The *keeper* does nothing but wait for the
 * end of the others. The *runner* is the node, starts the processes and does all the work. All three are subreapers
 * (PR_SET_CHILD_SUBREAPER): a process whose parent has ended becomes the child of the nearest subreaper above it and
 * not of init, so whatever descends from the run, however often it forks, changes its process group or makes sessions,
 * has one of the three above it as long as one of them lives. So
 *
 *   - when the runner is killed, the keeper gets all of its processes as children, and kills them;
 *   - when the front is killed, the runner sees the end of the pipe between them (the lifeline), and kills all that
 *     descends from it; the keeper sees the same, and does so in the runner's place if that is gone as well;
 *   - when the keeper is killed, the runner sees it, and kills all that descends from it, and then itself; the front,
 *     which gets all that is left if the runner was killed as well, waits for that for a while, and kills the rest.
 *
 * One that is stopped sees nothing. Nobody has a reason to stop the keeper, so the front lets it go on whenever it
 * stops. Keeper and runner are let go on by the system when the one above them ends: SIGCONT is their
 * PR_SET_PDEATHSIG. And a keeper without a front lets the runner go on, which ends the keeper as its last act, so that
 * it cannot be stopped in between. A runner that stays stopped, or hangs, is killed: by the keeper, some time after the
 * front has ended, or by the front after a second signal. A front that is stopped, as by Ctrl-Z, may stay so: when one
 * of the other two is killed the programs end, and the front will say so once it goes on.
 *
 * To kill all that descends: kill all children, wait for them, and again, until there is no child left. Children of
 * those killed turn up as children here, and no process number can be used again meanwhile, since only the caller
 * collects it. The three are in different process groups and sessions, so killing the group of one leaves the others.
 * It takes no memory, and each of the three has opened the list of its children beforehand: where memory or descriptors
 * have run out, that may be why the others have ended.
 *
 * The front and the runner are killed at the same moment by whoever kills by name or by command line (killall, pkill,
 * pkill -f). The keeper has neither in common with them: its name is "run-keeper", and it overwrites its command line.
 *
 * Tried on paper and dropped: PR_SET_PDEATHSIG for the programs, set by a small program between fork and exec, which
 * costs an exec for each process, misses what the process starts, and is cleared when it changes its user; a keeper
 * beside the run that is told all process groups, which misses whoever leaves his group; process number namespaces and
 * cgroups, which need rights that users often lack.
 *
 * What no design without those rights can do: survive that all three are killed at the same moment.
 *
 * The front has its terminal's input copied to the runner through a pipe, since the processes are in no foreground
 * group and would be stopped when they read. Input that is no terminal goes to the first process directly.
 */
#include "cli/run_guard.h"

#include "base/err.h"
#include "cli/cli.h"
#include "exec/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SWEEP_TIME   (10 * MOYAI_SEC)
#define SWEEP_LOOK   (10 * MOYAI_MS)
#define BACKGROUND   500             /* ms between looks whether this job has come to the foreground */
#define URGENT_TIME  (3 * MOYAI_SEC) /* for a runner that was told to end at once */
#define TWICE_TIME   (100 * (moyai_ns)MOYAI_MS)
#define TYPED_BUFFER 4096
#define SAY_TIME     MOYAI_SEC /* for somebody to read what is on standard error already */

/* ---- what descends from this process --------------------------------------------------------- */

static void kill_one(pid_t pid, void *arg) {
    (void)arg;
    kill(pid, SIGKILL);
}

bool guard_sweep(const struct guard *g) {
    moyai_ns end = moyai_now() + SWEEP_TIME;
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    for (;;) {
        (void)exec_children(g->children, kill_one, NULL);
        pid_t pid;
        do pid = waitpid(-1, NULL, WNOHANG | __WALL);
        while (pid > 0);
        if (pid < 0 && errno == ECHILD) return true;
        if (moyai_now() >= end) return false;
        struct timespec look = {.tv_nsec = SWEEP_LOOK};
        (void)sigtimedwait(&chld, NULL, &look); /* to be woken at once; a look too many does no harm */
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Standard error without blocking, although it is shared with whoever has started us, and so must not be made
 * non-blocking: see run_output.c. */
static ssize_t put(int own, const char *p, size_t n) {
    ssize_t k = send(STDERR_FILENO, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (k >= 0 || errno != ENOTSOCK) return k;
    return write(own >= 0 ? own : STDERR_FILENO, p, n < PIPE_BUF ? n : PIPE_BUF);
}

/* Files do not block, and what is no pipe and no terminal is not opened again. */
static int open_own(void) {
    struct stat st;
    if (fstat(STDERR_FILENO, &st) < 0 || !(S_ISFIFO(st.st_mode) || isatty(STDERR_FILENO))) return -1;
    return open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void guard_say(const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    cli_line_of(text, sizeof text - 1, fmt, ap);
    va_end(ap);
    size_t at = 0, n = strlen(text);
    text[n++] = '\n';
    moyai_ns end = moyai_now() + SAY_TIME;
    int own = open_own();
    while (at < n) {
        moyai_ns now = moyai_now();
        struct pollfd p = {.fd = own >= 0 ? own : STDERR_FILENO, .events = POLLOUT};
        int rc = poll(&p, 1, now < end ? (int)((end - now) / (moyai_ns)MOYAI_MS) + 1 : 0);
        ssize_t k = rc > 0 ? put(own, text + at, n - at) : -1;
        if (k >= 0)
            at += (size_t)k;
        else if (rc == 0 || now >= end || (errno != EINTR && errno != EAGAIN))
            break;
    }
    if (own >= 0) close(own);
}

/* ---- dividing -------------------------------------------------------------------------------- */

struct pipes {
    int lifeline[2], keeping[2], typed[2], null, signals; /* -1: not open */
};

static void close_pipes(struct pipes *p) {
    int all[] = {p->lifeline[0], p->lifeline[1], p->keeping[0], p->keeping[1],
                 p->typed[0],    p->typed[1],    p->null,       p->signals};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] >= 0) close(all[i]);
}

/* Signals the front passes on. SIGINT also if it is ignored, as it is for a shell's background jobs: who sends it means
 * it. SIGHUP not if it is: nohup(1). */
static void passed_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGTSTP);
    sigaddset(set, SIGCONT);
    sigaddset(set, SIGUSR1);
    struct sigaction sa;
    if (sigaction(SIGHUP, NULL, &sa) == 0 && sa.sa_handler != SIG_IGN) sigaddset(set, SIGHUP);
}

void guard_begin(void) {
    sigset_t set;
    passed_signals(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTTIN); /* reading in the background then fails instead of stopping us */
    sigaddset(&set, SIGPIPE);
    signal(SIGCHLD, SIG_DFL); /* if it was ignored nobody could be waited for */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static int open_pipes(struct pipes *p, struct moyai_error *reterr) {
    sigset_t set;
    guard_begin();
    passed_signals(&set);
    sigaddset(&set, SIGCHLD);
    *p = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}, -1, -1};
    p->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (p->null < 0 || p->signals < 0 || pipe2(p->lifeline, O_CLOEXEC) < 0 || pipe2(p->keeping, O_CLOEXEC) < 0 ||
        (isatty(0) && pipe2(p->typed, O_CLOEXEC) < 0))
        return err_sys(reterr, errno, "cannot make a pipe");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return err_sys(reterr, errno, "cannot become a subreaper");
    return 0;
}

/* The end of the parent both lets us go on, should we be stopped, and is to be read from a signalfd: SIGCONT is
 * blocked. Not in the reverse order: stopped in the group of a front that ends, we would be let go on for that. */
static void stand_alone(const char *form, const char *verb, pid_t parent) {
    char name[16];
    snprintf(name, sizeof name, form, verb);
    (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
    if (getppid() != parent) raise(SIGCONT); /* it has ended before that */
    (void)setsid();                          /* cannot fail in a child just forked */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)prctl(PR_SET_NAME, name);
}

static void become_runner(struct guard *g, struct pipes *p, pid_t keeper) {
    stand_alone("moyai-%s", g->verb, keeper);
    if (g->shared) g->shared->runner = getpid();
    if (p->typed[0] >= 0) (void)dup2(p->typed[0], 0);
    *g = (struct guard){.role = GUARD_RUNNER,
                        .verb = g->verb,
                        .shared = g->shared,
                        .lifeline = p->lifeline[0],
                        .parent = keeper,
                        .signals = -1,
                        .children = exec_children_spare(),
                        .typed = -1};
    p->lifeline[0] = -1;
    close_pipes(p);
}

/* Of the descriptors the keeper needs standard error alone: it must not be the last who could write to a pipe. */
static void become_keeper(struct guard *g, struct pipes *p, pid_t runner) {
    *g = (struct guard){.role = GUARD_KEEPER,
                        .verb = g->verb,
                        .shared = g->shared,
                        .lifeline = p->keeping[0],
                        .child = runner,
                        .signals = p->signals,
                        .children = exec_children_spare(),
                        .typed = -1};
    (void)dup2(p->null, 0);
    (void)dup2(p->null, 1);
    p->keeping[0] = p->signals = -1;
    close_pipes(p);
}

/* The front keeps the terminal, if that is its input, and standard error; who reads and writes at the other ends of the
 * rest shall deal with the processes alone. */
static void become_front(struct guard *g, struct pipes *p, pid_t keeper) {
    *g = (struct guard){.role = GUARD_FRONT,
                        .verb = g->verb,
                        .shared = g->shared,
                        .lifeline = p->lifeline[1],
                        .keeping = p->keeping[1],
                        .child = keeper,
                        .signals = p->signals,
                        .children = exec_children_spare(),
                        .typed = p->typed[1]};
    p->lifeline[1] = p->keeping[1] = p->signals = p->typed[1] = -1;
    if (g->typed < 0)
        (void)dup2(p->null, 0);
    else
        (void)fcntl(g->typed, F_SETFL, O_NONBLOCK);
    (void)dup2(p->null, 1);
    close_pipes(p);
}

int guard_divide(struct guard *g, const char *verb, struct moyai_error *reterr) {
    g->verb = verb;
    g->shared = mmap(NULL, sizeof *g->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g->shared == MAP_FAILED) g->shared = NULL;
    struct pipes p;
    int rc = open_pipes(&p, reterr);
    pid_t front = getpid();
    pid_t keeper = rc < 0 ? -1 : fork();
    if (keeper > 0) {
        become_front(g, &p, keeper);
        return 0;
    }
    if (keeper == 0) {
        stand_alone("%s-keeper", verb, front);
        keeper = getpid();
    }
    pid_t runner = keeper < 0 ? -1 : fork();
    if (runner < 0) {
        if (rc == 0) rc = err_sys(reterr, errno, "cannot fork");
        close_pipes(&p);
        return rc;
    }
    if (runner == 0)
        become_runner(g, &p, keeper);
    else
        become_keeper(g, &p, runner);
    return 0;
}

/* The status of g->child, if it has ended. Whoever else ends here was left to us. */
static bool collect(const struct guard *g, int *status) {
    pid_t pid;
    int s;
    bool ended = false;
    while ((pid = waitpid(-1, &s, WNOHANG | WUNTRACED | __WALL)) > 0) {
        if (pid != g->child) continue;
        if (!WIFSTOPPED(s)) {
            *status = s;
            ended = true;
        } else if (g->role == GUARD_FRONT) {
            kill(pid, SIGCONT); /* the keeper; a runner may be stopped by whoever wants to look at it */
        }
    }
    return ended;
}

static void say_killed(const struct guard *g, const char *who, int status) {
    guard_say("moyai %s: its %s (pid %d) was killed by signal %d (%s), and its processes with it", g->verb, who,
              (int)g->child, WTERMSIG(status), strsignal(WTERMSIG(status)));
}

static int exit_status(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the keeper ------------------------------------------------------------------------------ */

/* Put a text in the place of this process's command line, of which nothing is needed any more. */
static void overwrite_command_line(const char *text) {
    char line[2048];
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f) return;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    const char *p = strrchr(line, ')'); /* the end of field 2; the command line's place is in fields 48 and 49 */
    for (int field = 2; p && field < 48; field++) p = strchr(p + 1, ' ');
    uintptr_t from = 0, to = 0;
    if (!p || sscanf(p, " %" SCNuPTR " %" SCNuPTR, &from, &to) != 2 || from == 0 || to <= from) return;
    char *place = (char *)from;
    memset(place, 0, to - from);
    snprintf(place, to - from, "%s", text);
}

/* Signals given to the keeper are meant for the run. */
static void hand_on_signals(const struct guard *g) {
    struct signalfd_siginfo si;
    while (read(g->signals, &si, sizeof si) == sizeof si)
        if (si.ssi_signo != SIGCHLD) kill(g->child, (int)si.ssi_signo);
}

int guard_keep(struct guard *g) {
    char text[32];
    snprintf(text, sizeof text, "%s-keeper of %d", g->verb, (int)getppid());
    overwrite_command_line(text);
    moyai_ns urgent = 0; /* when the runner has had its time to end the orphaned run */
    int status = 0;
    bool alone = false; /* the front is gone */
    while (!collect(g, &status)) {
        struct pollfd p[2] = {{.fd = g->signals, .events = POLLIN}, {.fd = alone ? -1 : g->lifeline, .events = POLLIN}};
        moyai_ns now = moyai_now();
        if (alone && now >= urgent) kill(g->child, SIGKILL);
        int wait = !alone ? -1 : now < urgent ? (int)((urgent - now) / (moyai_ns)MOYAI_MS) + 1 : -1;
        if (poll(p, 2, wait) <= 0) continue;
        if (p[0].revents) hand_on_signals(g);
        if (!p[1].revents) continue;
        alone = true;
        urgent = moyai_now() + URGENT_TIME;
    }
    close(g->signals);
    bool gone = guard_sweep(g);
    struct pollfd p = {.fd = g->lifeline, .events = POLLIN};
    if (poll(&p, 1, 0) == 1) alone = true;
    close(g->lifeline);
    if (WIFSIGNALED(status) && !alone) say_killed(g, "runner", status);
    if (!gone) guard_say("moyai %s: some of its processes cannot be killed", g->verb);
    return exit_status(status);
}

/* ---- the front ------------------------------------------------------------------------------- */

struct front {
    struct guard *g;
    moyai_ns asked;  /* when it was last asked to end; 0: never */
    moyai_ns urgent; /* when to end the run by force; 0: never */
    bool forced, noticed;
    bool background; /* the terminal is somebody else's */
    char buf[TYPED_BUFFER];
    size_t at, n; /* buf[at..n) is to be written */
};

static void stop_typing(struct front *f) {
    close(f->g->typed);
    f->g->typed = -1;
}

static bool in_background(void) {
    pid_t owner = tcgetpgrp(0);
    return owner >= 0 && owner != getpgrp();
}

static void read_typed(struct front *f) {
    f->background = in_background();
    if (f->background) return;
    ssize_t n = read(0, f->buf, sizeof f->buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        f->background = n < 0 && errno == EIO && in_background();
        if (!f->background) stop_typing(f);
        return;
    }
    f->at = 0;
    f->n = (size_t)n;
}

static void write_typed(struct front *f) {
    ssize_t n = write(f->g->typed, f->buf + f->at, f->n - f->at);
    if (n >= 0)
        f->at += (size_t)n;
    else if (errno != EINTR && errno != EAGAIN)
        stop_typing(f);
}

/* Some send the same twice, to the process and to its group (timeout(1)): that is asking once. */
static bool asks_again(struct front *f) {
    moyai_ns now = moyai_now();
    if (f->asked && now - f->asked < TWICE_TIME) return false;
    if (f->asked && !f->urgent) f->urgent = now + URGENT_TIME;
    f->asked = now;
    return true;
}

static void pass_signal(struct front *f, int sig) {
    if (sig == SIGCHLD) return; /* the loop looks in any case */
    if (sig == SIGUSR1) {       /* a notice of what is to come: it asks for an end, and no other for more haste */
        if (f->noticed || f->asked) return;
        f->noticed = true;
    } else if (sig != SIGTSTP && sig != SIGCONT && !asks_again(f)) {
        return;
    }
    uint8_t byte = (uint8_t)sig;
    (void)!write(f->g->lifeline, &byte, 1); /* if there is no reader the runner is about to be collected */
    if (sig == SIGTSTP) kill(getpid(), SIGSTOP);
    if (sig == SIGCONT) f->background = false; /* perhaps: look */
}

static void read_signals(struct front *f) {
    struct signalfd_siginfo si;
    while (read(f->g->signals, &si, sizeof si) == sizeof si) pass_signal(f, (int)si.ssi_signo);
}

static void turn(struct front *f) {
    struct guard *g = f->g;
    bool full = f->at < f->n;
    struct pollfd p[3] = {
        {.fd = g->signals, .events = POLLIN},
        {.fd = g->typed >= 0 && !full && !f->background ? 0 : -1, .events = POLLIN},
        {.fd = g->typed, .events = full ? POLLOUT : 0}, /* that nobody reads is told in any case */
    };
    int wait = g->typed >= 0 && f->background ? BACKGROUND : -1;
    if (f->urgent) {
        moyai_ns now = moyai_now();
        wait = f->urgent > now ? (int)((f->urgent - now) / (moyai_ns)MOYAI_MS) + 1 : 0;
        if (wait == 0) {
            kill(g->child, SIGKILL); /* then all that it keeps is ours, and is killed as well */
            f->forced = true;
            f->urgent = 0;
            wait = -1; /* until it can be collected */
        }
    }
    if (poll(p, 3, wait) < 0) return;
    f->background = false;
    if (p[0].revents) read_signals(f);
    if (p[2].revents & POLLERR)
        stop_typing(f);
    else if (p[2].revents)
        write_typed(f);
    else if (p[1].revents)
        read_typed(f);
}

/* If the keeper was killed, the runner has seen that, too, and ends what descends from it, and then itself. It is not
 * killed before: we may be stopped in the midst of that, when it is gone and its processes are not. */
static void await_runner(const struct guard *g) {
    const moyai_ns end = moyai_now() + URGENT_TIME;
    const pid_t runner = g->shared ? g->shared->runner : 0;
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    while (runner > 0 && waitpid(runner, NULL, WNOHANG | __WALL) == 0 && moyai_now() < end) {
        struct timespec look = {.tv_nsec = SWEEP_LOOK};
        (void)sigtimedwait(&chld, NULL, &look);
    }
}

int guard_watch(struct guard *g) {
    struct front f = {.g = g};
    int status;
    while (!collect(g, &status)) turn(&f);
    close(g->lifeline);
    close(g->keeping);
    close(g->signals);
    if (g->typed >= 0) close(g->typed);
    if (!f.forced) await_runner(g);
    bool gone = guard_sweep(g);
    if (f.forced)
        guard_say("moyai %s: its runner did not answer, and was killed with its processes", g->verb);
    else if (WIFSIGNALED(status))
        say_killed(g, "keeper", status);
    if (!gone) guard_say("moyai %s: some of its processes cannot be killed", g->verb);
    return exit_status(status);
}
