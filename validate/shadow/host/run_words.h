// Words that more than one format of a run's report uses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "validate/shadow/host/run_report.h"

namespace gpuplan::shadow {

/// The command as it was typed, at most `most` characters.
std::string command_words(const std::vector<std::string>& command, std::size_t most);
/// `text` without its middle where it is longer than `most`; in whole UTF-8 characters.
std::string shortened(const std::string& text, std::size_t most);
/// "1 segment", "3 segments".
std::string counted(std::int64_t n, const std::string& one, const std::string& many = "");
/// "optimizer_state" -> "optimizer state".
std::string category_words(const std::string& category);
/// "train.py:31 in forward".
std::string line_words(const AliveLine& line);
/// "3", or "-" where the process has no rank.
std::string rank_words(const RankReport& rank);
/// "out of memory on NVIDIA T4: wanted 2.00 GiB, 1.20 GiB free, 13.1 GiB allocated".
std::string out_of_memory_words(const RunReport& report, const TextStyle& style);
/// How the command ended, where that was not by itself with 0.
std::string ending_words(const RunReport& report);
/// "train.py:31  2 times  call to print()".
std::string break_words(const GraphBreak& place, std::size_t most);
/// "train.py:9  2 times  item (zeros)".
std::string decision_words(const Decision& read);
/// What could not be known, with what autotuning would have timed.
std::vector<std::string> unknown_words(const RunReport& report);
/// Why there is nothing to report.
std::string nothing_used_words(const RunReport& report);

/// GPUs that a run fits, the smallest few and how many larger ones, or those that it does not fit: the largest few and
/// how many smaller ones.
std::vector<std::string> fit_names(const RunReport& report, bool fits);

}  // namespace gpuplan::shadow
