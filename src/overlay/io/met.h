/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How it goes at each place where the grid is met, in words: for the log, once as long as it stays so, and for whoever
 * has met nobody. Pure; node lock held.
 */
#ifndef OVERLAY_IO_MET_H
#define OVERLAY_IO_MET_H

#include "overlay/io/meet.h"
#include "overlay/io/places.h"

#define MET_TEXT     220u
#define MET_FULLS    8u
#define MET_FAILS    32u
#define MET_REFUSALS 3u

struct met_place {
    const char *place; /* borrowed */
    bool answered;     /* at least once */
    bool own;          /* it is this node's own address: nobody else is to be met there */
    unsigned asked;    /* so often to the end */
    unsigned refused; /* so often one after the other, up to the last time: as nobody listens, or takes a key of ours */
    int code;         /* of the last time; 0: well, or not asked yet */
    enum met_what what;  /* of the text */
    size_t foreign;      /* entries there that no key of ours opens, at the last time */
    char text[MET_TEXT]; /* with code 0: why others may come yet */
};

struct met {
    struct met_place of[MEET_PLACES + PLACES_MOST];
    size_t n;
    moyai_ns began;
    bool others;        /* somebody has been met, at any place and time */
    size_t turned_away; /* members without any other link for whom this node had no place */
    int64_t ahead;      /* seconds: an entry that seems to come from the future; 0: none has */
    bool is_ahead;      /* since the last look */
    int64_t over;       /* seconds since the end of one that was there all the same, of the latest; 0: there was none */
    /* The connection to one who was met that failed last; of what the text is, and to whom. */
    char dial[MET_TEXT];
    enum met_what dial_what;
    uint8_t dial_id[16];
    /* Who was met, and could not be connected to the last time, as nobody listens there or whatever else; the last. */
    uint8_t failed[MET_FAILS][16];
    size_t n_failed;
    /* Since there was a link: who has no place, though it was told that nobody else has one either; the last of them.
     */
    uint8_t full[MET_FULLS][16];
    size_t n_full;
};

size_t met_add(struct met *m, const char *place); /* its number */
/* What has come of asking it. True: that is news, and worth a word. */
bool met_tell(struct met *m, size_t place, int code, enum met_what what, const char *text);
bool met_foreign(struct met *m, size_t place, size_t n);
void met_foreign_text(size_t n, char out[MET_TEXT]);
bool met_ahead(struct met *m, int64_t seconds); /* true: the first */
void met_looked(struct met *m);                 /* all places have been asked: what was not seen again is no more */
const char *met_ahead_text(const struct met *m, char out[MET_TEXT]);
void met_over(struct met *m, int64_t seconds);
void met_dial_failed(struct met *m, const uint8_t id[16], enum met_what what, const char *text);
void met_dial_over(struct met *m, const uint8_t id[16]); /* it has been reached, or is not there any more */
bool met_dial_has_failed(const struct met *m, const uint8_t id[16]);
void met_full(struct met *m, const uint8_t id[16]);
const char *met_full_text(bool observer); /* observer: this node is */
bool met_is_full(const struct met *m, const uint8_t id[16]);
/* Of a connection that failed so (dial.h); NULL: without a word. */
enum met_what met_dial_what(const struct moyai_error *why);

/* All places have answered twice that they know of nobody; unless new_too none of them is so new that others may come.
 */
bool met_settled(const struct met *m, bool new_too);
bool met_heard(const struct met *m); /* all places have answered */
/* Nobody listens at any of them, nor did at the last MET_REFUSALS looks; or who does takes no key of ours. */
bool met_refused(const struct met *m);
bool met_empty(const struct met *m); /* and more than once; and hold nothing that is hidden from us */
/* Each place, and what was last known of it; returns what that is. waited: since it was first asked; a server that is
 * to answer by HTTP has taken the connection when MET_CONNECTED has passed, or it is known that it has not. */
#define MET_CONNECTED (6 * MOYAI_SEC) /* the connection's time is over after 5 s; who tells of it may be late */
unsigned met_report(const struct met *m, moyai_dur waited, char *out, size_t n);

/* What is wrong, with all of them, and of what that is; "": nothing that is known of. True: so nobody could be met
 * there, ever. */
bool met_nobody(const struct met *m, char *out, size_t n, unsigned *what);

#endif
