// log_softmax and the negative log-likelihood, and F.cross_entropy of both (aten/src/ATen/native/LossNLL.cpp).
#pragma once

#include <optional>

#include "estimator/graph/layer.h"

namespace gpuplan::aten {

/// x.log_softmax(dim, dtype). That of a cross entropy asks for the input's own type, under autocast too. fp16 is read
/// by the fp32 kernel itself; other types are converted first. Saves its result, backward is one kernel without
/// scratch.
TensorId log_softmax(LayerBuilder& b, TensorId x, int dim, std::optional<DType> to = {});
/// F.nll_loss of [N, C, ...] log-probabilities and int64 targets [N, ...], reduced to a scalar or (`each`) with a
/// number for each target: saves both and the total weight, a second scalar. With more than two dimensions it is
/// nll_loss2d of four. Under autocast it computes in fp32.
TensorId nll_loss(LayerBuilder& b, TensorId log_p, TensorId target, bool each = false);
/// F.cross_entropy without weights or smoothing.
TensorId cross_entropy(LayerBuilder& b, TensorId x, TensorId target);
/// pad(labels, (0, 1), value=-100)[..., 1:].contiguous() of [samples, tokens], as transformers' loss of a causal model:
/// a copy, unless one row already is contiguous. `padded` is the name that the loss function holds.
TensorId shifted_labels(LayerBuilder& b, TensorId labels, TensorId& padded);
/// transformers' loss of a causal model (loss/loss_utils.py, ForCausalLMLoss): of logits [samples, tokens, vocabulary],
/// copied to fp32, and labels, shifted.
TensorId causal_lm_loss(LayerBuilder& b, TensorId logits, TensorId labels);
/// The same of labels that were shifted before (`shift_labels`).
TensorId shifted_causal_lm_loss(LayerBuilder& b, TensorId logits, TensorId shifted);

}  // namespace gpuplan::aten
