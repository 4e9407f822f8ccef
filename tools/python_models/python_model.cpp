#include "tools/python_models/python_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "tools/files/write_file.h"
#include "tools/process/environment.h"
#include "tools/process/read_source.h"
#include "tools/process/streams.h"
#include "tools/python_models/interpreter.h"
#include "tools/python_models/remembered.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 3> kPackages = {"timm:", "torchvision:", "hf:"};

std::vector<std::string> words_of(const PythonModel& model) {
  std::vector<std::string> words = {model.word};
  for (const std::string& input : model.inputs) words.insert(words.end(), {"--input", input});
  for (const std::string& argument : model.arguments) words.insert(words.end(), {"--arg", argument});
  for (const std::string& size : model.sizes) words.insert(words.end(), {"--set", size});
  return words;
}

// A path means another file elsewhere; so may a name of Hugging Face's, which can be a folder's.
fs::path remembered_as(const std::vector<std::string>& words, const Interpreter& i) {
  const bool here = python_code(words[0]) == PythonCode::file || words[0].starts_with("hf:");
  return remembered_as(words, i, here ? InFolder::this_one : InFolder::any);
}

void say_that_it_takes_long(const std::string& what) {
  if (isatty(STDERR_FILENO) != 0) write_stderr(what + ", once: the result is kept ...\n");
}

void run_module(const Interpreter& i, const std::string& module, std::vector<std::string> words,
                const std::vector<std::string>& model) {
  std::vector<std::string> command = python_command(i, module);
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), model.begin(), model.end());
  run_python(i, command);
}

// gpuplan.stepped's Step. The words are names of flags' values, without quotes.
std::string json_of(const ModelStep& s) {
  const auto text = [](const char* name, const std::string& value) {
    return value.empty() ? "" : std::string("\"") + name + "\": \"" + value + "\", ";
  };
  return "{" + text("mode", s.mode == "infer" ? "eval" : s.mode) + text("optimizer", s.optimizer) + text("amp", s.amp) +
         text("precision", s.precision) + "\"channels_last\": " + (s.channels_last ? "true" : "false") + "}";
}

fs::path trace_of(const std::vector<std::string>& words, const Interpreter& i, const ModelStep& step) {
  std::vector<std::string> key = words;
  key.insert(key.end(), {json_of(step), step.gpu});
  return remembered_as(key, i).replace_extension(".trace");
}

// Beside the trace: why it is planned in the spec's place.
fs::path reason_of(const fs::path& trace) { return trace.string() + ".why"; }

bool holds(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) && still_holds(file);
}

// An export is compared in fp32, where there is PyTorch's build for CUDA; in other types it is when they are asked for.
bool is_compared(const std::string& spec) {
  return spec.find("\nverified: ") != std::string::npos || spec.find("\ndiffers: ") != std::string::npos;
}

// Its notes say where code asks for its type; it is exported anew in the one that is asked for.
bool is_of_other_types(const std::string& spec, const ModelStep& step) {
  return std::ranges::any_of(std::array{step.amp, step.precision}, [&](const std::string& type) {
    return !type.empty() && spec.find("\n  - {" + type + ": ") != std::string::npos;
  });
}

fs::path exported(const std::vector<std::string>& words, const Interpreter& i) {
  const fs::path spec = remembered_as(words, i);
  if (!holds(spec)) {
    say_that_it_takes_long("exporting " + words[0] + " with " + i.python + ", and comparing the spec with the model");
    run_module(i, "door", {spec.string()}, words);
  }
  return spec;
}

// timm:resnet50, a training step with adam under autocast to bf16
std::string words_in_type(const std::vector<std::string>& words, const ModelStep& step) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  text += step.mode == "infer" ? ", a forward in eval mode"
                               : ", a training step with " + (step.optimizer.empty() ? "sgd" : step.optimizer);
  if (!step.precision.empty()) text += " in " + step.precision;
  if (!step.amp.empty()) text += " under autocast to " + step.amp;
  return text + (step.channels_last ? " in channels-last" : "");
}

// A spec with operators without a layer has what a GPU did of them.
bool is_recorded_elsewhere(const std::string& spec, const std::string& gpu) {
  constexpr std::string_view kKey = "\nrecorded_on: ";
  const std::size_t at = spec.find(kKey);
  return at != std::string::npos && spec.compare(at + kKey.size(), gpu.size() + 1, gpu + "\n") != 0;
}

// The types of gpuplan.stepped.
bool is_another_type(const ModelStep& step) {
  const auto is_one_of = [](const std::string& word, std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
  };
  if (!is_one_of(step.precision, {"", "fp32", "fp64", "bf16", "fp16"}) || !is_one_of(step.amp, {"", "bf16", "fp16"}))
    return false;
  return step.channels_last || !step.amp.empty() || !is_one_of(step.precision, {"", "fp32"});
}

fs::path compared_spec(const std::vector<std::string>& words, const Interpreter& i, const fs::path& spec,
                       ModelStep step) {
  step.optimizer.clear();  // its memory is not the model's
  std::vector<std::string> key = words;
  key.push_back(json_of(step));
  const fs::path compared = remembered_as(key, i);
  if (holds(compared)) return compared;
  say_that_it_takes_long("comparing the spec of " + words[0] + " with the model in the type asked for");
  run_module(i, "verified_as", {compared.string(), spec.string(), json_of(step)}, words);
  return compared;
}

}  // namespace

PythonCode python_code(std::string_view word) {
  for (const std::string_view package : kPackages)
    if (word.starts_with(package) && word.size() > package.size()) return PythonCode::package;
  return word.find(".py:") != std::string_view::npos ? PythonCode::file : PythonCode::none;
}

std::string python_file(const std::string& word) {
  const std::size_t end = word.find(".py:");
  return end == std::string::npos || python_code(word) != PythonCode::file ? "" : word.substr(0, end + 3);
}

std::shared_ptr<const Source> spec_of_python(const PythonModel& model, const ModelStep& step) {
  const Interpreter i = interpreter();
  std::vector<std::string> words = words_of(model);
  fs::path spec = exported(words, i);
  auto source = std::make_shared<Source>(*read_file_source(spec.string()));
  if (is_recorded_elsewhere(source->text, step.gpu)) {
    words.insert(words.end(), {"--gpu", step.gpu});
    spec = exported(words, i);
    source = std::make_shared<Source>(*read_file_source(spec.string()));
  }
  if (is_another_type(step) && (is_compared(source->text) || is_of_other_types(source->text, step)))
    source = std::make_shared<Source>(*read_file_source(compared_spec(words, i, spec, step).string()));
  source->name = model.word;
  return source;
}

std::string learned_step(const PythonModel& model, const ModelStep& step) {
  const Interpreter i = interpreter();
  const std::vector<std::string> words = words_of(model);
  const fs::path trace = trace_of(words, i, step);
  if (holds(trace)) return trace.string();
  std::error_code none;
  fs::remove(reason_of(trace), none);
  say_that_it_takes_long("running steps of " + words[0] + " with " + i.python + " on a simulated " + step.gpu);
  std::vector<std::string> command = {i.program,     "shadow", "--learn", trace.string(), "--vary",
                                      "batch=2,4,6", "--gpu",  step.gpu,  "--learn-as",   words_in_type(words, step),
                                      "--"};
  const std::vector<std::string> python = python_command(i, "learned");
  command.insert(command.end(), python.begin(), python.end());
  command.insert(command.end(), {trace.string() + ".sources", "{batch}", json_of(step)});
  command.insert(command.end(), words.begin(), words.end());
  run_python(i, command);
  return trace.string();
}

void plan_learned_step(const PythonModel& model, const ModelStep& step, const std::string& why) {
  write_file(reason_of(learned_step(model, step)).string(), why);
}

std::string why_learned(const PythonModel& model, const ModelStep& step) {
  const fs::path trace = trace_of(words_of(model), interpreter(), step);
  return holds(trace) && exists(reason_of(trace)) ? read_file_source(reason_of(trace).string())->text : "";
}

}  // namespace gpuplan
