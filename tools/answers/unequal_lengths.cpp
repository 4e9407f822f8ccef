#include "tools/answers/unequal_lengths.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "estimator/report/lengths_report.h"
#include "estimator/search/workers.h"
#include "tools/answers/batch_steps.h"
#include "tools/answers/loop_page.h"
#include "tools/answers/planning.h"
#include "tools/process/progress_line.h"

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
    ReplayedSteps replayed = replay_batches(made, variants[i].batches, variants[i].run, INT64_MAX, told);
    r.others[i] = loop_of(variants[i], replayed, r);
    if (i == 0) r.steps = std::move(replayed.steps);
  });
}

void tell_assumptions(const BatchSteps& made, LengthsReport& r) {
  if (std::ranges::none_of(r.batches, [](const StepBatch& b) { return b.padded; })) return;
  r.assumptions.emplace_back(made.masks()
                                 ? "an attention_mask tells the model what is padding"
                                 : "the model is given no attention_mask, with which attention would keep more");
}

}  // namespace

LengthsReport unequal_lengths(const RunOptions& options, const LengthsOptions& lengths, bool shows_progress) {
  const Planning planning = prepare_run(options);
  refuse_others(options, planning.run);
  SampleLengths samples = sample_lengths(lengths, planning.run.batch);
  LengthsReport r = begin_loop(planning);
  r.source = std::move(samples.words);
  r.lengths = std::move(samples.samples);
  r.batches = batches_of(r.lengths, r.run.batch);
  r.padding = padding_share(r.lengths, r.batches);
  BatchSteps made(options, planning, r.batches);
  replay_all(made, shows_progress, r);
  tell_assumptions(made, r);
  finish_loop(made, planning, options, r);
  return r;
}

int print_unequal_lengths(const RunOptions& options, const LengthsOptions& lengths, const OutputOptions& output) {
  refuse_loop_formats(output);
  return print_loop(unequal_lengths(options, lengths, !output.quiet), options.strict, output);
}

}  // namespace gpuplan
