#include "tools/options/swept_flags.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "estimator/base/format.h"
#include "estimator/base/list_text.h"
#include "estimator/device/read_number.h"
#include "tools/options/other_flags.h"
#include "tools/options/words.h"

namespace gpuplan {

namespace {

enum class Kind : unsigned char { word, number };

struct Flag {
  std::string_view name;
  std::string RunOptions::*value;
  Kind kind = Kind::word;
  bool of_model = false;
};

constexpr std::array<Flag, 37> kFlags = {{{"batch", &RunOptions::batch, Kind::number},
                                          {"micro-batches", &RunOptions::micro_batches, Kind::number},
                                          {"seq", &RunOptions::seq, Kind::number, true},
                                          {"prompt", &RunOptions::prompt, Kind::number, true},
                                          {"generate", &RunOptions::generate, Kind::number, true},
                                          {"phase", &RunOptions::phase, Kind::word, true},
                                          {"precision", &RunOptions::precision},
                                          {"dtype", &RunOptions::precision},
                                          {"amp", &RunOptions::amp},
                                          {"gpu", &RunOptions::gpu},
                                          {"device", &RunOptions::gpu},
                                          {"opt", &RunOptions::optimizer},
                                          {"optimizer", &RunOptions::optimizer},
                                          {"opt-impl", &RunOptions::optimizer_impl},
                                          {"mode", &RunOptions::mode},
                                          {"checkpoint", &RunOptions::checkpoint},
                                          {"ckpt", &RunOptions::checkpoint},
                                          {"layout", &RunOptions::layout},
                                          {"attention", &RunOptions::attention},
                                          {"loop", &RunOptions::loop},
                                          {"zero-grad", &RunOptions::zero_grad},
                                          {"save", &RunOptions::save},
                                          {"kernels", &RunOptions::kernels, Kind::word, true},
                                          {"like", &RunOptions::like},
                                          {"step", &RunOptions::step},
                                          {"scratch", &RunOptions::scratch},
                                          {"allocator", &RunOptions::allocator},
                                          {"segments", &RunOptions::segments},
                                          {"alloc-conf", &RunOptions::alloc_conf},
                                          {"pytorch", &RunOptions::pytorch},
                                          {"host-copy", &RunOptions::host_copy},
                                          {"runtime", &RunOptions::runtime},
                                          {"master", &RunOptions::master},
                                          {"weights", &RunOptions::weights},
                                          {"lora", &RunOptions::lora},
                                          {"peft", &RunOptions::peft},
                                          {"cache", &RunOptions::cache}}};

struct SeveralGpusFlag {
  std::string_view name;
  std::string SeveralGpusOptions::*value;
  Kind kind = Kind::word;
};

constexpr std::array<SeveralGpusFlag, 9> kSeveralGpusFlags = {
    {{"gpus", &SeveralGpusOptions::gpus, Kind::number},
     {"zero", &SeveralGpusOptions::zero},
     {"rank", &SeveralGpusOptions::rank, Kind::number},
     {"gpus-per-node", &SeveralGpusOptions::gpus_per_node, Kind::number},
     {"network", &SeveralGpusOptions::network, Kind::number},
     {"ep", &SeveralGpusOptions::experts, Kind::number},
     {"routing", &SeveralGpusOptions::routing, Kind::number},
     {"cp", &SeveralGpusOptions::context, Kind::number},
     {"wrap", &SeveralGpusOptions::wrap}}};

constexpr std::string_view kVariable = "set.";

// By any of its names, the first of those that mean the same.
const Flag* find_flag(std::string_view name) {
  const auto flag = std::ranges::find(kFlags, name, &Flag::name);
  return flag == kFlags.end() ? nullptr : &*std::ranges::find(kFlags, flag->value, &Flag::value);
}

const SeveralGpusFlag* find_several_gpus_flag(std::string_view name) {
  const auto flag = std::ranges::find(kSeveralGpusFlags, name, &SeveralGpusFlag::name);
  return flag == kSeveralGpusFlags.end() ? nullptr : &*flag;
}

bool takes_numbers(std::string_view name) {
  if (const SeveralGpusFlag* const several = find_several_gpus_flag(name)) return several->kind == Kind::number;
  const Flag* const flag = find_flag(name);
  return flag == nullptr || flag->kind == Kind::number;  // of a variable otherwise
}

std::vector<std::string> swept_names() {
  std::vector<std::string> names = swept_run_names();
  for (const SeveralGpusFlag& flag : kSeveralGpusFlags) names.emplace_back(flag.name);
  return names;
}

Error bad_values(const std::string& text, const std::string& why) {
  return Error("--over " + text + ": " + why, ErrorKind::usage);
}

struct NumberRange {
  std::int64_t from = 0, to = 0, step = 1;
  bool multiplies = false;
};

// "8:512", "8:512:8", "8:512:x2"
std::optional<NumberRange> read_range(std::string_view text) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1);
  const std::optional<std::int64_t> from = decimal(text.substr(0, first));
  const std::optional<std::int64_t> to =
      decimal(text.substr(first + 1, second == text.npos ? second : second - first - 1));
  if (!from || !to) return std::nullopt;
  NumberRange range{*from, *to};
  if (second == std::string_view::npos) return range;
  std::string_view step = text.substr(second + 1);
  range.multiplies = step.starts_with('x');
  if (range.multiplies) step.remove_prefix(1);
  const std::optional<std::int64_t> number = decimal(step);
  if (!number) return std::nullopt;
  range.step = *number;
  return range;
}

void add_range(const std::string& text, std::string_view part, std::vector<std::string>& values) {
  const std::string quoted = '"' + std::string(part) + '"';
  const std::optional<NumberRange> range = read_range(part);
  if (!range)
    throw bad_values(text, "a range is FROM:TO, FROM:TO:STEP or FROM:TO:xFACTOR, as in 8:512:x2, not " + quoted);
  if (range->from > range->to) throw bad_values(text, quoted + " starts above its end");
  if (range->multiplies ? range->step < 2 || range->from < 1 : range->step < 1)
    throw bad_values(text, quoted + " never reaches its end: a step must be at least 1, a factor at least 2");
  for (std::int64_t n = range->from;;) {
    if (values.size() >= kMostValues)
      throw bad_values(text, "more than " + format_count(static_cast<std::int64_t>(kMostValues)) + " values");
    values.push_back(std::to_string(n));
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (range->multiplies ? n > kMost / range->step : n > kMost - range->step) return;
    n = range->multiplies ? n * range->step : n + range->step;
    if (n > range->to) return;
  }
}

// What the user of another tool's flag may sweep here: "batch" of "bs".
std::string near_flag(const std::string& name) {
  const OtherFlag* const other = other_flag(name);
  if (other == nullptr || !other->here.starts_with("--")) return did_you_mean(name, swept_names());
  return " — did you mean \"" + std::string(other->here.substr(2, other->here.find(' ') - 2)) + "\"?";
}

Error no_such_flag(const std::string& text, const std::string& name) {
  return Error("--over " + text + ": no flag called \"" + name + "\" can be swept" + near_flag(name), ErrorKind::usage)
      .help("a variable of the model is written set.NAME; the flags are " + either(swept_names()));
}

// Of the model's variables: where the options have it, or the end.
std::vector<std::string>::iterator variable(std::vector<std::string>& set, const std::string& name) {
  return std::ranges::find_if(set, [&](const std::string& text) { return text.starts_with(name + "="); });
}

}  // namespace

namespace {

// 'trl-sft(packing=True, max_grad_norm=0)' is one value, 'LoraConfig(target_modules=["q_proj", "k_proj"])' another one.
std::vector<std::string_view> values_in(std::string_view text) {
  std::vector<std::string_view> values;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[' || text[i] == '{' ? 1 : 0;
    depth -= text[i] == ')' || text[i] == ']' || text[i] == '}' ? 1 : 0;
    if (text[i] != ',' || depth > 0) continue;
    values.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  values.push_back(text.substr(begin));
  return values;
}

}  // namespace

SweptFlag read_swept_flag(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw bad_values(text, "expects NAME=VALUES, as in batch=8:512:x2 or precision=fp32,bf16");
  SweptFlag flag{.name = text.substr(0, equals), .values = {}};
  if (flag.name.starts_with("--")) flag.name.erase(0, 2);
  const bool is_variable = flag.name.starts_with(kVariable) && flag.name.size() > kVariable.size();
  if (const Flag* const known = find_flag(flag.name))
    flag.name = known->name;
  else if (!is_variable && find_several_gpus_flag(flag.name) == nullptr)
    throw no_such_flag(text, flag.name);
  for (const std::string_view value : values_in(std::string_view(text).substr(equals + 1))) {
    if (value.empty()) throw bad_values(text, "an empty value");
    if (takes_numbers(flag.name) && value.find(':') != std::string_view::npos)
      add_range(text, value, flag.values);
    else
      flag.values.emplace_back(value);
  }
  std::vector<std::string> sorted;  // 8 and 08 are the same
  for (const std::string& value : flag.values) {
    const std::optional<std::int64_t> number = takes_numbers(flag.name) ? decimal(value) : std::nullopt;
    sorted.push_back(number ? std::to_string(*number) : value);
  }
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) throw bad_values(text, "the value " + *twice + " is given twice");
  return flag;
}

void set_flag(RunOptions& options, const std::string& name, const std::string& value) {
  if (const Flag* const flag = find_flag(name)) {
    options.*flag->value = value;
    return;
  }
  const std::string text = name.substr(kVariable.size()) + "=" + value;
  const auto there = variable(options.set, name.substr(kVariable.size()));
  if (there == options.set.end())
    options.set.push_back(text);
  else
    *there = text;
}

std::string flag_value(const RunOptions& options, const std::string& name) {
  if (const Flag* const flag = find_flag(name)) return options.*flag->value;
  RunOptions copy = options;
  const auto there = variable(copy.set, name.substr(kVariable.size()));
  return there == copy.set.end() ? "" : there->substr(there->find('=') + 1);
}

std::string first_flag_name(const std::string& name) {
  const Flag* const flag = find_flag(name);
  return flag == nullptr ? name : std::string(flag->name);
}

std::vector<std::pair<std::string, std::string>> given_flags(const RunOptions& options) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const Flag& flag : kFlags)
    if (find_flag(flag.name) == &flag && !(options.*flag.value).empty())
      given.emplace_back(flag.name, options.*flag.value);
  return given;
}

std::string* several_gpus_flag(SeveralGpusOptions& options, const std::string& name) {
  const SeveralGpusFlag* const flag = find_several_gpus_flag(name);
  return flag == nullptr ? nullptr : &(options.*flag->value);
}

bool changes_model(const std::string& name) {
  const Flag* const flag = find_flag(name);
  return flag == nullptr ? name.starts_with(kVariable) : flag->of_model;
}

std::vector<std::string> swept_run_names() {
  std::vector<std::string> names;
  for (const Flag& flag : kFlags) names.emplace_back(flag.name);
  return names;
}

Shard read_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::optional<std::int64_t> number = decimal(std::string_view(text).substr(0, slash));
  const std::optional<std::int64_t> count =
      slash == std::string::npos ? std::nullopt : decimal(std::string_view(text).substr(slash + 1));
  if (!number || !count || *count < 1)
    throw Error("--shard expects N/COUNT, as in 1/16 for the first of sixteen, not \"" + text + "\"", ErrorKind::usage);
  if (*number < 1 || *number > *count)
    throw Error("--shard " + text + ": there are the shards 1/" + std::to_string(*count) + " to " +
                    std::to_string(*count) + "/" + std::to_string(*count),
                ErrorKind::usage)
        .help("a job array that counts from 1 fits: sbatch --array=1-" + std::to_string(*count) +
              " and --shard $SLURM_ARRAY_TASK_ID/" + std::to_string(*count));
  return {.number = static_cast<std::size_t>(*number - 1), .count = static_cast<std::size_t>(*count)};
}

}  // namespace gpuplan
