// Precision, what saves memory, and generation.
#include "tools/options/lora_options.h"
#include "tools/options/run_values.h"

namespace gpuplan {

namespace {

constexpr std::int64_t kMany = 1'000'000'000;

DType half_type(const std::string& flag, const std::string& word) {
  return choose<DType>(flag, word, {{"fp16", DType::fp16}, {"bf16", DType::bf16}});
}

void refuse(const std::string& reason) { throw Error(reason, ErrorKind::usage); }

void set_offload(const std::string& text, RunConfig& run) {
  for (const std::string_view part : split(text, ',')) {
    const bool optimizer = choose<bool>("--offload", std::string(part), {{"optimizer", true}, {"saved", false}});
    (optimizer ? run.offload_optimizer : run.offload_saved) = true;
  }
}

// A gradient that is gone as soon as its parameter is stepped can neither be summed, scaled back nor clipped.
void check_optimizer_in_backward(const RunConfig& run) {
  if (!run.optimizer_in_backward) return;
  const std::string gone = "--optimizer-in-backward frees each gradient at once: ";
  if (run.micro_batches > 1) refuse(gone + "--micro-batches would have no gradients to accumulate");
  if (run.scales_gradients()) refuse(gone + "the GradScaler of --amp fp16 needs all of them; use --amp bf16");
  if (run.clip_grad_norm) refuse(gone + "--clip-grad-norm needs all of them");
}

}  // namespace

void set_precision(const RunOptions& o, RunConfig& run) {
  std::string word = o.precision, amp = o.amp;
  if (word.starts_with("amp=") || word.starts_with("amp-")) {
    if (!amp.empty()) refuse("--precision " + word + " and --amp are redundant: give only one of them");
    amp = word.substr(4);
    word.clear();
  }
  if (word == "tf32") {
    run.tf32 = true;
  } else if (word == "int8" || word == "int4" || word == "fp8") {
    refuse("no model computes in " + word + " throughout: --weights " + word + " stores weights in it");
  } else if (!word.empty()) {
    run.precision =
        choose<DType>("--precision", word,
                      {{"fp32", DType::fp32}, {"fp64", DType::fp64}, {"fp16", DType::fp16}, {"bf16", DType::bf16}});
  }
  if (amp.empty()) return;
  run.autocast = half_type("--amp", amp);
  // "You should not call half() or bfloat16() on your model(s) or inputs when using autocasting" (torch.autocast).
  if (run.precision != DType::fp32)
    refuse("--amp " + amp + " is for a model with fp32 weights: leave out --precision " + word);
}

CheckpointConfig checkpoint_config(const std::string& written) {
  using Kind = CheckpointConfig::Kind;
  constexpr std::string_view kEvery = "every=", kReentrant = ",reentrant";
  CheckpointConfig config;
  if (written.empty()) return config;
  std::string text = written == "reentrant" ? "block,reentrant" : written;
  config.reentrant = text.ends_with(kReentrant);
  if (config.reentrant) text.erase(text.size() - kReentrant.size());
  if (text.empty() || (config.reentrant && text == "none"))
    refuse("--checkpoint " + written + " says no blocks: --checkpoint block,reentrant");
  config.kind = text == "none" ? Kind::none : text == "block" ? Kind::block : text == "op" ? Kind::op : Kind::glob;
  if (config.kind == Kind::op && config.reentrant)
    refuse("--checkpoint op keeps results by operator, which use_reentrant=True cannot: leave out reentrant");
  if (text.starts_with(kEvery)) {
    config.kind = Kind::every;
    config.every = whole_number("--checkpoint every", text.substr(kEvery.size()), 1, kMany);
  }
  if (config.kind != Kind::glob) return config;
  // Anything else is a pattern of paths; a single word that is nearly one of ours is a slip.
  const std::vector<std::string> words = {"none", "block", "op", "every", "reentrant"};
  if (text.find_first_of("*?.") == std::string::npos && !nearest(text, words).empty())
    throw Error(
        "--checkpoint expects none, block, op, every=N, block,reentrant or a pattern of block paths such as "
        "\"layer1.*\", "
        "not \"" +
            text + "\"" + did_you_mean(text, words),
        ErrorKind::usage);
  config.glob = text;
  return config;
}

void set_memory_savers(const RunOptions& o, RunConfig& run) {
  // Each is replayed, allocation by allocation: so many of a ResNet-50 take two seconds.
  constexpr std::int64_t kMostMicroBatches = 10'000;
  if (!o.micro_batches.empty())
    run.micro_batches = whole_number("--micro-batches", o.micro_batches, 1, kMostMicroBatches);
  if (run.batch % run.micro_batches != 0)
    refuse("a batch of " + std::to_string(run.batch) + " does not split into " + std::to_string(run.micro_batches) +
           " micro-batches of equal size: --batch counts all samples of the step and may be " +
           std::to_string((run.batch / run.micro_batches + 1) * run.micro_batches));
  run.checkpoint = checkpoint_config(o.checkpoint);
  run.master_weights = choice_or<bool>("--master", o.master, false, {{"fp32", true}});
  if (run.master_weights && size_of(run.precision) >= size_of(DType::fp32))
    refuse("--master fp32 needs --precision fp16 or bf16: the weights are " + std::string(name_of(run.precision)) +
           (run.autocast ? ", as --amp keeps them" : " already"));
  run.optimizer_in_backward = o.optimizer_in_backward;
  check_optimizer_in_backward(run);
  if (!o.offload.empty()) set_offload(o.offload, run);
  run.weights = word_or("--weights", o.weights, WeightFormat::as_computed);
  if (!o.lora.empty()) run.lora = lora_of_flag(o.lora);
}

Generation generation(const RunOptions& o) {
  Generation g;
  if (o.phase.empty()) {
    const std::pair<const char*, const std::string&> parts[] = {
        {"--prompt", o.prompt}, {"--generate", o.generate}, {"--cache", o.cache}};
    for (const auto& [flag, value] : parts)
      if (!value.empty()) refuse(std::string(flag) + " belongs to --phase prefill or --phase decode");
    return g;
  }
  g.part = word_or("--phase", o.phase, Generation::Part::none);
  if (o.prompt.empty()) refuse("--phase " + o.phase + " needs --prompt N, the length of the prompt");
  g.prompt = whole_number("--prompt", o.prompt, 1, kMany);
  if (!o.generate.empty()) g.generate = whole_number("--generate", o.generate, 1, kMany);
  g.cache = word_or("--cache", o.cache, Generation::Cache::dynamic);
  return g;
}

}  // namespace gpuplan
