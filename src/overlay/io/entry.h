/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a rendezvous directory as text, for programs and for people with `cat`:
 *
 *   moyai node 1                                  moyai name 1
 *   id 00112233445566778899aabbccddeeff           name master
 *   host 00112233445566778899aabbccddeeff         object 00112233445566778899aabbccddeeff
 *   pid 4711                                      node 00112233445566778899aabbccddeeff
 *   started 1700000000                            end
 *   run-dir /run/user/1000/moyai
 *   title worker
 *   end
 *
 * The first line is kind and format version. All lines are there, in this order, each ended by one newline, nothing
 * after `end`. In texts, control characters, '%', and bytes that are no part of well-formed UTF-8 are written %XX
 * (upper-case hex). There is exactly one way to write a value: whatever is decoded encodes to the same bytes.
 *
 * Pure; any thread.
 */
#ifndef OVERLAY_IO_ENTRY_H
#define OVERLAY_IO_ENTRY_H

#include <moyai/error.h>

#define ENTRY_MAX       2048 /* bytes of an entry */
#define ENTRY_NAME_MAX  200  /* bytes of an object's name */
#define ENTRY_TITLE_MAX 127
#define ENTRY_DIR_MAX   107 /* a run directory is part of a socket address */

struct rdv_node {
    struct moyai_node_id id;
    uint8_t host[16]; /* rundir_host() */
    int64_t pid;
    uint64_t started; /* seconds since 1970, wall clock: for people only */
    char run_dir[ENTRY_DIR_MAX + 1];
    char title[ENTRY_TITLE_MAX + 1];
    bool leaving; /* it takes nothing any more */
};

struct rdv_name {
    char name[ENTRY_NAME_MAX + 1];
    struct moyai_object_id object;
    struct moyai_node_id node;
};

/* This process's node, started now. run_dir and title must fit (rundir_path and a hello's title do); else they are cut.
 */
void rdv_node_fill(struct rdv_node *n, const struct moyai_node_id *id, const uint8_t host[16], const char *run_dir,
                   const char *title);

/* What texts call a node: "node 0123abcd (worker, pid 4711)", as far as that is known: pid 0 is not, title may be "".
 */
#define ENTRY_CALLED 128
void entry_called(char out[ENTRY_CALLED], const uint8_t id[16], const char *title, int64_t pid);

/* Bytes written, or EINVAL with the field that cannot be written. */
int entry_encode_node(const struct rdv_node *in, char out[ENTRY_MAX], struct moyai_error *reterr) MOYAI_MUST_USE;
int entry_encode_name(const struct rdv_name *in, char out[ENTRY_MAX], struct moyai_error *reterr) MOYAI_MUST_USE;

/* Any bytes. 0; EDATA (the line and what is wrong with it); EVERSION (a newer format). *ret is touched only on success.
 */
int entry_decode_node(const char *p, size_t n, struct rdv_node *ret, struct moyai_error *reterr) MOYAI_MUST_USE;
int entry_decode_name(const char *p, size_t n, struct rdv_name *ret, struct moyai_error *reterr) MOYAI_MUST_USE;

/* 0, or EINVAL: a name is 1 to ENTRY_NAME_MAX bytes of UTF-8. */
int entry_check_name(const char *name, struct moyai_error *reterr) MOYAI_MUST_USE;

/* The file that holds a (valid) name: bytes outside [A-Za-z0-9._-] and a leading '.' as %XX; if that is longer than a
 * file's name may be, "%%" and 32 hex digits of a hash: the name inside the entry decides. NUL-terminated. */
#define ENTRY_FILE_MAX 255
void entry_file_of_name(const char *name, char out[ENTRY_FILE_MAX + 1]);

#endif
