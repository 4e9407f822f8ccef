// What `gpuplan diff` says, as values and in each format. The JSON contract (gpuplan.diff/1) is these structs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/compare/attribute.h"
#include "estimator/compare/causes.h"
#include "estimator/compare/differences.h"
#include "estimator/compare/growth_limit.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// One of the two plans.
struct DiffSide {
  std::string name;                // "3f2c1ab", "working tree", "old.json"
  std::string commit;              // the full id; empty where it is none
  std::string rule;                // why this one: "merge base of origin/main"; empty where it was named
  std::string file;                // of the model, or the saved plan
  bool renamed = false;            // it has another name on the other side
  std::optional<Figures> figures;  // none: there is no such model on this side
};

struct DiffReport {
  DiffSide base, now;
  std::optional<Differences> differences;  // where both sides have figures
  std::vector<Cause> causes;
  bool by_line = false;       // `modules` of the differences are lines of code: of recorded runs
  bool causes_known = false;  // not of plans that were saved, which have no text
  /// What each of `causes` does to the allocated peak; nothing for a single one, or for more than could be planned.
  std::optional<Attribution> effects;
  std::vector<RunChange> run_changes;
  struct LimitVerdict {
    GrowthLimit limit;
    Change change;
    bool exceeded = false;
  };
  std::vector<LimitVerdict> limits;
  std::vector<std::string> warnings;

  /// Whether a figure differs, or one side has none.
  bool differs() const { return !differences || differences->any(); }
  bool within_limits() const;
};

std::string diff_text(const DiffReport& report, const TextStyle& style);
std::string diff_md(const DiffReport& report, const TextStyle& style);
/// section,name,base,now,delta: integers, bytes, FLOPs, elements and nanoseconds.
std::string diff_csv(const DiffReport& report);
std::string diff_json(const DiffReport& report, std::string_view version);
/// The JSON Schema of diff_json.
std::string diff_json_schema();

/// "bytes", "elements", "FLOP", "nanoseconds": of a metric in JSON.
std::string_view unit_of(Metric metric);
/// "vars.seq: 1024 → 1536", "layers.drop: added, Dropout(0.1)": a cause without its place.
std::string cause_text(const Cause& cause, bool unicode);
/// "configs/gpt2.yaml:6"; empty where there is no place.
std::string place_text(const Cause& cause);

/// The causes with what each does to the peak, the largest effect first; the rows sum to the difference. Empty where
/// that is not known.
struct CauseRow {
  std::vector<std::size_t> causes;  // of one effect; of the rest those that cannot be planned alone
  Change effect;                    // on the peak of the base
  bool rest = false;                // what they do only together
};
std::vector<CauseRow> cause_rows(const DiffReport& report);

}  // namespace gpuplan
