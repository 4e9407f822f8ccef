// The flags that say what is run and on which device; the same for every subcommand that plans.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/spec/model.h"
#include "estimator/spec/run_config.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
}

namespace gpuplan {

/// Flags as written; empty: not given.
struct RunOptions {
  std::string model;
  std::shared_ptr<const Source> piped;  // the model's text, where it came through a pipe and was read to tell its kind
  std::string batch, optimizer, optimizer_impl, weight_decay, gpu, runtime, precision, mode, seq, clip, save, loop,
      zero_grad;
  std::string scratch, segments, alloc_conf, allocator, pytorch, step, margin;
  std::string amp, layout, host_copy, attention, kernels, like, micro_batches, checkpoint, master, offload, weights,
      lora, peft;
  std::string phase, prompt, generate, cache;
  std::vector<std::string> set;
  std::vector<std::string> inputs, arguments;  // --input and --arg, of a model that Python makes
  bool trusts_code = true;                     // of FILE.py:CALLABLE: whether it may run
  bool optimizer_in_backward = false;
  bool labels = false;
  bool strict = false;
};

void add_run_options(CLI::App& command, RunOptions& options);
/// --input and --arg, of a model that Python makes.
void add_python_options(CLI::App& command, std::vector<std::string>& inputs, std::vector<std::string>& arguments);
/// --margin, of the commands that say whether a step fits.
void add_margin_option(CLI::App& command, RunOptions& options);

/// Throws Error (usage) for a value that is not understood and for flags that contradict each other.
RunConfig run_config(const RunOptions& options);
/// The model, read from a file, from standard input ("-") or from the zoo ("zoo:resnet50"), with --set applied.
Model load_model(const RunOptions& options);
/// Where the model's code is a file's that may not run: trusts_code is not set, or an agent asks, who may write
/// nothing. Throws Error.
void refuse_untrusted_code(const RunOptions& options);
/// The same of --opt FILE.py:FUNCTION.
void refuse_untrusted_optimizer(const RunOptions& options);
/// The file that is read of a model's path: of a folder the one that says what is in it. Throws Error where it has
/// none.
std::string model_file(const std::string& model);
/// The device of --gpu: a name, a file, or a size as a ceiling; nothing when none is named.
std::optional<Gpu> load_gpu(const RunOptions& options);
/// Whether --gpu means a file.
bool is_gpu_file(const std::string& text);

/// The embedded GPU table, and its names.
std::vector<Gpu> gpu_table();
/// The GPU of the table that people call so.
std::optional<Gpu> gpu_called(const std::string& name);
std::vector<std::string> gpu_names();
/// The words that --opt takes.
std::vector<std::string> optimizer_names();

}  // namespace gpuplan
