// A size in bytes as a function of a run's variables: a polynomial with whole coefficients over a whole number. In the
// variable called "batch" it is affine, in every other one quadratic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// What --vary names. `values` ascend, each once.
struct TraceVariable {
  std::string name;
  std::vector<std::int64_t> values;
};
constexpr std::size_t kMaxTraceVariables = 2;
constexpr std::size_t kMaxDegree = 2;

/// Letters and underscores: what else a name could have is a sign in the text of a function.
bool is_variable_name(std::string_view name);

/// The highest power that a size has of it.
std::size_t degree_of(const TraceVariable& variable);

struct SizeFunction {
  // coefficient[i][k] of first^i * second^k; without a second variable, k is 0.
  std::array<std::array<std::int64_t, kMaxDegree + 1>, kMaxDegree + 1> coefficient{};
  std::int64_t divisor = 1;  // >= 1
  bool operator==(const SizeFunction&) const = default;
};

struct FittedSize {
  SizeFunction function;
  // False where some variable has no value beyond those that determine the function.
  bool checked = true;
};

/// The function through every point. Where the points of a variable only just determine a full polynomial, nothing
/// checks it. Nothing where no such function has all points, or the points do not determine one. points[i] is at
/// values[i].
std::optional<FittedSize> fit_size(std::span<const TraceVariable> variables,
                                   std::span<const std::vector<std::int64_t>> values,
                                   std::span<const std::int64_t> points);

/// Rounded up where the division leaves a rest. Throws Error where it overflows or is below 0.
std::int64_t size_at(const SizeFunction& function, std::span<const std::int64_t> values);
/// Whether size_at() need not round.
bool is_whole_at(const SizeFunction& function, std::span<const std::int64_t> values);

/// "602112*batch+4", "(3*batch*seq^2+8)/4", "0".
std::string text_of(const SizeFunction& function, std::span<const TraceVariable> variables);
/// Back; nothing where it is not such a text.
std::optional<SizeFunction> parse_size_function(std::string_view text, std::span<const TraceVariable> variables);

/// The runs that determine every function, and those that check it: all values of a single variable; of two, the grid
/// of the values that determine them (first, middle, last), and on it one more run for each other value of either.
std::vector<std::vector<std::int64_t>> runs_to_learn(std::span<const TraceVariable> variables);

}  // namespace gpuplan
