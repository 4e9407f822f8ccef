#include "estimator/report/read_figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "estimator/base/integers.h"

namespace gpuplan {

namespace {

using ParsedJson = nlohmann::json;

constexpr const char* kPlan = "gpuplan.plan/1";
constexpr const char* kShadow = "gpuplan.shadow/1";

// What is read of a document, with errors that name the file and the key.
class FiguresReader {
 public:
  FiguresReader(const Source& source, const ParsedJson& document) : source_(source), document_(document) {}

  /// The value at "/peak/allocated_bytes"; null where there is none.
  const ParsedJson& at(const char* path) const {
    static const ParsedJson nothing;
    const ParsedJson::json_pointer pointer(path);
    return document_.contains(pointer) ? document_.at(pointer) : nothing;
  }
  std::int64_t amount(const ParsedJson& value, const std::string& name) const {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= kMost) return value.get<std::int64_t>();
    throw refuse(name + " is not an amount: a whole number, not below 0");
  }
  std::int64_t amount(const char* path) const { return amount(at(path), name_of(path)); }
  std::string text(const char* path) const { return at(path).is_string() ? at(path).get<std::string>() : ""; }
  /// Of a list of objects: the amounts under `key` by the names under `name`.
  std::vector<Amount> amounts(const char* path, const char* name, const char* key) const {
    const ParsedJson& list = at(path);
    if (!list.is_array()) throw refuse(name_of(path) + " is not a list");
    std::vector<Amount> out;
    for (const ParsedJson& item : list) {
      if (!item.is_object() || !item.value(name, ParsedJson()).is_string())
        throw refuse(name_of(path) + " has an item without a " + name);
      out.push_back(
          {item.at(name).get<std::string>(), amount(item.value(key, ParsedJson()), name_of(path) + "." + key)});
    }
    return out;
  }
  Error refuse(const std::string& what) const { return Error(source_.name + ": " + what); }

 private:
  static constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // so that a few of them can be added
  static std::string name_of(std::string path) {
    path.erase(0, 1);
    std::ranges::replace(path, '/', '.');
    return path;
  }

  const Source& source_;
  const ParsedJson& document_;
};

std::vector<Amount> layer_flops(const FiguresReader& reader) {
  std::vector<Amount> flops = reader.amounts("/layers", "name", "forward_macs");
  const std::vector<Amount> backward = reader.amounts("/layers", "name", "backward_flops");
  for (std::size_t i = 0; i < flops.size(); ++i)
    flops[i].value = checked_add(checked_mul(2, flops[i].value), backward[i].value);
  return flops;
}

std::vector<std::pair<std::string, std::string>> run_of(const FiguresReader& reader) {
  std::vector<std::pair<std::string, std::string>> words;
  const auto word = [&](const char* path) {
    const ParsedJson& value = reader.at(path);
    return value.is_null() ? std::string() : value.is_string() ? value.get<std::string>() : value.dump();
  };
  const std::string amp = word("/run/amp");
  words.emplace_back("mode", word("/run/mode"));
  words.emplace_back("batch", word("/run/batch"));
  words.emplace_back("precision", word("/run/precision") + (amp.empty() ? "" : ", amp " + amp));
  if (!word("/run/optimizer").empty()) words.emplace_back("optimizer", word("/run/optimizer"));
  words.emplace_back("gpu", word("/run/gpu").empty() ? "none" : word("/run/gpu"));
  words.emplace_back("pytorch", word("/run/pytorch"));
  return words;
}

Figures peaks_of(const FiguresReader& reader) {
  Figures f;
  f.allocated_bytes = reader.amount("/peak/allocated_bytes");
  f.reserved_bytes = reader.amount("/peak/reserved_bytes");
  f.device_bytes = reader.amount("/peak/device_bytes");
  return f;
}

Figures plan_figures(const FiguresReader& reader) {
  Figures f = peaks_of(reader);
  f.model = reader.text("/model/name");
  f.parameters = reader.amount("/model/parameters");
  f.step_flops = reader.amount("/compute/step_flops");
  if (const ParsedJson& seconds = reader.at("/time/step_seconds"); seconds.is_number()) {
    constexpr double kLongest = 1e9;
    const double s = seconds.get<double>();
    if (!(s >= 0 && s <= kLongest)) throw reader.refuse("time.step_seconds is not a valid step time");
    f.step_nanoseconds = static_cast<std::int64_t>(std::llround(s * 1e9));
  }
  f.categories = reader.amounts("/peak/parts", "category", "bytes");
  f.modules = reader.amounts("/peak/modules", "name", "bytes");
  f.module_parameters = by_module(reader.amounts("/layers", "name", "parameters"));
  f.module_flops = by_module(layer_flops(reader));
  complete(f.module_parameters, *f.parameters);
  complete(f.module_flops, *f.step_flops);
  f.run = run_of(reader);
  return f;
}

// Of a recorded run: what the allocator did, and which lines of the script hold it. Blocks are charged more than was
// asked for, and what is no tensor is in no category: that is what the list is completed by.
Figures shadow_figures(const FiguresReader& reader) {
  Figures f = peaks_of(reader);
  const ParsedJson& command = reader.at("/command");
  if (command.is_array())
    for (const ParsedJson& word : command)
      if (word.is_string()) f.model += (f.model.empty() ? "" : " ") + word.get<std::string>();
  f.categories = reader.amounts("/alive/categories", "category", "bytes");
  f.run.emplace_back("gpu", reader.text("/gpu"));
  return f;
}

ParsedJson parse(const Source& source) {
  try {
    return ParsedJson::parse(source.text);
  } catch (const ParsedJson::parse_error& problem) {
    const std::size_t at = std::min(problem.byte == 0 ? 0 : problem.byte - 1, source.text.size());
    const std::string_view before(source.text.data(), at);
    const auto line = static_cast<int>(std::ranges::count(before, '\n')) + 1;
    const std::size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    throw Error("this is not JSON").at({&source, line, static_cast<int>(at - begin) + 1, 1});
  }
}

}  // namespace

bool is_saved_plan(const std::string& text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string::npos && text[start] == '{' && text.find("\"schema\"") != std::string::npos &&
         text.find("\"gpuplan.") != std::string::npos;
}

SavedFigures read_figures(const Source& source) {
  const ParsedJson document = parse(source);
  const FiguresReader reader(source, document);
  SavedFigures saved;
  saved.schema = document.is_object() ? reader.text("/schema") : "";
  saved.version = document.is_object() ? reader.text("/tool/version") : "";
  if (saved.schema == kPlan)
    saved.figures = plan_figures(reader);
  else if (saved.schema == kShadow)
    saved.figures = shadow_figures(reader);
  else
    throw reader
        .refuse(saved.schema.empty() ? "it names no schema of gpuplan"
                                     : "its schema is " + saved.schema + ", which has no figures of one step")
        .help(
            "save a plan with gpuplan plan MODEL --format json, or a run with gpuplan shadow -o FILE.json -- COMMAND");
  complete(saved.figures.categories, saved.figures.allocated_bytes);
  if (saved.schema == kPlan) complete(saved.figures.modules, saved.figures.allocated_bytes);
  return saved;
}

}  // namespace gpuplan
