// A change that makes a step faster, as a value.
#pragma once

#include <cstdint>
#include <string>

namespace gpuplan {

/// The step was planned and timed as changed; nothing here is a rule of thumb.
struct Advice {
  enum class Kind : std::uint8_t { precision, layout, shape, batch };
  Kind kind = Kind::precision;
  std::string change;             // flags to add, or what to write into the model: "--amp bf16", "--set vocab=50304"
  std::string reason;             // what it helps: "products of fp32 leave the tensor cores idle"
  double step_seconds = 0;        // of the changed step
  double gain = 1;                // samples a second beside the step as it is
  std::int64_t device_bytes = 0;  // that the changed step needs
  bool fits = true;               // the GPU, as far as its memory is known
};

}  // namespace gpuplan
