/* SPDX-License-Identifier: Apache-2.0 */
/* Own look-ups, names and claims (locate_look.c), for the rest of the locating machine. */
#ifndef OVERLAY_LOCATE_LOOK_H
#define OVERLAY_LOCATE_LOOK_H

#include "overlay/locate_internal.h"

int locate_look_step(struct locate *l, const struct locate_event *ev);
int locate_look_cancel(struct locate *l, const struct locate_event *ev);
int locate_name_add(struct locate *l, const struct locate_event *ev);
int locate_name_remove(struct locate *l, const struct locate_event *ev);
/* A request has been answered: so are those here who wait for it. */
void locate_look_answered(struct locate *l, uint32_t kind, const uint8_t key[16], const struct locate_answer *a);
/* Its last ring has ended. held: not all could be asked. */
enum look_left {
    LOOK_NONE,    /* nobody here waits any more */
    LOOK_AGAIN,   /* for who came late the rings begin anew */
    LOOK_WAITING, /* only for what will come */
};
enum look_left locate_look_ended(struct locate *l, uint32_t kind, const uint8_t key[16], bool held, moyai_ns now);
uint64_t locate_look_wait(const struct locate *l, uint32_t kind, const uint8_t key[16]); /* the last end of a wait */
void locate_look_timeout(struct locate *l, moyai_ns now);
void locate_name_lose(struct locate *l, struct locate_name *n, const uint8_t owner[16], const uint8_t object[16]);
int locate_name_lost(struct locate *l, const struct locate_event *ev);
int locate_names_receive(struct locate *l, const struct locate_event *ev);
/* Two hold one name: who loses it is told. */
void locate_name_conflict(struct locate *l, const uint8_t name[16], const uint8_t owner_a[16],
                          const uint8_t object_a[16], const uint8_t owner_b[16], const uint8_t object_b[16],
                          moyai_ns now);
bool locate_look_next(struct locate *l, struct locate_effect *fx);

#endif
