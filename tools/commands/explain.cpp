// gpuplan explain TOPIC: what a layer computes and saves, or how a part of the estimate works.
#include <CLI/CLI.hpp>
#include <memory>

#include "estimator/base/format.h"
#include "estimator/base/shape.h"
#include "estimator/device/arithmetic.h"
#include "estimator/report/text_table.h"
#include "layers/catalog.h"
#include "tools/answers/explain_topics.h"
#include "tools/commands/commands.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

std::string list_of_layers() {
  TextTable table({kLeft, kLeft});
  for (const LayerDef* layer : make_catalog()) table.row({std::string(layer->name), std::string(layer->summary)});
  return table.text();
}

std::string list_of(const std::vector<std::string>& names, const std::string& prefix) {
  std::string out;
  for (const std::string& name : names) out += "  " + prefix + name + "\n";
  return out;
}

std::string list_of_gpus() {
  TextTable table({kLeft, kLeft, kLeft});
  for (const Gpu& gpu : gpu_table()) table.row({gpu.name, gpu.title, arithmetic_of(gpu)});
  return table.text();
}

std::string_view type_word(ParameterType type) {
  switch (type) {
    case ParameterType::size: return "size or _";
    case ParameterType::integer: return "integer";
    case ParameterType::pair: return "integer or pair";
    case ParameterType::integers: return "integers";
    case ParameterType::real: return "number";
    case ParameterType::boolean: return "True or False";
    case ParameterType::word: return "word";
  }
  return "";
}

// Text of several lines behind an indent, without the blank lines around it.
std::string indented(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  std::string out = text.empty() ? "" : "  ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return text.empty() ? "" : out + "\n";
}

std::string example_text(const LayerExample& example) {
  if (example.call.empty()) return "";
  std::string inputs;
  for (const auto& sizes : example.input_shapes)
    inputs += (inputs.empty() ? "" : " and ") + to_string(Shape(std::span<const std::int64_t>(sizes)));
  TextTable table({kLeft, kLeft});
  table.row({"output", to_string(Shape(std::span<const std::int64_t>(example.output_shape)))});
  table.row({"parameters", format_count(example.parameters)});
  table.row({"forward", format_count(example.forward_macs) + " MAC"});
  table.row({"backward", format_count(example.backward_macs) + " MAC"});
  table.row({"saved", format_count(example.saved_bytes) + " B, including the layer's inputs, excluding parameters"});
  return "\n  " + std::string(example.call) + (inputs.empty() ? "" : " on " + inputs) + "\n" + table.text("    ") +
         (example.derivation.empty() ? "" : indented(example.derivation));
}

std::string layer_text(const LayerDef& layer) {
  std::string out = std::string(layer.name) + ": " + std::string(layer.summary) + "\n\n" + indented(layer.math);
  if (!layer.parameters.empty()) {
    TextTable table({kLeft, kLeft, kLeft, kLeft});
    for (const ParameterDef& p : layer.parameters)
      table.row({std::string(p.name), std::string(type_word(p.type)),
                 p.default_value.empty() ? "required" : "= " + std::string(p.default_value), std::string(p.doc)});
    out += "\n" + table.text();
  }
  return out + example_text(layer.example);
}

std::string topics_text() {
  TextTable table({kLeft, kLeft});
  table.row({"layers", "all layers that a model can use"});
  table.row({"NAME", "one layer: its math, parameters and a worked example, such as gpuplan explain Conv2d"});
  table.row({"zoo", "the built-in models"});
  table.row({"gpus", "the GPUs that --gpu takes, and the types that they compute in"});
  for (const ExplainTopic& topic : explain_topics()) table.row({std::string(topic.name), std::string(topic.summary)});
  return table.text();
}

std::string explain(const std::string& topic) {
  if (topic.empty()) return topics_text();
  if (topic == "layers") return list_of_layers();
  if (topic == "zoo") return list_of(zoo_names(), "zoo:");
  if (topic == "gpus") return list_of_gpus();
  for (const ExplainTopic& known : explain_topics())
    if (known.name == topic) return std::string(known.text);
  if (const LayerDef* const layer = find_layer(make_catalog(), topic)) return layer_text(*layer);
  refuse_learned_trace({topic, nullptr});
  std::vector<std::string> words = {"layers", "zoo", "gpus"};
  for (const ExplainTopic& known : explain_topics()) words.emplace_back(known.name);
  for (const LayerDef* layer : make_catalog()) words.emplace_back(layer->name);
  throw Error("no topic or layer is called \"" + topic + "\"" + did_you_mean(topic, words), ErrorKind::usage)
      .help("for all topics: gpuplan explain");
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  const auto topic = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand("explain", "Explains a layer, or how the estimate works");
  command->add_option("topic", *topic, "A layer or a topic, such as Conv2d or precision (lists the topics)")
      ->type_name("TOPIC");
  command->callback([topic, &exit_code] {
    write_stdout(explain(*topic));
    exit_code = 0;
  });
}

}  // namespace gpuplan
