#include "estimator/report/read_sweep.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "estimator/base/format.h"

namespace gpuplan {
namespace {

constexpr const char* kWritesParts = "gpuplan fit --may ... --shard 1/16 --format json writes a part";

using ParsedLine = nlohmann::ordered_json;

template <class T>
std::optional<T> known(const ParsedLine& line, const char* key) {
  const ParsedLine& value = line.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<T>());
}

SweepFigures figures_of(const ParsedLine& line) {
  SweepFigures f;
  f.allocated_bytes = line.at("peak_allocated_bytes").get<std::int64_t>();
  f.reserved_bytes = line.at("peak_reserved_bytes").get<std::int64_t>();
  f.device_bytes = line.at("device_bytes").get<std::int64_t>();
  f.usable_bytes = known<std::int64_t>(line, "usable_bytes").value_or(0);
  f.limit_bytes = known<std::int64_t>(line, "limit_bytes").value_or(0);
  f.fits = known<bool>(line, "fits").value_or(true);
  f.runs = known<bool>(line, "runs").value_or(true);
  f.retries = line.at("retries").get<std::int64_t>();
  f.phase = line.at("phase").get<std::string>();
  f.where = line.at("where").get<std::string>();
  f.step_flops = known<std::int64_t>(line, "step_flops");
  f.step_seconds = known<double>(line, "step_seconds");
  f.samples_per_second = known<double>(line, "samples_per_second");
  f.sent_bytes = known<std::int64_t>(line, "sent_bytes");
  f.communication_seconds = known<double>(line, "communication_seconds");
  f.scaling_efficiency = known<double>(line, "scaling_efficiency");
  return f;
}

std::optional<AskedSearch> search_of(const ParsedLine& line) {
  const auto found = line.find("search");
  if (found == line.end()) return std::nullopt;
  const auto word = [&](const char* key) { return found->at(key).get<std::string>(); };
  return AskedSearch{word("version"), word("command"), word("batch"), word("gpus"), word("network")};
}

class LinesReader {
 public:
  void read(const Source& part) {
    std::istringstream in(part.text);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty()) continue;
      const std::string place = part.name + ": line " + std::to_string(number);
      try {
        take(part, place, ParsedLine::parse(line));
      } catch (const nlohmann::json::exception&) {
        throw Error(place + " is no line of gpuplan.sweep/1").help(kWritesParts);
      }
    }
  }

  SweepLines all() {
    if (read_.empty()) throw Error("there is no line in these files");
    refuse_gaps();
    std::ranges::stable_sort(read_, {}, [](const auto& read) { return read.first.point; });
    for (auto& [row, place] : read_) {
      lines_.rows.push_back(std::move(row));
      lines_.places.push_back(std::move(place));
    }
    return std::move(lines_);
  }

 private:
  void take(const Source& part, const std::string& place, const ParsedLine& line) {
    SweepRow row;
    row.point = line.at("point").get<std::int64_t>();
    std::vector<std::string> names;
    for (const auto& [name, value] : line.at("over").items()) {
      names.push_back(name);
      row.values.push_back(value.get<std::string>());
    }
    row.error = known<std::string>(line, "error").value_or("");
    if (!line.at("peak_allocated_bytes").is_null()) row.figures = figures_of(line);
    if (!row.figures && row.error.empty()) throw Error(place + " has neither figures nor an error").help(kWritesParts);
    const auto points = line.at("points").get<std::int64_t>();
    const std::optional<AskedSearch> search = search_of(line);
    if (read_.empty()) {
      lines_.names = names;
      lines_.points = points;
      lines_.search = search;
      first_ = part.name;
    }
    if (names != lines_.names || points != lines_.points || search != lines_.search || row.point < 0 ||
        row.point >= points)
      throw Error(part.name + " and " + first_ + " are not parts of one search")
          .help(
              "parts are of one version of gpuplan, and have the same flags, but for --shard and those of the output");
    const auto [at, is_new] = files_.try_emplace(row.point, part.name);
    if (at->second != part.name)
      throw Error(at->second + " and " + part.name + " both have point " + std::to_string(row.point))
          .help("give each part once: parts of --shard 1/16 to 16/16 share no point");
    read_.emplace_back(std::move(row), place);
  }

  void refuse_gaps() const {
    std::int64_t first = 0;
    for (const auto& [point, file] : files_)
      if (point == first) ++first;
    const std::int64_t missing = lines_.points - static_cast<std::int64_t>(files_.size());
    if (missing > 0)
      throw Error(format_count(missing) + " of " + format_count(lines_.points) +
                  " points are in none of these files, the first of them " + std::to_string(first))
          .help("give the parts of all of --shard 1/N to N/N");
  }

  SweepLines lines_;
  std::vector<std::pair<SweepRow, std::string>> read_;  // with their places
  std::string first_;                                   // the file of the first line
  std::map<std::int64_t, std::string> files_;           // by the points that they have
};

}  // namespace

SweepLines read_sweep_lines(std::span<const Source> parts) {
  LinesReader reader;
  for (const Source& part : parts) reader.read(part);
  return reader.all();
}

}  // namespace gpuplan
