// gpuplan check [NAME...]: whether the budgets of gpuplan.yaml are met.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "estimator/base/excerpt.h"
#include "estimator/base/glob.h"
#include "estimator/report/check_findings.h"
#include "estimator/search/workers.h"
#include "tools/check/check_output.h"
#include "tools/check/git_baseline.h"
#include "tools/check/plan_check.h"
#include "tools/check/subject.h"
#include "tools/check/update.h"
#include "tools/check/verdict.h"
#include "tools/commands/commands.h"
#include "tools/git/repository.h"
#include "tools/options/instance_input.h"
#include "tools/process/environment.h"
#include "tools/process/progress_line.h"
#include "tools/process/read_source.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

namespace fs = std::filesystem;

// The checks that are named, or match a pattern; all without names.
std::vector<const Check*> chosen(const Budget& budget, std::vector<std::string> names) {
  std::vector<const Check*> checks;
  if (names.empty()) {
    for (const Check& check : budget.checks) checks.push_back(&check);
    return checks;
  }
  std::vector<bool> used(names.size());
  for (const Check& check : budget.checks) {
    bool wanted = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool of_matrix = check.name.starts_with(names[i] + "[");
      if (check.name != names[i] && !of_matrix && !matches_glob(check.name, names[i])) continue;
      used[i] = wanted = true;
    }
    if (wanted) checks.push_back(&check);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (used[i]) continue;
    std::vector<std::string> known;
    for (const Check& check : budget.checks) known.push_back(check.name);
    Error none("no such check: \"" + names[i] + "\"" + did_you_mean(names[i], known));
    throw exists(names[i]) ? none.help("limits of one model: gpuplan check " + names[i] + " --max-peak 8GiB")
                           : none.help("* matches any part of a name");
  }
  return checks;
}

std::optional<Baseline> baseline_of(const CheckOptions& options, const Subject& subject) {
  if (options.base.empty()) return std::nullopt;
  if (options.base.ends_with(".json")) return saved_baseline(options.base, kVersion);
  if (!subject.repository)
    throw Error("--base " + options.base + ": this is not a git repository", ErrorKind::environment)
        .help("without git, use a file written by gpuplan check -o base.json as the base");
  return git_baseline(*subject.repository, subject.file, subject.budget, options.base, environment,
                      options.allow_broken_base);
}

// Findings belong on the files that a commit has, not on links to them.
void find_real_paths(const Subject& subject, CheckReport& report) {
  if (!subject.repository) return;
  const auto look_up = [&](const std::string& name) {
    if (name.empty() || name.starts_with("zoo:") || name.starts_with("import:")) return;
    std::error_code error;
    const fs::path real = fs::canonical(name, error).lexically_relative(*subject.repository);
    if (error || real.empty() || *real.begin() == "..") return;
    if (real != fs::path(report.folder + name).lexically_normal()) report.real_paths[name] = real.generic_string();
  };
  look_up(report.file);
  for (const CheckResult& result : report.results) {
    look_up(result.check.model);
    look_up(result.error_at.file);
    for (const CauseLine& cause : result.causes) look_up(cause.file);
  }
}

CheckReport run_checks(const std::vector<const Check*>& checks, const Subject& subject, std::optional<Baseline>& base,
                       const CheckOptions& options, bool with_memory) {
  CheckReport report;
  report.file = subject.file;
  report.today = today();
  if (subject.repository && subject.folder != *subject.repository)
    report.folder = subject.folder.lexically_relative(*subject.repository).generic_string() + "/";
  if (base) {
    report.base_commit = base->commit;
    report.base_rule = base->rule;
    report.warnings = base->warnings;
  }
  // A model of the command line may lie anywhere.
  CheckPlanner planner(subject.file.empty() ? std::nullopt : std::optional(subject.top()), base ? &*base : nullptr,
                       report.today, options.trusts_code);
  if (with_memory) planner.keep_memory();
  report.results.resize(checks.size());
  ProgressLine progress(!options.output.quiet);
  run_on_workers(
      checks.size(), cores(), [&](std::size_t i) { report.results[i] = planner.run(*checks[i]); },
      [&](std::size_t done) {
        if (progress.due()) progress.show("check " + std::to_string(done) + " of " + std::to_string(checks.size()));
      });
  find_real_paths(subject, report);
  std::map<std::string, std::int64_t> warnings;
  for (const CheckResult& result : report.results)
    for (const std::string& warning : result.warnings) ++warnings[warning];
  for (const auto& [warning, times] : warnings)
    report.warnings.push_back(warning + (times == 1 ? "" : " (" + format_count(times) + " checks)"));
  return report;
}

int update(const CheckReport& report, const Subject& subject) {
  const FileUpdate update = update_file(report, subject.folder, *subject.budget.source);
  write_stdout(update.text);
  if (report.worst() == State::error) return exit_code_of(report, FailOn::error);
  return update.left > 0 ? 1 : 0;
}

// Two results in one file, or a result in what is checked.
void refuse_clashing_files(const std::vector<CheckFile>& files, const Subject& subject) {
  std::vector<std::string> taken;
  if (!subject.file.empty()) taken.push_back((subject.folder / subject.file).lexically_normal().string());
  for (const CheckFile& file : files) {
    const std::string path = fs::path(file.path).lexically_normal().string();
    if (std::ranges::find(taken, path) != taken.end())
      throw Error("-o " + path + " would overwrite the checked file or another -o", ErrorKind::usage);
    taken.push_back(path);
  }
}

// Limits that went with their check leave a trace.
void name_checks_that_are_gone(const Baseline& base, const Budget& now, CheckReport& report) {
  for (const std::string& name : base.names)
    if (std::ranges::find(now.checks, name, &Check::name) == now.checks.end()) {
      report.gone.push_back(name);
      report.warnings.push_back("the base has a check " + name + ", which no longer exists");
    }
}

// The log shows the screen too. What comes from files must not be taken for a command there (docs.github.com/actions,
// stopping and starting workflow commands).
std::string github_log(const std::string& text) {
  const std::string token = "gpuplan-" + fingerprint_of(text);
  return "::stop-commands::" + token + "\n" + text + "::" + token + "::\n";
}

// --strict is about every warning, those of checks too.
FailOn fail_on_of(const CheckOptions& options) {
  if (options.fail_on.empty())
    return options.exit_zero ? FailOn::none : options.run.strict ? FailOn::warn : FailOn::error;
  const FailOn fail_on = read_fail_on(options.fail_on);
  if (fail_on == FailOn::growth && options.base.empty())
    throw Error("--fail-on growth needs a base: give --base, too", ErrorKind::usage).help("--base auto, or a commit");
  if (options.exit_zero && fail_on != FailOn::none)
    throw Error("--exit-zero and --fail-on " + options.fail_on + " contradict each other", ErrorKind::usage);
  return options.run.strict && fail_on == FailOn::error ? FailOn::warn : fail_on;
}

int run_check(CheckOptions options) {
  const CheckFormat format = check_format(options.output);
  std::vector<CheckFile> files = check_files(options.output);
  TextStyle style = terminal_style(options.output);
  // What is stored or compared is the same whatever the locale; a terminal gets what it can show.
  if (!style.interactive) style.unicode = !options.output.ascii;
  std::vector<OutputFile> paths;
  for (CheckFile& file : files) {
    file.path = fs::absolute(file.path).string();
    paths.push_back({.path = file.path, .force = file.force});
  }
  refuse_unwritable(paths);
  const FailOn fail_on = fail_on_of(options);
  if (options.update && (!files.empty() || !options.output.format.empty() || fail_on != FailOn::error))
    throw Error("--update only prints the edit: leave out --format, -o, --fail-on and --exit-zero", ErrorKind::usage);
  if (options.quiet_if_unchanged && options.base.empty())
    throw Error("--quiet-if-unchanged needs a base: give --base, too", ErrorKind::usage).help("--base auto");
  if (options.allow_broken_base && options.base.empty())
    throw Error("--allow-broken-base needs a base: give --base, too", ErrorKind::usage).help("--base auto");
  if (options.base.ends_with(".json")) options.base = fs::absolute(options.base).string();
  if (options.no_base && !options.base.empty())
    throw Error("--base and --no-base contradict each other", ErrorKind::usage);
  const bool of_line = options.limits.any();
  const Subject subject = of_line ? one_off(options) : from_file(options);
  std::vector<std::string> names = options.names;
  if (!of_line && !options.run.model.empty()) names.insert(names.begin(), options.run.model);
  refuse_clashing_files(files, subject);
  const std::vector<const Check*> checks = chosen(subject.budget, names);
  std::optional<Baseline> base = baseline_of(options, subject);
  const bool has_page =
      format == CheckFormat::html || std::ranges::find(files, CheckFormat::html, &CheckFile::format) != files.end();
  CheckReport report = run_checks(checks, subject, base, options, has_page);
  if (base && !of_line && names.empty()) name_checks_that_are_gone(*base, subject.budget, report);
  refuse_empty_gate(report, base.has_value());
  if (options.update) return update(report, subject);
  const bool nothing_to_say = options.quiet_if_unchanged && is_unchanged(report);
  for (const CheckFile& file : files)
    write_check_file(file, nothing_to_say && file.format == CheckFormat::md
                               ? ""
                               : render(report, file.format, file_style(options.output), options.output));
  std::string warnings;
  if (!options.output.quiet)
    for (const std::string& warning : report.warnings) warnings += "warning: " + printable_text(warning) + "\n";
  if (format == CheckFormat::github) {
    write_stdout(github_log(warnings + check_text(report, style)) + render(report, format, style, options.output));
  } else {
    write_stderr(warnings);
    write_stdout(render(report, format, style, options.output));
  }
  const bool clean = !options.run.strict || report.warnings.empty() || fail_on == FailOn::none;
  return std::max(exit_code_of(report, fail_on), clean ? 0 : 1);
}

// A check plans data parallelism and experts of several GPUs: what else plan takes is neither in --help nor accepted.
constexpr const char* kOthersOfGpus[] = {
    "--cp",       "--wrap",       "--no-reshard", "--bucket-view", "--find-unused-parameters", "--tp", "--deepspeed",
    "--megatron", "--accelerate", "--pp",         "--pp-schedule"};

void add_gpus(CLI::App& command, SeveralGpusOptions& several) {
  add_several_gpus_options(command, several);
  for (const char* other : kOthersOfGpus) command.get_option(other)->group("");
}

void refuse_others_of_gpus(const CLI::App& command) {
  for (const char* other : kOthersOfGpus)
    if (command.count(other) > 0)
      throw Error(std::string(other) + " is not for a check, which plans data parallelism and experts",
                  ErrorKind::usage)
          .help("gpuplan plan takes it");
}

void add_limits(CLI::App& command, LimitOptions& limits) {
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    command.add_option(names, value, text)->type_name(type)->group("Limits for one model, without gpuplan.yaml");
  };
  add("--max-peak", limits.max_peak, "SIZE", "Limit on peak allocated memory, such as 8GiB");
  add("--max-reserved", limits.max_reserved, "SIZE", "Limit on the memory that PyTorch reserves");
  add("--max-device", limits.max_device, "SIZE", "Limit on total device memory");
  add("--max-params", limits.max_params, "N", "Limit on the number of parameters, such as 26M");
  add("--max-flop", limits.max_flop, "FLOP", "Limit on the FLOPs of a step, such as 2TFLOP");
  add("--max-time", limits.max_time, "TIME", "Limit on the time of a step on --gpu, such as 120ms");
  add("--max-cost", limits.max_cost, "PRICE",
      "Limit on the price of a million samples on --gpu, such as '0.5 USD/Msample'");
  add("--max-growth", limits.max_growth, "PERCENT|SIZE", "Limit on the growth of the peak since --base, such as 5%");
  command.add_option("--fits", limits.fits, "GPUs that the step must fit")
      ->type_name("GPU,...")
      ->delimiter(',')
      ->group("Limits for one model, without gpuplan.yaml");
}

}  // namespace

void add_check_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* const command =
      app.add_subcommand("check", "Checks the budgets in gpuplan.yaml; exit code 1 if one is broken");
  add_run_options(*command, options->run);
  add_margin_option(*command, options->run);
  add_gpus(*command, options->several);
  command->get_option("model")->description("Checks to run, by name or glob (all); with --max-..., a model");
  command->add_option("names", options->names, "More checks")->type_name("NAME");
  command->add_option("--base,--baseline", options->base, "Commit or report to measure growth against (none)")
      ->type_name("auto|REF|FILE.json");
  command->add_flag("--no-base", options->no_base, "Checks absolute limits only, as without --base");
  command->add_flag("--allow-broken-base", options->allow_broken_base,
                    "Skips growth limits where the base cannot be read, instead of failing");
  command->add_option("--config", options->config, "Budget file (gpuplan.yaml, in this folder or one above)")
      ->type_name("FILE");
  command->add_flag("--trust-code", options->trusts_code, "Runs the code of models named FILE.py:CALLABLE");
  command->add_flag("--update", options->update, "Changes broken limits to today's figures, and shows the edit");
  command->add_option("--fail-on", options->fail_on, "What makes the exit code 1 (error: a broken limit)")
      ->type_name("error|warn|growth|none");
  command->add_flag("--exit-zero", options->exit_zero,
                    "Exits with 0 even if a budget is broken; same as --fail-on none");
  command->add_flag("--quiet-if-unchanged", options->quiet_if_unchanged,
                    "Writes empty Markdown files if nothing changed since the base");
  add_limits(*command, options->limits);
  add_output_options(*command, options->output);
  command->get_option("--format")->type_name("table|json|md|html|github|gitlab|junit|sarif|openmetrics");
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command);
    refuse_others_of_gpus(*command);
    exit_code = run_check(*options);
  });
}

}  // namespace gpuplan
