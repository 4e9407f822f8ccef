#include "estimator/compare/cause_models.h"

namespace gpuplan {

CauseModels::CauseModels(const WrittenModel& base, const WrittenModel& now, const std::vector<Cause>& list)
    : spec_(base, now) {
  std::vector<bool> of_a_cause(spec_.edits(), false);
  for (const Cause& cause : list) {
    edits_.push_back(spec_.edits_of(cause));
    for (const std::size_t edit : edits_.back()) of_a_cause[edit] = true;
  }
  for (std::size_t i = 0; i < of_a_cause.size(); ++i)
    if (!of_a_cause[i]) neutral_.push_back(i);
}

std::optional<std::int64_t> CauseModels::amount(const std::vector<bool>& made, const std::vector<Variable>& set,
                                                const std::function<std::int64_t(const Model&)>& plan) const {
  std::vector<bool> edits(spec_.edits(), false);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (made[i] && edits_[i].empty()) return std::nullopt;  // nothing that could be edited
    for (const std::size_t edit : edits_[i]) edits[edit] = edits[edit] || made[i];
  }
  for (const bool with_neutral : {false, true}) {
    if (with_neutral)
      for (const std::size_t edit : neutral_) edits[edit] = true;
    try {
      return plan(spec_.with(edits, set));
    } catch (const Error&) {
      if (with_neutral || neutral_.empty()) return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace gpuplan
