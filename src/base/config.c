/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config.h"

#include "base/err.h"
#include "base/json.h"
#include "base/near.h"
#include "base/utf8.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct config_option options[CONFIG_COUNT] = {
#define X(field, ctype, type, env, deflt, least, most, unit, help)                                                     \
    {#field, env, deflt, CONFIG_##type, offsetof(struct config, field), least, most, unit, help},
    CONFIG_TABLE(X)
#undef X
};

const struct config_option *config_options(void) {
    return options;
}

/* ---- parsing -------------------------------------------------------------------------------- */

/* Decimal digits at *p, which moves behind them. EINVAL: none; ERANGE. */
static int parse_digits(const char **p, uint64_t *ret) {
    uint64_t x = 0;
    const char *c = *p;
    if (!isdigit((unsigned char)*c)) return MOYAI_EINVAL;
    for (; isdigit((unsigned char)*c); c++) {
        if (__builtin_mul_overflow(x, 10u, &x) || __builtin_add_overflow(x, (uint64_t)(*c - '0'), &x)) {
            return MOYAI_ERANGE;
        }
    }
    *p = c;
    *ret = x;
    return 0;
}

int config_parse_size(const char *text, uint64_t *ret) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"k", 1u << 10},
        {"K", 1u << 10},
        {"KiB", 1u << 10},
        {"kB", 1000},
        {"M", 1u << 20},
        {"MiB", 1u << 20},
        {"MB", 1000000},
        {"G", 1u << 30},
        {"GiB", 1u << 30},
        {"GB", 1000000000},
        {"T", (uint64_t)1 << 40},
        {"TiB", (uint64_t)1 << 40},
        {"TB", 1000000000000},
    };
    const char *p = text;
    uint64_t x;
    int rc = parse_digits(&p, &x);
    if (rc < 0) return rc;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(p, units[i].name) != 0) continue;
        return __builtin_mul_overflow(x, units[i].bytes, ret) ? MOYAI_ERANGE : 0;
    }
    return MOYAI_EINVAL;
}

int config_parse_duration(const char *text, moyai_dur *ret) {
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"", 1000000000},   {"s", 1000000000},    {"ms", 1000000},      {"us", 1000},          {"ns", 1},
        {"m", 60000000000}, {"min", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000},
    };
    const char *p = text, *fraction = NULL;
    uint64_t x = 0;
    int rc = *p == '.' ? 0 : parse_digits(&p, &x);
    if (rc < 0) return rc;
    if (*p == '.') {
        fraction = ++p;
        if (!isdigit((unsigned char)*p)) return MOYAI_EINVAL;
        while (isdigit((unsigned char)*p)) p++;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(p, units[i].name) != 0) continue;
        if (__builtin_mul_overflow(x, units[i].ns, &x)) return MOYAI_ERANGE;
        uint64_t place = units[i].ns;
        for (const char *c = fraction; c && c < p; c++) {
            place /= 10; /* what is below a nanosecond is dropped */
            if (__builtin_add_overflow(x, place * (uint64_t)(*c - '0'), &x)) return MOYAI_ERANGE;
        }
        if (x > INT64_MAX) return MOYAI_ERANGE;
        *ret = (moyai_dur)x;
        return 0;
    }
    return MOYAI_EINVAL;
}

int config_parse_integer(const char *text, int64_t *ret) {
    bool minus = *text == '-';
    const char *p = text + minus;
    uint64_t x;
    int rc = parse_digits(&p, &x);
    if (rc < 0) return rc;
    if (*p) return MOYAI_EINVAL;
    if (x > (uint64_t)INT64_MAX + minus) return MOYAI_ERANGE;
    *ret = minus ? (int64_t)(0 - x) : (int64_t)x;
    return 0;
}

int config_parse_bool(const char *text, bool *ret) {
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) != 0) continue;
        *ret = i % 2 != 0;
        return 0;
    }
    return MOYAI_EINVAL;
}

/* ---- values --------------------------------------------------------------------------------- */

static void *field_of(struct config *c, const struct config_option *o) {
    return (char *)c + o->offset;
}
static const void *value_of(const struct config *c, const struct config_option *o) {
    return (const char *)c + o->offset;
}

static const char *const accepted[] = {
    [CONFIG_STRING] = "text",
    [CONFIG_SIZE] = "a size such as 65536, 64k, 256MiB or 1GiB",
    [CONFIG_DURATION] = "a duration such as 10s, 500ms, 5m or 1h",
    [CONFIG_INTEGER] = "an integer",
    [CONFIG_BOOL] = "yes or no",
};
static const char *const type_names[] = {
    [CONFIG_STRING] = "string",   [CONFIG_SIZE] = "size", [CONFIG_DURATION] = "duration",
    [CONFIG_INTEGER] = "integer", [CONFIG_BOOL] = "bool",
};
static const char *const origin_names[] = {
    [CONFIG_FROM_DEFAULT] = "default",
    [CONFIG_FROM_ENVIRONMENT] = "environment",
    [CONFIG_FROM_OPTION] = "option",
};

static void format_size(uint64_t x, char *to, size_t n) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (x > 0 && x % 1024 == 0 && u + 1 < sizeof units / sizeof units[0]) {
        x /= 1024;
        u++;
    }
    snprintf(to, n, "%" PRIu64 "%s", x, units[u]);
}

static void format_duration(int64_t x, char *to, size_t n) {
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
    size_t u = 2; /* 0 is 0s */
    for (size_t i = 0; x > 0 && i < sizeof units / sizeof units[0]; i++) {
        if (x % units[i].ns) continue;
        u = i;
        break;
    }
    /* 90s rather than 90m of an hour and a half; but 60s is better than 1m: people wrote it */
    if (u < 2 && x < 600 * (int64_t)1000000000) u = 2;
    snprintf(to, n, "%" PRId64 "%s", x / units[u].ns, units[u].name);
}

/* A number of the option's type as people read it. */
static void format_number(const struct config_option *o, int64_t x, char *to, size_t n) {
    switch (o->type) {
    case CONFIG_SIZE:
        format_size((uint64_t)x, to, n);
        break;
    case CONFIG_DURATION:
        format_duration(x, to, n);
        break;
    case CONFIG_INTEGER:
    case CONFIG_STRING:
    case CONFIG_BOOL:
        snprintf(to, n, "%" PRId64, x);
        break;
    }
}

/* How the option is called where it came from, for error texts. */
static int refuse(const struct config_option *o, enum config_origin origin, const char *value,
                  struct moyai_error *reterr) {
    char range[80] = "", least[32], most[32], name[40];
    config_option_name(o, name);
    if (o->type == CONFIG_SIZE || o->type == CONFIG_DURATION || o->type == CONFIG_INTEGER) {
        format_number(o, o->least, least, sizeof least);
        format_number(o, o->most, most, sizeof most);
        if (o->most == INT64_MAX) {
            snprintf(range, sizeof range, ", at least %s", least);
        } else {
            snprintf(range, sizeof range, ", from %s to %s", least, most);
        }
    }
    return err_set(reterr, MOYAI_EINVAL, "%s%s is \"%.64s\"; accepted is %s%s",
                   origin == CONFIG_FROM_OPTION ? "option " : "$", origin == CONFIG_FROM_OPTION ? name : o->env, value,
                   accepted[o->type], range);
}

/* Parse and store. On failure nothing has changed. */
static int set(struct config *c, size_t i, const char *text, enum config_origin origin, struct moyai_error *reterr) {
    const struct config_option *o = &options[i];
    void *field = field_of(c, o);
    union {
        char *s;
        uint64_t u;
        int64_t i;
        bool b;
    } x;
    int rc = 0;
    switch (o->type) {
    case CONFIG_STRING:
        x.s = malloc(strlen(text) + 1);
        if (x.s) strcpy(x.s, text);
        if (!x.s) return err_set(reterr, MOYAI_ENOMEM, "%s", moyai_strerror(MOYAI_ENOMEM));
        free(*(char **)field);
        *(char **)field = x.s;
        break;
    case CONFIG_SIZE:
        rc = config_parse_size(text, &x.u);
        if (rc < 0 || x.u < (uint64_t)o->least || x.u > (uint64_t)o->most) return refuse(o, origin, text, reterr);
        *(uint64_t *)field = x.u;
        break;
    case CONFIG_DURATION:
        rc = config_parse_duration(text, &x.i);
        if (rc < 0 || x.i < o->least || x.i > o->most) return refuse(o, origin, text, reterr);
        *(moyai_dur *)field = x.i;
        break;
    case CONFIG_INTEGER:
        rc = config_parse_integer(text, &x.i);
        if (rc < 0 || x.i < o->least || x.i > o->most) return refuse(o, origin, text, reterr);
        *(int64_t *)field = x.i;
        break;
    case CONFIG_BOOL:
        if (config_parse_bool(text, &x.b) < 0) return refuse(o, origin, text, reterr);
        *(bool *)field = x.b;
        break;
    }
    c->origin[i] = (uint8_t)origin;
    return 0;
}

/* NULL: not set, or set to nothing, which is the same. */
static const char *environment(size_t i) {
    const char *env = getenv(options[i].env);
    return env && *env ? env : NULL;
}

static int load(struct config *c, struct config_faults *faults, struct moyai_error *reterr) {
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const char *env = environment(i), *deflt = options[i].deflt;
        int rc = env ? set(c, i, env, CONFIG_FROM_ENVIRONMENT, faults ? &faults->of[i] : reterr) : 0;
        if (rc == MOYAI_ENOMEM && faults && reterr) *reterr = faults->of[i];
        if (rc == MOYAI_EINVAL && faults) rc = 0; /* and its origin is still the default */
        if (rc == 0 && c->origin[i] == CONFIG_FROM_DEFAULT && deflt) rc = set(c, i, deflt, CONFIG_FROM_DEFAULT, reterr);
        if (rc < 0) {
            config_done(c);
            return rc;
        }
    }
    return 0;
}

int config_load(struct config *c, struct moyai_error *reterr) {
    return load(c, NULL, reterr);
}

int config_load_all(struct config *c, struct config_faults *faults, struct moyai_error *reterr) {
    memset(faults, 0, sizeof *faults);
    return load(c, faults, reterr);
}

/* Set by `moyai run` and `moyai node` for programs, and read by tests: no options, but no mistakes either. */
static const char *const others[] = {"MOYAI_RANK",  "MOYAI_SIZE",    "MOYAI_GROUP",
                                     "MOYAI_INDEX", "MOYAI_COMMAND", "MOYAI_TEST_SEED"};

static bool is_known(const char *name) {
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        if (strcmp(options[i].env, name) == 0) return true;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(others[i], name) == 0) return true;
    return false;
}

/* With two mistakes and no more than half of what follows MOYAI_, by which alone they differ. */
static const char *like(const char *name) {
    const size_t n = strlen("MOYAI_"), most = strlen(name + n) / 2;
    size_t least = most < 2 ? most + 1 : 3;
    const char *found = NULL;
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const size_t wrong = near_mistakes(name + n, options[i].env + n);
        if (wrong >= least) continue;
        least = wrong;
        found = options[i].env;
    }
    return found;
}

void config_unknown(void (*fn)(const char *name, const char *value, const char *like, void *arg), void *arg) {
    for (char **e = environ; e && *e; e++) {
        char name[64];
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, "MOYAI_", 6) != 0 || (*e)[n] == 0 || (*e)[n + 1] == 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), *e);
        if (n >= sizeof name || !is_known(name)) fn(name, *e + n + 1, like(name), arg);
    }
}

void config_done(struct config *c) {
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        if (options[i].type == CONFIG_STRING) free(*(char **)field_of(c, &options[i]));
    }
    memset(c, 0, sizeof *c);
}

void config_option_name(const struct config_option *o, char name[40]) {
    snprintf(name, 40, "%s", o->field);
    for (char *p = name; *p; p++) {
        if (*p == '_') *p = '-';
    }
}

int config_set(struct config *c, const char *name, const char *value, struct moyai_error *reterr) {
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        char own[40];
        config_option_name(&options[i], own);
        if (strcmp(own, name) == 0) return set(c, i, value, CONFIG_FROM_OPTION, reterr);
    }
    return err_set(reterr, MOYAI_ENOENT, "there is no option \"%.64s\"", name);
}

const char *config_called(const struct config *c, enum config_index which) {
    static const char *const called[CONFIG_COUNT][2] = {
#define X(field, ctype, type, env, deflt, least, most, unit, help) {"$" env, "option " #field},
        CONFIG_TABLE(X)
#undef X
    };
    return called[which][!c || c->origin[which] == CONFIG_FROM_OPTION];
}

int config_blame(struct moyai_error *e, const struct config *c, enum config_index which) {
    if (!e || e->code == MOYAI_ENOMEM || e->code == MOYAI_ELIMIT || e->code == MOYAI_ENOSPC) return e ? e->code : 0;
    return err_prefix(e, "%s", config_called(c, which));
}

/* ---- printing ------------------------------------------------------------------------------- */

static int64_t number_in(const struct config *c, const struct config_option *o) {
    switch (o->type) {
    case CONFIG_SIZE:
        return (int64_t) * (const uint64_t *)value_of(c, o);
    case CONFIG_DURATION:
        return *(const moyai_dur *)value_of(c, o);
    case CONFIG_INTEGER:
        return *(const int64_t *)value_of(c, o);
    case CONFIG_BOOL:
        return *(const bool *)value_of(c, o);
    case CONFIG_STRING:
        break;
    }
    return 0;
}

static void print_string(FILE *f, const char *text) {
    char part[16 * JSON_WORST];
    size_t n = strlen(text);
    putc('"', f);
    while (n > 0) { /* in parts that do not cut a character */
        size_t m = utf8_cut(text, n, 16);
        if (m == 0) m = 1;
        fwrite(part, 1, json_escape(part, text, m), f);
        text += m;
        n -= m;
    }
    putc('"', f);
}

/* A name and a value that may be anybody's, for a terminal: in parts, as long as they may be. */
static void put_clean(FILE *f, const char *text, size_t width) {
    char part[64];
    size_t n = strlen(text), put = 0;
    while (n > 0) {
        size_t m = utf8_cut(text, n, 32);
        if (m == 0) m = 1;
        put += utf8_line(part, sizeof part, text, m);
        fputs(part, f);
        text += m;
        n -= m;
    }
    fprintf(f, "%*s", put < width ? (int)(width - put) : 0, "");
}

static void put_row(FILE *f, const char *name, const char *value, const char *from) {
    put_clean(f, name, 19);
    putc(' ', f);
    put_clean(f, value, 20);
    fprintf(f, " %-11s  ", from);
}

struct unknown_printed {
    FILE *f;
    size_t n;
};

static void print_unknown_json(const char *name, const char *value, const char *meant, void *arg) {
    (void)value, (void)meant;
    struct unknown_printed *u = arg;
    if (u->n++) fputs(", ", u->f);
    print_string(u->f, name);
}

static void print_unknown_text(const char *name, const char *value, const char *meant, void *arg) {
    struct unknown_printed *u = arg;
    put_row(u->f, name, value, "unknown");
    fprintf(u->f, "there is no such variable: mistyped?%s%s%s\n", meant ? " Did you mean " : "", meant ? meant : "",
            meant ? "?" : "");
}

static void print_json(const struct config *c, const struct config_faults *faults, FILE *f) {
    struct unknown_printed u = {f, 0};
    putc('{', f);
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const struct config_option *o = &options[i];
        char name[40];
        config_option_name(o, name);
        fprintf(f, "%s\n  \"%s\": {\"variable\": \"%s\", \"type\": \"%s\", \"unit\": \"%s\", \"value\": ", i ? "," : "",
                name, o->env, type_names[o->type], o->unit);
        const char *s = o->type == CONFIG_STRING ? *(char *const *)value_of(c, o) : NULL;
        bool bad = faults->of[i].code != 0;
        if (bad) s = environment(i);
        if (s) {
            print_string(f, s);
        } else if (o->type == CONFIG_STRING) {
            fputs("null", f);
        } else if (o->type == CONFIG_BOOL) {
            fputs(number_in(c, o) ? "true" : "false", f);
        } else {
            fprintf(f, "%" PRId64, number_in(c, o));
        }
        fputs(", \"default\": ", f);
        if (o->deflt) {
            print_string(f, o->deflt);
        } else {
            fputs("null", f);
        }
        fprintf(f, ", \"origin\": \"%s\", \"help\": ", origin_names[bad ? CONFIG_FROM_ENVIRONMENT : c->origin[i]]);
        print_string(f, o->help);
        if (bad) {
            fputs(", \"error\": ", f);
            print_string(f, faults->of[i].text);
        }
        putc('}', f);
    }
    fputs(",\n  \"unknown\": [", f);
    config_unknown(print_unknown_json, &u);
    fputs("]\n}\n", f);
}

static void print_text(const struct config *c, const struct config_faults *faults, FILE *f) {
    fprintf(f, "%-19s %-20s %-11s  %s\n", "VARIABLE", "VALUE", "FROM", "MEANING");
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const struct config_option *o = &options[i];
        char number[32];
        const char *value = number;
        if (faults->of[i].code != 0) {
            put_row(f, o->env, environment(i), "bad");
            fprintf(f, "%s\n", faults->of[i].text);
            continue;
        }
        switch (o->type) {
        case CONFIG_STRING:
            value = *(char *const *)value_of(c, o);
            if (!value) value = "-";
            break;
        case CONFIG_BOOL:
            value = number_in(c, o) ? "yes" : "no";
            break;
        case CONFIG_SIZE:
        case CONFIG_DURATION:
        case CONFIG_INTEGER:
            format_number(o, number_in(c, o), number, sizeof number);
            break;
        }
        bool set = o->deflt && c->origin[i] != CONFIG_FROM_DEFAULT; /* otherwise the default is in column 2 */
        put_row(f, o->env, value, origin_names[c->origin[i]]);
        fprintf(f, "%s%s%s%s\n", o->help, set ? " (default " : "", set ? o->deflt : "", set ? ")" : "");
    }
    struct unknown_printed u = {f, 0};
    config_unknown(print_unknown_text, &u);
}

int config_print(const struct config *c, const struct config_faults *faults, FILE *f, bool json) {
    static const struct config_faults none;
    if (!faults) faults = &none;
    if (json) {
        print_json(c, faults, f);
    } else {
        print_text(c, faults, f);
    }
    return fflush(f) == 0 && !ferror(f) ? 0 : MOYAI_ESYS;
}
