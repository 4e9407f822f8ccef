// gpuplan shadow -- COMMAND: runs any program as if it had a GPU, and says what the GPU's memory would have done.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>

#include "estimator/report/memory_page.h"
#include "estimator/report/rent_job.h"
#include "estimator/snapshot/snapshot_history.h"
#include "tools/answers/plan_page.h"
#include "tools/answers/report_page.h"
#include "tools/answers/snapshot_input.h"
#include "tools/commands/commands.h"
#include "tools/commands/learn.h"
#include "tools/files/read_input.h"
#include "tools/files/write_file.h"
#include "tools/importers/import.h"
#include "tools/options/kept_file.h"
#include "tools/options/run_options.h"
#include "tools/options/shadow_options.h"
#include "tools/process/environment.h"
#include "tools/process/version.h"
#include "validate/shadow/host/directories.h"
#include "validate/shadow/host/guard.h"
#include "validate/shadow/host/inspect_program.h"
#include "validate/shadow/host/launch.h"
#include "validate/shadow/host/progress.h"
#include "validate/shadow/host/run_words.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFound = 127, kNotExecutable = 126;  // as env, nohup, timeout and every shell say it

constexpr const char* kShadowHelp =
    "Runs a command on a simulated CUDA runtime, and reports how much GPU memory it would have used.\n"
    "\n"
    "  gpuplan shadow --gpu h100 -- python train.py --epochs 1\n"
    "  gpuplan shadow --gpu t4 --until-stable --max-peak 12GiB -o report.json -- python train.py\n"
    "  gpuplan shadow --gpus 8 -- torchrun --nproc-per-node 8 train.py\n"
    "  gpuplan shadow --gpu h100 --world 1024 -- python train.py\n"
    "  gpuplan shadow --learn model.trace --vary batch=4,8,12 -- python train.py --batch-size {batch}\n"
    "\n"
    "The command's own output is passed through unchanged. The report follows it, as a table on standard error; with\n"
    "--format json, csv or md it is on standard output. -o writes the report to files.\n"
    "\n"
    "The exit code is the command's own (128 + N after signal N). If that is 0, it is 1 if the command ran out of\n"
    "memory, even if it caught the error, or exceeded --max-peak. 2: invalid command line. 4: a problem with the\n"
    "environment, such as a torch without CUDA. 126, 127: the command cannot be executed, or does not exist.";

void say(const std::string& text) { write_stderr("gpuplan shadow: " + text + "\n"); }

void refuse_words(const ShadowOptions& options) {
  const auto example = [](const std::string& words) { return "for example: gpuplan shadow --gpu h100 -- " + words; };
  if (!options.stray_words.empty())
    throw Error("the command must come after --, but \"" + options.stray_words[0] + "\" comes before it",
                ErrorKind::usage)
        .help(example(options.stray_words[0] + " ..."));
  if (options.command.empty() || options.command[0].empty())
    throw Error("no command to run", ErrorKind::usage).help(example("python train.py"));
}

// The reasons why the runtime cannot stand in for the program's, before anything runs.
void refuse_linkage(const fs::path& program) {
  const shadow::Linkage linkage = shadow::linkage_of(program);
  if (linkage == shadow::Linkage::static_cudart)
    throw Error(
        program.string() + " has the CUDA runtime linked in (libcudart_static), and no symbols by which to replace it",
        ErrorKind::environment)
        .help("do not strip it, or build it with nvcc -cudart shared");
  if (linkage == shadow::Linkage::static_program)
    throw Error(program.string() + " is linked statically: no library of it can be replaced", ErrorKind::environment);
}

fs::path runtime_folder() {
  if (const auto folder = shadow::find_runtime()) {
    if (folder->string().find_first_of(":;") == std::string::npos) return *folder;
    throw Error("the runtime lies in " + folder->string() + ", and the dynamic linker takes : and ; for separators",
                ErrorKind::environment);
  }
  throw Error("the runtime (libgpuplan_shadow.so) is neither beside this program nor under its lib/gpuplan/shadow",
              ErrorKind::environment)
      .help("build it: cmake --build build --target gpuplan_shadow_libraries; or install the whole package");
}

bool wants_page(const ShadowOptions& options) {
  const std::vector<OutputFile> files = files_of(options.output);
  return format_of(options.output) == Format::html ||
         std::ranges::find(files, Format::html, &OutputFile::format) != files.end();
}

std::vector<std::string> environment_variables() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

// Runs the command in a session, and reads what it left there.
struct Finished {
  shadow::Ending ending;
  shadow::SessionRecord session;
  std::vector<std::string> memories;  // for a page
  std::optional<Error> unwritten;     // of --launches and --snapshot: the report comes first
};

// The session's files that begin so, in the order of their names.
std::vector<fs::path> files_called(const std::string& session, const std::string& start) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(session))
    if (entry.path().filename().string().starts_with(start)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void for_each_part(const fs::path& file, const std::function<void(std::string_view)>& take) {
  InputReader input(file.string());
  std::array<char, 1 << 16> part;
  while (const std::size_t size = input.read(part.data(), part.size())) take({part.data(), size});
}

// The lines of every process, with the process in front.
void collect_launches(const std::string& session, const std::string& name) {
  write_file(name, [&](const auto& write) {
    for (const fs::path& file : files_called(session, "launches.")) {
      const std::string process = file.stem().extension().string().substr(1) + '\t';
      bool line_begins = true;
      for_each_part(file, [&](std::string_view part) {
        std::string text;
        for (const char c : part) {
          if (line_begins) text += process;
          text += c;
          line_begins = c == '\n';
        }
        write(text);
      });
      if (!line_begins) write("\n");
    }
  });
}

// What PyTorch's hook has written: of several ranks one each, "run.rank3.pickle".
void collect_snapshots(const std::string& session, const ShadowOptions& options) {
  for (const fs::path& file : files_called(session, "snapshot")) {
    const fs::path name = options.snapshot;
    const std::string rank = file.extension().string();
    const std::string place = (name.parent_path() / (name.stem().string() + rank + name.extension().string())).string();
    refuse_to_replace("--snapshot", place, options.output.force, describe(FileKind::pickle));
    write_file(place, [&](const auto& write) { for_each_part(file, write); });
  }
}

// What a page shows of the history that PyTorch's hook has written, the GPUs of each rank.
std::vector<std::string> memories_of(const std::string& session) {
  std::vector<std::string> memories;
  std::size_t bytes = 0;
  for (const fs::path& file : files_called(session, "snapshot")) {
    const Snapshot snapshot = open_snapshot(file.string());
    const std::string rank = file.extension().string();
    for (std::size_t device = 0; device < snapshot.devices() && bytes <= kMostMemory; ++device) {
      if (!was_used(snapshot, device)) continue;
      const std::string name = (rank.empty() ? "" : rank.substr(1) + ", ") + "GPU " + std::to_string(device);
      bytes += memories.emplace_back(memory_page_json(name, snapshot, device, PagePart::all)).size();
    }
  }
  return memories;
}

Finished run_in_session(const fs::path& program, const std::vector<std::string>& command, const ShadowOptions& options,
                        const ShadowRun& run) {
  const fs::path runtime = runtime_folder();
  try {
    const shadow::SessionDirectory session(run.settings);
    const shadow::Guard guard(session.path());
    shadow::Progress progress(session.path());
    const bool watched = isatty(STDERR_FILENO) == 1 && !options.output.quiet;
    const auto tick = [&] {
      const std::string line = watched ? progress.line() : "";
      if (!line.empty()) say(line);
    };
    Finished finished;
    finished.ending = shadow::run_command(
        program, command, shadow::session_environment(environment_variables(), runtime, session.path(), run.settings),
        tick);
    finished.session = shadow::read_session(session.path());
    try {
      if (!options.launches.empty()) collect_launches(session.path(), options.launches);
      if (!options.snapshot.empty()) collect_snapshots(session.path(), options);
      if (wants_page(options)) finished.memories = memories_of(session.path());
    } catch (const Error& error) {
      finished.unwritten = error;
    }
    return finished;
  } catch (const std::system_error& error) {
    throw Error(std::string("cannot run it: ") + error.what(), ErrorKind::environment);
  }
}

std::string page_of(const shadow::RunReport& report, const ShadowOptions& options, std::vector<std::string> memories) {
  TextStyle brief;
  brief.brief = true;
  ReportParts parts = {.text = shadow::run_text(report, file_style(options.output)),
                       .json = shadow::run_json(report, kVersion),
                       .verdict = shadow::run_text(report, brief),
                       .good = report.exit_code == 0,
                       .notes = shadow::unknown_words(report),
                       .drawings = {},
                       .memories = std::move(memories),
                       .memory_first = true};
  keep_what_a_page_holds(parts);
  return report_page(std::move(parts), options.output);
}

std::string render(const shadow::RunReport& report, Format format, const TextStyle& style, const ShadowOptions& options,
                   const std::vector<std::string>& memories) {
  switch (format) {
    case Format::json: return shadow::run_json(report, kVersion);
    case Format::csv: return shadow::run_csv(report);
    case Format::md: return shadow::run_md(report);
    case Format::html: return page_of(report, options, memories);
    case Format::svg:
    case Format::table: break;
  }
  return shadow::run_text(report, style);
}

// A problem that ended the command has been said by whoever met it: a table of nothing would not add to it.
bool only_a_problem(const shadow::RunReport& report) {
  const bool fatal = std::any_of(report.problems.begin(), report.problems.end(), [](const auto& p) { return p.code; });
  return fatal && report.ranks.empty();
}

int run_shadow(const ShadowOptions& options) {
  refuse_words(options);
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  refuse_unwritable(files);
  const bool to_stderr = format == Format::table;
  const TextStyle style = terminal_style(options.output, to_stderr ? STDERR_FILENO : STDOUT_FILENO);
  ShadowRun run = shadow_run(options);
  if (wants_page(options)) {
    if (!options.learn.empty())
      throw Error("--learn writes a trace; a page is made of it by gpuplan plan", ErrorKind::usage)
          .help("gpuplan " + options.learn + " -o report.html");
    if (run.settings.snapshot.empty()) run.settings.snapshot = shadow::kHistoryOfPage;  // the hook keeps its history
  }
  if (!options.learn.empty()) learned_variables(options);  // before anything runs

  const std::string& name = options.command[0];
  std::string path = environment("PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  if (const auto folder = shadow::find_runtime()) path = (*folder / "bin").string() + ":" + path;  // with nvidia-smi
  const shadow::FoundProgram program = shadow::find_program(name, path);
  if (program.path.empty()) {
    const bool in_path = name.find('/') == std::string::npos;
    say("no such command: " + name + (in_path ? did_you_mean(name, shadow::program_names(path)) : ""));
    return kNotFound;
  }
  if (!program.executable) {
    say(program.path.string() + " cannot be executed");
    return kNotExecutable;
  }
  refuse_linkage(program.path);
  if (!options.output.quiet)
    for (const std::string& warning : run.warnings) write_stderr("warning: " + warning + "\n");

  if (!options.learn.empty())
    return learn(options, run, [&](const std::vector<std::string>& command) -> CommandRun {
      Finished finished = run_in_session(program.path, command, options, run);
      return {finished.ending, std::move(finished.session)};
    });
  Finished finished = run_in_session(program.path, options.command, options, run);
  finished.session.unknown.insert(finished.session.unknown.end(), run.assumed.begin(), run.assumed.end());
  const shadow::RunReport report = shadow::make_run_report(finished.session, {.gpu = run.gpu,
                                                                              .settings = run.settings,
                                                                              .command = options.command,
                                                                              .ending = finished.ending,
                                                                              .max_peak_bytes = run.max_peak_bytes,
                                                                              .catalog = gpu_table()});
  if (to_stderr && !only_a_problem(report)) write_stderr("\n" + render(report, format, style, options, {}));
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(options.output), options, finished.memories));
  if (!to_stderr) write_stdout(render(report, format, style, options, finished.memories));
  if (finished.unwritten) throw *finished.unwritten;
  return report.exit_code;
}

}  // namespace

void add_shadow_command(CLI::App& app, int& exit_code, std::vector<std::string> words) {
  const auto options = std::make_shared<ShadowOptions>();
  options->command = std::move(words);
  CLI::App* const command =
      app.add_subcommand("shadow", "Runs any command as if it had a GPU, and reports the memory it would use");
  add_shadow_options(*command, *options);
  command->footer(kShadowHelp);
  options->output.has_page = true;
  command->get_option("--format")->type_name("table|json|csv|md|html");
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command) + " --";
    for (const std::string& word : options->command) options->output.command += " " + shell_word(word);
    exit_code = run_shadow(*options);
  });
}

}  // namespace gpuplan
