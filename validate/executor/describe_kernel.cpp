#include "validate/executor/describe_kernel.h"

namespace gpuplan {
namespace {

std::string described(const KernelTensor& t) {
  std::string text(name_of(t.dtype));
  text += '[';
  for (int i = 0; i < t.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(t.sizes[i]);
  return text + ']';
}

}  // namespace

std::string described(const Kernel& k) {
  std::string text(name_of(k.op));
  if (!k.layer.empty()) text += " of " + std::string(k.layer);
  const char* before = " (";
  for (const auto tensors : {k.reads, k.extra}) {
    for (const KernelTensor& t : tensors) {
      text += before + (t.data == nullptr && t.rank == 0 ? std::string("none") : described(t));
      before = ", ";
    }
  }
  before = k.reads.empty() && k.extra.empty() ? " (-> " : " -> ";
  for (const KernelTensor& t : k.writes) {
    text += before + described(t);
    before = ", ";
  }
  return text + ')';
}

}  // namespace gpuplan
