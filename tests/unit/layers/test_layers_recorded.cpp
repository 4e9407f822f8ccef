// Every allocation of a layer's forward and backward, in order, against PyTorch (tests/recorders/record_layers.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <utility>

#include "estimator/operators/scratch.h"
#include "estimator/schedule/schedule.h"
#include "tests/support/lower_calls.h"

namespace gpuplan {
namespace {

std::vector<std::string> split_text(const std::string& text, const std::string& at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(at); end != std::string::npos; end = text.find(at, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + at.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<Shape> read_shapes(const std::string& text) {
  std::vector<Shape> shapes;
  for (const std::string& one : split_text(text, ";")) {
    Shape shape;
    for (const std::string& size : split_text(one, "x")) shape.push_back(std::stoll(size));
    shapes.push_back(shape);
  }
  return shapes;
}

// "+4 +4 -4 -8": what is freed between two allocations goes in no particular order on either side.
std::string in_order(std::vector<std::int64_t> events) {
  for (auto it = events.begin(); it != events.end();) {
    const auto end = std::find_if(it, events.end(), [](std::int64_t e) { return e > 0; });
    std::sort(it, end);
    it = end == events.end() ? end : end + 1;
  }
  std::string text;
  for (const std::int64_t e : events)
    text += (text.empty() ? "" : " ") + std::string(e > 0 ? "+" : "") + std::to_string(e);
  return text.empty() ? "-" : text;
}

std::vector<std::int64_t> read_events(const std::string& text) {
  std::vector<std::int64_t> events;
  std::istringstream in(text == "-" ? "" : text);
  for (std::int64_t e = 0; in >> e;) events.push_back(e);
  return events;
}

// The allocations and releases of one step: its outputs, its scratch (schedule.h has the programs), what dies after it.
void append_step(const Schedule& s, const ScheduledOp& step, std::vector<std::int64_t>& events) {
  const auto bytes = [&](std::int32_t i) { return s.buffers[static_cast<std::size_t>(i)].bytes; };
  const std::span program(s.scratch.data() + step.scratch.begin,
                          static_cast<std::size_t>(step.scratch.end - step.scratch.begin));
  std::int32_t next = step.allocates.begin;
  const auto output = [&] { events.push_back(bytes(s.allocated[static_cast<std::size_t>(next++)])); };
  if (std::ranges::find(program, kNextOutput) == program.end())
    while (next < step.allocates.end) output();
  std::vector<std::int64_t> live;
  for (const std::int64_t action : program) {
    if (action == kNextOutput) {
      if (next < step.allocates.end) output();
    } else if (action > 0) {
      events.push_back(action);
      live.push_back(action);
    } else {
      events.push_back(-std::exchange(live[static_cast<std::size_t>(-action - 1)], 0));
    }
  }
  while (next < step.allocates.end) output();
  for (const std::int64_t left : live)
    if (left > 0) events.push_back(-left);
  for (std::int32_t i = step.releases.begin; i < step.releases.end; ++i)
    events.push_back(-bytes(s.released[static_cast<std::size_t>(i)]));
}

struct Traced {
  std::vector<std::int64_t> forward, backward;
  std::int64_t saved_bytes = 0;
  bool has_nodes = false;  // false: the output is an input
};

// The recorder holds the outputs and gives the first one its gradient, which it holds too: the engine's ones_like and
// its release are left out.
Traced trace(const std::string& calls, const std::vector<Shape>& inputs, bool train, PyTorchVersion pytorch,
             MemoryFormat layout = MemoryFormat::contiguous) {
  RunConfig run;
  run.layout = layout;
  run.mode = train ? Mode::train : Mode::infer;
  run.scratch = Scratch::no_cudnn;
  run.pytorch = pytorch;
  Gpu gpu = assumed_gpu();  // as an H200
  gpu.capability_major = 9;
  gpu.sm_count = 132;
  const bool rows = calls.starts_with("Embedding");
  Lowered lowered = lower_calls(split_text(calls, " > "), inputs, rows ? DType::int64 : DType::fp32, run, gpu);
  Graph& graph = lowered.graph;
  graph.loss_begin = static_cast<std::int32_t>(graph.forward_ops.size());
  graph.output = lowered.outputs.front();
  if (train) graph.loss = graph.output;
  const Schedule schedule = make_schedule(graph, run, gpu);
  Traced result;
  result.saved_bytes = saved_bytes(graph);
  result.has_nodes = !graph.nodes.empty();
  for (const ScheduledOp& step : schedule.ops) {
    if (step.name == "aten::ones_like" || step.name == "backward returns") continue;
    append_step(schedule, step, step.phase == Phase::backward ? result.backward : result.forward);
  }
  return result;
}

void check_recording(const std::string& version, PyTorchVersion pytorch) {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/shadow/layers.h200.torch" + version + ".tsv");
  REQUIRE(in);
  std::string line;
  int rows = 0;
  std::getline(in, line);  // the header
  while (std::getline(in, line)) {
    ++rows;
    const std::vector<std::string> row = split_text(line, "\t");
    REQUIRE(row.size() == 6);
    CAPTURE(row[0]);
    CAPTURE(row[1]);
    CAPTURE(row[2]);
    const Traced traced = trace(row[0], read_shapes(row[1]), row[2] == "train", pytorch);
    CHECK(in_order(traced.forward) == in_order(read_events(row[3])));
    CHECK(traced.saved_bytes == std::stoll(row[5]));
    // A leaf clones a gradient of other strides than its own, which only these produce and gpuplan does not model.
    const bool other_strides = row[0].starts_with("Transpose") || row[0].starts_with("Permute");
    if (traced.has_nodes && !other_strides) CHECK(in_order(traced.backward) == in_order(read_events(row[4])));
  }
  CHECK(rows > 300);
}

TEST_CASE("layers allocate, free and save what PyTorch 2.15 does, in its order") { check_recording("2.15", 215); }
TEST_CASE("layers allocate, free and save what PyTorch 2.8 does, in its order") { check_recording("2.8", 208); }

std::string allocations(std::vector<std::int64_t> events) {
  std::erase_if(events, [](std::int64_t e) { return e < 0; });
  return in_order(std::move(events));
}

// What these copy of a tensor that does not lie row-major is not planned yet.
bool is_planned(const std::string& calls) {
  constexpr std::array kUnplanned{
      "RMSNorm", "GroupNorm(4, 8, affine=False)", "Permute(0, 3, 1, 2) > GroupNorm", "Roll(", "Cumsum(", "Pad("};
  const auto has = [&](const std::string& part) { return calls.find(part) != std::string::npos; };
  const bool softmax_gets_channels_last = has("oftmax(") && has("> Conv2d");
  return !softmax_gets_channels_last && std::ranges::none_of(kUnplanned, has);
}

// Layers behind and between convolutions, in channels last (tests/recorders/record_channels_last.py): what does not lie
// so is copied by the convolution that it reaches. When the forward lets go is nn.Sequential's, which names its input.
TEST_CASE("layers between convolutions in channels last allocate and free what PyTorch 2.15 does, in its order") {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/shadow/channels_last.h200.torch2.15.tsv");
  REQUIRE(in);
  std::string line;
  std::getline(in, line);  // the header
  int rows = 0;
  while (std::getline(in, line)) {
    const std::vector<std::string> row = split_text(line, "\t");
    REQUIRE(row.size() == 5);
    if (!is_planned(row[0])) continue;
    CAPTURE(row[0]);
    ++rows;
    const Traced traced = trace(row[0], read_shapes(row[1]), true, 215, MemoryFormat::channels_last);
    CHECK(allocations(traced.forward) == allocations(read_events(row[3])));
    CHECK(in_order(traced.backward) == in_order(read_events(row[4])));
  }
  CHECK(rows > 220);
}

}  // namespace
}  // namespace gpuplan
