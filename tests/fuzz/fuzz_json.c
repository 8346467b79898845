/* SPDX-License-Identifier: Apache-2.0 */
/* value_json_read, value_of_json: what is taken is printed so that it can be given again, and is the same value then.
 */
#include "cli/value_json.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static moyai_node *node(void) {
    static moyai_node *n; /* for references; it is alone */
    if (!n) {
        unsetenv("MOYAI_GRID");
        FUZZ_CHECK(moyai_node_new(&n, NULL, NULL) == 0);
    }
    return n;
}

/* NULL: it is none. */
static char *printed(const char *text) {
    json_t *j = NULL;
    moyai_value *v = NULL;
    struct moyai_error e = {0};
    int rc = value_json_read(text, &j, &e);
    if (rc == 0) rc = value_of_json(node(), j, &v, &e);
    json_decref(j);
    FUZZ_CHECK(rc == 0 ||
               (rc == e.code && e.text[0] && (rc == MOYAI_EINVAL || rc == MOYAI_ERANGE || rc == MOYAI_EDEPTH)));
    if (rc < 0) return NULL;
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    FUZZ_CHECK(f);
    value_print(f, v);
    FUZZ_CHECK(fclose(f) == 0 && !strchr(out, '\n'));
    moyai_value_free(v);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    FUZZ_CHECK(text);
    char *once = printed(text);
    if (once) {
        char *again = printed(once);
        FUZZ_CHECK(again && strcmp(once, again) == 0);
        free(again);
    }
    free(once);
    free(text);
    return 0;
}
