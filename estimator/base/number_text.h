// Real numbers as files have them.
#pragma once

#include <string>

namespace gpuplan {

/// The shortest decimal text that reads as the same number, in every locale: "0.526", "60", "1e+20".
std::string number_text(double value);

}  // namespace gpuplan
