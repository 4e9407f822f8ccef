#include "estimator/distributed/transformer.h"

#include "estimator/base/integers.h"
#include "estimator/distributed/pipeline.h"

namespace gpuplan {
std::int64_t parameters_of(const Transformer& m) {
  const std::int64_t layer = checked_add(checked_mul(12 * m.hidden, m.hidden), 13 * m.hidden);
  const std::int64_t embeddings = checked_mul(m.vocabulary + m.sequence, m.hidden);
  return checked_add(checked_add(checked_mul(m.layers, layer), embeddings), 2 * m.hidden);
}

double training_flops(const Transformer& m, std::int64_t samples, RecomputeMode recompute) {
  const double h = real(m.hidden), s = real(m.sequence), l = real(m.layers);
  const double passes = recompute == RecomputeMode::full ? 4 : 3;  // of the layers; the head has three of them
  return 24 * passes * real(samples) * s * l * h * h * (1 + s / (6 * h) + real(m.vocabulary) / (4 * passes * l * h));
}

std::int64_t layer_parameters(const Transformer& m, std::int64_t tensor) {
  return checked_add(checked_mul(12 * m.hidden, m.hidden), 7 * m.hidden) / tensor + 6 * m.hidden;
}

std::int64_t stage_parameters(const Transformer& m, std::int64_t tensor, std::int64_t stages, std::int64_t stage) {
  const std::int64_t words = checked_mul(m.vocabulary / tensor, m.hidden);
  std::int64_t elements = checked_mul(m.layers / stages, layer_parameters(m, tensor));
  if (stage == 0) elements = checked_add(elements, checked_add(words, checked_mul(m.sequence, m.hidden)));
  if (stage + 1 == stages) elements = checked_add(elements, 2 * m.hidden + (stage == 0 ? 0 : words));
  return elements;
}

double layer_activation_bytes(const Transformer& m, std::int64_t samples, std::int64_t tensor, RecomputeMode recompute,
                              bool sequence_parallel) {
  const double sbh = real(m.sequence) * real(samples) * real(m.hidden), t = real(tensor);
  if (recompute == RecomputeMode::full) return 2 * sbh / (sequence_parallel ? t : 1);
  const double attention =
      recompute == RecomputeMode::selective ? 0 : 5 * real(m.heads) * real(m.sequence) / real(m.hidden);
  return sequence_parallel ? sbh / t * (34 + attention) : sbh * (10 + 24 / t + attention / t);
}

double stage_activation_bytes(const Transformer& m, std::int64_t samples, std::int64_t tensor, std::int64_t stages,
                              std::int64_t stage, std::int64_t micro_batches, RecomputeMode recompute) {
  const double sbh = real(m.sequence) * real(samples) * real(m.hidden);
  const double in_flight = real(micro_batches_in_flight(stage, stages, micro_batches));
  double bytes = in_flight * real(m.layers / stages) * layer_activation_bytes(m, samples, tensor, recompute);
  if (recompute == RecomputeMode::full) bytes += layer_activation_bytes(m, samples, tensor, RecomputeMode::none);
  if (stage == 0) bytes += in_flight * sbh;
  if (stage + 1 == stages) bytes += 4 * sbh / real(tensor) * (1 + real(m.vocabulary) / real(m.hidden));
  return bytes;
}

}  // namespace gpuplan
