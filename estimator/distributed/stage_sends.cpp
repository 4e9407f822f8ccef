#include "estimator/distributed/stage_sends.h"

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kHalf = 2, kMainGradient = 4;  // bytes

// Of a rank of one stage and its like of another. `width`: GPUs of a stage, which are neighbours. All that cross to
// another node do so at once and share what their node has.
std::optional<Link> link_of_stages(const Topology& topology, std::int64_t width, std::int64_t from, std::int64_t to) {
  const std::int64_t node = topology.gpus_per_node;
  std::int64_t crossing = node;
  if (width < node) {
    crossing = 0;
    for (std::int64_t i = 0; i < width; ++i)
      if ((from * width + i) / node != (to * width + i) / node) ++crossing;
  }
  if (crossing == 0) return topology.within_node;
  if (!topology.between_nodes) return std::nullopt;
  Link link = *topology.between_nodes;
  link.bytes_per_second /= static_cast<double>(crossing);
  return link;
}

// Collects rows of a group of `ranks`.
class Rows {
 public:
  explicit Rows(const Topology& topology) : topology_(topology) {}

  // `stride`: between neighbours of the group. A row without bytes or with nobody to send to is none.
  void add(std::string_view what, Collective collective, std::int64_t bytes, std::int64_t ranks, std::int64_t stride) {
    add_over(what, collective, bytes, ranks, link_of_group(topology_, ranks, stride));
  }
  void add_over(std::string_view what, Collective collective, std::int64_t bytes, std::int64_t ranks,
                const std::optional<Link>& link) {
    if (bytes == 0 || ranks < 2) return;
    const auto all = static_cast<double>(bytes);
    CommunicationRow row{what, collective, bytes, 0, std::nullopt, std::nullopt, 0};
    row.sent_bytes = static_cast<std::int64_t>(ring_bytes(collective, all, ranks));
    if (link) row.seconds = ring_seconds(collective, all, ranks, *link);
    rows_.push_back(row);
  }
  // To each of the neighbours `bytes`, one after the other. `width`: GPUs of a stage.
  void add_neighbours(std::int64_t bytes, std::int64_t stage, std::int64_t stages, std::int64_t width) {
    CommunicationRow row{"PP activations", Collective::send, 0, 0, std::nullopt, std::nullopt, 0};
    std::optional<double> seconds = 0;
    for (const std::int64_t to : {stage - 1, stage + 1}) {
      if (to < 0 || to >= stages) continue;
      row.bytes = checked_add(row.bytes, bytes);
      const std::optional<Link> link = link_of_stages(topology_, width, stage, to);
      seconds = link && seconds
                    ? std::optional(*seconds + ring_seconds(Collective::send, static_cast<double>(bytes), 2, *link))
                    : std::nullopt;
    }
    if (row.bytes == 0) return;
    row.sent_bytes = row.bytes;
    row.seconds = seconds;
    rows_.push_back(row);
  }

  std::vector<CommunicationRow> finish() { return std::move(rows_); }

 private:
  const Topology& topology_;
  std::vector<CommunicationRow> rows_;
};

}  // namespace

// Ranks that share a layer are neighbours, then those of data parallelism, then the stages (Megatron-LM's order).
std::vector<CommunicationRow> micro_batch_sends(const Transformer& m, const TransformerRun& run, std::int64_t stage,
                                                const Topology& topology) {
  const std::int64_t tokens = checked_mul(checked_mul(run.micro_batches(), run.micro_batch), m.sequence);
  const std::int64_t activations = checked_mul(checked_mul(kHalf, tokens), m.hidden);
  const bool first = stage == 0, last = stage + 1 == run.pipeline;
  const std::int64_t passes = run.recompute == RecomputeMode::full ? 3 : 2;
  const std::int64_t reduces = 2 * passes * (m.layers / run.pipeline) + (first ? 1 : 0) + (last ? 1 : 0);
  const std::int64_t neighbours = (first ? 0 : 1) + (last ? 0 : 1);
  const std::int64_t exchanged = checked_mul(neighbours, activations);
  Rows rows(topology);
  rows.add("TP activations", Collective::all_reduce, checked_mul(reduces, activations), run.tensor, 1);
  if (run.pipeline > 1) {
    rows.add_neighbours(activations / run.tensor, stage, run.pipeline, run.tensor * run.ranks());
    rows.add("PP activations", Collective::all_gather, exchanged, run.tensor, 1);
  }
  return rows.finish();
}

std::vector<CommunicationRow> step_sends(const Transformer& m, const TransformerRun& run, std::int64_t stage,
                                         const Topology& topology) {
  const std::int64_t parameters = stage_parameters(m, run.tensor, run.pipeline, stage);
  const std::int64_t gradients = checked_mul(kMainGradient, parameters);
  Rows rows(topology);
  rows.add("gradients", run.shared_optimizer ? Collective::reduce_scatter : Collective::all_reduce, gradients,
           run.ranks(), run.tensor);
  if (run.pipeline > 1 && (stage == 0 || stage + 1 == run.pipeline))
    rows.add_over("embedding gradients", Collective::all_reduce,
                  checked_mul(kMainGradient, checked_mul(m.vocabulary / run.tensor, m.hidden)), 2,
                  link_of_stages(topology, run.tensor * run.ranks(), 0, run.pipeline - 1));
  if (run.shared_optimizer)
    rows.add("parameters", Collective::all_gather, checked_mul(kHalf, parameters), run.ranks(), run.tensor);
  return rows.finish();
}

std::optional<double> seconds_of(const std::vector<CommunicationRow>& rows) {
  double seconds = 0;
  for (const CommunicationRow& row : rows) {
    if (!row.seconds) return std::nullopt;
    seconds += *row.seconds;
  }
  return seconds;
}

}  // namespace gpuplan
