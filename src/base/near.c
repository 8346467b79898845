/* SPDX-License-Identifier: Apache-2.0 */
#include "base/near.h"

#include <stdint.h>
#include <string.h>

/* Optimal string alignment: rows of the table of distances between beginnings of a and beginnings of b. */
size_t near_mistakes(const char *a, const char *b) {
    size_t n = strnlen(a, NEAR_MAX + 1), m = strnlen(b, NEAR_MAX + 1);
    size_t row[3][NEAR_MAX + 1]; /* this one, that before, and that before it */
    if (n > NEAR_MAX || m > NEAR_MAX) return SIZE_MAX;
    for (size_t j = 0; j <= m; j++) row[0][j] = row[1][j] = j;
    for (size_t i = 1; i <= n; i++) {
        memcpy(row[2], row[1], sizeof row[1]);
        memcpy(row[1], row[0], sizeof row[0]);
        row[0][0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t least = row[1][j - 1] + (a[i - 1] != b[j - 1]);
            if (row[1][j] + 1 < least) least = row[1][j] + 1;
            if (row[0][j - 1] + 1 < least) least = row[0][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && row[2][j - 2] + 1 < least)
                least = row[2][j - 2] + 1;
            row[0][j] = least;
        }
    }
    return row[0][m];
}

bool near_is(const char *wanted, const char *name, size_t *least) {
    size_t n = near_mistakes(wanted, name);
    if (n > 2 || 3 * n > strlen(wanted) || n >= *least) return false;
    *least = n;
    return true;
}

bool near_look(const char *name, void *near) {
    struct near *n = near;
    if (near_is(n->wanted, name, &n->least)) memcpy(n->name, name, strlen(name) + 1); /* it has no more than fit */
    return true;
}
