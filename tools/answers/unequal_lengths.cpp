#include "tools/answers/unequal_lengths.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "estimator/device/arithmetic.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/warnings.h"
#include "estimator/report/lengths_report.h"
#include "estimator/search/workers.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"
#include "tools/answers/planning.h"
#include "tools/importers/given_mask.h"
#include "tools/options/commit_model.h"
#include "tools/process/progress_line.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

Error refused_of_lengths(const std::string& flag, const std::string& why) {
  return Error(flag + " with --seq-lengths: " + why, ErrorKind::usage);
}

void refuse_others(const RunOptions& o, const RunConfig& run) {
  if (!o.seq.empty())
    throw refused_of_lengths("--seq " + o.seq, "the lengths say how long each batch is").help("leave it out");
  if (!o.step.empty()) throw refused_of_lengths("--step " + o.step, "every step is planned").help("leave it out");
  if (run.mode == Mode::infer) throw refused_of_lengths("--mode infer", "a loop is planned for training");
  if (run.allocator != AllocatorKind::caching)
    throw refused_of_lengths("--allocator " + o.allocator,
                             "what the steps leave behind is PyTorch's caching allocator's");
}

// The steps of batches, made when they are asked for. Several threads may ask at once.
class BatchSteps {
 public:
  /// `padded`: some batch has padding, which a data collator's attention_mask tells the model.
  BatchSteps(const RunOptions& options, const Planning& planning, bool padded)
      : written_(open_model(options)), planning_(planning), gpu_(planning.gpu ? *planning.gpu : assumed_gpu()) {
    const auto is_padded = [](const Variable& v) { return v.name == kPadded; };
    const bool asked = std::ranges::any_of(written_.options.set, is_padded);
    if (std::shared_ptr<const Source> masked = padded && !asked ? with_attention_mask(*written_.source) : nullptr)
      written_.source = std::move(masked);
    masks_ = std::ranges::any_of(read_model(written_.source, of_length(1)).vars, is_padded);
    chooses_ = masks_ && !asked;
  }

  struct Made {
    Model model;
    RankStep step;
  };

  std::shared_ptr<const Made> at(const StepBatch& batch) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto known = made_.find(batch); known != made_.end()) return known->second;
    }
    const auto made = std::make_shared<Made>();
    SpecOptions options = of_length(batch.tokens);
    if (chooses_) options.set.push_back({std::string(kPadded), batch.padded ? 1 : 0});
    made->model = read_model(written_.source, options);
    RunConfig run = planning_.run;
    run.batch = batch.samples;
    made->step = make_step(made->model, make_catalog(), run, gpu_);
    const std::scoped_lock lock(mutex_);
    if (made_.size() >= kMostKept) made_.clear();  // those in use stay with their users
    return made_.emplace(batch, made).first->second;
  }

  bool masks() const { return masks_; }
  std::vector<std::string> stored_type_warning(const RunOptions& options) const {
    return about_stored_type(written_.stored_type, options);
  }

 private:
  static constexpr std::string_view kPadded = "padded";  // the variable of a spec that has an attention_mask
  static constexpr std::size_t kMostKept = 256;

  SpecOptions of_length(std::int64_t tokens) const {
    SpecOptions options = written_.options;
    options.set.push_back({"seq", tokens});
    return options;
  }

  WrittenModel written_;
  const Planning& planning_;
  const Gpu gpu_;
  bool masks_ = false, chooses_ = false;
  std::mutex mutex_;
  std::map<StepBatch, std::shared_ptr<const Made>> made_;
};

struct ReplayedSteps {
  std::vector<StepReading> steps;
  LimitedReplay limited;
};

// `told` is called after each step.
ReplayedSteps replay(BatchSteps& made, const std::vector<StepBatch>& batches, const RunConfig& run,
                     std::int64_t bytes = INT64_MAX, const std::function<void()>& told = {}) {
  ReplayedSteps replayed;
  const NextStep next = [&](int i) {
    const std::shared_ptr<const BatchSteps::Made> step = made.at(batches[static_cast<std::size_t>(i)]);
    return std::shared_ptr<const RankStep>(step, &step->step);
  };
  replayed.limited =
      replay_each_within(bytes, run, static_cast<int>(batches.size()), next, [&](int, const StepReading& step) {
        replayed.steps.push_back(step);
        if (told) told();
      });
  return replayed;
}

struct Variant {
  std::string what, flags;
  std::vector<StepBatch> batches;
  RunConfig run;
};

std::vector<Variant> variants_of(const LengthsReport& r) {
  constexpr const char* kExpandable = "expandable_segments:True";
  const std::int64_t batch = r.run.batch, longest = *std::ranges::max_element(r.lengths);
  std::vector<Variant> all;
  const auto add = [&](std::string what, std::string flags, std::vector<StepBatch> batches) {
    all.push_back({std::move(what), std::move(flags), std::move(batches), r.run});
  };
  add("as they come", "", r.batches);
  if (!parse_alloc_conf(r.run.alloc_conf).expandable_segments) {
    add(kExpandable, std::string("--alloc-conf ") + kExpandable, r.batches);
    all.back().run.alloc_conf += (r.run.alloc_conf.empty() ? "" : ",") + std::string(kExpandable);
  }
  add("the longest batch first", "", longest_first(r.batches));
  if (batch > 1) add("grouped by length", "", batches_of(grouped_by_length(r.lengths, batch), batch));
  for (const std::int64_t multiple : {64, 256})
    if (multiple < longest)
      add("padded to multiples of " + std::to_string(multiple), "", padded_to_multiples(r.batches, multiple, longest));
  add("all padded to " + std::to_string(longest), "", padded_to_multiples(r.batches, longest, longest));
  return all;
}

OtherLoop loop_of(const Variant& v, const ReplayedSteps& replayed, const LengthsReport& r) {
  OtherLoop loop{v.what, v.flags, 0, 0, padding_share(r.lengths, v.batches)};
  for (const StepReading& s : replayed.steps) {
    loop.allocated_bytes = std::max(loop.allocated_bytes, s.peak.allocated_bytes);
    loop.reserved_bytes = std::max(loop.reserved_bytes, s.peak.reserved_bytes);
  }
  return loop;
}

void replay_all(BatchSteps& made, bool shows_progress, LengthsReport& r) {
  const std::vector<Variant> variants = variants_of(r);
  r.others.resize(variants.size());
  ProgressLine progress(shows_progress);
  std::atomic<std::size_t> done{0};
  const std::size_t all = variants.size() * r.batches.size();
  const std::thread::id shown_by = std::this_thread::get_id();
  const auto told = [&] {
    ++done;
    if (std::this_thread::get_id() == shown_by && progress.due())
      progress.show("planned " + std::to_string(done) + " of " + std::to_string(all) + " steps");
  };
  run_on_workers(variants.size(), cores(), [&](std::size_t i) {
    ReplayedSteps replayed = replay(made, variants[i].batches, variants[i].run, INT64_MAX, told);
    r.others[i] = loop_of(variants[i], replayed, r);
    if (i == 0) r.steps = std::move(replayed.steps);
  });
}

void tell_peak(BatchSteps& made, const Planning& planning, LengthsReport& r) {
  const std::size_t peak = r.peak_step();
  const auto step = made.at(r.batches[peak]);
  const PeakPlace& at = r.steps[peak].at;
  const std::string phase(name_of(at.phase)), place = where(step->step, at);
  r.peak_place = place.empty() || place == phase ? phase : phase + " of " + place;
  r.context_bytes = context_bytes(r.run, step->step.gpu);
  r.context_confidence = context_confidence(r.run, step->step.gpu);
  if (r.fits() || !planning.gpu) return;
  const std::int64_t room = std::max<std::int64_t>(usable_bytes(*planning.gpu) - r.context_bytes, 0);
  const LimitedReplay limited = replay(made, r.batches, r.run, room).limited;
  const std::size_t failed = limited.training_step < 0 ? 0 : static_cast<std::size_t>(limited.training_step);
  r.within_memory = within_memory(made.at(r.batches[failed])->step, limited);
}

void tell_assumptions(const BatchSteps& made, LengthsReport& r) {
  if (std::ranges::none_of(r.batches, [](const StepBatch& b) { return b.padded; })) return;
  r.assumptions.emplace_back(made.masks()
                                 ? "an attention_mask tells the model what is padding"
                                 : "the model is given no attention_mask, with which attention would keep more");
}

std::string render(const LengthsReport& report, Format format, const TextStyle& style) {
  switch (format) {
    case Format::json: return lengths_json(report, kVersion);
    case Format::csv: return lengths_csv(report);
    default: return lengths_text(report, style);
  }
}

void refuse_formats(const OutputOptions& output) {
  std::vector<OutputFile> wanted = files_of(output);
  wanted.push_back({format_of(output), ""});
  for (const OutputFile& file : wanted)
    if (file.format == Format::md)
      throw Error("a loop is printed as a table, as JSON or as CSV", ErrorKind::usage)
          .help("--format table, json or csv");
}

}  // namespace

LengthsReport unequal_lengths(const RunOptions& options, const LengthsOptions& lengths, bool shows_progress) {
  const Planning planning = prepare_run(options);
  refuse_others(options, planning.run);
  SampleLengths samples = sample_lengths(lengths, planning.run.batch);
  if (planning.gpu) refuse_arithmetic(planning.run, *planning.gpu);
  LengthsReport r;
  r.run = planning.run;
  r.gpu = planning.gpu;
  r.margin = planning.margin;
  r.source = std::move(samples.words);
  r.lengths = std::move(samples.samples);
  r.batches = batches_of(r.lengths, r.run.batch);
  r.padding = padding_share(r.lengths, r.batches);
  BatchSteps made(options, planning, std::ranges::any_of(r.batches, &StepBatch::padded));
  replay_all(made, shows_progress, r);
  tell_peak(made, planning, r);
  tell_assumptions(made, r);
  const auto longest = made.at(r.batches[r.peak_step()]);
  r.model = longest->model.name;
  if (!longest->model.sources.empty()) r.file = longest->model.sources.front()->name;
  r.warnings = warnings_about(longest->model, longest->step.graph, r.run, planning.gpu ? &*planning.gpu : nullptr);
  for (std::string& warning : made.stored_type_warning(options)) r.warnings.push_back(std::move(warning));
  if (planning.gpu_is_limit) r.warnings.emplace_back(kOnlyALimit);
  return r;
}

int print_unequal_lengths(const RunOptions& options, const LengthsOptions& lengths, const OutputOptions& output) {
  refuse_formats(output);
  const LengthsReport r = unequal_lengths(options, lengths, !output.quiet);
  const bool clean = show_warnings(r.warnings, output.quiet, options.strict);
  for (const OutputFile& file : files_of(output)) write_report(file, render(r, file.format, file_style(output)));
  write_stdout(render(r, format_of(output), terminal_style(output)));
  return clean && r.fits() ? 0 : 1;
}

}  // namespace gpuplan
