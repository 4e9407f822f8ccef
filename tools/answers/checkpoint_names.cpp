#include "tools/answers/checkpoint_names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

namespace gpuplan {

namespace {

void replace_end(std::string& name, std::string_view from, std::string_view to) {
  if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
}

std::string present_name(std::string name) {
  replace_end(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_end(name, "LayerNorm.beta", "LayerNorm.bias");
  constexpr std::string_view kFormer = ".block_sparse_moe.";
  if (const std::size_t at = name.find(kFormer); at != std::string::npos) name.replace(at, kFormer.size(), ".mlp.");
  return name;
}

bool was_a_buffer(const StoredTensor& tensor) {
  const std::string_view name = tensor.name;
  return name.ends_with(".attn.masked_bias") || (name.ends_with(".attn.bias") && tensor.shape.size() == 4) ||
         name.ends_with(".rotary_emb.inv_freq") || name.ends_with("embeddings.position_ids");
}

// "model.layers.0.mlp.experts.3.w1.weight"
struct ExpertPart {
  std::string experts;  // "model.layers.0.mlp.experts"
  std::size_t expert = 0;
  char matrix = '1';  // of w1, w2, w3
};

std::optional<ExpertPart> expert_part(std::string_view name) {
  constexpr std::string_view kExperts = ".mlp.experts.";
  const std::size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kExperts.size());
  ExpertPart part{.experts = std::string(name.substr(0, at + kExperts.size() - 1))};
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), part.expert);
  if (error != std::errc()) return std::nullopt;
  const std::string_view matrix = rest.substr(static_cast<std::size_t>(end - rest.data()));
  if (matrix != ".w1.weight" && matrix != ".w2.weight" && matrix != ".w3.weight") return std::nullopt;
  part.matrix = matrix[2];
  return part;
}

using Experts = std::map<std::pair<std::size_t, char>, const StoredTensor*>;  // by number and matrix

// Every expert from 0 has its three matrices, of shapes that fit.
bool whole(const Experts& experts) {
  if (experts.size() % 3 != 0) return false;
  const StoredTensor& first = *experts.begin()->second;
  for (std::size_t i = 0; i < experts.size() / 3; ++i)
    for (const char matrix : {'1', '2', '3'}) {
      const auto at = experts.find({i, matrix});
      if (at == experts.end() || at->second->dtype != first.dtype) return false;
      std::vector<std::int64_t> shape = at->second->shape;
      if (matrix == '2') std::reverse(shape.begin(), shape.end());
      if (shape != first.shape || (!first.dtype.empty() && shape.size() != 2)) return false;
    }
  return true;
}

void add_fused(const std::string& name, const Experts& experts, StoredTensors& read) {
  const StoredTensor& first = *experts.begin()->second;  // w1 of the first
  const auto count = static_cast<std::int64_t>(experts.size() / 3);
  StoredTensor gate_up{name + ".gate_up_proj", first.dtype, {}, 0}, down{name + ".down_proj", first.dtype, {}, 0};
  if (!first.shape.empty()) {
    gate_up.shape = {count, 2 * first.shape[0], first.shape[1]};
    down.shape = {count, first.shape[1], first.shape[0]};
  }
  for (const auto& [key, tensor] : experts) (key.second == '2' ? down : gate_up).bytes += tensor->bytes;
  read.tensors.push_back(std::move(gate_up));
  read.tensors.push_back(std::move(down));
}

}  // namespace

std::vector<std::string> other_names(const std::string& stored) {
  struct Renamed {
    std::string_view from, to;
  };
  constexpr Renamed kOfVit[] = {{"encoder.layer.", "layers."},
                                {"attention.attention.query.", "attention.q_proj."},
                                {"attention.attention.key.", "attention.k_proj."},
                                {"attention.attention.value.", "attention.v_proj."},
                                {"attention.output.dense.", "attention.o_proj."},
                                {"intermediate.dense.", "mlp.fc1."},
                                {"output.dense.", "mlp.fc2."}};
  std::string of_vit = stored;
  for (const auto& [from, to] : kOfVit)
    if (const std::size_t at = of_vit.find(from); at != std::string::npos) of_vit.replace(at, from.size(), to);
  std::string of_decoder = stored, of_head = stored;
  for (const std::string head : {"cls.predictions", "lm_head"}) {
    replace_end(of_decoder, head + ".bias", head + ".decoder.bias");
    replace_end(of_head, head + ".decoder.bias", head + ".bias");
  }
  std::vector<std::string> names = {of_vit, of_decoder, of_head};
  std::erase(names, stored);
  return names;
}

StoredTensors read_by_present_names(const StoredTensors& stored) {
  std::vector<StoredTensor> named;
  for (const StoredTensor& tensor : stored.tensors) {
    if (was_a_buffer(tensor)) continue;
    named.push_back(tensor);
    named.back().name = present_name(tensor.name);
  }
  std::map<std::string, Experts> experts;
  for (const StoredTensor& tensor : named)
    if (const std::optional<ExpertPart> part = expert_part(tensor.name))
      experts[part->experts].emplace(std::pair(part->expert, part->matrix), &tensor);
  std::erase_if(experts, [](const auto& entry) { return !whole(entry.second); });
  StoredTensors read{.tensors = {}, .absent_files = stored.absent_files};
  for (const StoredTensor& tensor : named) {
    const std::optional<ExpertPart> part = expert_part(tensor.name);
    const auto at = part ? experts.find(part->experts) : experts.end();
    if (at == experts.end())
      read.tensors.push_back(tensor);
    else if (at->second.begin()->second == &tensor)
      add_fused(part->experts, at->second, read);
  }
  return read;
}

}  // namespace gpuplan
