// What the flags of training scripts, of the Hugging Face Trainer, Megatron-LM and vLLM are called here.
#pragma once

#include <span>
#include <string_view>

namespace gpuplan {

struct OtherFlag {
  std::string_view spellings;  // in lower case, without dashes and underscores, spaces between: "bs batchsize"
  std::string_view here;       // what to write instead: "--batch N"; empty: nothing, as `why` says
  std::string_view why;        // a sentence without its end; may be empty where `here` says all
};

std::span<const OtherFlag> other_flags();

/// The entry for a flag as it was written: "--per_device_train_batch_size", "--batchSize", "-lr"; null for any other.
const OtherFlag* other_flag(std::string_view written);

}  // namespace gpuplan
