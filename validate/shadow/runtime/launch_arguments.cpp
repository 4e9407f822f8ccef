#include "validate/shadow/runtime/launch_arguments.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {

namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : "";
  std::free(text);
  return result;
}

// The parameters' types in "void f<T>(float*, long const*)": what the last parenthesis holds, split at its commas.
std::vector<std::string_view> parameter_types(std::string_view function) {
  if (!function.ends_with(')')) return {};
  std::vector<std::string_view> types;
  std::size_t end = function.size() - 1;
  int depth = 0;
  for (std::size_t at = end; at-- > 0;) {
    const char c = function[at];
    if (c == ')' || c == '>' || c == '}' || c == ']') ++depth;
    const bool closes = c == '(' || c == '<' || c == '{' || c == '[';
    if (closes && depth == 0) {
      types.push_back(function.substr(at + 1, end - at - 1));
      std::reverse(types.begin(), types.end());
      return c == '(' ? types : std::vector<std::string_view>{};
    }
    if (closes) --depth;
    if (c != ',' || depth != 0) continue;
    types.push_back(function.substr(at + 1, end - at - 1));
    end = at;
  }
  return {};
}

// Of PyTorch's kernels that are launched most and take their operands in a structure (aten/src/ATen/native/cuda):
// CUDALoops.cuh has one output, whose pointer is the first of an array of its own; ReduceOp of Reduce.cuh has `src`
// before `dst`; Shape.cu has the output apart from its inputs.
Writes writes_through_structure(std::string_view name, std::string_view type) {
  const std::string_view kernel = name.substr(0, name.find_first_of("<("));
  const bool pointers = type.find("rray<char*, ") != std::string_view::npos && type.ends_with('>');
  if (kernel.ends_with("elementwise_kernel") && pointers) return Writes::first;
  if (kernel.ends_with("::elementwise_kernel") && type.find("lambda") != std::string_view::npos)
    return Writes::behind_strides;
  if (kernel.ends_with("::reduce_kernel")) return Writes::but_first;
  if (kernel.find("CatArrayBatchedCopy") != std::string_view::npos) return Writes::nothing;
  return Writes::all;
}

std::uintptr_t word_at(const unsigned char* bytes, std::size_t at) {
  std::uintptr_t word = 0;
  std::memcpy(&word, bytes + at, sizeof word);
  return word;
}

// Where elementwise_kernel's lambda has its array of N pointers: behind an OffsetCalculator<N> (cuda/detail/
// OffsetCalculator.cuh), which has a count, 25 dividers of 12 bytes and 25 strides for each operand. What of it belongs
// to dimensions that are not there is whatever lay on the stack, so that no address can be looked for in it. The
// function behind the array is smaller than a further operand. 0: the parameter is none of these.
std::size_t place_of_pointers(const unsigned char* bytes, std::size_t count) {
  constexpr std::size_t kDimensions = 25, kPointer = sizeof(std::uintptr_t);
  std::size_t place = 0, operands = 0;
  for (std::size_t n = 1;; ++n) {
    const std::size_t at = round_up(4 + kDimensions * (12 + 4 * n), kPointer);
    if (at + n * kPointer > count) break;
    place = at;
    operands = n;
  }
  for (std::size_t n = 0; n < operands; ++n)
    if (!in_address_space(word_at(bytes, place + n * kPointer))) return 0;
  return place;
}

}  // namespace

std::vector<Writes> writes_of(const std::string& mangled_name, std::size_t count) {
  std::vector<Writes> writes(count, Writes::all);
  const std::string name = demangled(mangled_name);
  const std::vector<std::string_view> types = parameter_types(name);
  if (types.size() != count) return writes;
  for (std::size_t i = 0; i < count; ++i) {
    if (types[i].ends_with(" const*")) {
      writes[i] = Writes::nothing;
    } else if (!types[i].ends_with('*')) {
      writes[i] = writes_through_structure(name, types[i]);
    }
  }
  return writes;
}

std::span<const std::uintptr_t> written_addresses(const KernelResources& kernel, const std::vector<Writes>& writes,
                                                  void** arguments) {
  thread_local std::vector<std::uintptr_t> found;
  found.clear();
  if (arguments == nullptr) return found;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (writes[i] == Writes::nothing) continue;
    const KernelParameter& parameter = kernel.parameters[i];
    const auto* const bytes = static_cast<const unsigned char*>(arguments[parameter.ordinal]);
    bool is_first = true;
    const std::size_t place = writes[i] == Writes::behind_strides ? place_of_pointers(bytes, parameter.bytes) : 0;
    if (place > 0) {
      found.push_back(word_at(bytes, place));
      continue;
    }
    for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= parameter.bytes; at += sizeof(std::uintptr_t)) {
      const std::uintptr_t word = word_at(bytes, at);
      if (!in_address_space(word)) continue;
      if (writes[i] != Writes::but_first || !is_first) found.push_back(word);
      if (writes[i] == Writes::first) break;
      is_first = false;
    }
  }
  return found;
}

std::string describe_arguments(const KernelResources& kernel, void** arguments) {
  if (arguments == nullptr) return "?";
  std::string text;
  for (const KernelParameter& parameter : kernel.parameters) {
    const auto* const bytes = static_cast<const unsigned char*>(arguments[parameter.ordinal]);
    const void* pointer = nullptr;
    if (parameter.bytes == sizeof pointer) std::memcpy(&pointer, bytes, sizeof pointer);
    if (!text.empty()) text += ' ';
    if (device_of(pointer) >= 0) text += '*';
    for (std::size_t i = parameter.bytes; i-- > 0;) {
      constexpr const char* kDigits = "0123456789abcdef";
      text += kDigits[bytes[i] >> 4];
      text += kDigits[bytes[i] & 15];
    }
  }
  return text;
}

}  // namespace gpuplan::shadow
