// The sets of recordings there are, and what README calls them.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "estimator/spec/run_config.h"
#include "tests/scoreboard/scoreboard.h"

namespace gpuplan {
namespace {

std::string gpu_title(const std::string& gpu) {
  std::string title = gpu;
  for (char& c : title) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return title;
}

std::string workspaces(const std::string& set) {
  return set.ends_with(".nocudnn") ? "without cuDNN's workspaces" : "with cuDNN's workspaces";
}

// "h200.torch2.15.nocudnn"
std::string shadow_title(const std::string& set) {
  const std::size_t torch = set.find(".torch");
  std::string version = set.substr(torch + 6);
  version.resize(std::min(version.size(), version.find(".nocudnn")));
  return "PyTorch " + version + "'s CUDA code on " + gpu_title(set.substr(0, torch)) + ", " + workspaces(set);
}

// "h200.nocudnn"
std::string exported_title(const std::string& set) {
  return "exported models that the zoo does not have, on " + gpu_title(set.substr(0, set.find('.'))) + ", " +
         workspaces(set);
}

}  // namespace

std::vector<ScoreSet> score_sets(const std::string& root) {
  std::vector<ScoreSet> sets{
      {"oracle 1.13", "PyTorch 1.13 on a CPU: its tensors, layer by layer", [=] { return score_oracle(root, 113); }},
      {"oracle 2.x", "PyTorch 2.x on a CPU: saved bytes, live bytes between phases",
       [=] { return score_oracle(root, kNewestPyTorch); }}};
  for (const std::string& set : shadow_sets(root))
    sets.push_back({"shadow " + set, shadow_title(set), [=] { return score_shadow(root, set); }});
  for (const std::string& set : exported_sets(root))
    sets.push_back({"exported " + set, exported_title(set), [=] { return score_exported(root, set); }});
  sets.push_back({"masks h200", "exported models of Hugging Face, with an attention_mask and without",
                  [=] { return score_masks(root); }});
  sets.push_back({"imported h200", "small models of every class that a `config.json` is imported as",
                  [=] { return score_imported(root); }});
  sets.push_back({"fine-tuned h200", "LoRA, QLoRA and bitsandbytes' optimizers, by the flags of the plan",
                  [=] { return score_fine_tuned(root); }});
  sets.push_back({"trainers h200", "the loops of transformers' Trainer, accelerate and Lightning (`--like`)",
                  [=] { return score_trainers(root); }});
  sets.push_back({"lengths h200", "loops whose batches are of unequal length, step by step (`--seq-lengths`)",
                  [=] { return score_lengths(root); }});
  sets.push_back({"evaluation h200", "training with an evaluation in between, step by step (`--eval-batch`)",
                  [=] { return score_evaluations(root); }});
  sets.push_back({"parallel h200", "one rank of several GPUs", [=] { return score_parallel(root); }});
  sets.push_back({"learned h200", "models learned at small batches, at batch 64", [=] { return score_learned(root); }});
  sets.push_back({"compared h200", "runs of `tests/recorders/compare_pytorch.py` under `gpuplan shadow`",
                  [=] { return score_reference(root, "tests/shadow/compare_pytorch/h200", "h200"); }});
  sets.push_back({"readings", "runs that were added with `tools/add_reading`", [=] { return score_readings(root); }});
  for (const std::string& gpu : reference_gpus(root))
    sets.push_back({"reference " + gpu, "runs on a real " + gpu_title(gpu),
                    [=] { return score_reference(root, "tests/reference/" + gpu, gpu); }});
  return sets;
}

std::vector<RecordedTable> recorded_tables(const std::string& root) {
  std::vector<RecordedTable> tables;
  for (const auto& file : std::filesystem::directory_iterator(root + "/tests/shadow")) {
    if (file.path().extension() != ".tsv") continue;
    std::ifstream in(file.path());
    std::int64_t rows = 0;
    for (std::string line; std::getline(in, line);) rows += line.empty() || line.starts_with("#") ? 0 : 1;
    tables.push_back({"tests/shadow/" + file.path().filename().string(), rows});
  }
  std::ranges::sort(tables, {}, &RecordedTable::file);
  return tables;
}

}  // namespace gpuplan
