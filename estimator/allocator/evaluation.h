// An evaluation between steps of training, as Python's names hold what it makes: transformers'
// Trainer.evaluation_loop() and prediction_step() (trainer.py), or a function of one's own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "estimator/allocator/loop_programs.h"
#include "estimator/allocator/placed_blocks.h"

namespace gpuplan {

class Evaluation {
 public:
  Evaluation(const RunningLoop& loop, PlacedBlocks& blocks, OptimizerPrograms& programs)
      : loop_(loop), blocks_(blocks), programs_(programs) {}

  /// Of the step that the loop is at: its batch, made beside the last one.
  void take_batch();
  /// Its forward has ended.
  void take_results();
  /// The function has returned.
  void leave();

 private:
  // What a name holds; the block goes with the last one.
  using Held = std::shared_ptr<const BlockId>;

  Held holding(BlockId block, Category category);
  Held made(std::int64_t bytes);
  Held joined(const Held& all, const Held& one, std::int64_t bytes);
  std::vector<Held> results();
  void predict();
  void move_to_host();
  void release_batch();

  const RunningLoop& loop_;
  PlacedBlocks& blocks_;
  OptimizerPrograms& programs_;
  std::int64_t steps_ = 0, on_device_ = 0;     // so far; since results went to the host
  Held batch_labels_;                          // beside those that the model embeds
  std::vector<Held> last_;                     // the last results of a loop of one's own
  Held losses_, logits_, labels_;              // of the last step, by Trainer's names
  Held all_losses_, all_logits_, all_labels_;  // of all steps, one tensor each
  std::vector<Held> listed_;                   // logits that a loop of one's own keeps
};

}  // namespace gpuplan
