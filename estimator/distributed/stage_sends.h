// What the ranks of a GPT's stages send each other in a step of Megatron-LM (arXiv:1909.08053, section 3;
// arXiv:2104.04473, sections 3.2 and 4.1). b s h: samples of a micro-batch, sequence, hidden; all of it in two bytes,
// but for gradients of parameters, which are of four (main gradients in fp32).
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/distributed/collectives.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/transformer.h"

namespace gpuplan {

/// One rank's, of all micro-batches; nothing hides them. Links that are not known leave seconds out.
/// - "TP activations": the ranks that share a layer add up b s h, twice in its forward, twice in its backward,
///   and twice where it is run again; the first stage's once more for the words, the last one's for the gradient of
///   the head's input. What the loss adds up, three numbers a token, is left out.
/// - "PP activations": to each neighbour b s h of a micro-batch, activations or gradients, of which each of those ranks
///   sends a part, and a second row "PP activations", the all-gather among the receiver's ranks. It uses the network if
///   the two stages are in different nodes; the GPUs of a node that communicate with another one share its bandwidth.
std::vector<CommunicationRow> micro_batch_sends(const Transformer& model, const TransformerRun& run, std::int64_t stage,
                                                const Topology& topology);

/// One rank's, once a step after all of backward, one after another:
/// - "gradients" of the stage's parameters among those of data parallelism; with a shared optimizer they are reduced in
///   parts, and "parameters" gathered after it;
/// - "embedding gradients", which the first and the last stage both have.
std::vector<CommunicationRow> step_sends(const Transformer& model, const TransformerRun& run, std::int64_t stage,
                                         const Topology& topology);

/// Of them all; nothing where one is not known.
std::optional<double> seconds_of(const std::vector<CommunicationRow>& rows);

}  // namespace gpuplan
