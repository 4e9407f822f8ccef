#include "estimator/report/run_names.h"

namespace gpuplan {

std::string_view name_of(Mode mode) { return mode == Mode::train ? "train" : "infer"; }

std::string_view name_of(Loop loop) {
  switch (loop) {
    case Loop::plain: return "plain";
    case Loop::function: return "function";
    case Loop::loss_only: return "loss_only";
  }
  return "";
}

std::string_view name_of(Scratch scratch) {
  switch (scratch) {
    case Scratch::full: return "full";
    case Scratch::no_cudnn: return "no-cudnn";
    case Scratch::none: return "none";
  }
  return "";
}

std::string_view name_of(AllocatorKind allocator) {
  switch (allocator) {
    case AllocatorKind::caching: return "caching";
    case AllocatorKind::exact: return "exact";
    case AllocatorKind::cuda_malloc: return "cudaMalloc";
  }
  return "";
}

std::string_view name_of(OptimizerImpl impl) {
  switch (impl) {
    case OptimizerImpl::foreach_: return "foreach";
    case OptimizerImpl::for_loop: return "for-loop";
    case OptimizerImpl::fused: return "fused";
  }
  return "";
}

std::string_view name_of(const OptimizerConfig& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::none: return "none";
    case OptimizerKind::sgd: return optimizer.nesterov ? "nesterov" : optimizer.momentum ? "momentum" : "sgd";
    case OptimizerKind::adam: return optimizer.amsgrad ? "amsgrad" : "adam";
    case OptimizerKind::adamw: return "adamw";
    case OptimizerKind::rmsprop: return "rmsprop";
    case OptimizerKind::adagrad: return "adagrad";
    case OptimizerKind::adadelta: return "adadelta";
    case OptimizerKind::nadam: return "nadam";
    case OptimizerKind::radam: return "radam";
    case OptimizerKind::adamax: return "adamax";
  }
  return "";
}

std::string version_text(PyTorchVersion version) {
  return std::to_string(version / 100) + "." + std::to_string(version % 100);
}

}  // namespace gpuplan
