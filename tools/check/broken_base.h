// What is said of a base that is there and cannot be read.
#pragma once

#include <string>

#include "estimator/base/error.h"

namespace gpuplan {

/// The words of an Error in one line, with its place.
std::string one_line(const Error& error);
/// "WHAT: 3f2c1ab:configs/gpt2.yaml:3: ...", of the kind of `why`, and how to go on without.
Error broken_base(const std::string& what, const Error& why);

}  // namespace gpuplan
