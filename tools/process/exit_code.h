// Exit codes for errors: 2 invalid command line, 3 invalid input, 4 environment.
#pragma once

#include "estimator/base/error.h"

namespace gpuplan {

int exit_code_of(const Error& error);
constexpr int kInternalErrorCode = 70;  // EX_SOFTWARE of sysexits.h

}  // namespace gpuplan
