/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dur.h"

#include <stdio.h>

const char *dur_text(moyai_dur d, char text[DUR_TEXT]) {
    static const struct {
        moyai_dur below;
        double ns; /* of one */
        const char *name;
    } units[] = {
        {1000, 1, "ns"},
        {MOYAI_MS, 1e3, "us"},
        {MOYAI_SEC, 1e6, "ms"},
        {600 * MOYAI_SEC, 1e9, "s"},
        {7200 * MOYAI_SEC, 60e9, "min"},
        {172800 * MOYAI_SEC, 3600e9, "h"},
        {MOYAI_FOREVER, 86400e9, "days"},
    };
    const size_t n = sizeof units / sizeof units[0];
    size_t u = 0;
    if (d <= 0) {
        snprintf(text, DUR_TEXT, "0 s");
        return text;
    }
    while (u < n && d >= units[u].below) u++;
    if (u == n)
        snprintf(text, DUR_TEXT, "forever");
    else if ((double)d >= 9999 * units[u].ns) /* days: %g would have an exponent */
        snprintf(text, DUR_TEXT, "%.0f %s", (double)d / units[u].ns, units[u].name);
    else
        snprintf(text, DUR_TEXT, "%.4g %s", (double)d / units[u].ns, units[u].name);
    return text;
}
