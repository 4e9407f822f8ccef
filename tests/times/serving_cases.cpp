#include "tests/times/serving_cases.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>

#include "estimator/base/csv.h"
#include "tests/times/time_cases.h"

namespace gpuplan {
namespace {

Source serving_table(const std::string& name) {
  const std::string path = std::string(GPUPLAN_SOURCE_DIR) + "/tests/times/" + name;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  Source source{path, ""};
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#')) source.text += line + '\n';
  return source;
}

ServedModel sized(const std::string& name, const std::map<std::string, std::int64_t>& sizes) {
  const auto size = [&](const char* what) { return sizes.at(what); };
  ServedModel model;
  model.name = name;
  model.hidden = size("hidden"), model.vocabulary = size("vocabulary");
  ServedLayer layer;
  ServedAttention& a = layer.attention;
  a.heads = size("heads"), a.kv_heads = size("kv_heads");
  a.key_size = a.value_size = size("head_size");
  const auto matrix = [&](MatrixRole role, std::int64_t in, std::int64_t out) {
    ServedMatrix m;
    m.role = role, m.in = in, m.out = out;
    if (role == MatrixRole::mlp_input || role == MatrixRole::mlp_output)
      m.copies = size("experts"), m.used = size("used"), m.expert = m.copies > 1;
    layer.matrices.push_back(m);
  };
  matrix(MatrixRole::attention_input, model.hidden, (a.heads + 2 * a.kv_heads) * a.key_size);
  matrix(MatrixRole::attention_output, a.heads * a.key_size, model.hidden);
  if (size("experts") > 1) matrix(MatrixRole::router, model.hidden, size("experts"));
  matrix(MatrixRole::mlp_input, model.hidden, 2 * size("inner"));
  matrix(MatrixRole::mlp_output, size("inner"), model.hidden);
  model.layers.assign(static_cast<std::size_t>(size("layers")), layer);
  return model;
}

ServingEngine engine_named(const std::string& name) {
  if (name == "vllm") return ServingEngine::vllm;
  return name == "transformers" ? ServingEngine::transformers : ServingEngine::llama_cpp;
}

ServingQuantity quantity_named(const std::string& name) {
  if (name == "decode") return ServingQuantity::decode;
  return name == "prefill" ? ServingQuantity::prefill : ServingQuantity::whole;
}

EngineStep part_of_prompts(std::int64_t batch, std::int64_t before, std::int64_t tokens) {
  EngineStep step;
  step.prefill_tokens = batch * tokens;
  step.prefill_pairs =
      static_cast<double>(batch * tokens) * (static_cast<double>(before) + static_cast<double>(tokens) / 2);
  return step;
}

}  // namespace

const ServedModel& sized_model(const std::string& name) {
  static const std::map<std::string, ServedModel> models = [] {
    std::map<std::string, ServedModel> all;
    const CsvTable table(serving_table("serving_models.csv"));
    for (std::size_t i = 0; i < table.rows(); ++i) {
      std::map<std::string, std::int64_t> sizes;
      for (const CsvField& column : table.columns())
        if (column.text != "model") sizes[column.text] = std::stoll(table.at(i, column.text).text);
      const std::string& model = table.at(i, "model").text;
      all.emplace(model, sized(model, sizes));
    }
    return all;
  }();
  return models.at(name);
}

std::vector<ServingReading> serving_readings() {
  const CsvTable table(serving_table("serving_readings.csv"));
  std::vector<ServingReading> readings;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto text = [&](const char* column) -> const std::string& { return table.at(i, column).text; };
    ServingReading r;
    r.held = text("half") == "held", r.quantity = quantity_named(text("quantity"));
    r.engine = text("engine"), r.model = text("model"), r.gpu = text("gpu");
    r.batch = std::stoll(text("batch")), r.prompt = std::stoll(text("prompt"));
    r.generated = std::stoll(text("generate")), r.seconds = std::stod(text("seconds"));
    PaceSettings& s = r.settings;
    s.engine = engine_named(r.engine);
    s.weights = stored_weights(s.engine, text("weights"));
    s.compute = text("weights") == "bf16" ? DType::bf16 : DType::fp16;
    s.fused_attention = text("attention") == "fused", s.graphs = text("graphs") == "yes";
    s.tensor_ranks = std::stoll(text("gpus"));
    if (s.tensor_ranks > 1) s.link = link_within_node(measured_gpu(r.gpu), s.tensor_ranks);
    readings.push_back(r);
  }
  return readings;
}

double predicted_seconds(const ServingReading& r, const PaceModel& pace, const TimeModel& time) {
  const std::optional<StepSeconds> seconds = pace_of(sized_model(r.model), measured_gpu(r.gpu), r.settings, time, pace);
  if (!seconds) throw std::runtime_error("nobody knows the peaks or the link of " + r.gpu);
  EngineStep token;
  token.decoding = r.batch;
  token.context_tokens = r.batch * (r.prompt + r.generated / 2);
  if (r.quantity == ServingQuantity::decode) return (*seconds)(token);
  // llama.cpp computes a prompt in parts of n_ubatch tokens, 512 unless it is told otherwise.
  const std::int64_t part = r.settings.engine == ServingEngine::llama_cpp ? 512 : r.prompt;
  double all = 0;
  for (std::int64_t before = 0; before < r.prompt; before += part)
    all += (*seconds)(part_of_prompts(r.batch, before, std::min(part, r.prompt - before)));
  // The prompts' forward makes the first token.
  return r.quantity == ServingQuantity::prefill ? all : all + static_cast<double>(r.generated - 1) * (*seconds)(token);
}

double median_factor(std::vector<double> ratios) {
  for (double& ratio : ratios) ratio = std::max(ratio, 1 / ratio);
  std::ranges::sort(ratios);
  const std::size_t n = ratios.size();
  return n == 0 ? 0 : (ratios[(n - 1) / 2] + ratios[n / 2]) / 2;
}

}  // namespace gpuplan
