// Layer, root-mean-square and group normalisation.
#include <array>
#include <variant>

#include "validate/cuda/check.h"
#include "validate/cuda/kernels/group_norm.h"
#include "validate/cuda/kernels/layer_norm.h"
#include "validate/cuda/kernels/strided.h"
#include "validate/cuda/operation.h"

namespace gpuplan::cuda {
namespace {

const LayerNorm* work(const Kernel& k) { return k.what == nullptr ? nullptr : std::get_if<LayerNorm>(k.what); }

LayerNormTensors rows_of(const Kernel& k) {
  LayerNormTensors t;
  t.rows = work(k)->rows;
  t.columns = work(k)->columns;
  return t;
}

template <bool root_mean_square>
void run_layer_norm(const Machine& m, const Kernel& k) {
  LayerNormTensors t = rows_of(k);
  t.x = k.reads[0];
  t.weight = optional(k.extra, 0);
  t.y = k.writes[0];
  if (root_mean_square) {
    t.rstd = optional(k.writes, 1);
  } else {
    t.bias = optional(k.extra, 1);
    t.mean = optional(k.writes, 1);
    t.rstd = optional(k.writes, 2);
  }
  layer_norm(m.launch, t, k.number(Attribute::eps), root_mean_square);
}

// Which form it is of shows in the statistics, as both gradients have one name.
bool is_root_mean_square(const Kernel& k) {
  const bool second = k.reads.size() > 3 && k.reads[3].rank == k.reads[2].rank &&
                      elements_of(k.reads[3]) == work(k)->rows && k.reads[3].sizes[k.reads[3].rank - 1] == 1;
  return !second;
}

void run_layer_norm_backward(const Machine& m, const Kernel& k) {
  LayerNormTensors t = rows_of(k);
  const bool root_mean_square = is_root_mean_square(k);
  t.grad = k.reads[0];
  t.x = k.reads[1];
  std::size_t next = 2;
  if (!root_mean_square) t.mean = k.reads[next++];
  t.rstd = k.reads[next++];
  t.weight = optional(k.reads, next);
  t.dx = optional(k.extra, 0);
  t.dweight = optional(k.extra, 1);
  t.dbias = optional(k.extra, 2);
  layer_norm_backward(m.launch, t, root_mean_square);
}

std::string refuse_layer_norm(const Kernel& k) {
  if (work(k) == nullptr) return "the plan does not say over which rows";
  if (!is_row_major(k.reads[0])) return "rows with gaps";
  for (const KernelTensor& t : k.extra)
    if (t.rank > 0 && t.dtype != k.reads[0].dtype) return "a weight of another type than the rows";
  return "";
}

std::string refuse_layer_norm_backward(const Kernel& k) {
  if (k.reads.size() < 3) return "the plan does not give its statistics";
  if (!is_row_major(k.reads[1])) return "rows with gaps";
  return refuse_layer_norm(k);
}

const GroupNorm* groups(const Kernel& k) { return k.what == nullptr ? nullptr : std::get_if<GroupNorm>(k.what); }

GroupNormTensors groups_of(const Kernel& k) {
  const GroupNorm& w = *groups(k);
  GroupNormTensors t;
  t.n = w.n;
  t.channels = w.channels;
  t.area = w.area;
  t.groups = w.groups;
  t.channels_last = w.channels_last;
  return t;
}

void run_group_norm(const Machine& m, const Kernel& k) {
  GroupNormTensors t = groups_of(k);
  t.x = k.reads[0];
  t.weight = optional(k.extra, 0);
  t.bias = optional(k.extra, 1);
  t.y = k.writes[0];
  t.mean = k.writes[1];
  t.rstd = k.writes[2];
  group_norm(m.launch, t, k.number(Attribute::eps));
}

void run_group_norm_backward(const Machine& m, const Kernel& k) {
  GroupNormTensors t = groups_of(k);
  t.grad = k.reads[0];
  t.x = k.reads[1];
  t.mean = k.reads[2];
  t.rstd = k.reads[3];
  t.weight = optional(k.reads, 4);
  const std::array<KernelTensor, 3> gradients = wanted_gradients(k);
  t.dx = gradients[0];
  t.dweight = gradients[1];
  t.dbias = gradients[2];
  const std::int64_t bytes = 2 * t.n * t.channels * size_of(accumulate_type(t.x.dtype));
  void* sums = bytes <= m.launch.partial_bytes ? m.launch.partials : scratch_of(k, bytes);
  if (sums == nullptr) fail("the plan has no room for the sums of each channel");
  group_norm_backward(m.launch, t, sums);
}

// Channels one after the other, or next to each other, as the plan says; without gaps.
bool lies_as_planned(const KernelTensor& t, const GroupNorm& w) {
  if (!w.channels_last) return is_row_major(t);
  return is_dense(t) && t.rank == 4 && (t.strides[1] == 1 || t.sizes[1] == 1);
}

std::string refuse_group_norm(const Kernel& k) {
  if (groups(k) == nullptr) return "the plan does not say over which groups";
  if (!k.has(Attribute::eps) || k.writes.size() < 3) return "the plan does not give its statistics";
  if (!lies_as_planned(k.reads[0], *groups(k)) || !lies_as_planned(k.writes[0], *groups(k)))
    return "groups with a different layout than planned";
  for (const KernelTensor& t : k.extra)
    if (t.rank > 0 && t.dtype != k.reads[0].dtype) return "a weight of another type than the input";
  return "";
}

std::string refuse_group_norm_backward(const Kernel& k) {
  if (groups(k) == nullptr) return "the plan does not say over which groups";
  if (k.reads.size() < 4 || !k.has(Attribute::wants_input)) return "the plan does not say which gradients";
  for (const KernelTensor& t : {k.reads[0], k.reads[1]})
    if (!lies_as_planned(t, *groups(k))) return "groups with a different layout than planned";
  if (k.number(Attribute::wants_input) != 0 && !lies_as_planned(k.writes[0], *groups(k)))
    return "groups with a different layout than planned";
  if (k.reads.size() > 4 && k.reads[4].dtype != k.reads[0].dtype) return "a weight of another type than the input";
  return "";
}

constexpr std::array kOperations{
    Operation{Operator::native_group_norm, run_group_norm, refuse_group_norm},
    Operation{Operator::native_group_norm_backward, run_group_norm_backward, refuse_group_norm_backward},
    Operation{Operator::native_layer_norm, run_layer_norm<false>, refuse_layer_norm},
    Operation{Operator::_fused_rms_norm, run_layer_norm<true>, refuse_layer_norm},
    Operation{Operator::native_layer_norm_backward, run_layer_norm_backward, refuse_layer_norm_backward}};
static_assert(is_whole_family(kOperations, OperatorFamily::normalizations));

}  // namespace

std::span<const Operation> normalization_operations() { return kOperations; }

}  // namespace gpuplan::cuda
