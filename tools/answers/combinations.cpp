#include "tools/answers/combinations.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "estimator/base/list_text.h"
#include "estimator/search/workers.h"
#include "tools/answers/fitting_first.h"
#include "tools/answers/solve.h"
#include "tools/answers/sweep_points.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

// Sets its flag where the run has none; false: it has, or needs another change.
using Set = std::function<bool(RunOptions&)>;

struct Known {
  std::string word;
  Set set;  // none: of micro-batches the fewest are found
};

Set sets(std::string RunOptions::*flag, std::string value) {
  return [flag, value = std::move(value)](RunOptions& run) {
    if (!(run.*flag).empty()) return false;
    run.*flag = value;
    return true;
  };
}

bool takes_8bit_states(RunOptions& run) {
  const std::string of = run.optimizer.starts_with("adamw_torch") ? "adamw" : run.optimizer;
  if (of != "adam" && of != "adamw") return false;
  if (!run.optimizer_impl.empty()) return false;
  run.optimizer = of + "8bit";
  return true;
}

bool takes_autocast(RunOptions& run) {
  if (!run.amp.empty() || !run.precision.empty()) return false;
  run.amp = "bf16";
  return true;
}

// Weights of 4 bits are trained by adapters alone.
bool takes_4bit_weights(RunOptions& run) {
  if (!run.weights.empty() || run.lora.empty()) return false;
  run.weights = "nf4:double";
  return true;
}

// In the order in which they are set: 4-bit weights want adapters.
std::vector<Known> known_changes() {
  return {{"amp", takes_autocast},
          {"checkpoint", sets(&RunOptions::checkpoint, "block")},
          {"lora", sets(&RunOptions::lora, "r=16")},
          {"nf4", takes_4bit_weights},
          {"8bit", takes_8bit_states},
          {"liger", sets(&RunOptions::kernels, "liger")},
          {"offload", sets(&RunOptions::offload, "optimizer")},
          {"micro-batches", {}}};
}

// What differs from the run as it was asked for.
std::string flags_of(const RunOptions& run, const RunOptions& asked) {
  std::string flags;
  const auto add = [&](const char* name, std::string RunOptions::*flag) {
    if (run.*flag != asked.*flag) flags += (flags.empty() ? "" : " ") + std::string(name) + " " + run.*flag;
  };
  add("--amp", &RunOptions::amp);
  add("--checkpoint", &RunOptions::checkpoint);
  add("--lora", &RunOptions::lora);
  add("--weights", &RunOptions::weights);
  add("--opt", &RunOptions::optimizer);
  add("--kernels", &RunOptions::kernels);
  add("--offload", &RunOptions::offload);
  add("--micro-batches", &RunOptions::micro_batches);
  return flags;
}

SweepRow planned(RunOptions run, const RunOptions& asked, bool splits) {
  const std::string gpu = run.gpu;
  if (splits && run.micro_batches.empty()) {
    const SolvedRow fewest = solve({run, "micro-batches", {gpu}, ""}).front();
    if (fewest.row.values[1] != "1") run.micro_batches = fewest.row.values[1];
  }
  const std::string flags = flags_of(run, asked);
  run.gpu.clear();
  SweepPoints point(run, {{"gpu", {gpu}}});
  SweepRow row = point.plan_point(0);
  row.values = {flags.empty() ? "as asked" : flags};
  return row;
}

std::vector<RunOptions> runs_of(const CombinationQuestion& question, const std::vector<Known>& wanted) {
  std::vector<RunOptions> runs = {question.run};
  for (const Known& known : wanted) {
    if (!known.set) continue;
    const std::size_t before = runs.size();
    for (std::size_t i = 0; i < before; ++i)
      if (RunOptions changed = runs[i]; known.set(changed)) runs.push_back(std::move(changed));
  }
  return runs;
}

std::vector<Known> wanted_changes(const std::vector<std::string>& words) {
  refuse_unknown_changes(words);
  std::vector<Known> wanted;
  for (const Known& known : known_changes())
    if (std::ranges::find(words, known.word) != words.end()) wanted.push_back(known);
  return wanted;
}

}  // namespace

std::vector<std::string> combined_words() {
  std::vector<std::string> words;
  for (const Known& known : known_changes()) words.push_back(known.word);
  return words;
}

void refuse_unknown_changes(const std::vector<std::string>& words) {
  std::vector<std::string> names = combined_words();
  names.emplace_back("mesh");
  for (const std::string& word : words)
    if (std::ranges::find(names, word) == names.end())
      throw Error("--may expects " + joined(names) + ", not \"" + word + "\"" + did_you_mean(word, names),
                  ErrorKind::usage);
}

CombinationPart combination_part(const CombinationQuestion& question, Shard shard) {
  if (question.run.gpu.empty())
    throw Error("--may needs one GPU", ErrorKind::usage).help("--gpu l4, or --gpu \"24 GB\"");
  const std::vector<Known> wanted = wanted_changes(question.words);
  const std::vector<RunOptions> runs = runs_of(question, wanted);
  const bool splits = std::ranges::any_of(wanted, [](const Known& known) { return !known.set; });
  CombinationPart part;
  part.points = static_cast<std::int64_t>(runs.size());
  for (std::size_t i = shard.number; i < runs.size(); i += shard.count) {
    SweepRow& row = part.rows.emplace_back();
    row.point = static_cast<std::int64_t>(i);
    row.values = {flags_of(runs[i], question.run)};
  }
  run_on_workers(part.rows.size(), cores(), [&](std::size_t i) {
    SweepRow& row = part.rows[i];
    try {
      SweepRow known = planned(runs[static_cast<std::size_t>(row.point)], question.run, splits);
      known.point = row.point;
      row = std::move(known);
    } catch (const Error& e) {
      row.error = e.message();
    }
  });
  return part;
}

std::vector<SweepRow> combinations(const CombinationQuestion& question) {
  CombinationPart whole = combination_part(question, {});
  if (std::ranges::none_of(whole.rows, [](const SweepRow& row) { return row.figures.has_value(); }))
    throw Error(whole.rows.front().error, ErrorKind::usage);
  return fitting_first(std::move(whole.rows));
}

}  // namespace gpuplan
