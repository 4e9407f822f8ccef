// What goes around a ring of a context, beside what goes to experts: rows of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tools/answers/planning.h"
#include "tools/answers/shared_planning.h"
#include "tools/options/megatron_arguments.h"

namespace gpuplan {
namespace {

std::vector<CommunicationRow> rows_of(const RunOptions& run, const SeveralGpusOptions& several) {
  const auto [planning, strategy] = prepare_shared(run, several);
  return make_report(planning, *strategy, topology_of(several, planning.gpu)).rank->communication;
}

std::int64_t bytes_of(const std::vector<CommunicationRow>& rows, std::string_view what, Collective collective) {
  const auto row = std::ranges::find_if(
      rows, [&](const CommunicationRow& r) { return r.what == what && r.collective == collective; });
  return row == rows.end() ? 0 : row->bytes;
}

std::string with_context_of_two() {
  std::ifstream in(GPUPLAN_SOURCE_DIR "/tests/parallel/megatron/llama3_8b_transformer_engine.sh");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text + " --context-parallel-size 2\n";
}

TEST_CASE("Transformer Engine's ring sends keys and values to the next rank in each turn but the last") {
  RunOptions run;
  run.gpu = "h100";
  SeveralGpusOptions several;
  several.gpus = "16";
  several.network = "400";
  const tests::Folder folder;
  several.megatron = folder.with("ring.sh", with_context_of_two());
  read_megatron(several, run);
  const std::vector<CommunicationRow> rows = rows_of(run, several);
  // Keys and values of 4,096 tokens, 2 of 8 groups of 128, 2 bytes each, once; 32 layers; 32 samples of 2 replicas.
  CHECK_EQ(bytes_of(rows, "keys and values, forward", Collective::send), 2LL * 4096 * 2 * 128 * 2 * 32 * 16);
}

TEST_CASE("with experts, a ring of FSDP2 gathers keys and values and sends tokens to experts alone") {
  RunOptions run;
  run.model = GPUPLAN_SOURCE_DIR "/tests/parallel/models/mixtral16.json";
  run.batch = "8";
  run.seq = "512";
  run.gpu = "h200";
  SeveralGpusOptions several;
  several.gpus = "8";
  several.zero = "fsdp";
  several.experts = "4";
  several.context = "2";
  const std::vector<CommunicationRow> rows = rows_of(run, several);
  CHECK_EQ(bytes_of(rows, "keys and values, forward", Collective::send), 0);
  CHECK_GT(bytes_of(rows, "keys and values, forward", Collective::all_gather), 0);
  CHECK_GT(bytes_of(rows, "tokens to experts, forward", Collective::all_to_all), 0);
}

}  // namespace
}  // namespace gpuplan
