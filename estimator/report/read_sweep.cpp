#include "estimator/report/read_sweep.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "estimator/base/format.h"

namespace gpuplan {
namespace {

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

class LinesReader {
 public:
  void read(const Source& part) {
    std::istringstream in(part.text);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty()) continue;
      try {
        take(part, ParsedLine::parse(line));
      } catch (const nlohmann::json::exception&) {
        throw Error(part.name + ": line " + std::to_string(number) + " is no line of gpuplan.sweep/1")
            .help("gpuplan fit --may ... --shard 1/16 --format json writes a part");
      }
    }
  }

  SweepLines all() {
    if (lines_.rows.empty()) throw Error("there is no line in these files");
    std::ranges::stable_sort(lines_.rows, {}, &SweepRow::point);
    refuse_gaps();
    return std::move(lines_);
  }

 private:
  void take(const Source& part, const ParsedLine& line) {
    SweepRow row;
    row.point = line.at("point").get<std::int64_t>();
    std::vector<std::string> names;
    for (const auto& [name, value] : line.at("over").items()) {
      names.push_back(name);
      row.values.push_back(value.get<std::string>());
    }
    row.error = known<std::string>(line, "error").value_or("");
    if (!line.at("peak_allocated_bytes").is_null()) row.figures = figures_of(line);
    const auto points = line.at("points").get<std::int64_t>();
    if (lines_.rows.empty()) {
      lines_.names = names;
      lines_.points = points;
      first_ = part.name;
    }
    if (names != lines_.names || points != lines_.points || row.point < 0 || row.point >= points)
      throw Error(part.name + " and " + first_ + " are not parts of one search")
          .help("parts have the same flags, but for --shard");
    const auto [at, is_new] = files_.try_emplace(row.point, part.name);
    if (at->second != part.name)
      throw Error(at->second + " and " + part.name + " both have point " + std::to_string(row.point))
          .help("give each part once: parts of --shard 1/16 to 16/16 share no point");
    lines_.rows.push_back(std::move(row));
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
  std::string first_;                          // the file of the first line
  std::map<std::int64_t, std::string> files_;  // by the points that they have
};

}  // namespace

SweepLines read_sweep_lines(std::span<const Source> parts) {
  LinesReader reader;
  for (const Source& part : parts) reader.read(part);
  return reader.all();
}

}  // namespace gpuplan
