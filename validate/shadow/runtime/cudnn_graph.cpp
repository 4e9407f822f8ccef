// cuDNN's graph API (cudnnBackend*): the installed cuDNN's own, which is told the GPU's properties in place of a
// handle.
//
// Its heuristics need no GPU once they have a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR (cuDNN 9.8), and an engine
// configuration states the workspace that its plan will state. Plans are not built: that would load kernels. So
//   - an operation graph gets no handle
//   - heuristics, engines and plans get the device's description
//   - a plan is finalized by asking its engine configuration for the workspace
//   - a convolution that a device has answered for (estimator/operators/cudnn_workspace.h, Hopper's) takes that answer:
//     told of a device, cuDNN asks cuBLASLt in vain, and some engines' needs follow what the device can do
//   - executing one counts a launch, and for a trace (Settings::learn) writes down what its workspace is of
//
// Without workspaces (Settings::cudnn_workspaces), or where the installed cuDNN cannot be asked, every descriptor is a
// blank, and every question is answered: one engine, no workspace.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "validate/shadow/runtime/cudnn_abi.h"
#include "validate/shadow/runtime/cudnn_backend.h"
#include "validate/shadow/runtime/cudnn_device.h"
#include "validate/shadow/runtime/cudnn_questions.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

struct Plan {
  Descriptor configuration = nullptr;
  std::int64_t workspace = -1;                        // bytes; -1: not finalized
  std::int64_t number = 0;                            // among this process's plans
  bool alone = true;                                  // no other plan was made from the same answer of the heuristics
  std::optional<CudnnConvolution> of = std::nullopt;  // the convolution that it computes, where it is one
};

struct Graphs {
  const Installed& cudnn = installed_backend();
  std::string json;
  Descriptor device = nullptr;  // null: cuDNN is not asked
  std::mutex mutex;             // of the rest; never held while cuDNN runs, which calls these functions itself
  std::unordered_map<Descriptor, bool> heuristics;
  std::unordered_map<Descriptor, Plan> plans;
  std::int64_t plans_made = 0;
  Questions questions;
};

// cuDNN's parts call these functions by their exported names, which are ours, while it answers. Then they are its own.
thread_local int depth = 0;
struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};
bool inside() { return depth > 0; }

Descriptor make_device(const Installed& cudnn, const std::string& json) {
  const Inside guard;
  Descriptor device = nullptr;
  if (cudnn.create(kDeviceDescriptor, &device) != kSuccess) return nullptr;
  const auto length = static_cast<std::int64_t>(json.size());
  if (cudnn.set(device, kDeviceJson, kTypeChar, length, json.data()) == kSuccess &&
      cudnn.finalize(device) == kSuccess) {
    return device;
  }
  cudnn.destroy(device);
  return nullptr;
}

Graphs* start() {
  auto* const graphs = new Graphs();
  if (!settings().cudnn_workspaces) return graphs;
  graphs->json = describe(settings().gpu);
  if (graphs->cudnn.complete()) graphs->device = make_device(graphs->cudnn, graphs->json);
  if (graphs->device == nullptr) {
    auto* const get = installed<std::size_t()>("cudnnGetVersion");
    const std::string which = get == nullptr ? "no cuDNN is loaded" : "cuDNN " + std::to_string(get());
    note_unknown("cuDNN's workspaces: " + which + " cannot be told of a GPU that is not there (9.8 and later can); 0");
  }
  return graphs;
}

// Never destroyed: PyTorch's caches of plans are, after static destructors have begun to run.
Graphs& graphs() {
  static Graphs* const instance = start();
  return *instance;
}

// How many plans this thread made since it last asked the heuristics: more than one is a choice by measurement.
thread_local int plans_since_question = 0;

struct Blank {
  std::int64_t nothing[8] = {};
};

template <typename T>
Status answer(std::int64_t* count, void* out, std::int64_t elements, T value) {
  if (count != nullptr) *count = elements;
  if (out != nullptr) std::memcpy(out, &value, sizeof value);
  return kSuccess;
}

Status answer_blank(int attribute, std::int64_t* count, void* out) {
  switch (attribute) {
    case kHeuristicsResults:
    case kConfigurationEngine:
      // The caller's descriptors stay as they are.
      if (count != nullptr) *count = 1;
      return kSuccess;
    case kGraphEngineCount: return answer(count, out, 1, std::int64_t{1});
    case kPlanWorkspace:
    case kEngineIndex: return answer(count, out, 1, std::int64_t{0});
    case kConfigurationWorkspace: return answer(count, out, 1, std::int64_t{0});
    case kConfigurationSharedMemory: return answer(count, out, 1, std::int32_t{0});
    default:
      if (count != nullptr) *count = 0;
      return kSuccess;
  }
}

int set_device(Graphs& g, Descriptor descriptor, int attribute) {
  return g.cudnn.set(descriptor, attribute, kTypeDescriptor, 1, &g.device);
}

/// A plan is not built, so that its text only tells it from others.
Status answer_json(const Plan& plan, std::int64_t wanted, std::int64_t* count, void* values) {
  const std::string text = "{\"gpuplan_shadow_plan\":" + std::to_string(plan.number) + "}";
  const auto size = static_cast<std::int64_t>(text.size() + 1);
  if (count != nullptr) *count = size;
  if (values != nullptr)
    std::memcpy(values, text.c_str(), static_cast<std::size_t>(std::clamp<std::int64_t>(wanted, 0, size)));
  return kSuccess;
}

/// What is asked of a plan and needs it built in cuDNN.
bool is_plan_question(int attribute) { return attribute == kPlanWorkspace || attribute == kPlanJson; }

Status answer_plan(const Plan& plan, int attribute, std::int64_t wanted, std::int64_t* count, void* values) {
  if (plan.workspace < 0) return fail(kNotFinalized, "the execution plan is not finalized");
  if (attribute == kPlanJson) return answer_json(plan, wanted, count, values);
  return answer(count, values, 1, plan.workspace);
}

int finalize_plan(Graphs& g, Descriptor descriptor, Descriptor configuration) {
  std::int64_t count = 0, workspace = 0;
  const int status = g.cudnn.get(configuration, kConfigurationWorkspace, kTypeInt64, 1, &count, &workspace);
  if (status != kSuccess) return status;
  const int made = ++plans_since_question;
  const std::lock_guard lock(g.mutex);
  const Asked asked = g.questions.of(configuration);
  const auto found = g.plans.find(descriptor);
  if (found != g.plans.end())
    found->second = {configuration, answer_of_device(asked, settings().gpu).value_or(workspace), ++g.plans_made,
                     made == 1, asked.convolution};
  return kSuccess;
}

/// The plan behind `descriptor`; a configuration of null where it is none.
Plan plan_of(Graphs& g, Descriptor descriptor) {
  const std::lock_guard lock(g.mutex);
  const auto found = g.plans.find(descriptor);
  return found == g.plans.end() ? Plan{} : found->second;
}

bool is_heuristics(Graphs& g, Descriptor descriptor) {
  const std::lock_guard lock(g.mutex);
  return g.heuristics.contains(descriptor);
}

void remember(Graphs& g, int type, Descriptor descriptor) {
  const std::lock_guard lock(g.mutex);
  g.questions.created(type, descriptor);
  if (type == kHeuristicsDescriptor) g.heuristics[descriptor] = true;
  if (type == kPlanDescriptor) g.plans[descriptor] = {};
}

void forget(Graphs& g, Descriptor descriptor) {
  const std::lock_guard lock(g.mutex);
  g.heuristics.erase(descriptor);
  g.plans.erase(descriptor);
  g.questions.destroyed(descriptor);
}

/// What a program sets, with the device's description where it would give a handle.
int set_attribute(Graphs& g, Descriptor d, int attribute, int type, std::int64_t count, const void* values) {
  switch (attribute) {
    case kPlanHandle: return set_device(g, d, kPlanDevice);
    case kDeviceHandle:
    case kDeviceId:
      return g.cudnn.set(d, kDeviceJson, kTypeChar, static_cast<std::int64_t>(g.json.size()), g.json.data());
    case kEngineIndex:
      if (const int status = set_device(g, d, kEngineDevice)) return status;
      break;
    case kPlanConfiguration: {
      if (values == nullptr || count != 1) return fail(kBadParam, "a plan has one engine configuration");
      const std::lock_guard lock(g.mutex);
      g.plans[d] = {.configuration = *static_cast<Descriptor const*>(values)};
      break;
    }
    default:
      if (type == kTypeHandle) return kSuccess;
  }
  return g.cudnn.set(d, attribute, type, count, values);
}

}  // namespace
}  // namespace gpuplan::shadow::cudnn

namespace {

using namespace gpuplan::shadow::cudnn;

}  // namespace

SHADOW_API int cudnnBackendCreateDescriptor(int type, Descriptor* descriptor) {
  if (inside()) return installed_backend().create(type, descriptor);
  Graphs& g = graphs();
  if (g.device == nullptr) {
    if (descriptor == nullptr) return fail(kBadParam, "no place for the descriptor");
    *descriptor = new Blank();
    return kSuccess;
  }
  const Inside guard;
  const int status = g.cudnn.create(type, descriptor);
  if (status == kSuccess) remember(g, type, *descriptor);
  return status;
}

SHADOW_API int cudnnBackendInitialize(Descriptor /*descriptor*/) {
  return fail(kNotSupported, "cudnnBackendInitialize: deprecated; use cudnnBackendCreateDescriptor");
}

SHADOW_API int cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  if (inside()) return installed_backend().destroy(descriptor);
  Graphs& g = graphs();
  if (g.device == nullptr) {
    delete static_cast<Blank*>(descriptor);
    return kSuccess;
  }
  forget(g, descriptor);  // first: cuDNN may give its address to another thread's
  const Inside guard;
  return g.cudnn.destroy(descriptor);
}

SHADOW_API int cudnnBackendSetAttribute(Descriptor descriptor, int attribute, int type, std::int64_t count,
                                        const void* values) {
  if (inside()) return installed_backend().set(descriptor, attribute, type, count, values);
  Graphs& g = graphs();
  if (g.device == nullptr) return kSuccess;
  {
    const std::lock_guard lock(g.mutex);
    g.questions.set(descriptor, attribute, count, values);
  }
  const Inside guard;
  return set_attribute(g, descriptor, attribute, type, count, values);
}

SHADOW_API int cudnnBackendFinalize(Descriptor descriptor) {
  if (inside()) return installed_backend().finalize(descriptor);
  Graphs& g = graphs();
  if (g.device == nullptr) return kSuccess;
  const Inside guard;
  const Plan plan = plan_of(g, descriptor);
  if (plan.configuration != nullptr) return finalize_plan(g, descriptor, plan.configuration);
  if (is_heuristics(g, descriptor)) {
    plans_since_question = 0;
    if (const int status = set_device(g, descriptor, kHeuristicsDevice)) return status;
  }
  return g.cudnn.finalize(descriptor);
}

SHADOW_API int cudnnBackendGetAttribute(Descriptor descriptor, int attribute, int type, std::int64_t wanted,
                                        std::int64_t* count, void* values) {
  if (inside()) return installed_backend().get(descriptor, attribute, type, wanted, count, values);
  Graphs& g = graphs();
  if (g.device == nullptr) return answer_blank(attribute, count, values);
  if (is_plan_question(attribute)) return answer_plan(plan_of(g, descriptor), attribute, wanted, count, values);
  const Inside guard;
  const int status = g.cudnn.get(descriptor, attribute, type, wanted, count, values);
  if (attribute == kHeuristicsResults && status == kSuccess && count != nullptr) {
    const std::lock_guard lock(g.mutex);
    g.questions.answered(descriptor, static_cast<const Descriptor*>(values), std::min(*count, wanted));
  }
  return status;
}

SHADOW_API int cudnnBackendExecute(const Handle* handle, Descriptor plan, Descriptor /*variant_pack*/) {
  Graphs& g = graphs();
  if (g.device != nullptr && !plan_of(g, plan).alone) {
    gpuplan::shadow::note_unknown(
        "cudnn.benchmark: a GPU takes the engine that it measures as fastest; here the first that cuDNN's heuristics "
        "name, with its workspace");
  }
  if (gpuplan::shadow::settings().learn) write_workspace(plan_of(g, plan).workspace, plan_of(g, plan).of);
  return compute(handle, "cudnnBackendExecute");
}

SHADOW_API int cudnnBackendPopulateCudaGraph(Handle* /*handle*/, Descriptor /*plan*/, Descriptor /*pack*/,
                                             void* /*g*/) {
  return fail(kNotSupported, "gpuplan shadow: cuDNN's native CUDA graphs are not modelled; capture the stream instead");
}

SHADOW_API int cudnnBackendUpdateCudaGraph(Handle* /*handle*/, Descriptor /*plan*/, Descriptor /*pack*/, void* /*g*/) {
  return fail(kNotSupported, "gpuplan shadow: cuDNN's native CUDA graphs are not modelled; capture the stream instead");
}
