/* SPDX-License-Identifier: Apache-2.0 */
/* moyai: an elastic grid runtime. This header includes the whole public interface. */
#ifndef MOYAI_H
#define MOYAI_H

#include <moyai/base.h>
#include <moyai/error.h>
#include <moyai/node.h>
#include <moyai/object.h>
#include <moyai/value.h>
#include <moyai/version.h>

#endif
