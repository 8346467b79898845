/* SPDX-License-Identifier: Apache-2.0 */
#include "overlay/io/room.h"

#include "base/config.h"
#include "base/err.h"
#include "overlay/io/listen.h"
#include "overlay/io/route.h"
#include "overlay/locate_set.h"

#define GUESTS 4u /* that wait for a place */

#define HALF_MOST  256u
#define HALF_LEAST 16u

/* Descriptors that are not those of links: of the node and its program, and of connections being made or taken; and
 * without the latter. */
#define FILES_OWN  64u
#define FILES_REST 32u

int room_of(struct room *ret, const struct overlay_cfg *c, struct moyai_error *reterr) {
    uint32_t links = c->small ? SMALL_LINKS : LOCATE_LINKS, degree = c->degree ? c->degree : 15, most = 3 * degree;
    const uint32_t besides = GUESTS + (c->grid_file ? LINE_PORTS : 0);
    if (degree > links / 4 || most + besides >= links)
        return err_set(reterr, MOYAI_EINVAL, "%s: %u links are too many", config_called(c->config, CONFIG_degree),
                       degree);
    uint32_t half = HALF_MOST;
    if (c->files) {
        uint64_t left = c->files > FILES_OWN ? c->files - FILES_OWN : 0;
        if (links > left) links = (uint32_t)left;
        if (links <= most + besides) { /* one place is for who looks, or nobody else takes */
            most = links > degree + besides ? links - besides - 1 : degree;
            links = most + besides + 1;
        }
        left = c->files > links + FILES_REST ? c->files - links - FILES_REST : 0;
        if (half > left) half = left > HALF_LEAST ? (uint32_t)left : HALF_LEAST;
    }
    *ret = (struct room){.degree = degree, .most = most, .rescue = links - most - besides, .half = half};
    return 0;
}
