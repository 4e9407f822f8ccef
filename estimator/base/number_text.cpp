#include "estimator/base/number_text.h"

#include <array>
#include <charconv>

namespace gpuplan {

std::string number_text(double value) {
  std::array<char, 32> text{};  // the shortest form of a double has 24 characters at most
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace gpuplan
