#include "estimator/launch/launch.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/launch/properties.h"

namespace gpuplan {

std::string_view name_of(LaunchTarget target) {
  constexpr std::array<std::string_view, 4> kNames = {"torchrun", "torchtitan", "deepspeed", "megatron"};
  return kNames[static_cast<std::size_t>(target)];
}

LaunchText launch_text(const Launch& launch, LaunchTarget target) {
  refuse_unsaid(launch, target);
  switch (target) {
    case LaunchTarget::torchrun: return torchrun_text(launch);
    case LaunchTarget::torchtitan: return torchtitan_text(launch);
    case LaunchTarget::deepspeed: return deepspeed_text(launch);
    case LaunchTarget::megatron: break;
  }
  return megatron_text(launch);
}

std::string torchrun_command(const Launch& launch) {
  std::string command;
  if (!launch.run.alloc_conf.empty()) command += "PYTORCH_ALLOC_CONF='" + launch.run.alloc_conf + "' ";
  command += "torchrun ";
  if (launch.nodes() == 1)
    command += "--standalone";
  else
    command += "--nnodes " + std::to_string(launch.nodes()) + " --rdzv-backend c10d --rdzv-endpoint $HEAD:29500";
  return command + " --nproc-per-node " + std::to_string(launch.gpus_of_node());
}

namespace {

struct Numbered {
  std::string before, after;
  std::int64_t number = -1;
};

// "layers.3" is "layers." and 3; the last part of a path that is a number.
Numbered numbered(const std::string& path) {
  std::size_t end = path.size();
  while (end > 0) {
    const std::size_t dot = path.rfind('.', end - 1);
    const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
    const std::string part = path.substr(begin, end - begin);
    const bool digits =
        !part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (digits && part.size() < 10) return {path.substr(0, begin), path.substr(end), std::stoll(part)};
    if (dot == std::string::npos) break;
    end = dot;
  }
  return {path, "", -1};
}

}  // namespace

std::string python_list(const std::vector<std::string>& modules) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < modules.size();) {
    const Numbered first = numbered(modules[i]);
    std::size_t end = i + 1;
    while (first.number >= 0 && end < modules.size()) {
      const Numbered next = numbered(modules[end]);
      if (next.before != first.before || next.after != first.after ||
          next.number != first.number + static_cast<std::int64_t>(end - i))
        break;
      ++end;
    }
    const std::int64_t count = static_cast<std::int64_t>(end - i);
    if (count == 1) {
      parts.push_back("[\"" + modules[i] + "\"]");
    } else {
      const std::string from = first.number == 0 ? "" : std::to_string(first.number) + ", ";
      parts.push_back("[f\"" + first.before + "{i}" + first.after + "\" for i in range(" + from +
                      std::to_string(first.number + count) + ")]");
    }
    i = end;
  }
  if (parts.empty()) return "[]";
  std::string list = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) list += " + " + parts[i];
  return list;
}

std::string python_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "\"";
}

std::string torch_type(DType type) {
  switch (type) {
    case DType::bf16: return "torch.bfloat16";
    case DType::fp16: return "torch.float16";
    case DType::fp64: return "torch.float64";
    default: return "torch.float32";
  }
}

std::string commented(const std::vector<std::string>& lines, std::string_view mark) {
  std::string text;
  for (const std::string& line : lines) text += std::string(mark) + (line.empty() ? "" : " " + line) + "\n";
  return text;
}

namespace {

std::string variable(const Model& model, std::string_view name) {
  const auto found = std::ranges::find(model.vars, name, &Variable::name);
  return found == model.vars.end() ? "" : std::to_string(found->value);
}

}  // namespace

std::string llama_config(const Model& model) {
  constexpr std::array<std::pair<const char*, const char*>, 8> kArguments = {{{"vocab_size", "vocabulary"},
                                                                              {"hidden_size", "hidden"},
                                                                              {"intermediate_size", "inner"},
                                                                              {"num_hidden_layers", "layers"},
                                                                              {"num_attention_heads", "heads"},
                                                                              {"num_key_value_heads", "kv_heads"},
                                                                              {"head_dim", "head"},
                                                                              {"max_position_embeddings", "seq"}}};
  const Node* head = nullptr;
  bool is_llama = false;
  for (const Node& node : model.layers) {
    const auto* block = std::get_if<Block>(&node.what);
    is_llama = is_llama || (node.name == "model" && block != nullptr && block->block == "LlamaModel");
    if (node.name == "lm_head") head = &node;
  }
  if (!is_llama || head == nullptr || model.loss.type != "CausalLMLoss") return "";
  std::string arguments;
  for (const auto& [argument, name] : kArguments) {
    const std::string value = variable(model, name);
    if (value.empty()) return "";
    arguments += std::string(argument) + "=" + value + ", ";
  }
  return "transformers.LlamaConfig(" + arguments + "tie_word_embeddings=" + (head->tie.empty() ? "False" : "True") +
         ")";
}

}  // namespace gpuplan
