/* SPDX-License-Identifier: Apache-2.0 */
/* gridfile_parse: what is accepted can be written again and means the same; none of it can mean anything else to ssh.
 */
#include "overlay/io/gridfile.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/* A word of ssh's command line. */
static void plain(const char *s, size_t room, bool may_be_empty) {
    size_t n = strnlen(s, room);
    FUZZ_CHECK(n < room && (n > 0 || may_be_empty) && s[0] != '-');
    FUZZ_CHECK(strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:,[]") == n);
}

static size_t write_line(char *out, size_t room, const struct gridfile_line *l) {
    size_t n = (size_t)snprintf(out, room, "forward %s %s", l->host[0], l->host[1]);
    if (l->reverse) n += (size_t)snprintf(out + n, room - n, " reverse");
    if (l->user[0]) n += (size_t)snprintf(out + n, room - n, " user=%s", l->user);
    if (l->port) n += (size_t)snprintf(out + n, room - n, " port=%u", l->port);
    if (l->jump[0]) n += (size_t)snprintf(out + n, room - n, " jump=%s", l->jump);
    if (l->listen) n += (size_t)snprintf(out + n, room - n, " listen=%u", l->listen);
    return n + (size_t)snprintf(out + n, room - n, " to=%s:%u\n", l->to_host, l->to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct gridfile g, again;
    static char text[GRIDFILE_LINES * 1024];
    struct moyai_error e;
    memset(&g, 0xa5, sizeof g);
    int rc = gridfile_parse(&g, "grid.conf", (const char *)data, size, &e);
    if (rc < 0) {
        FUZZ_CHECK(rc == MOYAI_EINVAL && e.code == rc && strstr(e.text, "\"grid.conf\""));
        return 0;
    }
    FUZZ_CHECK(g.n <= GRIDFILE_LINES);
    size_t n = 0;
    for (size_t i = 0; i < g.n; i++) {
        const struct gridfile_line *l = &g.line[i];
        for (int k = 0; k < 2; k++) plain(l->host[k], sizeof l->host[k], false);
        plain(l->user, sizeof l->user, true);
        plain(l->jump, sizeof l->jump, true);
        plain(l->to_host, sizeof l->to_host, false);
        FUZZ_CHECK(l->to && (!l->reverse || l->listen) && !gridfile_is_host(l->host[0], l->host[1]));
        n += write_line(text + n, sizeof text - n, l);
    }
    FUZZ_CHECK(gridfile_parse(&again, "grid.conf", text, n, &e) == 0 && again.n == g.n);
    for (size_t i = 0; i < g.n; i++) FUZZ_CHECK(gridfile_hash(&again.line[i]) == gridfile_hash(&g.line[i]));
    return 0;
}
