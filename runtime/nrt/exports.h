// First include of every file that defines exported functions: the public declarations, visible.
#pragma once

#pragma GCC visibility push(default)
#include <cassert>

#include <nrt/nrt.h>

#include <nrt/ndebug_stream.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <nrt/nrt_version.h>
#pragma GCC visibility pop
