// MODEL and --set: from what was typed to a Model.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "estimator/device/read_number.h"
#include "estimator/spec/read.h"
#include "tools/importers/given_liger.h"
#include "tools/importers/given_mask.h"
#include "tools/importers/hugging_face.h"
#include "tools/importers/import.h"
#include "tools/options/commit_model.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/python_step.h"
#include "tools/options/run_values.h"
#include "tools/process/environment.h"
#include "tools/process/read_source.h"
#include "tools/python_models/hugging_face_cache.h"
#include "tools/python_models/python_model.h"
#include "tools/python_models/python_optimizer.h"

namespace gpuplan {

namespace {

constexpr std::string_view kZoo = "zoo:";

std::vector<std::string> zoo_words() {
  std::vector<std::string> words;
  for (const std::string& name : zoo_names()) words.push_back(std::string(kZoo) + name);
  return words;
}

// What to type instead of a file that is not there.
Error no_such_file(const std::string& path, const Error& reason) {
  Error error(reason.message());
  for (const std::string& name : zoo_names())
    if (path == name || path == name + ".yaml") return error.help("built-in models are written zoo:NAME: zoo:" + name);
  const std::string near = nearest(path, zoo_names());
  if (!near.empty()) error.help("did you mean zoo:" + near + "?");
  return error;
}

// A spec, and of which type the file that it is imported of says its weights are.
struct Opened {
  std::shared_ptr<const Source> source;
  std::string stored_type;
};

Opened open_text(const std::shared_ptr<const Source>& text, FileKind kind) {
  return {spec_of_text(text, kind), kind == FileKind::hugging_face ? half_precision_of(*text) : std::string()};
}

// Only what a spec is made of is read whole: a file of weights may have any size.
Opened open_file(const std::string& path, std::vector<Variable>& set) {
  const FileKind kind = recognise(read_start(path, kRecognisedBytes), path);
  if (!is_text(kind)) return {spec_of_file(path, kind, set), ""};
  const std::shared_ptr<const Source> text = read_file_source(path);
  return open_text(text, recognise(text->text, path));
}

Opened open_piped(const NamedFile& input) {
  const std::shared_ptr<const Source> text = text_of(input);
  refuse_learned_trace(input);
  return open_text(text, recognise(text->text, text->name));
}

Opened open_named(const std::string& model, std::vector<Variable>& set) {
  if (model.empty())
    throw Error("no model given", ErrorKind::usage)
        .help("for example: gpuplan plan model.yaml, or gpuplan plan zoo:resnet50");
  if (is_stream(model)) return open_piped(open_input(model));
  if (model.starts_with(kZoo)) return {read_zoo_source(std::string_view(model).substr(kZoo.size())), ""};
  if (!exists(model)) {
    const std::string near = nearest(model, zoo_words());
    if (model.find(':') != std::string::npos && !near.empty())
      throw Error("cannot read " + model + ": no such file").help("did you mean " + near + "?");
  }
  try {
    return open_file(model_file(model), set);
  } catch (const Error& reason) {
    if (exists(model)) throw;
    throw no_such_file(model, reason);
  }
}

// Of Hugging Face's models those whose config.json is here and read by gpuplan itself need no Python.
std::optional<Opened> open_downloaded(const RunOptions& options, std::vector<Variable>& set) {
  constexpr std::string_view kHub = "hf:";
  if (!options.model.starts_with(kHub) || !options.inputs.empty() || !options.arguments.empty()) return std::nullopt;
  const std::string config = downloaded_config(options.model.substr(kHub.size()));
  if (config.empty()) return std::nullopt;
  try {
    Opened opened = open_file(config, set);
    (void)read_model(opened.source, {.set = set, .open = {}});
    return opened;
  } catch (const Error&) {
    return std::nullopt;  // transformers may know it
  }
}

Opened open_python(const RunOptions& options, std::vector<Variable>& set) {
  refuse_untrusted_code(options);
  if (std::optional<Opened> opened = open_downloaded(options, set)) return *std::move(opened);
  return {spec_of_python(python_model(options, set), python_step(options)), ""};
}

Opened open_any(const RunOptions& options, std::vector<Variable>& set) {
  if (options.piped) return open_piped({options.model, options.piped});
  if (python_code(options.model) != PythonCode::none) return open_python(options, set);
  if (!options.model.empty() && !(options.inputs.empty() && options.arguments.empty()))
    throw Error(std::string(options.inputs.empty() ? "--arg" : "--input") + " is for a model in Python, not for " +
                    options.model,
                ErrorKind::usage)
        .help("timm:NAME, torchvision:NAME, hf:NAME or FILE.py:CALLABLE");
  return open_named(options.model, set);
}

// What an agent asks for may write nothing, and code may.
bool trusts_code(const RunOptions& options) { return options.trusts_code && environment("GPUPLAN_WRITE_ONLY").empty(); }

}  // namespace

void refuse_untrusted_optimizer(const RunOptions& options) {
  const std::string file = file_of_optimizer(options.optimizer);
  if (!file.empty() && !trusts_code(options))
    throw Error("--opt " + options.optimizer + " runs the code of " + file).help("--trust-code runs it");
}

void refuse_untrusted_code(const RunOptions& options) {
  if (python_code(options.model) != PythonCode::file || trusts_code(options)) return;
  throw Error(options.model + " runs the code of " + python_file(options.model))
      .help("--trust-code runs it; a spec of it needs none: gpuplan import " + options.model + " -o model.yaml");
}

// What a folder is read by: Hugging Face's configuration, or what exporters call their file.
std::string model_file(const std::string& model) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(model, ignored)) return model;
  for (const char* name : {"config.json", "model.onnx", "saved_model.pb"})
    if (const std::filesystem::path file = std::filesystem::path(model) / name; exists(file.string()))
      return file.string();
  throw Error(model + " is a directory without a model")
      .help("a directory must contain a Hugging Face config.json or a model.onnx");
}

std::vector<Variable> variables_of(const RunOptions& options) {
  std::vector<Variable> list;
  for (const std::string& text : options.set) list.push_back(read_variable(text));
  if (!options.seq.empty()) list.push_back({"seq", whole_number("--seq", options.seq, 1, 1'000'000'000)});
  if (!options.phase.empty()) {
    for (const Variable& v : list)
      if (v.name == "seq")
        throw Error("--phase sets seq itself: give --prompt, the length of the prompt, instead of --seq",
                    ErrorKind::usage);
    // A decoding step is given one token; what came before it is in the cache.
    const Generation g = generation(options);
    list.push_back({"seq", g.part == Generation::Part::prefill ? g.prompt : 1});
  }
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (list[i].name == list[k].name) throw Error("the variable " + list[i].name + " is set twice", ErrorKind::usage);
  return list;
}

std::shared_ptr<const Source> open_extended(std::string_view name, std::string_view relative_to) {
  if (name.starts_with(kZoo)) return read_zoo_source(name.substr(kZoo.size()));
  if (relative_to.starts_with(kZoo)) {
    if (name.ends_with(".yaml")) name.remove_suffix(5);
    return read_zoo_source(name);
  }
  const std::string from(relative_to);
  const std::filesystem::path folder =
      from == "<stdin>" || is_stream(from) ? std::filesystem::path() : std::filesystem::path(from).parent_path();
  return read_file_source((folder / std::filesystem::path(name)).string());
}

Variable read_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw Error("--set expects NAME=VALUE, not \"" + text + "\"", ErrorKind::usage);
  Variable v;
  v.name = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  const std::optional<std::int64_t> number = decimal(value);
  if (!number) throw Error("--set " + v.name + " expects a whole number, not \"" + value + "\"", ErrorKind::usage);
  v.value = *number;
  return v;
}

std::shared_ptr<const Source> open_model(const std::string& model, std::vector<Variable>& set) {
  RunOptions options;
  options.model = model;
  return open_any(options, set).source;
}

namespace {

// --kernels, and --set padded= of a decoder that is given no attention_mask by itself.
void exchange_what_is_asked(const RunOptions& options, WrittenModel& written) {
  if (options.kernels == "liger") written.source = with_liger_kernels(*written.source);
  if (std::ranges::find(written.options.set, "padded", &Variable::name) != written.options.set.end())
    if (std::shared_ptr<const Source> masked = with_attention_mask(*written.source)) written.source = std::move(masked);
}

}  // namespace

WrittenModel open_model(const RunOptions& options) {
  WrittenModel written;
  written.options.set = variables_of(options);
  written.options.open = open_extended;
  Opened opened = open_any(options, written.options.set);
  written.source = std::move(opened.source);
  exchange_what_is_asked(options, written);
  written.stored_type = std::move(opened.stored_type);
  return written;
}

Model load_model(const RunOptions& options) {
  const WrittenModel written = open_model(options);
  return read_model(written.source, written.options);
}

namespace {

// A text that is large is no model; other files are read by their importers, which want a file.
std::shared_ptr<const Source> spec_at(const git::CommitFiles::File& file, std::vector<Variable>& set) {
  const std::string& name = file.source->name;
  const FileKind kind = recognise(file.source->text, file.path);
  if (is_text(kind) && !file.whole.empty())
    throw Error(name + " is larger than 4 MiB, the limit for a model in text form");
  if (is_text(kind)) return spec_of_text(file.source, kind);
  if (!file.whole.empty()) return spec_of_file(file.whole, kind, set, name);
  git::Spool copy;
  copy.write(file.source->text);
  return spec_of_file(copy.path(), kind, set, name);
}

}  // namespace

WrittenModel open_model_at(git::CommitFiles& files, const git::CommitFiles::File& file, const RunOptions& options) {
  WrittenModel written;
  written.options.set = variables_of(options);
  written.source = spec_at(file, written.options.set);
  exchange_what_is_asked(options, written);
  written.options.open = [&files](std::string_view name, std::string_view relative_to) {
    const bool in_zoo = name.starts_with(kZoo) || relative_to.starts_with(kZoo);
    return in_zoo ? open_extended(name, relative_to) : files.open(name, relative_to);
  };
  return written;
}

}  // namespace gpuplan
