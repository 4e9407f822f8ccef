// Optimizer steps and gradient clipping against PyTorch: every row of tests/shadow/optimizers.*.tsv, which
// tests/recorders/record_optimizers.py wrote, and the transient bytes that tests/oracle has for whole models.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "estimator/optimizer/optimizer.h"

namespace gpuplan {
namespace {

using Kind = OptimizerEvent::Kind;

struct Row {
  std::string phase, optimizer, implementation, options, set, dtypes, kernels, events;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) out.push_back(word);
  return out;
}

std::vector<Row> rows_of(const std::string& file) {
  std::ifstream in(std::filesystem::path(GPUPLAN_SOURCE_DIR) / "tests" / "shadow" / file);
  REQUIRE_MESSAGE(in, file);
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#") || line.starts_with("phase\t")) continue;
    const auto f = split(line, '\t');
    REQUIRE(f.size() == 8);
    rows.push_back({f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]});
  }
  return rows;
}

/// The recorder's parameter sets.
std::vector<OptimizerParameter> parameters_of(const Row& row, bool cuda) {
  std::vector<std::int64_t> elements;
  if (row.set == "odd") elements = {cuda ? 1 : 3, 7, 1000, 512 * 512, 4096 * 1025};
  if (row.set == "one") elements = {300 * 70000};
  if (row.set == "many") {
    elements.assign(130, 5);
    elements.resize(220, 70000);
  }
  if (row.set == "thousand") {
    elements.assign(700, 70000);
    elements.resize(1000, 9);
  }
  const auto dtypes = split(row.dtypes, ',');
  std::vector<OptimizerParameter> parameters;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    parameters.push_back({elements[i], *dtype_from_name(dtypes[i % dtypes.size()])});
  }
  return parameters;
}

OptimizerConfig config_of(const Row& row) {
  const std::map<std::string, OptimizerKind> kinds{
      {"sgd", OptimizerKind::sgd},         {"adam", OptimizerKind::adam},       {"adamw", OptimizerKind::adamw},
      {"rmsprop", OptimizerKind::rmsprop}, {"adagrad", OptimizerKind::adagrad}, {"adadelta", OptimizerKind::adadelta},
      {"nadam", OptimizerKind::nadam},     {"radam", OptimizerKind::radam},     {"adamax", OptimizerKind::adamax}};
  OptimizerConfig config;
  config.kind = kinds.at(row.optimizer);
  config.impl = row.implementation == "foreach"    ? OptimizerImpl::foreach_
                : row.implementation == "for_loop" ? OptimizerImpl::for_loop
                                                   : OptimizerImpl::fused;
  for (const std::string& option : split(row.options, ',')) {
    if (option == "momentum") config.momentum = true;
    if (option == "nesterov") config.nesterov = true;
    if (option == "amsgrad") config.amsgrad = true;
    if (option == "centered") config.centered = true;
    if (option == "weight_decay") config.weight_decay = true;
  }
  return config;
}

OptimizerProgram program_of(const Row& row, PyTorchVersion pytorch) {
  const auto parameters = parameters_of(row, pytorch >= 200);
  const Gpu gpu;  // nothing here is large enough to depend on it
  if (row.phase == "clip") return clip_grad_norm(parameters, pytorch, gpu);
  if (row.phase == "construct") return optimizer_construction(parameters, config_of(row), pytorch);
  return optimizer_step(parameters, config_of(row), pytorch, gpu, row.phase == "first");
}

/// An allocation is its bytes, a release -1 - the allocation's number.
using Events = std::vector<std::int64_t>;

Events events_of(const std::string& text) {
  Events events;
  if (text == "-") return events;
  for (const std::string& word : split(text, ' ')) {
    const auto x = word.find('x');
    const auto dots = word.find("..");
    if (word[0] == '+') {
      const std::int64_t times = x == std::string::npos ? 1 : std::stoll(word.substr(x + 1));
      events.insert(events.end(), static_cast<std::size_t>(times), std::stoll(word.substr(1)));
    } else {
      const std::int64_t last = std::stoll(word.substr(1));
      const std::int64_t first = dots == std::string::npos ? last : std::stoll(word.substr(dots + 2));
      for (std::int64_t n = last; n >= first; --n) events.push_back(-1 - n);
    }
  }
  return events;
}

Events events_of(const OptimizerProgram& program) {
  Events events;
  std::map<std::int32_t, std::int64_t> number;
  std::int64_t count = 0;
  for (const OptimizerEvent& event : program.events) {
    if (event.kind == Kind::free) {
      events.push_back(-1 - number.at(event.slot));
    } else {
      number[event.slot] = count++;
      events.push_back(event.bytes);
    }
  }
  return events;
}

/// The order of releases between two allocations changes nothing in an allocator.
Events with_releases_sorted(Events events) {
  for (auto from = events.begin(); from != events.end();) {
    auto to = std::find_if(from, events.end(), [](std::int64_t e) { return e >= 0; });
    std::sort(from, to);
    from = std::find_if(to, events.end(), [](std::int64_t e) { return e < 0; });
  }
  return events;
}

std::string text_of(const Events& events) {
  std::string text;
  for (const std::int64_t e : events) text += (e >= 0 ? " +" + std::to_string(e) : " -" + std::to_string(-1 - e));
  return text;
}

void check_rows(const std::string& file, PyTorchVersion pytorch) {
  std::size_t checked = 0;
  for (const Row& row : rows_of(file)) {
    // Its in-place maximum makes temporaries on the CPU only; see the test of 1.13's amsgrad.
    const bool cpu_only = pytorch == 113 && row.implementation == "foreach" && row.options.starts_with("amsgrad");
    if (cpu_only) continue;
    const std::string what = row.phase + " " + row.optimizer + " " + row.implementation + " " + row.options + " " +
                             row.set + " " + row.dtypes;
    INFO(what);
    ++checked;
    if (row.events.starts_with("! FusedAdam requires all the params to be CUDA")) continue;
    if (row.events.starts_with("! ")) {
      try {
        program_of(row, pytorch);
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CHECK(error.message() == row.events.substr(2));
        CHECK(error.kind() == ErrorKind::usage);
      }
      continue;
    }
    const OptimizerProgram program = program_of(row, pytorch);
    if (row.events != "~") {
      const Events expected = with_releases_sorted(events_of(row.events));
      const Events actual = with_releases_sorted(events_of(program));
      CHECK_MESSAGE(actual == expected, text_of(actual) << "\n  recorded:" << text_of(expected));
    }
    if (!row.kernels.empty()) CHECK(program.kernels == std::stoll(row.kernels));
  }
  CHECK(checked > 80);
}

TEST_CASE("steps of PyTorch 2.15 allocate and release as recorded") { check_rows("optimizers.torch2.15.tsv", 215); }
TEST_CASE("steps of PyTorch 2.8 allocate and release as recorded") { check_rows("optimizers.torch2.8.tsv", 208); }
TEST_CASE("steps of PyTorch 1.13 allocate and release as recorded") { check_rows("optimizers.torch1.13.tsv", 113); }

std::vector<OptimizerParameter> several() { return {{1000, DType::fp32}, {7, DType::fp32}, {300000, DType::fp32}}; }

OptimizerProgram step_of(OptimizerConfig config, PyTorchVersion pytorch, bool first) {
  return optimizer_step(several(), config, pytorch, Gpu{}, first);
}

TEST_CASE("foreach amsgrad of 1.13 needs no more than foreach Adam") {
  // _foreach_maximum_ writes in place on CUDA; the CPU recording, which goes tensor by tensor, differs here alone.
  OptimizerConfig config{.kind = OptimizerKind::adam};
  const Events plain = events_of(step_of(config, 113, false));
  config.amsgrad = true;
  CHECK(events_of(step_of(config, 113, false)) == plain);
}

/// Weights and biases of the layers in the order of their execution; empty where that is not the order of
/// model.parameters() or where a layer holds anything else.
std::vector<OptimizerParameter> parameters_of(const nlohmann::json& model) {
  std::vector<OptimizerParameter> parameters;
  const std::vector<std::string> known{"Linear", "Conv2d", "BatchNorm1d", "BatchNorm2d", "Embedding"};
  for (const auto& layer : model["layers"]) {
    const auto count = layer[5].get<std::int64_t>();
    if (count == 0) continue;
    if (std::find(known.begin(), known.end(), layer[1]) == known.end()) return {};
    std::int64_t bias = 0;
    for (const char* key : {"out_features", "out_channels", "num_features"}) {
      if (layer[2].value("bias", false) && layer[2].contains(key)) bias = layer[2][key].get<std::int64_t>();
    }
    parameters.push_back({count - bias, DType::fp32});
    if (bias != 0) parameters.push_back({bias, DType::fp32});
  }
  std::int64_t elements = 0;
  for (const auto& parameter : parameters) elements += parameter.elements;
  const auto& params = model["params"];
  return elements == params["count"] && parameters.size() == params["tensors"] ? parameters
                                                                               : std::vector<OptimizerParameter>{};
}

/// Highest sum of what lives, each tensor rounded up to 512 bytes.
std::int64_t peak_bytes(const OptimizerProgram& program) {
  std::map<std::int32_t, std::int64_t> bytes;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (const OptimizerEvent& event : program.events) {
    if (event.kind == Kind::free) {
      live -= bytes.at(event.slot);
    } else {
      bytes[event.slot] = round_up(event.bytes, 512);
      live += bytes[event.slot];
      peak = std::max(peak, live);
    }
  }
  return peak;
}

TEST_CASE("whole models: state and transient bytes of PyTorch 1.13") {
  const std::map<std::string, OptimizerConfig> configs{{"sgd", {}},
                                                       {"sgd_momentum", {.momentum = true}},
                                                       {"adam", {.kind = OptimizerKind::adam}},
                                                       {"adamw", {.kind = OptimizerKind::adamw}}};
  int models = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(GPUPLAN_SOURCE_DIR) / "tests" / "oracle")) {
    if (file.path().extension() != ".json") continue;
    const auto model = nlohmann::json::parse(std::ifstream(file.path()), nullptr, false);
    if (model.is_discarded() || !model.is_object() || !model.contains("optimizers")) continue;
    const auto parameters = parameters_of(model);
    if (parameters.empty()) continue;
    ++models;
    for (const auto& entry : configs) {
      const std::string& name = entry.first;
      const OptimizerConfig& config = entry.second;
      const std::string what = file.path().stem().string() + " " + name;
      INFO(what);
      const auto& expected = model["optimizers"][name];
      const auto steady = [&parameters, config](OptimizerImpl impl, PyTorchVersion pytorch) {
        OptimizerConfig with_impl = config;
        with_impl.impl = impl;
        return peak_bytes(optimizer_step(parameters, with_impl, pytorch, Gpu{}, false));
      };
      CHECK(steady(OptimizerImpl::for_loop, 113) == expected["transient_for_loop"]);
      CHECK(steady(OptimizerImpl::foreach_, 113) == expected["transient_foreach_1_13"]);
      CHECK(steady(OptimizerImpl::foreach_, 215) == expected["transient_foreach_2x"]);
      std::int64_t states = 0;
      for (const OptimizerEvent& event : optimizer_step(parameters, config, 113, Gpu{}, true).events) {
        if (event.kind == Kind::alloc_state) states += event.bytes;
      }
      CHECK(states == expected["state_bytes"]);
    }
  }
  CHECK(models >= 20);
}

TEST_CASE("states stay alive and everything else is released within the program") {
  for (const auto kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::rmsprop, OptimizerKind::radam}) {
    for (const auto impl : {OptimizerImpl::foreach_, OptimizerImpl::for_loop}) {
      std::map<std::int32_t, Kind> alive;
      for (const OptimizerEvent& e :
           step_of({.kind = kind, .impl = impl, .momentum = true, .weight_decay = true}, 215, true).events) {
        if (e.kind == Kind::free) {
          REQUIRE(alive.erase(e.slot) == 1);
        } else {
          REQUIRE(alive.emplace(e.slot, e.kind).second);
        }
      }
      CHECK(std::all_of(alive.begin(), alive.end(), [](const auto& a) { return a.second == Kind::alloc_state; }));
    }
  }
}

TEST_CASE("Nesterov without momentum is refused with PyTorch's words") {
  CHECK_THROWS_WITH_AS(step_of({.nesterov = true}, 215, true),
                       "Nesterov momentum requires a momentum and zero dampening", Error);
}

TEST_CASE("no parameters, no optimizer: nothing happens") {
  CHECK(optimizer_step({}, {.kind = OptimizerKind::adam}, 215, Gpu{}, true).events.empty());
  CHECK(clip_grad_norm({}, 215, Gpu{}).events.empty());
  CHECK(step_of({.kind = OptimizerKind::none}, 215, true).events.empty());
}

TEST_CASE("operations of the update rule per element") {
  // SGD: p - lr g is 2; momentum mu b + g is 2 more; weight decay g + lambda p is 2 more. Adam, 13: m and
  // p - lr m / d are 3 each, v is 4, root, quotient and sum are 1 each.
  const std::int64_t elements = 1000 + 7 + 300000;
  CHECK(step_of({}, 215, false).elementwise_flops == 2 * elements);
  CHECK(step_of({.momentum = true, .weight_decay = true}, 215, false).elementwise_flops == 6 * elements);
  for (const auto impl : {OptimizerImpl::foreach_, OptimizerImpl::for_loop, OptimizerImpl::fused}) {
    CHECK(step_of({.kind = OptimizerKind::adam, .impl = impl}, 215, false).elementwise_flops == 13 * elements);
  }
}

}  // namespace
}  // namespace gpuplan
