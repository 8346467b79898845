/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/site.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t site_hash(const char *name) {
    uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
    if (!*name) return 0;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * UINT64_C(1099511628211);
    return h ? h : 1;
}

void site_default(char out[256]) {
    char host[256] = "";
    out[0] = 0;
    if (gethostname(host, sizeof host - 1) < 0) return;
    const char *dot = strchr(host, '.');
    if (dot) snprintf(out, 256, "%s", dot + 1);
}
