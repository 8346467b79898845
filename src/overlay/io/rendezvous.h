/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous `file:/dir`: a directory, its owner's alone, through which the nodes of a grid find each other and
 * the names of objects.
 *
 *   n/<32 hex digits of the node id>   one file a node
 *   m/<escaped name>                   one file a name
 *   t/                                 files being written
 *   w/<escaped name>                   names waited for, see await.h
 *
 * Entries are small text files (overlay/io/entry.h). Each is written in t/ and then linked or renamed into place, so a
 * reader never sees half an entry, and a full disk leaves nothing behind. Nobody serves the directory: any process may
 * be stopped or killed at any moment and the others go on.
 *
 * Node lock held. Nothing here waits for another process.
 */
#ifndef OVERLAY_IO_RENDEZVOUS_H
#define OVERLAY_IO_RENDEZVOUS_H

#include "overlay/io/entry.h"
#include <moyai/error.h>

struct await;
struct exec;
struct rdv;
struct rdv_forget;
struct rundir;

/* Is this node known to be dead? Asked about owners of names; never about this process's own nodes. It may take only
 * "dead" for an answer: when in doubt, false. */
typedef bool rdv_dead_fn(const struct moyai_node_id *id, void *ctx);

/*
 * Open file:/dir or file:///dir (absolute) and make it if it is missing (its parent must exist). Removes what
 * processes killed while writing have left in t/. EINVAL (not such an address), EPERM (rules as for the run
 * directory: rundir.h), ERANGE, ENOSPC, ELIMIT, ENOMEM, ESYS.
 */
int rdv_open(struct rdv **ret, const char *url, struct moyai_error *reterr) MOYAI_MUST_USE;

/* Removes what was put through r (its names, then its node entry) and frees r. NULL is fine. A forked child must use
 * rdv_abandon. */
void rdv_close(struct rdv *r);
void rdv_withdraw(struct rdv *r); /* the first half; nothing can be put any more, all else works */
void rdv_abandon(struct rdv *r);  /* free r and leave all entries */

const char *rdv_path(const struct rdv *r);

/* All functions below: ECLOSED when the directory has been removed; EDATA (an entry is not what it should be), EPERM
 * (it cannot be read), EVERSION (it is of a newer format) with the file's path in the text; ENOSPC, ELIMIT, ENOMEM,
 * ESYS. */

/* Make known, or replace, this node's entry. Listen first: who reads it will connect. */
int rdv_put_node(struct rdv *r, const struct rdv_node *node, struct moyai_error *reterr) MOYAI_MUST_USE;
int rdv_del_node(struct rdv *r, const struct moyai_node_id *id, struct moyai_error *reterr);
/* One entry; ENOENT: not there. */
int rdv_get_node(struct rdv *r, const struct moyai_node_id *id, struct rdv_node *ret,
                 struct moyai_error *reterr) MOYAI_MUST_USE;
/* All entries, in no order, until fn returns false. One that cannot be read is told as node NULL and why, and does not
 * stop the others. fn may delete entries. */
int rdv_nodes(struct rdv *r, bool (*fn)(const struct rdv_node *node, const struct moyai_error *bad, void *ctx),
              void *ctx, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The ids of all entries, unread, in no order, until fn returns false. */
int rdv_node_ids(struct rdv *r, bool (*fn)(const struct moyai_node_id *id, void *ctx), void *ctx,
                 struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * Give an object a name. Exactly one of several that try at once gets it. 0 also if the same object of the same node
 * has it already. EEXIST: another one has it (its owner in the text), and dead (may be NULL: nobody is) does not say
 * that its node is dead; a dead owner's entry is replaced, by exactly one if several try. EAGAIN: another process is
 * just about to replace it, or was stopped while it did: try again later. EINVAL: not 1 to 200 bytes of UTF-8.
 */
int rdv_put_name(struct rdv *r, const char *name, const struct moyai_object_id *object,
                 const struct moyai_node_id *node, rdv_dead_fn *dead, void *ctx,
                 struct moyai_error *reterr) MOYAI_MUST_USE;
/* Who has the name? ENOENT: nobody, or a dead node's object (its entry is removed on the way). */
int rdv_get_name(struct rdv *r, const char *name, rdv_dead_fn *dead, void *ctx, struct moyai_object_id *object,
                 struct moyai_node_id *node, struct moyai_error *reterr) MOYAI_MUST_USE;
/* Call fn for each name that an entry has, in no order, until it returns false. Who has it may be dead. */
int rdv_names(struct rdv *r, bool (*fn)(const char *name, void *ctx), void *ctx,
              struct moyai_error *reterr) MOYAI_MUST_USE;
/* Remove the name if this object of this node has it; else ENOENT. EAGAIN as above. */
int rdv_del_name(struct rdv *r, const char *name, const struct moyai_object_id *object,
                 const struct moyai_node_id *node, struct moyai_error *reterr);

/*
 * Remove all traces of a dead node: its names, its socket if it was in `dir` (may be NULL), its entry. For whoever has
 * found it dead. Of several processes one does it, by a lock on the entry; should it end meanwhile, whoever meets a
 * name that is left finds its owner dead.
 *
 * All names are looked at, which takes long if there are many thousands; so it can be done in parts as well.
 * rdv_forget_begin: 1: there is something to do, for rdv_forget_some, which returns 1 when it has taken `most` and
 * there is more; then rdv_forget_end, finished or not.
 */
int rdv_forget_begin(struct rdv *r, const struct moyai_node_id *id, struct rdv_forget **ret,
                     struct moyai_error *reterr) MOYAI_MUST_USE;
int rdv_forget_some(struct rdv_forget *f, moyai_dur most, struct moyai_error *reterr) MOYAI_MUST_USE;
void rdv_forget_end(struct rdv_forget *f); /* NULL is fine */
int rdv_forget_node(struct rdv *r, const struct moyai_node_id *id, const struct rundir *dir,
                    struct moyai_error *reterr) MOYAI_MUST_USE;

/*
 * Have fn called once (driver, lock held, spurious calls possible) when the name may be there. Order matters: await
 * first, then rdv_get_name, then wait; when called, this is over and to be freed. false: it cannot be told so (a
 * network file system, no descriptors, no memory): watch them all.
 */
bool rdv_await(struct rdv *r, struct exec *x, const char *name, void (*fn)(void *arg), void *arg, struct await **ret);
void rdv_await_free(struct await *w); /* NULL is fine; from fn as well. No call comes after it */

/*
 * Have fn called (driver, lock held, spurious calls possible) when names may have changed; order as above. all: for who
 * cannot await; else it is about what is not told to those who do, and looked at every 2 s: that the directory has been
 * removed, or names made on another host that sees it over the network. One watch at a time (ESTATE). Where inotify is
 * exhausted or does not see the changes of others (network file systems), the directory is looked at instead after 50
 * ms, growing to 1 s while nothing changes: so watch only while somebody waits. fn may call rdv_unwatch.
 */
int rdv_watch(struct rdv *r, struct exec *x, bool all, void (*fn)(void *arg), void *arg,
              struct moyai_error *reterr) MOYAI_MUST_USE;
void rdv_unwatch(struct rdv *r);            /* fine if there is no watch. No call comes after it */
void rdv_poll_only(struct rdv *r, bool on); /* from the next rdv_watch on: never use inotify, nor await */

#endif
