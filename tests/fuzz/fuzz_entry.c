/* SPDX-License-Identifier: Apache-2.0 */
/* entry_decode_node, entry_decode_name: what is accepted is written again byte for byte. */
#include "overlay/io/entry.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    struct rdv_node node;
    struct rdv_name name;
    struct moyai_error e;
    char again[ENTRY_MAX], file[ENTRY_FILE_MAX + 1];
    int rc = entry_decode_node(text, size, &node, &e);
    if (rc == 0)
        FUZZ_CHECK(entry_encode_node(&node, again, &e) == (int)size && memcmp(again, text, size) == 0);
    else
        FUZZ_CHECK(e.code == rc && e.text[0] && (rc == MOYAI_EDATA || rc == MOYAI_EVERSION));
    rc = entry_decode_name(text, size, &name, &e);
    if (rc == 0) {
        FUZZ_CHECK(entry_encode_name(&name, again, &e) == (int)size && memcmp(again, text, size) == 0);
        entry_file_of_name(name.name, file);
        FUZZ_CHECK(file[0] && file[0] != '.' && !strchr(file, '/'));
    } else {
        FUZZ_CHECK(e.code == rc && e.text[0] && (rc == MOYAI_EDATA || rc == MOYAI_EVERSION));
    }
    return 0;
}
