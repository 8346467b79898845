/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/leave.h"

#include "bench/bench.h"

#include <sys/socket.h>

#define PIECE  65536u       /* of state, a frame */
#define WINDOW (512u << 10) /* bytes of state that wait in a link */

static uint8_t state[PIECE], scratch[PIECE];

void proc_fail(const struct proc *p, const char *what) {
    fprintf(stderr, "bench: process %u, %s: %s\n", p->me, p->protocol->name, what);
    _exit(1);
}

/* ---- what goes out --------------------------------------------------------------------------- */

static void send_frame(struct port *q, uint32_t kind, uint32_t label, const void *bytes, size_t n) {
    const struct frame_head h = {.type = (uint8_t)kind, .label = label, .length = (uint32_t)n};
    const struct link_piece piece = {bytes, n};
    if (!q->open) proc_fail(q->p, "a frame for a closed channel");
    if (link_send(q->l, &h, &piece, 1) < 0) proc_fail(q->p, "out of memory");
}

void proc_send(struct port *q, uint32_t kind, uint32_t n) {
    send_frame(q, WIRE_OWN + kind, n, NULL, 0);
    q->p->ledger->of[q->p->me].frames++;
}

void proc_pass(struct port *q, uint16_t message) {
    send_frame(q, WIRE_DATA, 0, &message, sizeof message);
    q->p->ledger->of[q->p->me].hops++;
}

static struct port *heir(struct proc *p) {
    for (uint32_t i = 0; i < p->ports; i++)
        if (p->port[i].channel == p->draw->heir[p->me]) return &p->port[i];
    proc_fail(p, "no channel to the heir");
}

static void hand_more(struct proc *p) {
    struct port *q = heir(p);
    while (p->state_to && link_queued(q->l) < WINDOW) {
        const size_t n = p->state_to < PIECE ? p->state_to : PIECE;
        send_frame(q, WIRE_STATE, 0, state, n);
        link_flush(q->l);
        p->state_to -= n;
    }
    if (!p->state_to) p->protocol->handed(p);
}

void proc_hand_over(struct proc *p) {
    p->state_to = STATE;
    hand_more(p);
}

/* ---- what comes in --------------------------------------------------------------------------- */

void proc_deliver(struct proc *p, uint16_t message) {
    if (message >= p->draw->messages) proc_fail(p, "a message that there is not");
    if (atomic_fetch_add(&p->ledger->copies[message], 1) == 0) atomic_fetch_add(&p->ledger->delivered, 1);
}

static void took_state(struct port *q, size_t n) {
    q->p->ledger->of[q->peer].state += n; /* only its heir writes there */
}

static int on_frame(struct link *l, const struct frame_head *h, uint8_t *payload, struct moyai_error *why) {
    struct port *q = link_owner(l);
    uint16_t message;
    (void)why;
    switch (h->type) {
    case WIRE_DATA:
        if (h->length != sizeof message) proc_fail(q->p, "a message of another length");
        memcpy(&message, payload, sizeof message);
        q->p->protocol->data(q, message);
        break;
    case WIRE_STATE:
        took_state(q, h->length);
        break;
    case WIRE_HELLO:
        if (++q->p->greeted == q->p->ports) atomic_fetch_add(&q->p->ledger->ready, 1);
        break;
    case WIRE_BYE:
        q->bye = true;
        break;
    default:
        q->p->protocol->frame(q, h->type - (uint32_t)WIRE_OWN, h->label);
    }
    return 0;
}

static size_t on_place(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t **dest) {
    (void)l, (void)h, (void)prefix;
    *dest = scratch;
    return 1;
}

static int on_placed(struct link *l, const struct frame_head *h, const uint8_t *prefix, uint8_t *dest,
                     struct moyai_error *why) {
    (void)prefix, (void)dest, (void)why;
    took_state(link_owner(l), h->length);
    return 0;
}

static void on_room(struct link *l) {
    struct port *q = link_owner(l);
    if (q->p->state_to) hand_more(q->p);
}

static void on_down(struct link *l, const struct moyai_error *why) {
    struct port *q = link_owner(l);
    q->down = true;
    if (q->open && !q->bye) proc_fail(q->p, why->text);
}

static const struct link_ops ops = {
    .frame = on_frame, .place = on_place, .placed = on_placed, .room = on_room, .down = on_down};

/* ---- when ------------------------------------------------------------------------------------ */

static void say_due(struct exec *x, struct exec_timer *t) {
    struct proc *p = (struct proc *)((char *)t - offsetof(struct proc, say));
    const struct draw *d = p->draw;
    for (; p->next < d->messages; p->next++) {
        if (d->message[p->next].from != p->me) continue;
        const moyai_ns at = p->ledger->start + (moyai_ns)d->message[p->next].at;
        if (at > moyai_now()) {
            exec_timer_set(x, t, at);
            return;
        }
        struct port *q = p->port;
        while (q->channel != d->message[p->next].channel) q++;
        const bool taken = p->protocol->say(q, (uint16_t)p->next);
        if (!taken) atomic_store(&p->ledger->copies[p->next], REFUSED);
        atomic_fetch_add(taken ? &p->ledger->said : &p->ledger->refused, 1);
    }
}

static void start_due(struct exec *x, struct exec_timer *t) {
    struct proc *p = (struct proc *)((char *)t - offsetof(struct proc, start));
    (void)x;
    p->protocol->want(p);
}

void proc_done(struct proc *p) {
    p->ledger->of[p->me].done = moyai_now();
    atomic_fetch_add(&p->ledger->left, 1);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void begin_run(struct proc *p, const struct order *o, const int *fd) {
    const struct draw *d = p->draw;
    p->protocol = o->server ? &protocol_central : &protocol_ours;
    p->ending = false;
    p->greeted = p->next = 0;
    p->line = (struct link_line){0};
    p->ports = o->n;
    for (uint32_t i = 0; i < o->n; i++) {
        struct port *q = &p->port[i];
        *q = (struct port){.p = p, .peer = o->of[i].peer, .channel = o->of[i].channel, .open = true};
        q->l = link_new(p->x, fd[i], NULL, &ops, q);
        if (!q->l) proc_fail(p, "out of memory");
        if (d->delay || d->rate) link_shape(q->l, d->delay, d->rate);
        link_share(q->l, &p->line);
    }
    p->protocol->begin(p);
    for (uint32_t i = 0; i < p->ports; i++) send_frame(&p->port[i], WIRE_HELLO, 0, NULL, 0);
}

static void end_run(struct proc *p) {
    for (uint32_t i = 0; i < p->ports; i++) link_free(p->port[i].l);
    p->ports = 0;
    p->ending = false;
    free(p->own);
    p->own = NULL;
    atomic_fetch_add(&p->ledger->ended, 1);
}

/* A turn of the loop ends: what was said is written. When the run is over, and that is, and what is said last on each
 * channel was heard, the channels are closed: also of one that has left, as what it costs the system to close them is
 * not the question. */
static void turned(struct exec_hook *h) {
    struct proc *p = (struct proc *)((char *)h - offsetof(struct proc, hook));
    bool over = p->ending;
    for (uint32_t i = 0; i < p->ports; i++) {
        struct port *q = &p->port[i];
        link_flush(q->l);
        if (link_queued(q->l) && !q->down) over = false;
        if (q->open && !q->bye) over = false;
    }
    if (over) end_run(p);
}

static void on_order(struct exec_fd *f, int events, void *arg) {
    struct proc *p = arg;
    struct order o;
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(PORTS * sizeof(int))];
    } control;
    struct iovec iov = {&o, sizeof o};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    (void)f, (void)events;
    const ssize_t r = recvmsg(p->orders, &m, MSG_CMSG_CLOEXEC);
    if (r < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (r == 0) _exit(0);
    if (r != sizeof o) proc_fail(p, "an order of another length");
    switch (o.kind) {
    case ORDER_LINK:
        begin_run(p, &o, (const int *)(void *)CMSG_DATA(CMSG_FIRSTHDR(&m)));
        break;
    case ORDER_GO:
        exec_timer_set(p->x, &p->say, 1);
        if (p->me != SERVER && p->draw->leaves[p->me]) exec_timer_set(p->x, &p->start, p->ledger->start);
        break;
    case ORDER_END:
        for (uint32_t i = 0; i < p->ports; i++)
            if (p->port[i].open) send_frame(&p->port[i], WIRE_BYE, 0, NULL, 0);
        p->ending = true;
        break;
    }
}

void proc_run(struct ledger *g, uint32_t me, int orders) {
    static struct proc p;
    struct moyai_error why;
    p = (struct proc){.draw = &g->draw, .ledger = g, .me = me, .orders = orders, .hook.fn = turned};
    if (exec_new(&p.x, NULL, &why) < 0) bench_die("%s", why.text);
    exec_lock(p.x);
    exec_timer_init(&p.start, start_due);
    exec_timer_init(&p.say, say_due);
    exec_hook_add(p.x, &p.hook);
    if (!exec_fd_new(p.x, orders, UV_READABLE, on_order, &p)) bench_die("out of memory");
    const int rc = exec_serve(p.x, &p.stop, UINT64_MAX);
    bench_die("process %u: %s", me, moyai_strerror(rc));
}
