// The points of a sweep: every combination of the swept flags' values, the last flag's changing fastest.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/report/sweep_table.h"
#include "estimator/search/affine_step.h"
#include "estimator/search/figures.h"
#include "tools/options/run_options.h"
#include "tools/options/swept_flags.h"

namespace gpuplan {

class SweepPoints {
 public:
  /// Throws Error (usage) for a flag that is given besides being swept, for values that no combination can use, and
  /// for more points than can be counted.
  SweepPoints(RunOptions base, std::vector<SweptFlag> flags, SeveralGpusOptions several = {});

  std::size_t count() const { return count_; }
  std::vector<std::string> names() const;
  /// Plans a point, and times it where its GPU is a kind of GPU. May be called by several threads at once. What cannot
  /// be planned has a reason; never throws Error.
  SweepRow plan_point(std::size_t point) { return plan_points({&point, 1}).front(); }
  /// The same of several that are of one group_of(), which share what is the same of them.
  std::vector<SweepRow> plan_points(std::span<const std::size_t> points) { return plan_group(points, nullptr); }
  /// Points of one name differ in GPUs that reserve alike only, and in how batches come to them.
  std::string group_of(std::size_t point) const;
  /// plan_points() of every group, which are of one line_of(), each handed on as soon as it is there.
  using TakeRows = std::function<void(std::vector<SweepRow>)>;
  void plan_line(std::vector<std::vector<std::size_t>> groups, const TakeRows& take);
  /// Groups of one name differ in their batch only; empty where they share nothing.
  std::string line_of(std::size_t point) const;
  /// What plans so far have warned of, and how many of them did.
  const std::map<std::string, std::int64_t>& warnings() const { return warnings_; }
  /// memory_of() its plan, for a page; empty where it is not planned allocation by allocation on one GPU.
  std::string memory_of_point(std::size_t point);
  /// As the error that it is.
  [[noreturn]] void throw_reason(std::size_t point);

 private:
  // A model that was read, or why it was not.
  struct ReadModel {
    std::optional<Model> model;
    std::string stored_type;  // WrittenModel's
    std::optional<Error> error;
  };

  struct SweptGpu {
    Gpu gpu;
    bool is_limit = false;  // it was a size
    std::string alike;      // the first of those that reserve alike
    Margin margin;          // taken off its memory
  };

  // What points share, made for the first of them.
  struct Group {
    Plan* plan = nullptr;     // where it is known already
    std::optional<Plan> own;  // where it is not
    const ReadModel* model = nullptr;
    bool timed = false;
  };

  struct PointOptions {
    RunOptions run;
    SeveralGpusOptions several;
  };

  // Points of a batch.
  struct BatchGroup {
    std::int64_t batch = 0;
    std::vector<std::size_t> points;
  };

  std::vector<std::string> values_of(std::size_t point) const;
  std::string names_but(std::size_t point, bool batch) const;
  std::vector<SweepRow> plan_group(std::span<const std::size_t> points, Plan* known);
  void plan_between(std::span<const BatchGroup> groups, const TakeRows& take);
  AffineStep::Found line_through(std::span<const BatchGroup> groups);
  PointOptions options_of(std::size_t point) const;
  void refuse_given_flags();
  void find_kinds();
  void check_values(std::size_t flag) const;
  void load_gpus();
  const ReadModel& model_of(const PointOptions& options);
  SweepFigures figures_of(std::size_t point, Group& group);
  static PlannedFigures learned(const PointOptions& options, const SweptGpu* on);
  PlannedFigures ruled(const PointOptions& options, const SweptGpu* on, Group& group);
  PlannedFigures planned(const PointOptions& options, const RunConfig& run, const SweptGpu* on, Group& group) const;
  bool has_times(const RunOptions& options) const;

  PointOptions base_;
  bool sweeps_ddp_ = false, sweeps_fsdp_ = false;  // among the values of zero
  std::vector<SweptFlag> flags_;
  std::size_t count_ = 1;
  std::map<std::string, SweptGpu> gpus_;  // by what --gpu calls them
  std::mutex mutex_;                      // of what follows
  std::map<std::string, ReadModel> models_;
  std::map<std::string, std::int64_t> warnings_;
};

}  // namespace gpuplan
