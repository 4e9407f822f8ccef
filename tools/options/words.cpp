#include "tools/options/words.h"

#include <array>

#include "estimator/base/amount.h"
#include "estimator/base/format.h"
#include "estimator/device/read_number.h"

namespace gpuplan {

std::string either(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

Error unknown_word(std::string_view flag, std::string_view word, const std::vector<std::string>& words) {
  return Error(std::string(flag) + " expects " + either(words) + ", not \"" + std::string(word) + "\"" +
                   did_you_mean(word, words),
               ErrorKind::usage);
}

std::int64_t whole_number(std::string_view flag, std::string_view text, std::int64_t least, std::int64_t most) {
  if (const std::optional<std::int64_t> n = decimal(text); n && *n >= least && *n <= most) return *n;
  throw Error(std::string(flag) + " expects a whole number from " + format_count(least) + " to " + format_count(most) +
                  ", not \"" + std::string(text) + "\"",
              ErrorKind::usage);
}

std::int64_t percentage(std::string_view flag, std::string_view text) {
  constexpr std::array<AmountUnit, 1> kPercent = {{{"%", 100}}};
  constexpr std::int64_t kWhole = 10'000;
  const std::optional<std::int64_t> hundredths = read_amount(text, kPercent);
  if (hundredths && *hundredths < kWhole) return *hundredths;
  throw Error(
      std::string(flag) + " expects a percentage from 0% to below 100%, such as 5%, not \"" + std::string(text) + "\"",
      ErrorKind::usage);
}

std::optional<std::int64_t> size_in_bytes(std::string_view text) {
  // Not b, k and m alone: "4090m" is a laptop's GPU.
  constexpr std::array<AmountUnit, 10> kInAnyCase = {{{"kib", 1LL << 10},
                                                      {"mib", 1LL << 20},
                                                      {"gib", 1LL << 30},
                                                      {"tib", 1LL << 40},
                                                      {"kb", 1'000},
                                                      {"mb", 1'000'000},
                                                      {"gb", 1'000'000'000},
                                                      {"tb", 1'000'000'000'000},
                                                      {"g", 1'000'000'000},
                                                      {"t", 1'000'000'000'000}}};
  if (const std::optional<std::int64_t> bytes = read_amount(text, byte_units())) return bytes;
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return read_amount(lower, kInAnyCase);
}

}  // namespace gpuplan
