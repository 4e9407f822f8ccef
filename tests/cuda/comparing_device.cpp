#include "tests/cuda/comparing_device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "estimator/base/error.h"
#include "tests/cuda/drawn_operands.h"
#include "tests/cuda/rounding.h"
#include "tests/host_device/elements.h"

namespace gpuplan::comparison {
namespace {

std::int64_t extent(const KernelTensor& t) {  // elements from the first to one past the last in memory
  std::int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) {
    if (t.sizes[i] == 0) return 0;
    last += (t.sizes[i] - 1) * t.strides[i];
  }
  return last + 1;
}

struct Place {
  const char *begin = nullptr, *end = nullptr;
};

Place place(const KernelTensor& t) {
  const auto* const begin = static_cast<const char*>(t.data);
  return {begin, begin + extent(t) * size_of(t.dtype)};
}

bool is_there(const KernelTensor& t) { return t.data != nullptr && extent(t) > 0; }

}  // namespace

// Copies of operands on the host: floating-point ones in double, the others as they are. Operands that overlap on the
// device overlap here.
class ComparingDevice::Shadows {
 public:
  void add(const KernelTensor& t) {
    if (!is_there(t)) return;
    tensors_.push_back(t);
    const Place p = place(t);
    Region joined{p.begin, p.end, t.dtype, {}, {}};
    for (auto r = regions_.begin(); r != regions_.end();) {
      if (r->end <= joined.begin || r->begin >= joined.end) {
        ++r;
        continue;
      }
      if (r->dtype != t.dtype) throw Error("operands of two types lie in the same memory");
      joined.begin = std::min(joined.begin, r->begin);
      joined.end = std::max(joined.end, r->end);
      r = regions_.erase(r);
    }
    regions_.push_back(joined);
  }
  void add(std::span<const KernelTensor> tensors) {
    for (const KernelTensor& t : tensors) add(t);
  }

  /// Of a tensor that was added, what is compared: a part, or nothing.
  void check(const KernelTensor& t, const KernelTensor& part) {
    for (auto added = tensors_.rbegin(); added != tensors_.rend(); ++added) {
      if (added->data != t.data || added->dtype != t.dtype) continue;
      if (is_there(part))
        *added = part;
      else
        tensors_.erase(std::next(added).base());
      return;
    }
  }

  /// Reads what the device has in them.
  void take(Device& device) {
    for (Region& r : regions_) {
      const std::int64_t bytes = r.end - r.begin, count = bytes / size_of(r.dtype);
      r.before.resize(static_cast<std::size_t>(bytes));
      device.copy_to_host(r.before.data(), r.begin, bytes);
      if (!is_floating(r.dtype)) {
        r.shadow = r.before;
        continue;
      }
      r.shadow.resize(static_cast<std::size_t>(count) * sizeof(double));
      const KernelTensor from = flat(r.before.data(), r.dtype, count);
      const KernelTensor to = flat(r.shadow.data(), DType::fp64, count);
      for (std::int64_t i = 0; i < count; ++i) host::store(to, i, host::load(from, i));
    }
  }

  /// The tensor's shadow, for the host device.
  KernelTensor of(KernelTensor t) {
    if (!is_there(t)) {
      if (t.data != nullptr && is_floating(t.dtype)) t.dtype = DType::fp64;
      return t;
    }
    Region& r = region(t);
    const std::int64_t first = (static_cast<const char*>(t.data) - r.begin) / size_of(t.dtype);
    if (is_floating(t.dtype)) t.dtype = DType::fp64;
    t.data = r.shadow.data() + first * size_of(t.dtype);
    return t;
  }
  std::vector<KernelTensor> of(std::span<const KernelTensor> tensors) {
    std::vector<KernelTensor> all;
    for (const KernelTensor& t : tensors) all.push_back(of(t));
    return all;
  }

  const std::vector<KernelTensor>& tensors() const { return tensors_; }

 private:
  struct Region {
    const char *begin, *end;
    DType dtype;
    std::vector<std::byte> before, shadow;
  };
  static KernelTensor flat(void* data, DType dtype, std::int64_t count) {
    KernelTensor t;
    t.data = data;
    t.dtype = dtype;
    t.rank = 1;
    t.sizes[0] = count;
    t.strides[0] = 1;
    return t;
  }
  Region& region(const KernelTensor& t) {
    const auto* const data = static_cast<const char*>(t.data);
    for (Region& r : regions_)
      if (data >= r.begin && data < r.end) return r;
    throw Error("an operand without a shadow");
  }

  std::vector<KernelTensor> tensors_;
  std::vector<Region> regions_;
};

namespace {

// The operand's elements as the tested device has them now.
host::Values on_device(Device& device, KernelTensor t) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(extent(t) * size_of(t.dtype)));
  device.copy_to_host(bytes.data(), t.data, static_cast<std::int64_t>(bytes.size()));
  t.data = bytes.data();
  return host::read(t);
}

double largest(const host::Values& values) {
  double most = 0;
  for (const double v : values.at)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

struct Worst {
  double excess = 0;
  std::int64_t element = 0;
};

Worst worst_of(const host::Values& results, const host::Values& exact, DType stored, const Steps& steps) {
  Worst w;
  for (std::int64_t i = 0; i < results.count(); ++i) {
    const double e = excess(results[i], exact[i], stored, steps);
    if (e > w.excess) w = {e, i};
  }
  return w;
}

std::string layout_of(const KernelTensor& t) {
  std::string text = host::shape_of(t) + " by";
  for (int i = 0; i < t.rank; ++i) text += " " + std::to_string(t.strides[i]);
  return text;
}

std::string describe(std::string_view layer, const KernelTensor& t, std::int64_t element, double result, double exact) {
  char text[160];
  std::snprintf(text, sizeof text, "[%lld] is %.9g, not %.9g", static_cast<long long>(element), result, exact);
  return std::string(layer) + " " + layout_of(t) + text;
}

}  // namespace

std::string ComparingDevice::refusal(const Kernel& kernel) const {
  const std::string why = device_.refusal(kernel);
  return why.empty() ? host_.refusal(kernel) : why;
}

void ComparingDevice::fill_bytes(void* address, std::int64_t bytes, unsigned char value) {
  device_.fill_bytes(address, bytes, value);
}

void ComparingDevice::keep(const std::string& operation, DType dtype, std::int64_t elements, double worst,
                           const std::string& where) {
  Finding& f = findings_[operation + " " + std::string(name_of(dtype))];
  f.operation = operation;
  f.dtype = dtype;
  ++f.runs;
  f.elements += elements;
  if (worst <= f.worst) return;
  f.worst = worst;
  f.where = where;
}

namespace {

bool is_named(const std::string& operation, std::string_view part) { return operation.find(part) != std::string::npos; }

// What of a result anybody reads. Attention's seeds are drawn otherwise than PyTorch's and log-sum-exp has rows up to a
// multiple of 32 that it does not write.
KernelTensor compared(const std::string& operation, const Kernel& k, std::size_t result) {
  KernelTensor t = k.writes[result];
  const bool forward = is_named(operation, "attention") && !is_named(operation, "backward");
  if (forward && !is_floating(t.dtype)) return {};
  if (forward && result > 0 && t.rank == 4) t.sizes[2] = std::min(t.sizes[2], k.reads[0].sizes[2]);
  return t;
}

// How often a kernel rounds to the type of its result before it has it.
double roundings_between(const Kernel& k) {
  const auto most = [](const KernelTensor& t) {
    return static_cast<double>(t.rank > 0 ? *std::max_element(t.sizes, t.sizes + t.rank) : 1);
  };
  // A number for each index, added where those before it were stored, as PyTorch's atomics do.
  if (k.op == Operator::index_add_ || k.op == Operator::scatter_add_) return most(k.reads[2]);
  // Tensor cores multiply weights of the stored type, as flash attention does: weights of a row add up to 1 / (1 - p),
  // so p up to 1/2 is covered. Backward multiplies weights and the scores' gradients, whose roundings go either way.
  if (name_of(k.op).find("ttention") == std::string_view::npos || size_of(k.reads[0].dtype) != 2) return 0;
  return name_of(k.op).find("ackward") == std::string_view::npos ? 2 : 4;
}

}  // namespace

// `seen`: elements of the largest operand. Those of it for each element of a result may all go into that one.
void ComparingDevice::compare(const std::string& operation, std::string_view layer, Shadows& shadows, std::int64_t seen,
                              double between) {
  constexpr double kSteps = 32;  // of one element's formula
  double scale = 0;
  for (const KernelTensor& t : shadows.tensors())
    if (is_floating(t.dtype)) scale = std::max(scale, largest(host::read(shadows.of(t))));
  for (const KernelTensor& t : shadows.tensors()) {
    const host::Values exact = host::read(shadows.of(t)), result = on_device(device_, t);
    const double terms = is_named(operation, "clip") ? 1 : static_cast<double>(exact.count());  // a norm is of all
    const double depth = kSteps + static_cast<double>(seen) / terms;
    const Worst w = worst_of(result, exact, t.dtype, {depth, between, scale});
    keep(operation, t.dtype, exact.count(), w.excess,
         w.excess > 0 ? describe(layer, t, w.element, result[w.element], exact[w.element]) : "");
  }
}

void ComparingDevice::run(const Kernel& kernel) {
  if (draws_ == Draws::yes) draw_operands(device_, kernel, ++drawn_);
  Shadows shadows;
  shadows.add(kernel.reads);
  shadows.add(kernel.extra);
  shadows.add(kernel.writes);
  for (std::size_t i = 0; i < kernel.writes.size(); ++i)
    shadows.check(kernel.writes[i], compared(std::string(name_of(kernel.op)), kernel, i));
  shadows.take(device_);
  device_.run(kernel);
  device_.synchronize();
  const std::vector<KernelTensor> reads = shadows.of(kernel.reads), extra = shadows.of(kernel.extra),
                                  writes = shadows.of(kernel.writes);
  Kernel on_host = kernel;
  on_host.reads = reads;
  on_host.extra = extra;
  on_host.writes = writes;
  on_host.scratch = {};
  host_.run(on_host);
  std::int64_t seen = 0;
  for (const KernelTensor& t : shadows.tensors()) seen = std::max(seen, host::elements(t));
  compare(std::string(name_of(kernel.op)), kernel.layer, shadows, seen, roundings_between(kernel));
}

void ComparingDevice::update(const OptimizerConfig& config, std::int64_t step,
                             std::span<const ParameterUpdate> parameters) {
  Shadows shadows;
  for (const ParameterUpdate& p : parameters) {
    shadows.add(p.parameter);
    shadows.add(p.gradient);
    shadows.add(p.states);
  }
  shadows.take(device_);
  device_.update(config, step, parameters);
  device_.synchronize();
  for (const ParameterUpdate& p : parameters) {
    const std::vector<KernelTensor> states = shadows.of(p.states);
    const ParameterUpdate on_host{shadows.of(p.parameter), shadows.of(p.gradient), states};
    host_.update(config, step, {&on_host, 1});
  }
  compare("optimizer " + std::to_string(static_cast<int>(config.kind)), "", shadows, 0, 0);
}

void ComparingDevice::clip_gradients(std::span<const KernelTensor> gradients) {
  Shadows shadows;
  shadows.add(gradients);
  shadows.take(device_);
  device_.clip_gradients(gradients);
  device_.synchronize();
  host_.clip_gradients(shadows.of(gradients));
  std::int64_t seen = 0;
  for (const KernelTensor& t : gradients) seen += host::elements(t);
  compare("clip_grad_norm_", "", shadows, seen, 0);
}

namespace {

// A GradScaler's values, copied: the host device knows their types, so they are no shadows in double.
struct Scaler {
  float scale = 0, found_inf = 0;
  std::int32_t growth_tracker = 0;
  ScalerValues values() { return {&scale, &growth_tracker, &found_inf}; }
};

template <class T>
void fetch(Device& device, T& to, const void* from) {
  if (from != nullptr) device.copy_to_host(&to, from, sizeof to);
}

Scaler scaler_on(Device& device, const ScalerValues& values) {
  Scaler s;
  fetch(device, s.scale, values.scale);
  fetch(device, s.growth_tracker, values.growth_tracker);
  fetch(device, s.found_inf, values.found_inf);
  return s;
}

bool same(const Scaler& a, const Scaler& b) {
  return a.scale == b.scale && a.found_inf == b.found_inf && a.growth_tracker == b.growth_tracker;
}

}  // namespace

void ComparingDevice::unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) {
  Shadows shadows;
  shadows.add(gradients);
  shadows.take(device_);
  Scaler expected = scaler_on(device_, values);
  device_.unscale_gradients(gradients, values);
  device_.synchronize();
  host_.unscale_gradients(shadows.of(gradients), expected.values());
  compare("GradScaler.unscale_", "", shadows, 0, 0);
  keep("GradScaler.unscale_ found_inf", DType::fp32, 1, same(expected, scaler_on(device_, values)) ? 0 : HUGE_VAL, "");
}

void ComparingDevice::update_scale(const ScalerValues& values) {
  Scaler expected = scaler_on(device_, values);
  device_.update_scale(values);
  device_.synchronize();
  host_.update_scale(expected.values());
  keep("GradScaler.update", DType::fp32, 1, same(expected, scaler_on(device_, values)) ? 0 : HUGE_VAL, "");
}

}  // namespace gpuplan::comparison
