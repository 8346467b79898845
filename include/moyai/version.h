/* SPDX-License-Identifier: Apache-2.0 */
/* Version of the interface; the shared object name is computed from it. */
#ifndef MOYAI_VERSION_H
#define MOYAI_VERSION_H

#define MOYAI_VERSION_MAJOR 0
#define MOYAI_VERSION_MINOR 1
#define MOYAI_VERSION_PATCH 0
#define MOYAI_VERSION_TEXT  "0.1.0"

#endif
