#include "estimator/plan/make_report.h"

#include <algorithm>
#include <map>

#include "estimator/base/integers.h"
#include "estimator/device/arithmetic.h"
#include "estimator/distributed/deepspeed_memory.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/partitioned_construction.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/distributed/shard_sizes.h"
#include "estimator/schedule/backward.h"
#include "estimator/schedule/host_saved.h"
#include "estimator/schedule/recompute.h"

namespace gpuplan {
namespace {

// What a generation keeps of keys and values once the step is over.
std::int64_t cached_bytes(const Graph& graph) {
  std::int64_t total = 0;
  const auto add = [&](BufferId b) {
    if (graph.buffers[index(b)].category == Category::kv_cache)
      total = checked_add(total, graph.buffers[index(b)].bytes);
  };
  for (const TensorId t : graph.kept_with_output) add(graph.tensors[index(t)].buffer);
  for (const TensorId t : graph.model_storage) {
    const BufferId b = graph.tensors[index(t)].buffer;
    const auto replaced = std::ranges::find(graph.replaced_buffers, b, [](const auto& r) { return r.first; });
    add(replaced == graph.replaced_buffers.end() ? b : replaced->second);
  }
  return total;
}

// Its module has another one of it since the first forward.
bool is_converted(const Graph& graph, BufferId buffer) {
  return std::ranges::any_of(graph.converted_buffers, [&](const auto& c) { return c.first == buffer; });
}

void tell_bytes(const Plan& p, Report& r) {
  const auto bytes_of = [&](TensorId t) {
    return p.step.graph.buffers[index(p.step.graph.tensors[index(t)].buffer)].bytes;
  };
  const auto elements_of = [&](TensorId t) { return p.step.graph.tensors[index(t)].shape.elements(); };
  for (const TensorId t : p.step.graph.model_storage) {
    const Category category = p.step.graph.buffers[index(p.step.graph.tensors[index(t)].buffer)].category;
    if (category == Category::kv_cache) continue;
    if (category == Category::scratch) continue;      // constructed, and dropped for the weight it is tied to
    if (category == Category::activations) continue;  // kept by the model's code
    if (is_converted(p.step.graph, p.step.graph.tensors[index(t)].buffer)) continue;
    const bool buffer = category == Category::buffers;
    (buffer ? r.bytes.buffers : r.bytes.parameters) += bytes_of(t);
    (buffer ? r.model.buffers : r.model.parameters) += elements_of(t);
  }
  for (const ParameterTensor& q : p.step.graph.parameters)
    if (q.trainable) r.model.trainable_parameters += elements_of(q.tensor);
  if (r.run.generation.part != Generation::Part::none) r.bytes.kv_cache = cached_bytes(p.step.graph);
  for (const TensorId t : p.step.graph.inputs) r.bytes.inputs += bytes_of(t);
  for (const std::int32_t i : p.step.schedule().with_gradient) {
    const Tensor& t = p.step.graph.tensors[index(p.step.graph.parameters[index(i)].tensor)];
    if (!r.run.optimizer_in_backward) r.bytes.gradients += t.shape.elements() * size_of(stepped_type(t.dtype, r.run));
  }
  r.bytes.optimizer_state = state_bytes(p.step.optimizer);
}

// CPUOffloadPolicy: each gather brings its shards, each reduction takes what the rank has of it to the host.
void tell_shards_from_host(const Plan& p, Report& r) {
  const RankStep& step = p.step;
  for (std::size_t u = 0; u < step.units.size(); ++u) {
    const bool again = u == 0 ? step.strategy.reshards_root : step.strategy.reshards(u, step.units.size());
    const std::int64_t gathers = (again ? 2 : 1) * step.run.micro_batches;
    for (const std::int32_t i : step.units[u].parameters) {
      const ParameterTensor& cut = step.graph.parameters[index(i)];
      const std::int64_t ranks = step.strategy.group(step.units[u].of_experts).ranks;
      const std::int64_t bytes = checked_mul(padded_shard_elements(cut_shape(step.graph, cut), ranks),
                                             size_of(stored_type(step.graph, cut, step.strategy, step.run)));
      const bool reduced = gradient_place(step.schedule(), i) != kNone;
      const std::int64_t reductions = reduced ? (step.strategy.reduces_last ? 1 : step.run.micro_batches) : 0;
      r.offload_bytes_from_host = checked_add(r.offload_bytes_from_host, checked_mul(bytes, gathers));
      r.offload_bytes_to_host = checked_add(r.offload_bytes_to_host, checked_mul(bytes, reductions));
    }
  }
}

// DeepSpeed's stage 3: each gradient of a partition goes to the host and comes back, and goes again in fp32 once they
// are summed; stepped partitions come back, and of those that are there for good each of two gathers brings them.
void tell_partitions_on_host(const Plan& p, Report& r) {
  constexpr std::int64_t kFp32 = 4;
  const RankStep& step = p.step;
  for (const ParameterTensor& parameter : step.graph.parameters) {
    const Tensor& t = step.graph.tensor(parameter.tensor);
    const std::int64_t elements = partition_elements(t.shape, step.strategy.ranks());
    const std::int64_t each = checked_mul(elements * size_of(t.dtype), step.run.micro_batches);
    const std::int64_t brought = step.strategy.offloads_parameters ? 2 * each : elements * size_of(t.dtype);
    r.offload_bytes_to_host = checked_add(r.offload_bytes_to_host, each + elements * kFp32);
    r.offload_bytes_from_host = checked_add(r.offload_bytes_from_host, each + brought);
  }
}

// DeepSpeed's stages 1 and 2: the rank's part of the gradients goes to the host in fp32, and the stepped part comes
// back. Of micro-batches, stage 2 sends each of those gradients whole, and adds the earlier ones, which come back;
// stage 1 does so with the last one.
void tell_part_on_host(const Plan& p, Report& r) {
  constexpr std::int64_t kFp32 = 4;
  const RankStep& step = p.step;
  const std::int64_t size = size_of(step.run.precision), micro_batches = step.run.micro_batches;
  const FlatPart part = flat_part(step.graph, step.strategy.ranks(), step.strategy.rank);
  std::int64_t own = 0, whole = 0;
  for (const FlatPart::Within& w : part.parameters) {
    own += w.elements;
    whole += step.graph.tensor(step.graph.parameters[index(w.parameter)].tensor).shape.elements();
  }
  const std::int64_t sums =
      step.strategy.partitions_gradients ? micro_batches - 1 : std::min<std::int64_t>(micro_batches - 1, 1);
  const std::int64_t sends = sums == 0 ? 0 : step.strategy.partitions_gradients ? micro_batches : 1;
  r.offload_bytes_to_host = checked_add(r.offload_bytes_to_host, own * kFp32 + checked_mul(whole * size, sends));
  r.offload_bytes_from_host =
      checked_add(r.offload_bytes_from_host, part.elements * size + checked_mul(whole * size, sums));
}

// What crosses the link in one step: saved tensors there and back, gradients there and stepped parameters back.
void tell_offload(const Plan& p, const std::vector<char>& reached, Report& r) {
  if (r.run.mode == Mode::infer) return;
  if (r.run.offload_saved) {
    const HostTraffic saved = saved_traffic(p.step.graph, reached);
    r.offload_bytes_to_host = checked_mul(saved.to_host_bytes, r.run.micro_batches);
    r.offload_bytes_from_host = checked_mul(saved.from_host_bytes, r.run.micro_batches);
  }
  if (!r.run.offload_optimizer) return;
  if (p.step.strategy.data == DataParallel::zero2) return tell_part_on_host(p, r);
  if (p.step.strategy.is_deepspeed()) return tell_partitions_on_host(p, r);
  if (p.step.strategy.offloads) return tell_shards_from_host(p, r);
  for (const std::int32_t i : p.step.schedule().with_gradient) {
    const Tensor& t = p.step.graph.tensors[index(p.step.graph.parameters[index(i)].tensor)];
    const std::int64_t bytes = t.shape.elements() * size_of(t.dtype);
    r.offload_bytes_to_host = checked_add(r.offload_bytes_to_host, bytes);
    r.offload_bytes_from_host = checked_add(r.offload_bytes_from_host, bytes);
  }
}

// What checkpoints were given is kept for them, by the layer that made it.
void tell_given(const Plan& p, std::vector<char>& seen, Report& r) {
  for (const Checkpoint& c : p.step.graph.checkpoints)
    for (const TensorId t : p.step.graph.at(c.given)) {
      const BufferId b = p.step.graph.tensors[index(t)].buffer;
      const Buffer& buffer = p.step.graph.buffers[index(b)];
      if (seen[index(b)] != 0 || buffer.category != Category::activations) continue;
      seen[index(b)] = 1;
      r.bytes.saved_for_backward = checked_add(r.bytes.saved_for_backward, buffer.bytes);
      if (buffer.layer != kNone) r.layers[index(buffer.layer)].saved_bytes += buffer.bytes;
    }
}

// Distinct storages that autograd holds once the loss is computed, told to the layer that saved them first.
void tell_saved(const Plan& p, const std::vector<char>& reached, Report& r) {
  std::vector<char> seen(p.step.graph.buffers.size(), 0);
  const std::vector<char> recomputed = recomputed_buffers(p.step.graph);
  for (std::size_t n = 0; n < p.step.graph.nodes.size(); ++n) {
    if (reached[n] == 0) continue;
    const AutogradNode& node = p.step.graph.nodes[n];
    for (std::int32_t i = node.saved.begin; i < node.saved.end; ++i) {
      const BufferId b = p.step.graph.tensors[index(p.step.graph.saved[index(i)])].buffer;
      const Buffer& buffer = p.step.graph.buffers[index(b)];
      if (seen[index(b)] != 0 || buffer.category != Category::activations || recomputed[index(b)] != 0) continue;
      seen[index(b)] = 1;
      r.bytes.saved_for_backward = checked_add(r.bytes.saved_for_backward, buffer.bytes);
      if (node.layer != kNone) r.layers[index(node.layer)].saved_bytes += buffer.bytes;
    }
  }
  tell_given(p, seen, r);
}

void tell_layers(const Plan& p, Report& r) {
  r.layers.resize(p.step.graph.layers.size());
  for (std::size_t i = 0; i < p.step.graph.layers.size(); ++i) {
    const Layer& layer = p.step.graph.layers[i];
    LayerRow& row = r.layers[i];
    row.name = layer.name;
    row.type = layer.type;
    if (layer.mark.source != nullptr) row.file = layer.mark.source->name;
    row.line = layer.mark.line;
    row.column = layer.mark.column;
    for (const TensorId t : p.step.graph.at(layer.inputs))
      row.input_shapes.push_back(p.step.graph.tensors[index(t)].shape);
    if (layer.output != kNone) {
      const Tensor& out = p.step.graph.tensors[index(layer.output)];
      row.output_shape = out.shape;
      row.output_bytes = out.shape.elements() * size_of(out.dtype);
    }
    row.parameters = layer.parameters;
    if (layer.module) ++r.model.layers;
  }
  r.model.checkpointed_blocks = static_cast<std::int64_t>(p.step.graph.checkpoints.size());
}

std::int64_t bytes_moved(const Schedule& s, const ScheduledOp& step) {
  std::int64_t total = 0;
  for (std::int32_t k = step.reads.begin; k < step.reads.end; ++k)
    total = checked_add(total, s.buffers[index(s.reads[index(k)])].bytes);
  for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k)
    total = checked_add(total, s.buffers[index(s.allocated[index(k)])].bytes);
  return total;
}

// Also of a forward that computes gradients, as Liger's loss does.
bool is_of_backward(const ScheduledOp& step) {
  const auto* const product = std::get_if<Gemm>(step.what);
  return step.phase == Phase::backward || (product != nullptr && product->gradient != GemmGradient::none);
}

// What each layer has of compute_of(), and no more of any figure than that has.
void tell_compute(const Plan& p, Report& r) {
  for (const ScheduledOp& step : p.step.schedule().ops) {
    if (step.what == nullptr || step.layer == kNone) continue;
    const Cost k = cost(*step.what);
    const std::int64_t flops = 2 * k.macs;
    LayerRow& row = r.layers[index(step.layer)];
    row.recompute_flops += 2 * k.recompute_macs + (step.recompute ? flops : 0);
    if (step.recompute) continue;
    if (is_of_backward(step)) {
      row.backward_flops += flops;
    } else {
      row.forward_macs += k.macs;
      row.elementwise_flops += k.elementwise_flops;
    }
  }
  for (LayerRow& row : r.layers)
    for (std::int64_t* n : {&row.forward_macs, &row.backward_flops, &row.recompute_flops, &row.elementwise_flops})
      *n *= r.run.micro_batches;
}

void name_step(const RankStep& in, std::size_t pass, std::int32_t step, Phase phase, std::string& op,
               std::string& layer) {
  if (step == kNone) {
    op = name_of(phase);
    return;
  }
  const ScheduledOp& s = in.micro_batches.schedules[pass].ops[index(step)];
  op = s.name;
  if (s.layer != kNone) layer = in.graph.layers[index(s.layer)].name;
}

void tell_tensor_peak(const Plan& p, Report& r) {
  const LiveBytes& l = p.live_bytes;
  auto& t = r.tensor_peak;
  t.bytes = l.peak;
  t.phase = l.phase;
  name_step(p.step, std::min(l.pass, p.step.micro_batches.schedules.size() - 1), l.step, l.phase, t.op, t.layer);
  t.forward_bytes = l.forward_peak;
  t.backward_bytes = l.backward_peak;
  t.optimizer_bytes = l.optimizer_peak;
  t.after_model_bytes = l.after_model;
  t.end_of_forward_bytes = r.run.mode == Mode::train ? l.loss_end : l.forward_end;
  t.start_bytes = l.start;
  t.forward_end_bytes = l.forward_end;
  t.backward_end_bytes = l.backward_end;
  t.end_bytes = l.end;
  t.loss_peak_bytes = l.loss_peak;
}

Confidence confidence_of(Category category, const RunConfig& run) {
  if (category == Category::parameters && run.weights != WeightFormat::as_computed && !is_bitsandbytes(run.weights))
    return Confidence::modelled;
  if (category == Category::kv_cache) return Confidence::modelled;  // the last step stands for all
  return category == Category::scratch && run.scratch == Scratch::full ? Confidence::modelled : Confidence::exact;
}

// Activations and gradients alive at the peak, by the first part of their layer's path.
void tell_modules(const Plan& p, Report& r) {
  // Of a pipeline's stage they are several micro-batches'.
  if (p.replay.at.step == kNone || !p.step.pipeline.empty()) return;
  const Schedule& schedule = p.step.micro_batches.schedules[p.replay.at.pass];
  std::map<std::string_view, std::int64_t> modules;
  std::vector<char> born(schedule.buffers.size(), 0);
  for (std::int32_t i = 0; i <= p.replay.at.step; ++i) {
    const ScheduledOp& step = schedule.ops[index(i)];
    for (std::int32_t k = step.allocates.begin; k < step.allocates.end; ++k)
      born[index(schedule.allocated[index(k)])] = 1;
    if (i < p.replay.at.step)
      for (std::int32_t k = step.releases.begin; k < step.releases.end; ++k)
        born[index(schedule.released[index(k)])] = 0;
  }
  for (std::size_t b = 0; b < born.size(); ++b) {
    const Buffer& buffer = schedule.buffers[b];
    if (born[b] == 0 || buffer.layer == kNone) continue;
    const std::string_view path = p.step.graph.layers[index(buffer.layer)].name;
    modules[path.substr(0, path.find('.'))] += p.replay.charged_bytes[b];
  }
  for (const auto& [name, bytes] : modules) r.peak.modules.push_back({std::string(name), bytes});
  std::ranges::stable_sort(r.peak.modules,
                           [](const ModuleBytes& a, const ModuleBytes& b) { return a.bytes > b.bytes; });
}

void tell_peak(const Plan& p, Report& r) {
  const Gpu& gpu = p.step.gpu;
  auto& peak = r.peak;
  peak.reading = p.replay.peak;
  peak.context_bytes = context_bytes(r.run, gpu, p.step.strategy);
  peak.context_confidence = context_confidence(r.run, gpu, p.step.strategy);
  peak.device_bytes = checked_add(peak.reading.reserved_bytes, peak.context_bytes);
  peak.phase = p.replay.at.phase;
  name_step(p.step, p.replay.at.pass, p.replay.at.step, peak.phase, peak.op, peak.layer);
  for (int c = 0; c < kCategories; ++c) {
    const auto category = static_cast<Category>(c);
    peak.parts.push_back({category, p.replay.at.by_category[index(c)], confidence_of(category, r.run)});
  }
  std::ranges::stable_sort(peak.parts, [](const PeakPart& a, const PeakPart& b) { return a.bytes > b.bytes; });
  tell_modules(p, r);
}

}  // namespace

Confidence context_confidence(const RunConfig& run, const Gpu& gpu, const Strategy& strategy) {
  const bool measured =
      !run.context_bytes && gpu.context_bytes && nccl_buffers(strategy, gpu, run.pytorch).planned == 0;
  return measured ? Confidence::modelled : Confidence::assumed;
}

decltype(Report::compute) compute_of(const Schedule& schedule, const OptimizerWork& optimizer, const RunConfig& run) {
  decltype(Report::compute) c;
  for (const ScheduledOp& step : schedule.ops) {
    if (step.what == nullptr) continue;
    const Cost k = cost(*step.what);
    const std::int64_t flops = checked_mul(2, k.macs);
    const std::int64_t again = checked_add(checked_mul(2, k.recompute_macs), step.recompute ? flops : 0);
    c.recompute_flops = checked_add(c.recompute_flops, again);
    if (!step.recompute && is_of_backward(step))
      c.backward_flops = checked_add(c.backward_flops, flops);
    else if (!step.recompute)
      c.forward_macs = checked_add(c.forward_macs, k.macs);
    c.elementwise_flops = checked_add(c.elementwise_flops, k.elementwise_flops);
    c.bytes_moved = checked_add(c.bytes_moved, bytes_moved(schedule, step));
  }
  for (std::int64_t* total :
       {&c.forward_macs, &c.backward_flops, &c.recompute_flops, &c.elementwise_flops, &c.bytes_moved})
    *total = checked_mul(*total, run.micro_batches);
  c.forward_flops = checked_mul(2, c.forward_macs);
  const OptimizerProgram& update = run.first_step ? optimizer.first : optimizer.steady;
  c.optimizer_flops = checked_add(update.elementwise_flops, update.product_flops);
  for (const OptimizerProgram& program : run.first_step ? optimizer.first_of : optimizer.steady_of)
    c.optimizer_flops = checked_add(c.optimizer_flops, program.elementwise_flops);
  c.step_flops = checked_add(c.forward_flops, c.backward_flops);  // matmuls and convolutions of the model
  return c;
}

std::string where(const RankStep& in, const PeakPlace& at) {
  if (at.step == kNone) return std::string(name_of(at.phase));
  const ScheduledOp& step = in.micro_batches.schedules[at.pass].ops[index(at.step)];
  const Graph& graph = in.graph;
  return step.layer == kNone || graph.layers[index(step.layer)].name.empty() ? std::string(step.name)
                                                                             : graph.layers[index(step.layer)].name;
}

WithinMemory within_memory(const RankStep& step, const LimitedReplay& limited) {
  WithinMemory w;
  w.runs = !limited.out_of_memory;
  w.retries = limited.retries;
  if (w.runs) return w;
  w.tried_bytes = limited.reading.tried_bytes;
  w.allocated_bytes = limited.reading.allocated_bytes;
  w.reserved_bytes = limited.reading.reserved_bytes;
  w.step = limited.training_step + 1;
  w.phase = limited.phase;
  name_step(step, limited.pass, limited.step, w.phase, w.op, w.layer);
  return w;
}

Report make_report(const Plan& plan) {
  const RankStep& step = plan.step;
  Report r;
  r.model.name = plan.model->name;
  // With adapters or stored weights it is another model than the one that was compared.
  const RunConfig& run = plan.step.run;
  if (!run.lora && !is_bitsandbytes(run.weights)) r.model.verified = plan.model->verified;
  if (!plan.model->sources.empty()) r.model.file = plan.model->sources.front()->name;
  r.run = step.run;
  if (plan.names_gpu) r.gpu = step.gpu;
  tell_layers(plan, r);
  tell_bytes(plan, r);
  const std::vector<char> reached = reached_nodes(step.graph);
  tell_saved(plan, reached, r);
  tell_offload(plan, reached, r);
  r.compute = compute_of(step.schedule(), step.optimizer, step.run);
  tell_compute(plan, r);
  tell_tensor_peak(plan, r);
  tell_peak(plan, r);
  r.allocator = {plan.replay.segments, plan.replay.allocations, plan.replay.inactive_split_bytes};
  return r;
}

}  // namespace gpuplan
