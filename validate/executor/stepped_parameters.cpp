#include "validate/executor/stepped_parameters.h"

#include <array>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/optimizer/optimizer_work.h"
#include "validate/executor/describe_kernel.h"

namespace gpuplan {
namespace {

// A tensor with a storage of its own that lies as another one does.
KernelTensor tensor_like(const OperandView& view, DType dtype, std::uint64_t address) {
  OperandView own = view;
  own.offset = 0;
  own.dtype = dtype;
  return tensor_at(own, address);
}

OperandView own_view(const Tensor& t) { return view_of(t, t.buffer); }

// Fused optimizers count their steps on the device, in a float that comes before the other states.
bool counts_steps(const OptimizerConfig& config) {
  return config.impl == OptimizerImpl::fused && config.kind != OptimizerKind::sgd;
}

}  // namespace

SteppedParameters::SteppedParameters(Device& device, const RankStep& rank, const PlacedKernels& kernels)
    : device_(device), rank_(rank), schedule_(rank.micro_batches.schedules.front()), kernels_(kernels) {
  states_.resize(rank.graph.parameters.size());
  master_.assign(states_.size(), 0);
  fp32_gradients_.assign(schedule_.with_gradient.size(), 0);
  for (std::size_t i = 0; i < schedule_.with_gradient.size(); ++i)
    if (is_copied(tensor_of(i))) half_.push_back(i);
}

const Tensor& SteppedParameters::tensor_of(std::size_t which) const {
  const Graph& graph = rank_.graph;
  return graph.tensor(graph.parameters[index(schedule_.with_gradient[which])].tensor);
}

bool SteppedParameters::is_copied(const Tensor& parameter) const {
  return stepped_type(parameter.dtype, rank_.run) != parameter.dtype;
}

// In the order of estimator/optimizer/optimizer_work.h: the master copies first.
void SteppedParameters::claim_constructed() {
  const Graph& graph = rank_.graph;
  std::vector<std::size_t> trained;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    if (graph.parameters[i].trainable) trained.push_back(i);
  std::size_t next = 0;
  for (const std::size_t i : trained)
    if (is_copied(graph.tensor(graph.parameters[i].tensor)) && next < new_states_.size())
      master_[i] = new_states_[next++].address;
  const std::size_t each = trained.empty() ? 0 : (new_states_.size() - next) / trained.size();
  for (const std::size_t i : trained)
    for (std::size_t k = 0; k < each; ++k) states_[i].push_back(new_states_[next++]);
  new_states_.clear();
}

void SteppedParameters::claim_stepped(std::int32_t parameter) {
  const std::span<const std::int32_t> all = schedule_.with_gradient;
  const auto whose = parameter == kNone ? all : all.subspan(index(parameter), 1);
  const std::size_t each = whose.empty() ? 0 : new_states_.size() / whose.size();
  std::size_t next = 0;
  for (const std::int32_t i : whose)
    for (std::size_t k = 0; k < each; ++k) states_[index(i)].push_back(new_states_[next++]);
  new_states_.clear();
}

void SteppedParameters::fill_master_copies() {
  const Graph& graph = rank_.graph;
  for (std::size_t i = 0; i < master_.size(); ++i) {
    if (master_[i] == 0) continue;
    const Tensor& t = graph.tensor(graph.parameters[i].tensor);
    copy(Operator::to, tensor_like(own_view(t), DType::fp32, master_[i]), weight(t));
  }
}

void SteppedParameters::fp32_gradient(std::uint64_t address) {
  if (half_.empty()) return;
  const std::size_t which = half_[cast_++ % half_.size()];
  fp32_gradients_[which] = 0;
  const KernelTensor half = gradient(which);
  fp32_gradients_[which] = address;
  if (address != 0) copy(Operator::to, gradient(which), half);
}

KernelTensor SteppedParameters::gradient(std::size_t which) const {
  const OperandView& view = rank_.micro_batches.calls.front().gradients[which];
  return fp32_gradients_[which] == 0 ? kernels_.tensor(view) : tensor_like(view, DType::fp32, fp32_gradients_[which]);
}

std::vector<KernelTensor> SteppedParameters::gradients() const {
  std::vector<KernelTensor> all;
  for (std::size_t i = 0; i < schedule_.with_gradient.size(); ++i) all.push_back(gradient(i));
  return all;
}

KernelTensor SteppedParameters::weight(const Tensor& parameter) const { return kernels_.tensor(own_view(parameter)); }

KernelTensor SteppedParameters::stepped(std::size_t which) const {
  const std::uint64_t copy = master_[index(schedule_.with_gradient[which])];
  return copy == 0 ? weight(tensor_of(which)) : tensor_like(own_view(tensor_of(which)), DType::fp32, copy);
}

void SteppedParameters::step(std::int64_t number, std::int32_t parameter) {
  const OptimizerConfig& config = rank_.run.optimizer;
  const std::size_t first = parameter == kNone ? 0 : index(parameter);
  const std::size_t end = parameter == kNone ? schedule_.with_gradient.size() : first + 1;
  updates_.clear();
  given_states_.clear();
  for (std::size_t i = first; i < end; ++i) {
    const Tensor& t = tensor_of(i);
    std::vector<KernelTensor>& states = given_states_.emplace_back();
    for (const PlacedScratch& s : states_[index(schedule_.with_gradient[i])])
      states.push_back(counts_steps(config) && states.empty()
                           ? tensor_at(OperandView{}, s.address)
                           : tensor_like(own_view(t), stepped_type(t.dtype, rank_.run), s.address));
    updates_.push_back({stepped(i), gradient(i), {}});
  }
  for (std::size_t i = 0; i < updates_.size(); ++i) updates_[i].states = given_states_[i];
  device_.update(config, number, updates_);
  for (std::size_t i = first; i < end; ++i)
    if (master_[index(schedule_.with_gradient[i])] != 0) copy(Operator::copy_, weight(tensor_of(i)), stepped(i));
}

// aten::to writes its result, aten::copy_ what it reads first.
void SteppedParameters::copy(Operator op, const KernelTensor& to, const KernelTensor& from) {
  const bool in_place = op == Operator::copy_;
  const std::array<KernelTensor, 2> operands{to, from};
  std::int64_t elements = 1;
  for (int i = 0; i < to.rank; ++i) elements *= to.sizes[i];
  const Primitive what = Copy{elements};
  Kernel kernel;
  kernel.op = op;
  kernel.layer = "master weights";
  kernel.what = &what;
  kernel.reads = in_place ? std::span(operands) : std::span(operands).subspan(1);
  kernel.writes = in_place ? std::span<const KernelTensor>{} : std::span(operands).first(1);
  try {
    device_.run(kernel);
  } catch (const Error& e) {
    throw Error(described(kernel) + ": " + e.message(), e.kind());
  }
}

}  // namespace gpuplan
