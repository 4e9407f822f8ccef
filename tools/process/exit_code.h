// What the process ends with where there is no answer: 2 wrong command line, 3 wrong input, 4 environment.
#pragma once

#include "estimator/base/error.h"

namespace gpuplan {

int exit_code_of(const Error& error);
constexpr int kInternalErrorCode = 70;  // EX_SOFTWARE of sysexits.h

}  // namespace gpuplan
