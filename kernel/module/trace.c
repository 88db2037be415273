// SPDX-License-Identifier: GPL-2.0
/* The one place where tracepoints become code. */
#include "train.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
