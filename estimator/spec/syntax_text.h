// Syntax back as text, the same for every way to write it: for messages and for comparing.
#pragma once

#include <string>

#include "estimator/spec/syntax.h"

namespace gpuplan {

/// "3", "(3, $k)", "${4 * c}"
std::string text_of(const ValueSyntax& value);
/// "Conv2d(_, ${4 * c}, 1, bias=False)"
std::string text_of(const CallSyntax& call);

}  // namespace gpuplan
