#include "tools/python_models/python_optimizer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "estimator/base/error.h"
#include "tools/files/write_file.h"
#include "tools/process/read_source.h"
#include "tools/process/streams.h"
#include "tools/python_models/interpreter.h"
#include "tools/python_models/remembered.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

// As tools/python/gpuplan/named_optimizers.py knows them.
constexpr std::array<std::string_view, 15> kNames = {"adafactor",
                                                     "adopt",
                                                     "asgd",
                                                     "came",
                                                     "muon",
                                                     "prodigy",
                                                     "rprop",
                                                     "schedulefree_adamw",
                                                     "schedulefree_radam",
                                                     "schedulefree_sgd",
                                                     "soap",
                                                     "torchao_adamw4bit",
                                                     "torchao_adamw8bit",
                                                     "torchao_adamwfp8",
                                                     "transformers_adafactor"};

constexpr std::string_view kFile = ".py:";

std::string request_of(const std::string& text, std::span<const NamedParameter> parameters) {
  Json list = Json::array();
  for (const NamedParameter& p : parameters) {
    const auto sizes = p.shape.sizes();
    list.push_back(
        {p.name, std::vector<std::int64_t>(sizes.begin(), sizes.end()), std::string(name_of(p.dtype)), p.has_gradient});
  }
  return Json{{"optimizer", text}, {"parameters", list}}.dump();
}

using Kind = OptimizerEvent::Kind;

Kind kind_of(const std::string& word) {
  constexpr std::array<std::pair<std::string_view, Kind>, 5> kWords = {{{"state", Kind::alloc_state},
                                                                        {"tensor", Kind::alloc_tensor},
                                                                        {"free", Kind::free},
                                                                        {"free_state", Kind::free_state},
                                                                        {"free_gradient", Kind::free_gradient}}};
  const auto found = std::ranges::find(kWords, word, &std::pair<std::string_view, Kind>::first);
  if (found == kWords.end()) throw std::out_of_range(word);
  return found->second;
}

OptimizerProgram program_in(const Json& events) {
  OptimizerProgram program;
  for (const Json& e : events)
    program.events.push_back({kind_of(e[0].get<std::string>()), e[1].get<std::int32_t>(), e[2].get<std::int64_t>()});
  return program;
}

RecordedOptimizer recorded_in(const fs::path& file) {
  const Json json = Json::parse(read_file_source(file.string())->text);
  RecordedOptimizer recorded{program_in(json.at("construction")), program_in(json.at("first")),
                             program_in(json.at("steady"))};
  for (OptimizerProgram* step : {&recorded.first, &recorded.steady}) {
    step->kernels = json.value("kernels", std::int64_t{0});
    step->elementwise_flops = json.value("plain_flops", std::int64_t{0});
    step->product_flops = json.value("product_flops", std::int64_t{0});
    step->product_type = dtype_from_name(json.value("product_type", "fp32")).value_or(DType::fp32);
    step->bytes_moved = json.value("bytes", std::int64_t{0});
  }
  return recorded;
}

// Also where Python fails.
struct Removed {
  fs::path file;
  ~Removed() {
    std::error_code none;
    fs::remove(file, none);
  }
};

class PythonOptimizer : public OptimizerRecorder {
 public:
  PythonOptimizer(std::string text, std::string gpu) : text_(std::move(text)), gpu_(std::move(gpu)) {}

  std::string name() const override { return text_; }

  RecordedOptimizer record(std::span<const NamedParameter> parameters) const override {
    const std::lock_guard one_at_a_time(running_);
    const Interpreter i = interpreter();
    const std::string request = request_of(text_, parameters);
    const fs::path file =
        remembered_as({text_, gpu_, request}, i, file_of_optimizer(text_).empty() ? InFolder::any : InFolder::this_one)
            .replace_extension(".steps");
    if (!still_holds(file)) run(i, file, request);
    try {
      return recorded_in(file);
    } catch (const std::logic_error&) {  // an event of another version
    } catch (const Json::exception&) {
    }
    throw Error(file.string() + " is not what was recorded of " + text_, ErrorKind::environment)
        .help("remove the file: it is recorded again");
  }

 private:
  void run(const Interpreter& i, const fs::path& file, const std::string& request) const {
    if (isatty(STDERR_FILENO) != 0)
      write_stderr("recording steps of " + text_ + " with " + i.python + " on a simulated " + gpu_ +
                   ", once: the result is kept ...\n");
    const std::string asked = file.string() + ".request";
    write_file(asked, request);
    std::vector<std::string> command = {i.program, "shadow", "--gpu", gpu_, "--quiet", "--"};
    const std::vector<std::string> python = python_command(i, "optimizer_steps");
    command.insert(command.end(), python.begin(), python.end());
    command.insert(command.end(), {file.string(), asked});
    const Removed when_done{asked};
    run_python(i, command);
  }

  std::string text_, gpu_;
  mutable std::mutex running_;
};

}  // namespace

bool is_recorded_optimizer(std::string_view text) {
  return std::ranges::find(kNames, text) != kNames.end() || text.find_first_of(".(:") != std::string_view::npos;
}

std::vector<std::string> recorded_optimizer_names() { return {kNames.begin(), kNames.end()}; }

std::string file_of_optimizer(std::string_view text) {
  const std::size_t end = text.find(kFile);
  if (end == std::string_view::npos) return "";
  const std::size_t begin = text.rfind(',', end) + 1;  // 0 where there is none
  return std::string(text.substr(begin, end + 3 - begin));
}

std::shared_ptr<const OptimizerRecorder> python_optimizer(std::string text, std::string gpu) {
  return std::make_shared<PythonOptimizer>(std::move(text), std::move(gpu));
}

}  // namespace gpuplan
