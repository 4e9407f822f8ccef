// --lora, and what it refuses.
#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/plan/run_names.h"
#include "tools/options/lora_options.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

std::string error_of(const std::string& text) {
  try {
    (void)lora_of_flag(text);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

OptimizerConfig optimizer_of(const std::string& name) {
  RunOptions options;
  options.optimizer = name;
  return run_config(options).optimizer;
}

std::string optimizer_called(const std::string& name) { return name_of(optimizer_of(name)); }

}  // namespace

TEST_CASE("--lora says peft's LoraConfig") {
  const Lora lora = lora_of_flag("r=16,alpha=32,dropout=0.05,targets=q_proj+layers.*.v_proj");
  CHECK(lora.rank == 16);
  CHECK(lora.alpha == 32);
  CHECK(lora.dropout == 0.05);
  CHECK(lora.targets == std::vector<std::string>{"q_proj", "layers.*.v_proj"});
  CHECK(lora_text(lora) == "r=16,alpha=32,dropout=0.05,targets=q_proj+layers.*.v_proj");
  CHECK(lora_text(lora_of_flag("rank=4")) == "r=4,alpha=8,targets=all-linear");
  CHECK(lora_text(lora_of_flag("r=4,rslora=True")) == "r=4,alpha=8,targets=all-linear");
  CHECK(lora_of_flag("r=8,lora_alpha=16,target_modules=fc1").alpha == 16);
}

TEST_CASE("--lora save= names the modules that are trained as copies") {
  const Lora lora = lora_of_flag("r=8,save=lm_head+embed_tokens");
  CHECK(lora.saved == std::vector<std::string>{"lm_head", "embed_tokens"});
  CHECK(lora_text(lora) == "r=8,alpha=8,targets=all-linear,save=lm_head+embed_tokens");
  CHECK(lora_of_flag("r=8,modules_to_save=score").saved == std::vector<std::string>{"score"});
  CHECK(error_of("r=8,save=layers.*") == "--lora: save expects names of modules, not \"layers.*\"");
  CHECK(error_of("r=8,save=") != "");
  CHECK(lora_of_flag("r=8,use_dora=True").dora);
  CHECK(!lora_of_flag("r=8,dora=false").dora);
  CHECK(error_of("r=8,dora=yes") == "--lora: dora expects true or false, not \"yes\"");
}

TEST_CASE("--lora refuses what LoraConfig does not take") {
  CHECK(error_of("") == "--lora: \"\" is not KEY=VALUE");
  CHECK(error_of("r=0").starts_with("--lora r expects"));
  CHECK(error_of("r=8,r=9") == "--lora: r is given twice");
  CHECK(error_of("r=8,rank=9") == "--lora: r is given twice");
  CHECK(error_of("r=8,droput=0.1") == "--lora: unknown key \"droput\" \u2014 did you mean \"dropout\"?");
  CHECK(error_of("r=8,dropout=1") == "--lora: dropout is a probability: 0 to below 1");
  CHECK(error_of("r=8,rslora=1") == "--lora: rslora expects true or false, not \"1\"");
  CHECK(error_of("r=8,alpha=x") == "--lora: alpha expects a number, not \"x\"");
  CHECK(error_of("r=8,targets=a+a") == "--lora: \"a\" is named twice");
  CHECK(error_of("r=8,targets=a b").starts_with("--lora: \"a b\" cannot be a module's name"));
  CHECK(error_of("r=8,targets=").starts_with("--lora: \"\" cannot be a module's name"));
}

TEST_CASE("AdamW has transformers' names, and one of them is the fused one") {
  const OptimizerConfig usual = optimizer_of("adamw_torch");
  CHECK(usual.kind == OptimizerKind::adamw);
  CHECK(usual.impl == OptimizerImpl::foreach_);
  const OptimizerConfig fused = optimizer_of("adamw_torch_fused");
  CHECK(fused.kind == OptimizerKind::adamw);
  CHECK(fused.impl == OptimizerImpl::fused);
}

TEST_CASE("bitsandbytes' optimizers have its names and transformers'") {
  for (const char* name : {"adamw8bit", "AdamW8bit", "adamw_8bit", "adamw_bnb_8bit"})
    CHECK(optimizer_called(name) == "adamw8bit");
  CHECK(optimizer_called("paged_adamw_32bit") == "paged_adamw32bit");
  CHECK(optimizer_called("paged_adamw") == "paged_adamw32bit");
  CHECK(optimizer_called("PagedLion8bit") == "paged_lion8bit");
  CHECK(optimizer_called("lion") == "lion");
  CHECK(optimizer_called("lion_32bit") == "lion");
  CHECK(optimizer_called("adamw") == "adamw");
  for (const char* name : {"paged_sgd8bit", "ademamix32bit", "adam9bit", "8bit", "paged", "lamb8bit"})
    CHECK_THROWS_AS(optimizer_called(name), Error);
  for (const std::string& name : optimizer_names()) CHECK_NOTHROW(optimizer_called(name));
}

}  // namespace gpuplan
