#include "tools/answers/emit_launch.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "estimator/distributed/stage_split.h"
#include "estimator/plan/plan.h"
#include "estimator/report/stages_text.h"
#include "estimator/search/device_bytes.h"
#include "layers/catalog.h"
#include "tools/answers/stages.h"
#include "tools/importers/import.h"
#include "tools/options/kept_file.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {
namespace {

constexpr const char* kNothing = "\n  --emit writes nothing of a plan that does not fit\n";

std::int64_t variable_of(const Model& model, std::string_view name) {
  const auto found = std::ranges::find(model.vars, name, &Variable::name);
  return found == model.vars.end() ? 0 : found->value;
}

// Of --set: what is another model than its file says.
bool is_size_of_model(const std::string& text) {
  return !text.starts_with("seq=") && !text.starts_with("packed=") && !text.starts_with("padded=");
}

// transformers' configuration of the model, in Python; empty where none is known, or it is no causal decoder.
std::string configuration_of(const RunOptions& run, const Model& whole) {
  constexpr std::string_view kHub = "hf:";
  const auto pretrained = [](const std::string& name) {
    return "transformers.AutoConfig.from_pretrained(" + python_string(name) + ")";
  };
  if (whole.loss.type != "CausalLMLoss" || variable_of(whole, "packed") != 0 || variable_of(whole, "padded") != 0)
    return "";
  if (run.model.starts_with(kHub)) return pretrained(run.model.substr(kHub.size()));
  if (run.model.starts_with("zoo:") || python_code(run.model) != PythonCode::none) return llama_config(whole);
  if (!run.set.empty() && std::ranges::any_of(run.set, is_size_of_model)) return llama_config(whole);
  const std::string file = model_file(run.model);
  const std::shared_ptr<const Source> text = read_file_source(file);
  if (recognise(text->text, file) != FileKind::hugging_face) return llama_config(whole);
  return pretrained(std::filesystem::absolute(file).lexically_normal().string());
}

// Tokens of a sample, where the model is given tokens.
std::int64_t tokens_of(const Model& model) {
  const bool tokens =
      !model.inputs.empty() && model.inputs.front().dtype == DType::int64 && model.inputs.front().shape.size() == 1;
  return tokens ? model.inputs.front().shape.front() : 0;
}

Launch launch_of(const LaunchAsked& asked, const Model& whole, const RunOptions& run, const OutputOptions& output) {
  constexpr std::string_view kProgram = "gpuplan ";
  constexpr std::array<const char*, 4> kNames = {"train.py", "planned.py", "ds_config.json", "pretrain.sh"};
  Launch launch;
  launch.model = whole.name;
  launch.plan = output.command.substr(kProgram.size());
  launch.config = configuration_of(run, whole);
  launch.sequence = tokens_of(whole);
  launch.vocabulary = variable_of(whole, "vocabulary");
  launch.script = asked.files.empty() ? kNames[static_cast<std::size_t>(asked.target)] : asked.files.front();
  return launch;
}

// The plan is of one stage: what is checkpointed in it is in all of them.
void tell_stages(std::int64_t blocks, Launch& launch) {
  launch.stages = blocks_of_stages(blocks, launch.strategy);
  if (launch.checkpointed.empty()) return;
  launch.checkpointed.clear();
  for (std::int64_t i = 0; i < blocks; ++i) launch.checkpointed.push_back("model.layers." + std::to_string(i));
}

int write_launch(const LaunchAsked& asked, const Launch& launch, const OutputOptions& output) {
  const LaunchText text = launch_text(launch, asked.target);
  std::string said = text.command + "\n";
  for (const std::string& note : text.notes) said += "  " + note + "\n";
  for (const std::string& file : asked.files) write_report({.path = file, .force = output.force}, text.file);
  if (asked.files.empty()) {
    write_stdout(text.file);
    write_stderr(said);
  } else {
    write_stdout(said);
  }
  return 0;
}

}  // namespace

std::optional<LaunchAsked> launch_asked(const std::string& emit, const RunOptions& run, OutputOptions& output) {
  if (emit.empty()) return std::nullopt;
  Choices<LaunchTarget> targets;
  for (const LaunchTarget target :
       {LaunchTarget::torchrun, LaunchTarget::torchtitan, LaunchTarget::deepspeed, LaunchTarget::megatron})
    targets.emplace_back(std::string(name_of(target)), target);
  LaunchAsked asked{choose<LaunchTarget>("--emit", emit, targets), {}};
  if (!output.format.empty() || output.quiet || output.timeline)
    throw Error("--emit writes what starts the plan: leave --format, --timeline and -q out", ErrorKind::usage);
  if (is_stream(run.model))
    throw Error("--emit: what is written cannot read " + called(run.model) + " again; put the model into a file",
                ErrorKind::usage);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (std::ranges::any_of(output.command, is_control))
    throw Error("--emit: a file that names its command cannot hold a line break or a control character",
                ErrorKind::usage)
        .help("rename the model's file");
  constexpr std::array<std::string_view, 4> kEndings = {".py", ".py", ".json", ".sh"};
  const std::string_view ending = kEndings[static_cast<std::size_t>(asked.target)];
  const auto is_launch = [&](const std::string& name) { return name.ends_with(ending); };
  std::ranges::copy_if(output.files, std::back_inserter(asked.files), is_launch);
  std::erase_if(output.files, is_launch);
  if (!output.files.empty())
    throw Error("--emit " + emit + " writes " + std::string(ending) + ", and " + output.files.front() + " is none",
                ErrorKind::usage)
        .help("-o FILE" + std::string(ending));
  for (const std::string& file : asked.files) refuse_to_replace("-o", file, output.force);
  return asked;
}

int emit_launch(const LaunchAsked& asked, const Planning& planning, const PlannedReport& planned, const RunOptions& run,
                const OutputOptions& output) {
  const auto& [plan, report] = planned;
  if (!verdict(report).fits) {
    TextStyle style = terminal_style(output, 2);
    style.brief = true;
    write_stderr(report_text(report, style, suggest(planning, report)) + kNothing);
    return 1;
  }
  const Model whole = load_model(run);
  Launch launch = launch_of(asked, whole, run, output);
  launch.strategy = plan.step.strategy;
  launch.run = planning.run;
  RunConfig one;
  one.mode = Mode::infer;  // a batch of one sample is enough
  if (asked.target == LaunchTarget::torchtitan)
    launch.parameters = report_of(make_plan(whole, make_catalog(), one)).model.parameters;
  for (const FsdpUnit& unit : plan.step.units)
    if (!unit.path.empty() && !unit.of_experts) launch.wrapped.push_back(unit.path);
  for (const Checkpoint& part : plan.step.graph.checkpoints)
    launch.checkpointed.push_back(path_of(plan.step.graph, part));
  if (launch.strategy.runs_stages()) tell_stages(plan.step.part.all_blocks, launch);
  launch.allocated_bytes = report.peak.reading.allocated_bytes;
  launch.reserved_bytes = report.peak.reading.reserved_bytes;
  launch.rank = launch.strategy.global_rank();
  (void)show_warnings(report, output.quiet, run.strict);
  return write_launch(asked, launch, output);
}

int emit_stages(const LaunchAsked& asked, const Planning& planning, const Strategy& strategy, const RunOptions& run,
                const SeveralGpusOptions& several, const OutputOptions& output) {
  const StagesReport report = stages_report(planning, strategy, run, several);
  if (!report.fits()) {
    TextStyle style = terminal_style(output, 2);
    style.brief = true;
    write_stderr(stages_text(report, style) + kNothing);
    return 1;
  }
  Launch launch = launch_of(asked, planning.model, run, output);
  launch.strategy = strategy;
  launch.run = report.run;
  launch.by_formulas = true;
  launch.transformer = report.transformer;
  (void)show_warnings(report.warnings, output.quiet, run.strict);
  return write_launch(asked, launch, output);
}

}  // namespace gpuplan
