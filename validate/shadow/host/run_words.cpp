#include "validate/shadow/host/run_words.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "estimator/base/format.h"

namespace gpuplan::shadow {
namespace {

std::string signal_words(int signal) {
  switch (signal) {
    case SIGABRT: return "SIGABRT";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGHUP: return "SIGHUP";
    case SIGILL: return "SIGILL";
    case SIGINT: return "SIGINT";
    case SIGKILL: return "SIGKILL";
    case SIGPIPE: return "SIGPIPE";
    case SIGQUIT: return "SIGQUIT";
    case SIGSEGV: return "SIGSEGV, a crash";
    case SIGTERM: return "SIGTERM";
    default: return "signal " + std::to_string(signal);
  }
}

}  // namespace

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [&](std::size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; };
  std::size_t head = most / 2, tail = text.size() - (most - most / 2 - 3);
  while (head > 0 && continues(head)) --head;
  while (continues(tail)) ++tail;
  return text.substr(0, head) + "..." + text.substr(tail);
}

std::string command_words(const std::vector<std::string>& command, std::size_t most) {
  std::string out;
  for (const std::string& word : command) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$*?;&|<>()") == std::string::npos;
    out += (out.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
  }
  std::ranges::replace(out, '\n', ' ');
  return shortened(out, most);
}

std::string counted(std::int64_t n, const std::string& one, const std::string& many) {
  return format_count(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}

std::string category_words(const std::string& category) {
  std::string out = category;
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string line_words(const AliveLine& line) {
  const std::string file = shortened(std::filesystem::path(line.file).filename().string(), 28);
  if (file.empty()) return shortened(line.function, 40);  // "(backward pass)"
  const std::string place = line.line > 0 ? file + ":" + std::to_string(line.line) : file;
  return line.function.empty() ? place : place + " in " + shortened(line.function, 20);
}

std::string rank_words(const RankReport& rank) { return rank.rank < 0 ? "-" : std::to_string(rank.rank); }

std::string out_of_memory_words(const RunReport& report, const TextStyle& style) {
  const OutOfMemory& oom = *report.out_of_memory;
  const auto bytes = [&](std::int64_t n) { return styled_bytes(n, style); };
  std::string out = "out of memory on " + report.gpu_title;
  if (report.ranks.size() > 1 && report.out_of_memory_rank >= 0)
    out += " in rank " + std::to_string(report.out_of_memory_rank);
  out += ": requested " + bytes(oom.wanted_bytes) + ", " + bytes(oom.free_bytes) + " free, " +
         bytes(oom.allocated_bytes) + " allocated";
  if (oom.reserved_bytes > 0) out += ", " + bytes(oom.reserved_bytes) + " reserved";
  if (report.ending.status == 0 && report.ending.signal == 0) out += "; the script caught it and went on";
  return out;
}

std::string ending_words(const RunReport& report) {
  const Ending& ending = report.ending;
  if (ending.signal == SIGKILL && !ending.by_request)
    return "killed (SIGKILL), as Linux does when the host's memory is full";
  if (ending.signal != 0) return "ended by " + signal_words(ending.signal);
  if (ending.status != 0) return "the command ended with exit code " + std::to_string(ending.status);
  return "";
}

std::string break_words(const GraphBreak& place, std::size_t most) {
  const std::string file = shortened(std::filesystem::path(place.file).filename().string(), 28);
  std::string out = file.empty() ? "" : file + ":" + std::to_string(place.line) + "  ";
  if (place.times > 1) out += counted(place.times, "time") + "  ";
  return out + shortened(place.reason, std::max<std::size_t>(most, out.size() + 20) - out.size());
}

std::string decision_words(const Decision& read) {
  const std::string answer = read.drawn ? " (assumed)" : " (zeros)";
  if (read.file.empty()) return counted(read.times, "read") + " in other threads, optimizers or compiled code" + answer;
  const std::string file = shortened(std::filesystem::path(read.file).filename().string(), 28);
  return file + ":" + std::to_string(read.line) + "  " + counted(read.times, "time") + "  " + read.function + answer;
}

std::vector<std::string> unknown_words(const RunReport& report) {
  std::vector<std::string> out = report.unknown;
  const Autotuned& tuned = report.autotuned;
  std::string choices;
  if (tuned.operators > 0) choices = counted(tuned.operators, "operator");
  if (tuned.configurations > 0)
    choices += (choices.empty() ? "" : " and ") + counted(tuned.configurations, "kernel configuration");
  if (choices.empty()) return out;
  std::string words =
      "autotuning of " + choices + ": nothing can be timed, so each is what is taken without autotuning";
  if (tuned.workspace_bytes > 0)
    words += "; the largest workspace of another choice is " + format_bytes(tuned.workspace_bytes);
  out.push_back(words + "; what timing the others allocates is left out");
  return out;
}

std::string nothing_used_words(const RunReport& report) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string value = visible == nullptr ? "0" : visible;
  const bool hidden = value.empty() || value == "-1" || value == "none" || value == "NoDevFiles";
  return std::string(report.torch.empty() ? "the command" : "the script") + " used no GPU memory" +
         (hidden ? ": CUDA_VISIBLE_DEVICES hides every GPU from it" : "");
}

std::vector<std::string> fit_names(const RunReport& report, bool fits) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> names;
  for (const FitRow& row : report.fits)
    if (row.fits == fits) names.push_back(row.gpu);
  if (!fits) std::ranges::reverse(names);
  if (names.size() <= kShown + 1) return names;
  const std::string rest = std::to_string(names.size() - kShown) + (fits ? " larger ones" : " smaller ones");
  names.resize(kShown);
  names.push_back(rest);
  return names;
}

}  // namespace gpuplan::shadow
