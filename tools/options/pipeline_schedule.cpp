#include "tools/options/pipeline_schedule.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

constexpr const char* kFlag = "--pp-schedule";

[[noreturn]] void refuse_stages(std::string message, std::string help) {
  Error error(std::move(message), ErrorKind::usage);
  error.help(std::move(help));
  throw error;
}

std::vector<std::int64_t> read_split(const std::string& text) {
  std::vector<std::int64_t> blocks;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '/');)
    blocks.push_back(whole_number("--pp-schedule split", part, 1, kMostGpus));
  return blocks;
}

// PipelineScheduleSingle takes one stage (schedules.py).
std::int64_t read_stages(const std::string& text, PipelineSchedule schedule) {
  const std::int64_t stages = whole_number("--pp-schedule stages", text, 1, kMostGpus);
  if (stages > 1 && !runs_actions(schedule))
    refuse_stages(std::string(name_of(schedule)) + " has one stage a rank",
                  "--pp-schedule interleaved1f1b,stages=" + text + " or loopedbfs,stages=" + text);
  if (stages != 2 && turns_back(schedule))
    refuse_stages("PyTorch refuses stages=" + text + " of " + std::string(name_of(schedule)) +
                      ": \"ZBV requires exactly 2 stages per rank, but got " + text + ".\"",
                  "leave out stages=");
  return stages;
}

}  // namespace

void read_pipeline(const SeveralGpusOptions& o, Strategy& s) {
  if (s.pipeline < 2) refuse_stages("--pp-schedule needs --pp", "for example --pp 4");
  PipelineSettings& settings = s.pipelining;
  std::istringstream parts(o.pipeline_schedule);
  std::string word;
  std::getline(parts, word, ',');
  settings.schedule = choose<PipelineSchedule>(kFlag, word,
                                               {{"1f1b", PipelineSchedule::one_f_one_b},
                                                {"gpipe", PipelineSchedule::gpipe},
                                                {"interleaved1f1b", PipelineSchedule::interleaved_1f1b},
                                                {"loopedbfs", PipelineSchedule::looped_bfs},
                                                {"interleavedzerobubble", PipelineSchedule::interleaved_zero_bubble},
                                                {"zbvzerobubble", PipelineSchedule::zbv},
                                                {"dualpipev", PipelineSchedule::dual_pipe_v}});
  if (runs_actions(settings.schedule)) settings.stages_each = 2;  // as torchtitan's default
  std::vector<std::string> given;
  while (std::getline(parts, word, ',')) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
    const int kind = choose<int>(kFlag, key, {{"outputs", 0}, {"split", 1}, {"stages", 2}});
    const std::string begun = kFlag + (" " + std::string(name_of(settings.schedule)));
    if (value.empty()) refuse_stages("--pp-schedule " + key + " has no value", begun + "," + key + "=...");
    if (std::ranges::find(given, key) != given.end())
      refuse_stages("--pp-schedule says " + key + " twice", "leave one of them out");
    given.push_back(key);
    if (kind == 0)
      settings.returns_outputs = choose<bool>("--pp-schedule outputs", value, {{"keep", true}, {"drop", false}});
    else if (kind == 2)
      settings.stages_each = read_stages(value, settings.schedule);
    else if (value == "torchtitan")
      settings.counts_ends = true;
    else
      settings.blocks = read_split(value);
  }
  if (o.rank.empty() || asks_for_every_rank(o)) return;
  const std::int64_t rank = whole_number("--rank", o.rank, 0, s.gpus - 1) / s.tensor;
  settings.stage = rank / s.ranks();
  s.rank = rank % s.ranks();
}

Strategy with_stages(Strategy s, bool data_given, bool loop_given) {
  if (loop_given) refuse_stages("a schedule of torch.distributed.pipelining is a loop of its own", "leave out --loop");
  if (s.ranks() == 1 && !data_given) s.data = DataParallel::none;
  if (s.data != DataParallel::none && s.data != DataParallel::fsdp)
    refuse_stages("stages are planned with one GPU each, and with FSDP2 over the ranks of a stage",
                  "--fsdp param=bf16,reduce=fp32,reshard=false with more --gpus");
  if (s.data == DataParallel::fsdp && (s.offloads || s.reshards_root))
    refuse_stages("FSDP2 of stages is planned without offloading and with a root that is kept",
                  "leave out offload=true and reshard-root=true");
  const bool splits = splits_backward(s.pipelining.schedule);
  if (splits && s.data == DataParallel::fsdp && s.reshard_after_forward)
    refuse_stages(
        "zero bubble with FSDP2 that reshards after forward is not planned: recorded of PyTorch 2.15, some parameters "
        "got no gradient",
        "--fsdp reshard=false");
  if (splits && s.tensor > 1 && s.pipelining.returns_outputs)
    refuse_stages("zero bubble with --tp is not planned with outputs that are kept: they hold the graph",
                  "--pp-schedule " + std::string(name_of(s.pipelining.schedule)) + ",outputs=drop");
  if (s.reduces_last)
    refuse_stages("the schedule says when stages reduce: once all micro-batches are through", "leave out sync=last");
  if (s.gradient_as_bucket_view || s.find_unused_parameters)
    refuse_stages("stages are not planned with DDP", "leave out --bucket-view and --find-unused-parameters");
  s.reduces_last = s.data == DataParallel::fsdp;
  return s;
}

}  // namespace gpuplan
