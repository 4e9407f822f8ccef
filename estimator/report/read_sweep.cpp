#include "estimator/report/read_sweep.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "estimator/base/format.h"

namespace gpuplan {
namespace {

constexpr const char* kWritesParts = "gpuplan fit --may ... --shard 1/16 --format json writes a part";

using ParsedLine = nlohmann::ordered_json;

// Of a line, which then says where it is.
struct BadLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes and counts: whole numbers, which a double of 1e300 is not.
std::int64_t whole_amount(const ParsedLine& value) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) ||
      value.get<std::int64_t>() < 0)
    throw BadLine("a size or a count is no whole number from 0 to 2^63 - 1");
  return value.get<std::int64_t>();
}

// What is printed: a terminal obeys control characters.
std::string printed_text(const ParsedLine& value) {
  std::string text = value.get<std::string>();
  if (std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw BadLine("there is a control character in a text");
  return text;
}

template <class T>
std::optional<T> known(const ParsedLine& line, const char* key) {
  const ParsedLine& value = line.at(key);
  if (value.is_null()) return std::nullopt;
  if constexpr (std::is_same_v<T, std::int64_t>)
    return whole_amount(value);
  else if constexpr (std::is_same_v<T, std::string>)
    return printed_text(value);
  else
    return value.get<T>();
}

SweepFigures figures_of(const ParsedLine& line) {
  SweepFigures f;
  f.allocated_bytes = whole_amount(line.at("peak_allocated_bytes"));
  f.reserved_bytes = whole_amount(line.at("peak_reserved_bytes"));
  f.device_bytes = whole_amount(line.at("device_bytes"));
  f.usable_bytes = known<std::int64_t>(line, "usable_bytes").value_or(0);
  f.limit_bytes = known<std::int64_t>(line, "limit_bytes").value_or(0);
  f.fits = known<bool>(line, "fits").value_or(true);
  f.runs = known<bool>(line, "runs").value_or(true);
  f.retries = whole_amount(line.at("retries"));
  f.phase = printed_text(line.at("phase"));
  f.where = printed_text(line.at("where"));
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
  const auto word = [&](const char* key) { return printed_text(found->at(key)); };
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
      } catch (const BadLine& bad) {
        throw Error(place + ": " + bad.what()).help(kWritesParts);
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
    if (printed_text(line.at("schema")) != "gpuplan.sweep/1") throw BadLine("the schema is not gpuplan.sweep/1");
    SweepRow row;
    row.point = whole_amount(line.at("point"));
    std::vector<std::string> names;
    for (const auto& [name, value] : line.at("over").items()) {
      names.push_back(name);
      row.values.push_back(printed_text(value));
    }
    row.error = known<std::string>(line, "error").value_or("");
    if (!line.at("peak_allocated_bytes").is_null()) row.figures = figures_of(line);
    if (!row.figures && row.error.empty()) throw Error(place + " has neither figures nor an error").help(kWritesParts);
    const auto points = whole_amount(line.at("points"));
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
