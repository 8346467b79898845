/* SPDX-License-Identifier: Apache-2.0 */
/* The site of a node: its name, and what machines know it by. */
#ifndef OVERLAY_IO_SITE_H
#define OVERLAY_IO_SITE_H

#include <stdint.h>

uint64_t site_hash(const char *name); /* "": 0, none */
void site_default(char out[256]);     /* the host's domain, if it has one; else "" */

#endif
