// What a budget may limit, and how such amounts are written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "estimator/base/amount.h"

namespace gpuplan {

/// Of a step, or of one module.
enum class Figure : std::uint8_t {
  peak,       // allocated bytes at the peak: torch.cuda.max_memory_allocated()
  reserved,   // highest reserved bytes: torch.cuda.max_memory_reserved()
  device,     // reserved and the CUDA context: what nvidia-smi shows
  params,     // parameters, elements
  step_flop,  // FLOPs of a step
  step_time,  // on the GPU that the check names
  cost,       // of a million samples, on the cheapest instance with that GPU
  saved       // bytes that autograd keeps for backward
};
constexpr int kFigures = 8;
/// "peak", "step_flop": the keys of a budget.
std::string_view name_of(Figure figure);
std::span<const Figure> figures_of_step();
std::span<const Figure> figures_of_module();

/// Amounts are whole numbers of the smallest unit.
enum class Unit : std::uint8_t { bytes, count, flop, nanoseconds, micro_usd };
Unit unit_of(Figure figure);
/// As a budget writes them: "GiB", "M", "TFLOP", "ms", "USD/Msample".
std::span<const AmountUnit> units_of(Unit unit);
/// "8 GiB", "25.6 M": an amount of that kind, for messages.
std::string_view example_of(Unit unit);

/// The figures of one plan; absent where they are not known.
struct FigureValues {
  std::array<std::optional<std::int64_t>, kFigures> values;
  std::optional<std::int64_t>& operator[](Figure f) { return values[static_cast<std::size_t>(f)]; }
  const std::optional<std::int64_t>& operator[](Figure f) const { return values[static_cast<std::size_t>(f)]; }
};

}  // namespace gpuplan
