#include "tools/answers/solve.h"

#include <algorithm>
#include <map>
#include <optional>

#include "estimator/plan/run_names.h"
#include "estimator/search/largest_batch.h"
#include "estimator/search/workers.h"
#include "tools/answers/sweep_points.h"
#include "tools/options/lora_options.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMost = 1 << 24;

// The number that is asked for, by the flag of a sweep that has it.
class Knob {
 public:
  Knob(const SolveQuestion& question) : name_(question.name) {
    const std::vector<std::string> known = {"seq", "batch", "micro-batches", "rank", "layers", "prompt", "generate"};
    if (name_ == "rank") {
      if (question.run.lora.empty())
        throw Error("--solve rank is the rank of --lora", ErrorKind::usage).help("--lora r=8 --solve rank");
      lora_ = lora_of_flag(question.run.lora);
    } else if (!name_.starts_with("set.") && std::ranges::find(known, name_) == known.end()) {
      throw Error(
          "--solve expects " + joined(known) + " or set.NAME, not \"" + name_ + "\"" + did_you_mean(name_, known),
          ErrorKind::usage);
    }
    const std::string given =
        lora_ || name_.starts_with("set.") || name_ == "layers" ? "" : flag_value(question.run, name_);
    if (!given.empty())
      throw Error("--solve " + name_ + " finds what --" + name_ + " " + given + " says already: give only one of them",
                  ErrorKind::usage);
  }

  std::string flag() const { return name_ == "rank" ? "lora" : name_ == "layers" ? "set.layers" : name_; }
  std::string value(std::int64_t number) const {
    if (!lora_) return std::to_string(number);
    Lora lora = *lora_;
    lora.rank = number;
    return lora_text(lora);
  }
  void clear(RunOptions& run) const {
    if (lora_) run.lora.clear();
  }
  std::string flags(std::int64_t number) const {
    const std::string name = flag();
    return name.starts_with("set.") ? "--set " + name.substr(4) + "=" + value(number)
                                    : "--" + name + " " + value(number);
  }
  bool wants_fewest() const { return name_ == "micro-batches"; }

 private:
  std::string name_;
  std::optional<Lora> lora_;
};

class Solver {
 public:
  Solver(const SolveQuestion& question, const Knob& knob, const std::string& gpu)
      : run_(question.run), knob_(knob), gpu_(gpu) {
    run_.gpu.clear();
    knob.clear(run_);
    most_ =
        question.most.empty() || question.most == "true" ? kMost : whole_number("--max-batch", question.most, 1, kMost);
  }

  SolvedRow solve() {
    if (knob_.wants_fewest()) return fewest();
    const NeedOfBatch need = [&](std::int64_t value) -> std::optional<std::int64_t> {
      const SweepRow& row = at(value);
      return row.figures ? std::optional(row.figures->device_bytes) : std::nullopt;
    };
    const FittingBatch found = largest_batch(need, limit(), most_);
    const std::int64_t value = std::max(found.samples, found.least);
    if (value == 0) throw Error(at(1).error, ErrorKind::usage);
    SolvedRow solved = shown(value);
    solved.models_most = found.samples > 0 && value < most_ && !at(value + 1).figures;
    return solved;
  }

 private:
  // The step is run in as many parts as its batch has divisors.
  SolvedRow fewest() {
    const std::int64_t batch = run_.batch.empty() ? 1 : whole_number("--batch", run_.batch, 1, kMost);
    std::int64_t last = 1;
    for (std::int64_t parts = 1; parts <= batch; ++parts) {
      if (batch % parts != 0) continue;
      last = parts;
      const SweepRow& row = at(parts);
      if (row.figures && row.figures->fits) break;
    }
    return shown(last);
  }

  std::int64_t limit() {
    for (const std::int64_t value : {1, 2})
      if (const SweepRow& row = at(value); row.figures) return row.figures->usable_bytes;
    return 0;
  }

  const SweepRow& at(std::int64_t value) {
    const auto [known, is_new] = rows_.try_emplace(value);
    if (is_new) {
      SweepPoints point(run_, {{"gpu", {gpu_}}, {knob_.flag(), {knob_.value(value)}}});
      known->second = point.plan_point(0);
    }
    return known->second;
  }

  SolvedRow shown(std::int64_t value) {
    SolvedRow solved{.row = at(value), .flags = knob_.flags(value)};
    solved.row.values = {gpu_, std::to_string(value)};
    return solved;
  }

  RunOptions run_;
  const Knob& knob_;
  std::string gpu_;
  std::int64_t most_ = kMost;
  std::map<std::int64_t, SweepRow> rows_;
};

}  // namespace

std::vector<SolvedRow> solve(const SolveQuestion& question) {
  const Knob knob(question);
  std::vector<SolvedRow> rows(question.gpus.size());
  std::vector<std::optional<Error>> refused(rows.size());
  run_on_workers(rows.size(), cores(), [&](std::size_t i) {
    try {
      rows[i] = Solver(question, knob, question.gpus[i]).solve();
    } catch (const Error& e) {
      refused[i] = e;
    }
  });
  for (const std::optional<Error>& e : refused)
    if (e) throw *e;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].row.point = static_cast<std::int64_t>(i);
  return rows;
}

}  // namespace gpuplan
