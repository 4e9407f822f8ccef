#include "estimator/serve/served_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {

const ServedMatrix* ServedLayer::find(MatrixRole role) const {
  const auto found = std::ranges::find(matrices, role, &ServedMatrix::role);
  return found == matrices.end() ? nullptr : &*found;
}

std::int64_t ServedModel::parameters() const {
  std::int64_t sum = checked_mul(vocabulary, hidden) * (tied ? 1 : 2) + learned_positions * hidden + vectors;
  for (const ServedLayer& layer : layers) {
    sum = checked_add(sum, layer.vectors);
    for (const ServedMatrix& m : layer.matrices)
      sum = checked_add(sum, checked_mul(checked_mul(m.in, m.out), m.copies));
  }
  return sum;
}

namespace {

constexpr std::array kAttentions = {"GroupedQueryAttention", "ScaledDotProductAttention", "HuggingFaceAttention",
                                    "FusedAttention"};

bool is_attention(const Layer& layer) { return std::ranges::find(kAttentions, layer.type) != kAttentions.end(); }

// The product after an attention that a spec writes out in operations of its own (gpt-oss, DeepSeek).
constexpr std::string_view kWrittenOut = ".o_proj";

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "model.layers.3" of "model.layers.3.self_attn.q_proj": up to the first number of the path; else empty.
std::string_view block_of(std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (is_number(path.substr(begin, end - begin))) return path.substr(0, end);
    begin = end + 1;
  }
  return {};
}

// The windows that masks have, by the path of the mask.
using Windows = std::map<std::string, std::int64_t>;

void find_windows(const Body& body, const std::string& prefix, Windows& out) {
  for (const Node& node : body) {
    const std::string path = prefix.empty() ? node.name : prefix + "." + node.name;
    if (const auto* block = std::get_if<Block>(&node.what)) find_windows(block->body, path, out);
    const auto* call = std::get_if<LayerCall>(&node.what);
    if (call == nullptr || call->type != "CausalMask") continue;
    for (const Argument& argument : call->arguments)
      if (const auto* tokens = std::get_if<std::int64_t>(&argument.value.as);
          tokens != nullptr && argument.name == "sliding_window")
        out[path] = *tokens;
  }
}

class Reader {
 public:
  Reader(const Model& model, const Graph& graph) : model_(model), graph_(graph) {
    find_windows(model.layers, "", windows_);
    for (const ParameterTensor& p : graph.parameters) parameters_[p.layer].push_back(&graph.tensor(p.tensor).shape);
    for (LayerId id = 0; id < std::ssize(graph.layers); ++id)
      made_by_[graph.layers[static_cast<std::size_t>(id)].output] = id;
    out_.name = model.name;
    constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;
    out_.positions = variable("positions");
    if (out_.positions < 0 || out_.positions > kMostPositions)
      throw Error(out_.name + ": the variable positions is from 1 to " + std::to_string(kMostPositions));
  }

  ServedModel read() {
    for (const Layer& layer : graph_.layers)
      if (is_attention(layer) || layer.name.ends_with(kWrittenOut)) decoders_.insert(std::string(block_of(layer.name)));
    decoders_.erase("");
    for (LayerId id = 0; id < std::ssize(graph_.layers); ++id) read_layer(id);
    refuse_no_decoder();
    return std::move(out_);
  }

 private:
  std::span<const std::int32_t> inputs(const Layer& layer) const { return graph_.at(layer.inputs); }
  const Layer& layer(LayerId id) const { return graph_.layers[static_cast<std::size_t>(id)]; }

  void read_layer(LayerId id) {
    const Layer& at = layer(id);
    const std::string block(block_of(at.name));
    if (at.type.ends_with("RotaryEmbedding")) out_.rotary_tables.push_back(graph_.tensor(at.output).shape[-1]);
    if (!decoders_.contains(block)) return read_outside(id);
    if (block != block_) begin(block);
    find_window(at);
    if (is_attention(at)) return read_attention(at);
    const auto found = parameters_.find(id);
    if (found == parameters_.end()) return;
    for (const Shape* shape : found->second) read_parameter(at, *shape);
  }

  void begin(const std::string& block) {
    block_ = block;
    out_.layers.emplace_back();
    attended_ = false;
    input_ = kNone;
    experts_ = 0;
    for (const Layer& other : graph_.layers)  // routers come before the experts that they choose
      if (other.type.ends_with("Experts") && block_of(other.name) == block)
        experts_ = experts_of(static_cast<LayerId>(&other - graph_.layers.data()));
  }

  std::int64_t experts_of(LayerId id) const {
    const auto found = parameters_.find(id);
    return found == parameters_.end() ? 0 : (*found->second.front())[0];
  }

  // What RepeatKV was given, where an attention takes its result.
  const Shape& before_repeat(TensorId t) const {
    const auto found = made_by_.find(t);
    if (found != made_by_.end() && layer(found->second).type == "RepeatKV")
      return graph_.tensor(inputs(layer(found->second)).front()).shape;
    return graph_.tensor(t).shape;
  }

  void read_attention(const Layer& at) {
    const std::span<const std::int32_t> given = inputs(at);
    const auto has_heads = [&](std::size_t i) {
      const Shape& shape = graph_.tensor(given[i]).shape;
      return shape.rank() == 4 && shape[1] > 0 && shape[3] > 0;
    };
    if (given.size() < 3 || !has_heads(0) || !has_heads(1) || !has_heads(2))
      throw Error(out_.name + ": the attention of " + at.name + " has no heads that an engine could cache");
    ServedAttention& a = out_.layers.back().attention;
    const Shape& q = graph_.tensor(given[0]).shape;
    const Shape& k = before_repeat(given[1]);
    a.heads = q[1];
    a.kv_heads = k[1];
    a.key_size = k[3];
    a.value_size = before_repeat(given[2])[3];
    attended_ = true;
    input_ = kNone;
  }

  // A mask that any operation of the block takes is its attention's.
  void find_window(const Layer& at) {
    for (const TensorId given : inputs(at)) {
      const auto mask = made_by_.find(given);
      if (mask == made_by_.end()) continue;
      const auto window = windows_.find(layer(mask->second).name);
      if (window != windows_.end()) out_.layers.back().attention.window = window->second;
    }
  }

  std::int64_t variable(std::string_view name) const {
    const auto found = std::ranges::find(model_.vars, name, &Variable::name);
    return found == model_.vars.end() ? 0 : found->value;
  }

  // Of an attention that is written out: by the spec's variables, and the products of keys.
  void read_written_out() {
    ServedAttention& a = out_.layers.back().attention;
    a.heads = std::max<std::int64_t>(variable("heads"), 1);
    a.kv_heads = std::max<std::int64_t>(variable("kv_heads"), 1);
    a.key_size = variable("head") > 0 ? variable("head") : variable("plain") + variable("turned");
    a.value_size = variable("value") > 0 ? variable("value") : a.key_size;
    if (a.key_size == 0)
      throw Error(out_.name + ": the attention of " + block_ +
                  " is written out, and no variable says the size of its heads")
          .help("the variables heads, kv_heads and head say how it is cached");
    attended_ = true;
    input_ = kNone;
  }

  void read_parameter(const Layer& at, const Shape& shape) {
    ServedLayer& to = out_.layers.back();
    const bool experts = at.type.ends_with("Experts");
    if (experts && shape.rank() == 3) return add_experts(at, shape);
    if ((experts && !at.type.starts_with("Mixture")) || shape.rank() != 2) {
      to.vectors += shape.elements();
      return;
    }
    add_matrix(at, shape);
  }

  // Experts(x, chosen, weights) is given them; MixtureOfExperts has the router within, and the spec's variable says.
  std::int64_t chosen_experts(const Layer& at) const {
    const std::span<const std::int32_t> given = inputs(at);
    if (given.size() > 1) return graph_.tensor(given[1]).shape[-1];
    if (variable("top_k") == 0)
      throw Error(out_.name + ": how many experts a token visits is not known of " + at.name)
          .help("the variable top_k says it");
    return variable("top_k");
  }

  void add_experts(const Layer& at, const Shape& shape) {
    std::vector<ServedMatrix>& to = out_.layers.back().matrices;
    const bool first = to.empty() || !to.back().expert;
    const std::int64_t inner = shape[1] == out_.hidden ? shape[2] : shape[1];
    to.push_back({.role = first ? MatrixRole::mlp_input : MatrixRole::mlp_output,
                  .in = first ? out_.hidden : inner,
                  .out = first ? inner : out_.hidden,
                  .copies = shape[0],
                  .used = chosen_experts(at),
                  .parts = first ? 2 : 1,
                  .expert = true,
                  .microscaled = at.type == "GptOssExperts"});
  }

  // Products of one input are one product, of one role.
  void add_matrix(const Layer& at, const Shape& shape) {
    std::vector<ServedMatrix>& to = out_.layers.back().matrices;
    if (inputs(at).empty()) {  // a Parameter that other operations multiply with: a router's
      if (experts_ > 0 && shape[0] == experts_)
        to.push_back({.role = MatrixRole::router, .in = shape[1], .out = shape[0]});
      else
        out_.layers.back().vectors += shape.elements();
      return;
    }
    const Tensor& multiplied = graph_.tensor(inputs(at).front());
    if (multiplied.shape.rank() == 0 || multiplied.shape[-1] == 0 || multiplied.dtype == DType::int64)
      throw Error(out_.name + ": " + at.name + " is no product that an engine is known to have");
    const TensorId given = inputs(at).front();
    const std::int64_t in = graph_.tensor(given).shape[-1];
    const std::int64_t out = shape.elements() / in;
    const BufferId buffer = buffer_of(graph_, given);
    if (experts_ > 0 && out == experts_) return to.push_back({.role = MatrixRole::router, .in = in, .out = out});
    if (!attended_ && at.name.ends_with(kWrittenOut)) read_written_out();
    if (at.name.find("kv_a_proj") != std::string::npos) {
      out_.layers.back().attention.latent = out;
      out_.layers.back().attention.latent_value = out - variable("turned");
    }
    const bool merges = buffer == input_ && !to.empty() && to.back().in == in;
    if (merges) {
      to.back().out += out;
      ++to.back().parts;
      return;
    }
    to.push_back({.role = role_of_next(), .in = in, .out = out});
    input_ = buffer;
  }

  MatrixRole role_of_next() const {
    if (!attended_) return MatrixRole::attention_input;
    const std::vector<ServedMatrix>& have = out_.layers.back().matrices;
    const auto last = std::ranges::find_if(
        have.rbegin(), have.rend(), [](const ServedMatrix& m) { return m.role != MatrixRole::router && !m.expert; });
    if (last == have.rend() || last->role == MatrixRole::attention_input) return MatrixRole::attention_output;
    return last->role == MatrixRole::mlp_input ? MatrixRole::mlp_output : MatrixRole::mlp_input;
  }

  void read_outside(LayerId id) {
    const Layer& at = layer(id);
    const Shape* const made = at.output == kNone ? nullptr : &graph_.tensor(at.output).shape;
    if (at.type == "Linear" && made != nullptr && made->rank() > 0 && (*made)[-1] == out_.vocabulary) has_head_ = true;
    const auto found = parameters_.find(id);
    const bool embeds = at.type.find("Embedding") != std::string::npos;
    if (found == parameters_.end()) return;
    for (const Shape* shape : found->second) {
      if (shape->rank() == 2 && embeds && out_.vocabulary == 0) {
        out_.vocabulary = (*shape)[0];
        out_.hidden = (*shape)[1];
      } else if (shape->rank() == 2 && embeds) {
        out_.learned_positions += (*shape)[0];
      } else if (shape->rank() == 2 && (*shape)[0] == out_.vocabulary) {
        own_head_ = true;
      } else {
        out_.vectors += shape->elements();
      }
    }
  }

  void refuse_no_decoder() {
    const char* const lacks = out_.vocabulary == 0  ? "embedding of tokens"
                              : out_.layers.empty() ? "attention that is known in its blocks"
                              : !has_head_          ? "head that gives a number for each token of the vocabulary"
                                                    : nullptr;
    if (lacks != nullptr)
      throw Error(out_.name + " is no decoder: it has no " + lacks)
          .help(
              "engines serve models that write one token after another; gpuplan plan --mode infer plans one forward of "
              "this model");
    out_.tied = !own_head_;
  }

  const Model& model_;
  const Graph& graph_;
  Windows windows_;
  std::map<LayerId, std::vector<const Shape*>> parameters_;
  std::map<TensorId, LayerId> made_by_;
  std::set<std::string> decoders_;  // paths of the blocks that have an attention
  ServedModel out_;
  // Of the decoder that is being read:
  std::string block_;
  bool attended_ = false;
  BufferId input_ = kNone;    // of the product before
  std::int64_t experts_ = 0;  // how many there are
  bool has_head_ = false, own_head_ = false;
};

}  // namespace

ServedModel served_model(const Model& model, const Graph& graph) { return Reader(model, graph).read(); }

}  // namespace gpuplan
