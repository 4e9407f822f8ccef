// Values of flags: words out of a list, whole numbers, sizes. Everything that is not understood is an Error of kind
// usage that says what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

/// `--loop expects plain, function or loss_only, not "plian" — did you mean "plain"?`
Error unknown_word(std::string_view flag, std::string_view word, const std::vector<std::string>& words);
/// "plain, function or loss_only"
std::string either(const std::vector<std::string>& words);

template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

/// The value of `word`, exactly as written in the list.
template <class T>
T choose(std::string_view flag, const std::string& word, const Choices<T>& choices) {
  std::vector<std::string> words;
  for (const auto& [name, value] : choices) {
    if (name == word) return value;
    words.push_back(name);
  }
  throw unknown_word(flag, word, words);
}

/// A whole number from `least` to `most`, decimal digits only.
std::int64_t whole_number(std::string_view flag, std::string_view text, std::int64_t least, std::int64_t most);

/// "5%", "2.5 %": in hundredths of a percent, from 0 to below 10,000.
std::int64_t percentage(std::string_view flag, std::string_view text);

/// "22 GiB", "1.5GB", "24 gb", "24G": bytes, or nothing when the text is not a number with a unit. KiB, MiB, GiB, TiB
/// are binary, kB, MB, GB, TB decimal, in any case; G and T are GB and TB. "0" needs none.
std::optional<std::int64_t> size_in_bytes(std::string_view text);

}  // namespace gpuplan
