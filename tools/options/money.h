// Amounts, of money among them, as flags have them.
#pragma once

#include <string>

namespace gpuplan {

/// US dollars an hour, above 0: "5usd/h", "5 USD/h", "$5/h", "0.526usd/h". Throws Error (usage) for anything else, 0, a
/// negative amount, NaN and other currencies among it.
double usd_per_hour(const std::string& flag, const std::string& text);

/// An amount above 0 and up to `most`, with K, M or B for thousands, millions and billions: "1.28M", "50000", "90".
/// Throws Error (usage) for anything else.
double amount(const std::string& flag, const std::string& text, double most);
/// The same of things that are counted: "1.28M" is whole, "1.28" is not. Throws Error (usage) for what is not whole.
double whole_amount(const std::string& flag, const std::string& text, double most);

}  // namespace gpuplan
