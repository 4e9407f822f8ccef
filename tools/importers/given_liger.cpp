#include "tools/importers/given_liger.h"

#include <string>
#include <string_view>
#include <utility>

namespace gpuplan {
namespace {

struct Exchange {
  std::string_view from, to;
};

// liger_kernel/transformers/monkey_patch.py, apply_liger_kernel_to_llama, ..._mistral, ..._qwen2, ..._qwen3.
constexpr Exchange kExchanges[] = {
    {"LlamaRMSNorm(", "LigerRMSNorm("},
    {"ApplyRotaryPosEmb()", "LigerRotary()"},
    {"      - act_fn: SiLU()\n", ""},
    {"Mul(), from: [act_fn, up_proj]", "LigerSiLUMul(), from: [gate_proj, up_proj]"},
    {"loss: CausalLMLoss()", "loss: LigerCausalLMLoss()"},
};
constexpr std::string_view kHeadOnItsOwn = "lm_head: Linear(_, $vocabulary, bias=False)",
                           kTiedHead = "op: \"Linear(_, $vocabulary, bias=False)\", tie:";

bool exchange(std::string& text, std::string_view from, std::string_view to) {
  bool found = false;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
    found = true;
  }
  return found;
}

}  // namespace

std::shared_ptr<const Source> with_liger_kernels(const Source& spec) {
  std::string text = spec.text;
  bool all = exchange(text, kHeadOnItsOwn, "lm_head: LigerHead($vocabulary)") ||
             exchange(text, kTiedHead, "op: LigerHead($vocabulary), tie:");
  for (const Exchange& e : kExchanges) all = exchange(text, e.from, e.to) && all;
  if (!all)
    throw Error("--kernels liger: " + spec.name + " is not a decoder of Llama's kind", ErrorKind::usage)
        .help(
            "decoders of llama, mistral, qwen2 and qwen3 with a language model's head are planned so; FILE.py:CALLABLE "
            "plans any model that your code gives Liger's kernels");
  return std::make_shared<const Source>(Source{spec.name, std::move(text)});
}

}  // namespace gpuplan
