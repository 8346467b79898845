/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line needs of a node beyond the public interface. Node lock held where it is said. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/config.h"
#include "exec/exec.h"
#include "overlay/io/overlay.h"
#include <moyai.h>

struct exec *node_exec(moyai_node *n);
struct moyai_log *node_log(moyai_node *n);
struct events *node_events(moyai_node *n);
struct overlay *node_overlay(moyai_node *n); /* to be used with the lock held */

/* Are the options that are texts what they should be, as far as their form tells? EINVAL, ERANGE, ENOMEM: the text
 * names the variable or option. */
int node_check(const struct config *c, struct moyai_error *reterr) MOYAI_MUST_USE;
/* All of them, and what is wrong with each goes to its fault, if it has none. */
void node_check_all(const struct config *c, struct config_faults *faults);

/* Become a witness: each linked process of this host that ends without farewell is declared dead to all linked nodes.
 * Lock held. */
void node_witness(moyai_node *n);
/* A child has ended (its status is known): if it was a node that did not say farewell, declare it dead with this cause.
 * Returns true if it was a linked node. Lock held. */
bool node_child_ended(moyai_node *n, pid_t pid, const char *cause);

/* As overlay_obituary. Lock not held. */
void node_obituary(moyai_node *n, const char *cause);
/* As a witness: that node has died. It is passed on by those that this one is linked to. Lock not held. */
void node_declare_dead(moyai_node *n, struct moyai_node_id id, const char *cause);

/* For who ends the node by himself when it is told to leave, and has things to end before: fn is called instead of what
 * moyai_leave does, and again when the time for it is shorter (until; UINT64_MAX: any); it must not block. Lock held,
 * here and there. */
void node_on_leave(moyai_node *n, void (*fn)(moyai_ns until, void *arg), void *arg);
/* It does so in a moment, when what it has started has ended: nothing is to stay with it, and its neighbours know that
 * it leaves, as those of what it has started. Lock held. */
void node_ends(moyai_node *n);
/* And then: leave as moyai_leave does, and wait until that is over or the time for it. Lock not held; may switch
 * fibers. */
void node_drain(moyai_node *n, moyai_dur patience);
void node_drain_hurry(moyai_node *n, moyai_dur most); /* that time is over then, if not before; 0: now. Lock held */
/* How many of its neighbours a node that leaves waits for, as they have no other way, and who: three of them. Lock
 * held.
 */
#define NODE_CUT_OFF 800
size_t node_cut_off(moyai_node *n, char who[NODE_CUT_OFF]);
/* Those who have told it to leave hear what of its work was cut short. Lock held. */
void node_cut(moyai_node *n, size_t cut, const char *what);

/* moyai_node_new, of one that looks at others only: reports leave it out. */
int node_new_observer(moyai_node **ret, const struct moyai_node_opts *opts, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The nodes of the rendezvous, as rdv_nodes; none without one. fn is called with the lock held. */
int node_known(moyai_node *n, bool (*fn)(const struct rdv_node *node, const struct moyai_error *bad, void *ctx),
               void *ctx, struct moyai_error *reterr);

/* Its names, as rdv_names. */
int node_names(moyai_node *n, bool (*fn)(const char *name, void *ctx), void *ctx, struct moyai_error *reterr);

/* Wait for a link to another node: in a grid of several hosts a node begins without, and knows nobody until it has one.
 * 0; ETIMEDOUT; ENOENT: where the grid is met nobody is known; ECANCELED: the node was asked to stop. Lock not held;
 * may switch fibers. */
int node_await_link(moyai_node *n, moyai_dur timeout);

/* moyai_go with the lock held. */
int node_go(moyai_node *n, void (*fn)(void *arg), void *arg);

/* How many values the result of a future that has succeeded is made of. */
size_t node_results(const moyai_future *f);

/* A one-way call whose future completes when the object's node has taken it, or with the reason why it will not. */
moyai_future *node_call_oneway(moyai_ref *ref, const char *method, const struct moyai_args *args);

#endif
