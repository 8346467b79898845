/* SPDX-License-Identifier: Apache-2.0 */
/* moyai config: all options, what is in effect and where it comes from. */
#include "base/config.h"

#include "cli/cli.h"
#include "node/node.h"

enum { KEY_JSON = 0x100, KEY_LIST };

static error_t on_option(int key, char *arg, struct argp_state *state) {
    bool *json = state->input;
    cli_help(key, state);
    switch (key) {
    case KEY_JSON:
        *json = true;
        return 0;
    case KEY_LIST:
        *json = false;
        return 0;
    case ARGP_KEY_ARG:
        cli_usage(state, "unknown argument '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_config(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", KEY_JSON, 0, 0, "Print one JSON object", 0},
        {"list", KEY_LIST, 0, 0, "Print one line an option: the default", 0},
        CLI_HELP_OPTIONS,
        {0},
    };
    static const struct argp parser = {
        .options = options,
        .parser = on_option,
        .doc = "Prints every option of the library: the environment variable that sets it, its value, where the value "
               "comes from, and what it is for.",
    };
    bool json = false;
    cli_parse(&parser, argc, argv, CLI_ANY_ORDER, &json);
    static struct config_faults faults;
    struct config c;
    struct moyai_error why;
    int rc = config_load_all(&c, &faults, &why), bad = 0;
    if (rc < 0) {
        cli_say(argv[0], "%s", why.text);
        return CLI_FAILED;
    }
    node_check_all(&c, &faults);
    rc = config_print(&c, &faults, stdout, json);
    config_done(&c);
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        if (faults.of[i].code == 0) continue;
        cli_say(argv[0], "%s", faults.of[i].text);
        bad++;
    }
    return rc == 0 && bad == 0 ? CLI_OK : CLI_FAILED; /* what could not be written the end of the process says */
}
