#include "estimator/serve/engine_texts.h"

#include <cstdio>

#include "estimator/base/error.h"

namespace gpuplan {

std::string gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << 30));
  std::string out = text;
  if (out.ends_with('0')) out.pop_back();
  return out;
}

std::int64_t served_length(const ServedModel& model, const ServeSettings& settings, const std::string& refusal) {
  if (settings.length == 0 && model.positions == 0)
    throw Error("--max-len: " + model.name + " does not say how long a sequence it was made for", ErrorKind::usage)
        .help("say it with --max-len, or in the spec as the variable positions");
  if (model.positions > 0 && settings.length > model.positions)
    throw Error("--max-len " + std::to_string(settings.length) + ": " + model.name + " was made for " +
                    std::to_string(model.positions) + " tokens",
                ErrorKind::usage)
        .help(refusal + "; --max-len " + std::to_string(model.positions));
  return settings.length > 0 ? settings.length : model.positions;
}

void refuse_flag(bool given, const char* flag, const std::string& engine, const char* help) {
  if (given) throw Error(engine + " is not planned with " + flag, ErrorKind::usage).help(help);
}

void refuse_ranks(const ServedModel& model, std::int64_t ranks) {
  for (const ServedLayer& layer : model.layers) {
    const ServedAttention& a = layer.attention;
    const bool shares_keys = a.latent > 0 || a.kv_heads % ranks == 0 || ranks % a.kv_heads == 0;
    if (a.heads % ranks == 0 && shares_keys) continue;
    const bool queries = a.heads % ranks != 0;
    throw Error("--tp " + std::to_string(ranks) + ": " + model.name + " has " +
                    std::to_string(queries ? a.heads : a.kv_heads) +
                    (queries ? " heads" : " heads of keys and values") + ", which " + std::to_string(ranks) +
                    " GPUs cannot share",
                ErrorKind::usage)
        .help(queries ? "a number that divides " + std::to_string(a.heads)
                      : "a number that divides " + std::to_string(a.kv_heads) + ", or a multiple of it");
  }
}

void refuse_windows(const ServedModel& model, const std::string& engine) {
  for (const ServedLayer& layer : model.layers)
    if (layer.attention.window > 0)
      throw Error(engine + " is not planned with layers that have a window, such as " + model.name + "'s",
                  ErrorKind::usage)
          .help("by the model's class, it gives some of them a pool of their own; --engine vllm plans them");
}

}  // namespace gpuplan
