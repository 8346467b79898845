/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a verb's words are parsed: by argp(3), which does not tell its user of an option that it does not know. So the
 * words are gone through before, by the same function of the C library as argp does it with, for such an option only:
 * the first. What is like one that this verb has is said, and no byte of it reaches a terminal that is no text. All
 * else is left to argp to find and to say.
 */
#include "cli/cli.h"

#include "base/near.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The end of argp's tables. */
static bool is_last(const struct argp_option *o) {
    return !o->name && !o->key && !o->doc && !o->group;
}

static bool is_short(const struct argp_option *o) {
    return o->key > ' ' && o->key < 0x7f;
}

static int has_argument(const struct argp_option *o) {
    if (!o->arg) return no_argument;
    return o->flags & OPTION_ARG_OPTIONAL ? optional_argument : required_argument;
}

/* getopt's tables: n + 1 rows, and 2 + 3 n bytes. */
static void make_tables(const struct argp_option *o, enum cli_order order, struct option *rows, char *letters) {
    static const char *const orders[] = {[CLI_ANY_ORDER] = "", [CLI_IN_ORDER] = "-", [CLI_PROGRAM] = "+"};
    letters = stpcpy(letters, orders[order]);
    for (; !is_last(o); o++) {
        const int argument = has_argument(o);
        if (o->name) *rows++ = (struct option){.name = o->name, .has_arg = argument, .val = o->key};
        if (!is_short(o)) continue;
        *letters++ = (char)o->key;
        letters = stpcpy(letters, argument == optional_argument ? "::" : argument ? ":" : "");
    }
}

static bool is_letter(const struct argp_option *o, int key) {
    while (!is_last(o) && o->key != key) o++;
    return !is_last(o);
}

static bool is_beginning(const struct argp_option *o, const char *given) {
    while (!is_last(o) && (!o->name || strncmp(o->name, given, strlen(given)) != 0)) o++;
    return !is_last(o);
}

/* The option that was meant. NULL: there is none like it. */
static const char *meant(const struct argp_option *o, const char *given) {
    const char *name = NULL;
    size_t least = SIZE_MAX;
    for (; !is_last(o); o++) {
        if (!o->name || o->flags & OPTION_HIDDEN) continue;
        if (near_is(given, o->name, &least)) name = o->name;
    }
    return name;
}

/* words: its order may change. */
static void look(const struct argp *parser, int n, char **words, const struct option *rows, const char *letters) {
    int key;
    opterr = 0;
    optind = 0; /* from the beginning */
    do {
        key = getopt_long(n, words, letters, rows, NULL);
        if (key == -1 || key == CLI_KEY_HELP || key == CLI_KEY_USAGE) return; /* the end, or argp_parse exits there */
    } while (key != '?');
    const char *word = words[optind - 1];
    char given[NEAR_MAX + 2], text[300];                           /* longer ones are like none */
    if (optopt != 0 && is_letter(parser->options, optopt)) return; /* its argument is missing */
    if (optopt != 0) {
        const char *of = optind < n && strchr(words[optind], optopt) ? words[optind] : word; /* it has more letters */
        if (optopt > ' ' && optopt < 0x7f)
            snprintf(text, sizeof text, "invalid option -- '%c'", optopt);
        else
            snprintf(text, sizeof text, "unrecognized option '%.200s'", of);
    } else {
        if (strncmp(word, "--", 2) != 0) return;
        snprintf(given, sizeof given, "%.*s", (int)strcspn(word + 2, "="), word + 2);
        if (is_beginning(parser->options, given)) return; /* of several, or its argument is missing or too much */
        const char *name = meant(parser->options, given);
        if (name)
            snprintf(text, sizeof text, "unrecognized option '--%s'; did you mean '--%s'?", given, name);
        else
            snprintf(text, sizeof text, "unrecognized option '%.*s'", (int)strcspn(word, "=") % 200, word);
    }
    char *title = strrchr(words[0], '/');
    title = title ? title + 1 : words[0];
    cli_say(title, "%s", text);
    argp_help(parser, stderr, ARGP_HELP_SEE, title);
    exit(argp_err_exit_status);
}

void cli_parse(const struct argp *parser, int argc, char **argv, enum cli_order order, void *input) {
    size_t n = 0;
    while (!is_last(&parser->options[n])) n++;
    struct option *rows = calloc(n + 1, sizeof *rows);
    char *letters = calloc(3, n + 1), **words = calloc((size_t)argc + 1, sizeof *words);
    if (rows && letters && words) {
        make_tables(parser->options, order, rows, letters);
        memcpy(words, argv, (size_t)argc * sizeof *words);
        look(parser, argc, words, rows, letters);
    }
    free(rows);
    free(letters);
    free(words);
    argp_parse(parser, argc, argv, ARGP_NO_HELP | (order == CLI_ANY_ORDER ? 0 : ARGP_IN_ORDER), NULL, input);
}
