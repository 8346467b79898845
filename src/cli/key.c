/* SPDX-License-Identifier: Apache-2.0 */
/* moyai key: make, show and replace the keys of a grid. Secrets are written to the file and shown nowhere. */
#include "link/key.h"

#include "base/config.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/observe.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define KEEP_DEFAULT (7 * 24 * 3600 * MOYAI_SEC)

enum { KEY_JSON = 0x100, KEY_FILE, KEY_KEEP };

struct request {
    const char *action, *file;
    moyai_dur keep;
    bool json, keeps;
};

static error_t on_option(int key, char *arg, struct argp_state *state) {
    struct request *r = state->input;
    cli_help(key, state);
    switch (key) {
    case KEY_JSON:
        r->json = true;
        return 0;
    case KEY_FILE:
        cli_filled(state, "--key-file", arg);
        r->file = arg;
        return 0;
    case KEY_KEEP:
        r->keep = cli_duration(state, "keep", arg);
        r->keeps = true;
        return 0;
    case ARGP_KEY_ARG:
        if (r->action) cli_usage(state, "unknown argument '%s'", arg);
        if (strcmp(arg, "new") != 0 && strcmp(arg, "show") != 0 && strcmp(arg, "rotate") != 0)
            cli_usage(state, "unknown action '%s': new, show or rotate", arg);
        r->action = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        cli_usage(state, "what to do? new, show or rotate");
        return 0;
    case ARGP_KEY_END:
        if (r->keeps && r->action && strcmp(r->action, "rotate") != 0)
            cli_usage(state, "--keep is for rotate, not for %s", r->action);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int make(struct keyring *r, const char *path, struct moyai_error *why) {
    r->n = 1;
    int rc = key_new(&r->key[0], why);
    if (rc == 0) rc = keyfile_write(r, path, true, why);
    struct stat st = {0};
    bool seen = rc == MOYAI_EEXIST && stat(path, &st) == 0;
    if (seen && !S_ISREG(st.st_mode))
        rc = err_set(why, rc, "%.150s is there already, and is no file", path);
    else if (seen && st.st_size == 0)
        rc = err_set(why, rc, "%.150s is there already, and holds no key: remove it first", path);
    else if (rc == MOYAI_EEXIST)
        rc = err_set(why, rc,
                     "%.150s is there already: moyai key rotate puts a new key into it, moyai key show lists them",
                     path);
    return rc;
}

/* A new key in front; the others serve for `keep` longer, so that hosts that have not got the new file yet stay in. */
static int rotate(struct keyring *r, const char *path, moyai_dur keep, struct moyai_error *why) {
    int rc = keyfile_read(r, path, why);
    if (rc < 0) return rc;
    static struct keyring next;
    memset(&next, 0, sizeof next);
    int64_t now = (int64_t)time(NULL), until = now + keep / MOYAI_SEC;
    rc = key_new(&next.key[next.n++], why);
    for (size_t i = 0; i < r->n && rc == 0 && next.n < KEYS_MOST; i++) {
        struct key k = r->key[i];
        if (k.until > until) k.until = until;
        if (k.until > now) next.key[next.n++] = k;
    }
    if (rc == 0) rc = keyfile_write(&next, path, false, why);
    *r = next;
    keyring_wipe(&next);
    return rc;
}

/* The new key is no use to who has not got it. */
static void remind(const struct keyring *r, const char *path, const char *title) {
    int64_t last = 0;
    char until[32];
    for (size_t i = 1; i < r->n; i++)
        if (r->key[i].until > last) last = r->key[i].until;
    key_format_time(last, until);
    if (last == 0)
        cli_say(
            title,
            "rotate: the old keys have ended: whoever of the grid has not got the new file is shut out; copy %.300s to "
            "the other hosts now",
            path);
    else
        cli_say(title, "rotate: copy %.300s to the other hosts of the grid: who has not got it is shut out from %s on",
                path, until);
}

static void show(const struct keyring *r, const char *path, bool json) {
    int64_t now = (int64_t)time(NULL);
    const struct key *first = keyring_usable(r, 0, now);
    if (json) {
        static char text[JSON_WORST * PATH_MAX];
        size_t n = strlen(path);
        n = json_escape(text, path, n < PATH_MAX ? n : PATH_MAX);
        printf("{\"file\": \"%.*s\", \"keys\": [", (int)n, text);
    } else {
        printf("%s\n", path);
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct key *k = &r->key[i];
        const char *state = k == first ? "offered" : now < k->until ? "accepted" : "ended";
        char until[32];
        key_format_time(k->until, until);
        if (json)
            printf("%s{\"id\": \"%s\", \"state\": \"%s\", \"until\": %s%s%s}", i ? ", " : "", k->id, state,
                   until[0] ? "\"" : "", until[0] ? until : "null", until[0] ? "\"" : "");
        else
            printf("  %s  %-8s  %s%s\n", k->id, state, until[0] ? "until " : "no end", until);
    }
    if (json) printf("]}\n");
}

int cli_key(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"key-file", KEY_FILE, "FILE", 0,
         "The key file (default MOYAI_KEY_FILE, then $XDG_CONFIG_HOME/moyai/key, then ~/.config/moyai/key)", 0},
        {"keep", KEY_KEEP, "TIME", 0, "rotate: how long the old keys are still accepted (default 7d)", 0},
        {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
        CLI_HELP_OPTIONS,
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .args_doc = "new|show|rotate",
        .doc = "Makes, shows and replaces the keys of a grid. Nodes on different hosts form a grid if their key files "
               "have a key in common: copy the file to each host, by ssh.\v"
               "  new      make a key file with one key; it must not be there yet\n"
               "  show     list the keys: id, whether it is offered, accepted or ended\n"
               "  rotate   put a new key in front; the old ones end after --keep\n\n" CLI_TIME_FORM,
    };
    struct request q = {.keep = KEEP_DEFAULT};
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &q);
    static struct keyring r; /* too large for comfort on a stack */
    struct moyai_error why = {0};
    struct config c;
    char *path = NULL;
    int rc = config_load(&c, &why);
    if (rc == 0) {
        rc = keyfile_path(&path, q.file ? q.file : c.key_file, &why);
        config_done(&c);
    }
    if (rc == 0 && strcmp(q.action, "new") == 0)
        rc = make(&r, path, &why);
    else if (rc == 0 && strcmp(q.action, "rotate") == 0)
        rc = rotate(&r, path, q.keep, &why);
    else if (rc == 0)
        rc = keyfile_read(&r, path, &why);
    if (rc == 0) show(&r, path, q.json);
    if (rc == 0 && strcmp(q.action, "rotate") == 0) remind(&r, path, argv[0]);
    if (rc < 0) {
        cli_say(argv[0], "%s: %s", q.action, why.text);
        observer_print_error(q.json, why.code, why.text);
    }
    keyring_wipe(&r);
    free(path);
    return rc == 0 ? CLI_OK : CLI_FAILED;
}
