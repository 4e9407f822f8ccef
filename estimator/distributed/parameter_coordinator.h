// DeepSpeed's stage 3 between the steps of a model: which parameters are whole, and when they come and go. Rules:
// deepspeed/runtime/zero/partitioned_param_coordinator.py and partition_parameters.py of 0.19.
//
// The first forward and backward are followed: each module gathers its own parameters and lets them go. From the next
// one on what comes is known, and gathered ahead: PartitionSettings::prefetch_elements at each call of a module, as
// long as not more than live_elements are whole; what is needed again within reuse_elements stays.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "estimator/base/integers.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/distributed/module_calls.h"
#include "estimator/distributed/strategy.h"
#include "estimator/graph/graph.h"

namespace gpuplan {

class ParameterCoordinator {
 public:
  ParameterCoordinator(const Graph& graph, const ModuleCalls& calls, const Strategy& strategy,
                       CollectiveWriter& writer);

  /// Before a forward of the model.
  void begin_forward();
  /// What autograd saves of a parameter's memory in this forward, or in this backward of what a checkpoint runs again:
  /// it goes with end_view() and not with the parameter.
  void save_view(std::int32_t parameter) { parameters_[index(parameter)].is_viewed = true; }
  void end_view(std::int32_t parameter);
  /// What a call of a module does; events are written where the writer stands.
  void follow(const ModuleCall& call);
  /// After a backward: what no hook has let go.
  void end_backward();
  /// Before the optimizer steps, nothing is whole; after it, what is too small to be divided each time is.
  void release_all();
  void gather_persistent();
  /// deepspeed.zero.GatheredParameters of each module's own parameters, one module after another.
  void gather_each_module();

 private:
  enum class Status : std::uint8_t { away, coming, there };
  struct Parameter {
    std::int64_t elements = 0, size = 0;  // bytes of an element
    std::int64_t padded = 0;              // elements, of all partitions
    bool stays = false;                   // ds_persist
    Status status = Status::away;
    std::set<std::int32_t> used_by;  // modules: ds_active_sub_modules
    std::int32_t gather = 0;         // which of gathers_, while it is coming
    std::int32_t slot = 0;           // of its whole
    bool on_stream = false;          // of the gathers, and not the current one
    bool is_viewed = false, is_trained = true;
    std::vector<std::int32_t> viewed;  // slots that views hold
    std::int32_t last_fetched_for = 0;
  };
  struct Gather {                 // several parameters in one buffer
    std::int32_t buffer = kNone;  // slot; kNone where it is one parameter's own
    std::vector<std::int32_t> parameters;
    std::vector<std::int32_t> brought;  // slots of what came from the host
    std::size_t waited_for = 0;         // of them, each by its module
    bool copied_out = false;
  };
  struct Use {
    std::int32_t parameter, step;
  };

  void fetch(std::int32_t module, bool again);
  void prefetch();
  void gather(std::vector<std::int32_t> parameters);
  void take_partition(const Parameter& p, std::int32_t stream);
  void bring(const std::vector<std::int32_t>& parameters, std::int32_t stream);
  void let_go_of(std::vector<std::int32_t>& brought);
  void gather_at_once(const std::vector<std::int32_t>& parameters);
  void copy_out(Gather& all);
  void wait_for(std::int32_t parameter);
  void release(std::int32_t module);
  void release_borrowed(std::int32_t module);
  std::set<std::int32_t> goes_after(const std::vector<std::int32_t>& own) const;
  void let_go(std::int32_t parameter);
  void take_own_from_queue(const std::vector<std::int32_t>& own);
  std::int32_t take_slot();

  const ModuleCalls& calls_;
  const PartitionSettings& settings_;
  std::int64_t ranks_;
  std::int32_t gather_stream_;
  bool from_host_;
  CollectiveWriter& writer_;
  std::vector<Parameter> parameters_;
  std::vector<Gather> gathers_;
  std::vector<std::int32_t> brought_;  // slots of partitions that came from the host
  std::vector<std::int32_t> free_slots_;
  std::vector<std::int32_t> order_;  // modules, by step
  std::vector<Use> uses_;            // of order_
  std::deque<Use> queue_;
  std::vector<std::int32_t> begun_;                          // modules whose backward has begun and not ended
  std::map<std::int32_t, std::set<std::int32_t>> borrowed_;  // by module: frozen parameters of what runs again for it
  bool knows_order_ = false;
  std::int32_t step_ = 0;
  std::int64_t whole_elements_ = 0;  // __n_available_params, which begins with 0 whatever is there
};

}  // namespace gpuplan
