/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overflow of a fiber's stack dies with a line that says so, instead of a bare SIGSEGV.
 *
 * The handler is installed while there is an exec and only if SIGSEGV is at its default, so programs, debuggers and
 * sanitizers with a handler of their own keep it. It runs on an alternate stack of the node thread, looks at
 * thread-local state only, and lets the fault happen again with the default action, so that a core dump shows the
 * place. Any other fault takes the same way without the line.
 */
#include "exec/impl.h"
#include "exec/process.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(FIBER_ASAN) || defined(FIBER_TSAN)

void overflow_thread_begin(void) {}
void overflow_thread_end(void) {}

#else

/* A signal's disposition belongs to the process, and so does the knowledge of how many execs need it. */
static unsigned users; /* both under PROCESS_OVERFLOW */
static bool installed;

static void say(size_t stack) {
    static const char before[] = "moyai: a fiber's stack of ", after[] = " KiB overflowed (stack option or MOYAI_STACK "
                                                                         "sets its size)\n";
    char line[sizeof before + sizeof after + 24], digits[24];
    size_t n = 0, at = sizeof digits;
    memcpy(line, before, sizeof before - 1);
    n = sizeof before - 1;
    size_t kib = stack >> 10;
    do {
        digits[--at] = (char)('0' + kib % 10);
        kib /= 10;
    } while (kib);
    memcpy(line + n, digits + at, sizeof digits - at);
    n += sizeof digits - at;
    memcpy(line + n, after, sizeof after - 1);
    n += sizeof after - 1;
    ssize_t rc = write(STDERR_FILENO, line, n);
    (void)rc; /* there is nowhere to complain */
}

static void on_segv(int sig, siginfo_t *si, void *context) {
    (void)context;
    const struct exec *x = exec_tls()->running;
    const struct fiber *f = x ? x->cur : NULL;
    bool fault = si->si_code > 0; /* else somebody sent the signal */
    if (fault && f && f->bottom) {
        uintptr_t at = (uintptr_t)si->si_addr, bottom = (uintptr_t)f->bottom;
        if (at >= bottom - FIBER_GUARD && at < bottom) say(x->stack);
    }
    struct sigaction dfl;
    memset(&dfl, 0, sizeof dfl);
    dfl.sa_handler = SIG_DFL;
    sigaction(sig, &dfl, NULL);
    if (!fault) raise(sig); /* blocked until this returns; a fault comes again by itself */
}

static void alt_stack_begin(struct exec_tls *tls) {
    if (tls->alt_users++ > 0) return;
    stack_t old;
    if (sigaltstack(NULL, &old) < 0 || !(old.ss_flags & SS_DISABLE)) return; /* the program has one: use that */
    size_t size = getauxval(AT_MINSIGSTKSZ) + (16u << 10);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (p == MAP_FAILED) return; /* only the line will be missing */
    stack_t ss = {.ss_sp = p, .ss_size = size};
    if (sigaltstack(&ss, NULL) < 0) {
        munmap(p, size);
        return;
    }
    tls->alt_stack = p;
    tls->alt_size = size;
}

static void alt_stack_end(struct exec_tls *tls) {
    if (--tls->alt_users > 0 || !tls->alt_stack) return;
    stack_t old, off = {.ss_flags = SS_DISABLE};
    if (sigaltstack(NULL, &old) == 0 && old.ss_sp == tls->alt_stack) sigaltstack(&off, NULL);
    munmap(tls->alt_stack, tls->alt_size);
    tls->alt_stack = NULL;
}

void overflow_thread_begin(void) {
    alt_stack_begin(exec_tls());
    process_take(PROCESS_OVERFLOW);
    struct sigaction now;
    if (users++ == 0 && sigaction(SIGSEGV, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_segv;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        installed = sigaction(SIGSEGV, &ours, NULL) == 0;
    }
    process_release(PROCESS_OVERFLOW);
}

void overflow_thread_end(void) {
    process_take(PROCESS_OVERFLOW);
    struct sigaction now;
    if (--users == 0 && installed) {
        installed = false;
        if (sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_segv) {
            memset(&now, 0, sizeof now);
            now.sa_handler = SIG_DFL;
            sigaction(SIGSEGV, &now, NULL);
        }
    }
    process_release(PROCESS_OVERFLOW);
    alt_stack_end(exec_tls());
}

#endif
