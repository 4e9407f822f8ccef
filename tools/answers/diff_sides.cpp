#include "tools/answers/diff_sides.h"

#include <filesystem>

#include "estimator/report/memory_page.h"
#include "estimator/report/read_figures.h"
#include "estimator/snapshot/snapshot_report.h"
#include "tools/answers/snapshot_input.h"
#include "tools/answers/trace_plan.h"
#include "tools/git/base.h"
#include "tools/git/commit.h"
#include "tools/git/repository.h"
#include "tools/options/commit_model.h"
#include "tools/options/learned_trace_input.h"
#include "tools/process/environment.h"
#include "tools/process/read_source.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWorkingTree = "working tree";
constexpr const char* kExample = "for example: gpuplan diff main -- model.yaml -b 8, or gpuplan diff old.yaml new.yaml";

RunOptions with_model(RunOptions run, const NamedFile& model) {
  run.model = model.name;
  run.piped = model.piped;
  return run;
}

bool is_saved(const NamedFile& input) { return is_saved_plan(start_of(input)); }
bool is_saved(const std::string& file) { return is_saved({file, nullptr}); }

void read_saved(const Source& source, OpenSide& open) {
  SavedFigures saved = read_figures(source);
  open.side.figures = std::move(saved.figures);
  if (saved.version != kVersion)
    open.warning = source.name + " was written by gpuplan " +
                   (saved.version.empty() ? "of unknown version" : saved.version) + ", and this is " +
                   std::string(kVersion) + ": differences may come from the program, not the model";
}

OpenSide saved_side(const NamedFile& input) {
  OpenSide open;
  open.side.name = open.side.file = input.name;
  read_saved(*text_of(input), open);
  return open;
}

// Its memory at the values of the flags: a trace has no layers.
void read_trace(const Source& source, const RunOptions& run, OpenSide& open) {
  const SweepFigures trace = trace_figures(source, run).figures;
  Figures& figures = open.side.figures.emplace();
  figures.model = source.name;
  if (!run.batch.empty()) figures.run = {{"batch", run.batch}};
  figures.allocated_bytes = trace.allocated_bytes;
  figures.reserved_bytes = trace.reserved_bytes;
  figures.device_bytes = trace.device_bytes;
  complete(figures.categories, trace.allocated_bytes);
  complete(figures.modules, trace.allocated_bytes);
  open.is_trace = true;
}

// Of the GPU of the process that took most.
SnapshotReport fullest_of(const Snapshot& snapshot, const std::vector<SnapshotLine>& lines) {
  std::optional<SnapshotReport> most;
  for (std::size_t device = 0; device < snapshot.devices(); ++device) {
    SnapshotReport report = report_of(snapshot, device, lines);
    if (!most || report.history.peak.allocated_bytes > most->history.peak.allocated_bytes) most = std::move(report);
  }
  if (!most) throw Error(snapshot.name + " has no history of a GPU");
  return *std::move(most);
}

// By life, phase, line and allocation: what a snapshot has of the peak.
void tell_parts(const SnapshotReport& report, const std::vector<SnapshotLine>& lines, Figures& figures) {
  figures.categories.clear();
  figures.modules.clear();
  for (std::size_t k = 0; k < report.kinds.size(); ++k)
    figures.categories.push_back({name_of(static_cast<SnapshotKind>(k)), report.kinds[k]});
  for (const SnapshotShare& share : report.alive) figures.modules.push_back({share.text, share.bytes});
  for (const SnapshotPhase& phase : report.phases) figures.phases.push_back({phase.name, phase.peak_bytes});
  for (const SnapshotTensor& t : report.history.tensors)
    if (t.alive_after(report.history.peak_event))
      figures.tensors.push_back({lines[t.stack].text, t.requested_bytes > 0 ? t.requested_bytes : t.bytes});
  complete(figures.categories, figures.allocated_bytes);
  complete(figures.modules, figures.allocated_bytes);
}

void read_recorded_run(Snapshot snapshot, OpenSide& open) {
  const std::vector<SnapshotLine> lines = lines_of(snapshot);
  const SnapshotReport report = fullest_of(snapshot, lines);
  open.is_snapshot = true;
  Figures& figures = open.side.figures.emplace();
  figures.model = snapshot.name;
  figures.allocated_bytes = report.history.peak.allocated_bytes;
  figures.reserved_bytes = report.history.peak.reserved_bytes;
  figures.device_bytes = figures.reserved_bytes + kAssumedContextBytes;
  tell_parts(report, lines, figures);
  if (const std::string doubt = doubt_about(report.history); !doubt.empty())
    open.warning = snapshot.name + ": " + doubt;
  open.snapshot = std::move(snapshot);
}

OpenSide snapshot_side(const std::string& file) {
  OpenSide open;
  open.side.name = open.side.file = file;
  read_recorded_run(open_snapshot(file), open);
  return open;
}

OpenSide file_side(const std::string& file, const RunOptions& run) {
  if (is_snapshot(file)) return snapshot_side(file);
  const NamedFile input = open_input(file);
  if (is_saved(input)) return saved_side(input);
  OpenSide open;
  open.side.name = open.side.file = file;
  if (is_learned_trace(input))
    read_trace(*text_of(input, kTraceLimit), run, open);
  else
    open.written = open_model(with_model(run, input));
  return open;
}

// A model of Hugging Face's is a folder; what a commit has of it is its configuration.
std::string file_of(const std::string& model) {
  const fs::path config = fs::path(model) / "config.json";
  std::error_code ignored;
  return fs::is_directory(model, ignored) && exists(config.string()) ? config.string() : model;
}

class GitSides {
 public:
  GitSides(const DiffWords& words, const std::string& model, const RunOptions& run)
      : words_(words), model_(file_of(model)), run_(run) {
    if (model_.empty()) throw Error("the model after -- is empty", ErrorKind::usage).help(kExample);
    if (model_ == "-" || model_.starts_with("zoo:"))
      throw Error(model_ + " is not a file, so no commit contains it", ErrorKind::usage).help(kExample);
  }

  OpenSides open() {
    const std::string first = words_.sides.empty() ? "auto" : words_.sides[0];
    const std::string second = words_.sides.size() < 2 ? "" : words_.sides[1];
    const bool base_is_saved = first != "auto" && is_saved(first), now_is_saved = !second.empty() && is_saved(second);
    if (base_is_saved && now_is_saved)
      throw Error("two saved plans are compared without a model", ErrorKind::usage)
          .help("gpuplan diff " + first + " " + second);
    OpenSides sides;
    std::string now_commit;
    if (now_is_saved) {
      sides.now = saved_side({second, nullptr});
    } else if (!second.empty()) {
      now_commit = git::require_commit(repository(), second);
      sides.now.side = commit_side(now_commit, second);
    }
    sides.base = base_is_saved ? saved_side({first, nullptr}) : base_side(first, now_commit);
    if (!now_is_saved && second.empty()) sides.now = working_tree();
    if (!now_commit.empty()) read(sides.now, "");
    refuse_nowhere(sides);
    return sides;
  }

 private:
  const fs::path& repository() {
    if (!repository_) repository_ = git::repository_of(model_);
    if (repository_) return *repository_;
    throw Error(model_ + " is not in a git repository", ErrorKind::environment)
        .help("without git, compare two files: gpuplan diff OLD NEW");
  }

  static DiffSide commit_side(const std::string& commit, const std::string& name) {
    DiffSide side;
    side.commit = commit;
    side.name = git::short_id(commit);
    if (!commit.starts_with(name)) side.rule = name;  // what it was called
    return side;
  }

  OpenSide base_side(const std::string& name, const std::string& now_commit) {
    OpenSide open;
    if (words_.merge_base || name == "auto") {
      const git::Base base = words_.merge_base && name != "auto" ? git::merge_base_with(repository(), name)
                                                                 : git::find_base(repository(), "auto", environment);
      open.side = commit_side(base.commit, base.commit);
      open.side.rule = base.rule;
    } else {
      open.side = commit_side(git::require_commit(repository(), name), name);
    }
    read(open, now_commit);
    return open;
  }

  // The model as the side's commit has it, under the name that it had there.
  void read(OpenSide& open, const std::string& compared_with) {
    open.files = std::make_shared<git::CommitFiles>(repository(), open.side.commit, compared_with);
    const std::string path = git::path_in_repository(repository(), model_);
    const auto file = open.files->find(path);
    if (!file) return;
    open.side.file = file->path;
    open.side.renamed = file->path != path;
    if (is_pickle_text(file->source->text))
      read_recorded_run(file->whole.empty() ? snapshot_in(*file->source) : open_snapshot(file->whole), open);
    else if (is_trace_text(file->source->text))
      read_trace(file->whole.empty() ? *file->source : *read_file_source(file->whole, kTraceLimit), run_, open);
    else if (is_saved_plan(file->source->text))
      read_saved(*file->source, open);
    else
      open.written = open_model_at(*open.files, *file, run_);
  }

  OpenSide working_tree() const {
    OpenSide open;
    open.side.name = kWorkingTree;
    if (!exists(model_)) return open;
    open.side.file = model_;
    if (is_snapshot(model_))
      read_recorded_run(open_snapshot(model_), open);
    else if (is_saved(model_))
      read_saved(*read_file_source(model_), open);
    else if (is_learned_trace({model_, nullptr}))
      read_trace(*read_file_source(model_, kTraceLimit), run_, open);
    else
      open.written = open_model(with_model(run_, {model_, nullptr}));
    return open;
  }

  void refuse_nowhere(const OpenSides& sides) const {
    const auto is_there = [](const OpenSide& open) { return open.written || open.side.figures; };
    if (is_there(sides.base) || is_there(sides.now)) return;
    if (sides.now.side.commit.empty()) (void)open_model(with_model(run_, {model_, nullptr}));  // says what is near
    throw Error("there is no " + model_ + " at " + sides.base.side.name + " and none at " + sides.now.side.name);
  }

  const DiffWords& words_;
  std::string model_;
  RunOptions run_;
  std::optional<fs::path> repository_;
};

// Without --, words are files: a commit among them is most likely meant as one.
void refuse_commits(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (exists(word) || word == "-" || word.starts_with("zoo:")) continue;
    const std::optional<fs::path> repository = git::repository_of(".");
    if (repository && !word.starts_with('-') && git::commit_called(*repository, word))
      throw Error(word + " is a commit, and no model is given", ErrorKind::usage)
          .help("the model goes after --: gpuplan diff " + word + " -- model.yaml");
  }
}

}  // namespace

void compare_by_life(OpenSide& planned, Figures& recorded) {
  Figures& figures = *planned.side.figures;
  const std::vector<SnapshotLine> lines = lines_of(*planned.snapshot);
  tell_parts(report_of(*planned.snapshot, 0, lines), lines, figures);
  for (Figures* const side : {&figures, &recorded}) {
    side->modules.clear();
    side->parameters.reset();
    side->step_flops.reset();
    side->step_nanoseconds.reset();
    side->module_parameters.clear();
    side->module_flops.clear();
    side->run.clear();
  }
}

std::string memory_of(const OpenSide& side) {
  if (!side.snapshot) return "";
  const std::size_t device = side.is_snapshot ? fullest_of(*side.snapshot, lines_of(*side.snapshot)).device : 0;
  return memory_page_json(side.side.name, *side.snapshot, device,
                          side.is_snapshot ? PagePart::peak_step : PagePart::last_step);
}

OpenSides open_sides(const DiffWords& words, const RunOptions& run) {
  if (words.sides.size() > 2)
    throw Error("unexpected argument: \"" + words.sides[2] + "\"", ErrorKind::usage).help(kExample);
  if (words.model) return GitSides(words, *words.model, run).open();
  if (words.sides.empty()) throw Error("nothing to compare", ErrorKind::usage).help(kExample);
  refuse_commits(words.sides);
  if (words.sides.size() == 1) {
    if (is_saved(words.sides[0]))
      throw Error("a saved plan is compared with another one, or with a model", ErrorKind::usage)
          .help("gpuplan diff " + words.sides[0] + " model.yaml -b 8");
    const DiffWords with_base{{}, words.sides[0], words.merge_base};
    return GitSides(with_base, words.sides[0], run).open();
  }
  if (words.merge_base) throw Error("--merge-base needs commits, but files are compared", ErrorKind::usage);
  if (words.sides[0] == "-" && words.sides[1] == "-")
    throw Error("standard input can be read only once", ErrorKind::usage);
  return {file_side(words.sides[0], run), file_side(words.sides[1], run)};
}

}  // namespace gpuplan
