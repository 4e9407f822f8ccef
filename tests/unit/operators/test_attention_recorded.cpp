// Attention against recorded calls of PyTorch: every row of tests/shadow/attention.*.tsv (tests/recorders/attention.py
// wrote them). An H100 answered as an H200 in all of 234 calls.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/operators/attention.h"

namespace gpuplan {
namespace {

using Row = std::map<std::string, std::string>;

Gpu gpu_with(int major, int minor, int sm_count) {
  Gpu gpu;
  gpu.capability_major = major;
  gpu.capability_minor = minor;
  gpu.sm_count = sm_count;
  return gpu;
}
Gpu h200() { return gpu_with(9, 0, 132); }
Gpu a100() { return gpu_with(8, 0, 108); }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) words.push_back(word);
  return words;
}
std::vector<std::int64_t> integers(const std::string& text, char separator) {
  std::vector<std::int64_t> out;
  for (const std::string& word : split(text, separator)) out.push_back(std::stoll(word));
  return out;
}

/// A recorded layout: which of batch, heads, length, dimension comes first in memory.
StridedTensor tensor(const std::string& layout, const Shape& shape) {
  std::array<int, 4> order{};
  std::ranges::transform(layout, order.begin(), [](char c) { return static_cast<int>(std::string("bhld").find(c)); });
  return dense_tensor(shape, order);
}

AttentionMask recorded_mask(const Row& r, std::int64_t b, std::int64_t h, std::int64_t l, std::int64_t s) {
  const auto words = split(r.at("mask"), '.');
  std::string dims = words[0];
  const bool expanded = dims.back() == 'x';  // from the mask with 1 in place of l (b1lsx) or h (bhlsx)
  if (expanded) dims.pop_back();
  while (dims.size() < 4) dims.insert(dims.begin(), '1');
  Shape shape;
  for (const char c : dims) shape.push_back(c == 'b' ? b : c == 'h' ? h : c == 'l' ? l : c == 's' ? s : 1);
  AttentionMask mask{dense_tensor(shape), words[1] == "bool", words[1] == "grad"};
  if (expanded) {
    const int expanded_dimension = words[0] == "b1lsx" ? 2 : 1;
    Shape made = shape;
    made.set(expanded_dimension, 1);
    mask.tensor.strides = dense_tensor(made).strides;
    mask.tensor.strides.set(expanded_dimension, 0);
  }
  return mask;
}

AttentionCall recorded_call(const Row& r) {
  const auto number = [&](const char* name) { return static_cast<std::int64_t>(std::stoll(r.at(name))); };
  const std::int64_t b = number("batch"), h = number("heads"), l = number("queries"), s = number("keys");
  const Shape q{b, h, l, number("size")}, k{b, number("kv_heads"), s, number("size")},
      v{b, number("kv_heads"), s, number("value_size")};
  AttentionCall call;
  const std::string layout = r.at("layout");
  if (layout == "packed") {
    for (StridedTensor* t : {&call.query, &call.key, &call.value}) {
      *t = tensor("blhd", q);
      t->strides.set(0, t->strides[0] * 3);
      t->strides.set(2, t->strides[2] * 3);
    }
    call.key.offset = h * q[3];
    call.value.offset = 2 * h * q[3];
  } else {
    const bool mixed = layout == "mixed";
    call.query = tensor(mixed ? "blhd" : layout, q);
    call.key = tensor(mixed ? "bhld" : layout, k);
    call.value = tensor(mixed ? "bhld" : layout, v);
  }
  call.dtype = *dtype_from_name(r.at("dtype"));
  call.dropout = std::stod(r.at("dropout"));
  call.causal = r.at("causal") == "1";
  call.requires_grad = r.at("grad") == "1";
  if (r.at("mask") != "-") call.mask = recorded_mask(r, b, h, l, s);
  return call;
}

StridedTensor recorded_gradient(const Row& r, const AttentionCall& call) {
  const Shape shape{call.query.shape[0], call.query.shape[1], call.query.shape[2], call.value.shape[3]};
  if (r.at("grad_out") == "expanded") return {shape, {}, 0};
  return tensor(r.at("grad_out"), shape);
}

/// "+bytes -bytes" in order, adjacent frees sorted: their order has no effect.
std::string canonical(std::vector<std::int64_t> events) {
  for (auto i = events.begin(); i != events.end();) {
    const auto end = std::find_if(i, events.end(), [](std::int64_t e) { return e > 0; });
    std::sort(i, end);
    i = end == events.end() ? end : end + 1;
  }
  std::string text;
  for (const std::int64_t e : events) text += (e > 0 ? "+" : "") + std::to_string(e) + " ";
  return text;
}

/// What PyTorch's allocator sees of the steps: each program, and the release of a value after its last reader.
std::vector<std::int64_t> events(const std::vector<AttentionStep>& steps, const std::set<AttentionValue>& kept) {
  std::vector<std::int64_t> out;
  std::map<AttentionValue, std::int64_t> made;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<std::int64_t> scratch;
    std::set<std::size_t> open;
    std::size_t next = 0;
    for (const std::int64_t action : steps[i].program) {
      if (action == kResultAllocation) {
        const AttentionOutput& output = steps[i].outputs.at(next++);
        made[output.value] = output.bytes;
        out.push_back(output.bytes);
      } else if (action > 0) {
        open.insert(scratch.size());
        scratch.push_back(action);
        out.push_back(action);
      } else {
        const auto number = static_cast<std::size_t>(-action - 1);
        REQUIRE(open.erase(number) == 1);
        out.push_back(-scratch.at(number));
      }
    }
    CHECK(next == steps[i].outputs.size());
    for (const std::size_t number : open) out.push_back(-scratch[number]);
    for (const auto& [value, bytes] : std::map(made)) {
      const bool read_later = std::any_of(
          steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
          [v = value](const AttentionStep& step) { return std::ranges::find(step.reads, v) != step.reads.end(); });
      if (read_later || kept.contains(value)) continue;
      out.push_back(-bytes);
      made.erase(value);
    }
  }
  return out;
}

const AttentionOutput* find(const std::vector<AttentionStep>& steps, AttentionValue value) {
  for (const AttentionStep& step : steps) {
    for (const AttentionOutput& output : step.outputs) {
      if (output.value == value) return &output;
    }
  }
  return nullptr;
}

/// Recorded strides and ours; those of dimensions of size 1 mean nothing.
void check_strides(const std::string& recorded, const AttentionOutput* output) {
  REQUIRE(output != nullptr);
  const std::vector<std::int64_t> strides = integers(recorded, ',');
  REQUIRE(strides.size() == 4);
  for (int i = 0; i < 4; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (output->tensor.shape[i] != 1) CHECK(output->tensor.strides[i] == strides[d]);
  }
}

void check_row(const Row& r, const Gpu& gpu, PyTorchVersion pytorch) {
  const AttentionCall call = recorded_call(r);
  std::optional<AttentionBackend> wanted;
  for (const auto b :
       {AttentionBackend::flash, AttentionBackend::efficient, AttentionBackend::cudnn, AttentionBackend::math}) {
    if (r.at("force") == name_of(b)) wanted = b;
  }
  if (r.at("backend") == "none") {
    CHECK_THROWS_AS(choose_attention(call, gpu, pytorch, wanted), Error);
    return;
  }
  AttentionBackend backend{};
  REQUIRE_NOTHROW(backend = choose_attention(call, gpu, pytorch, wanted));
  REQUIRE(name_of(backend) == r.at("backend"));
  if (backend == AttentionBackend::math) return;

  const auto forward = attention_forward(call, backend, gpu, pytorch, false);
  std::set<AttentionValue> kept = {AttentionValue::out};
  for (const AttentionStep& step : forward) kept.insert(step.saved.begin(), step.saved.end());
  CHECK(canonical(events(forward, kept)) == canonical(integers(r.at("forward"), ' ')));
  check_strides(r.at("out"), find(forward, AttentionValue::out));
  if (!call.requires_grad) return;

  const auto backward = attention_backward(call, backend, recorded_gradient(r, call), gpu, pytorch, false);
  using enum AttentionValue;
  const bool grad_is_mask = find(backward, grad_mask) == nullptr;
  const std::set<AttentionValue> wanted_gradients = {grad_query, grad_key, grad_value,
                                                     grad_is_mask ? grad_scores : grad_mask};
  CHECK(canonical(events(backward, wanted_gradients)) == canonical(integers(r.at("backward"), ' ')));
  const std::vector<std::string> strides = split(r.at("gradients"), ';');
  check_strides(strides.at(0), find(backward, grad_query));
  check_strides(strides.at(1), find(backward, grad_key));
  check_strides(strides.at(2), find(backward, grad_value));
}

void check_recording(const std::string& file, const Gpu& gpu, PyTorchVersion pytorch) {
  std::ifstream in(std::filesystem::path(GPUPLAN_SOURCE_DIR) / "tests" / "shadow" / file);
  REQUIRE(in);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = split(line, '\t');
  int rows = 0;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = split(line, '\t');
    REQUIRE(fields.size() == names.size());
    Row row;
    for (std::size_t i = 0; i < names.size(); ++i)
      row[names[i]] = fields[i] == "-" && names[i] != "mask" ? "" : fields[i];
    CAPTURE(line);
    check_row(row, gpu, pytorch);
    ++rows;
  }
  CHECK(rows > 100);
}

}  // namespace

TEST_CASE("attention equals PyTorch 2.15's on an H200") {
  check_recording("attention.h200.torch2.15.tsv", h200(), 215);
}
TEST_CASE("attention equals PyTorch 2.8's on an H200") { check_recording("attention.h200.torch2.8.tsv", h200(), 208); }
TEST_CASE("attention equals PyTorch 2.15's on an A100") {
  check_recording("attention.a100.torch2.15.tsv", a100(), 215);
}
TEST_CASE("attention equals PyTorch 2.8's on an A100") { check_recording("attention.a100.torch2.8.tsv", a100(), 208); }
TEST_CASE("attention equals PyTorch 2.15's on an RTX 4090") {
  check_recording("attention.rtx4090.torch2.15.tsv", gpu_with(8, 9, 128), 215);
}
TEST_CASE("attention equals PyTorch 2.15's on a T4") {
  check_recording("attention.t4.torch2.15.tsv", gpu_with(7, 5, 40), 215);
}
TEST_CASE("attention equals PyTorch 2.8's on a T4") {
  check_recording("attention.t4.torch2.8.tsv", gpu_with(7, 5, 40), 208);
}

}  // namespace gpuplan
