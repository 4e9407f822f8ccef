#include "tools/importers/heads.h"

#include "tools/importers/families.h"

namespace gpuplan {

namespace {

std::string named(const std::string& name, const std::string& block) {
  return "  - {name: " + name + ", block: " + block + ", keep: true}\n";
}

// GenericForSequenceClassification refuses more than one sample where no token is known to pad.
void warn_of_padding(const Config& config, SpecText& spec) {
  if (config.find("pad_token_id") == nullptr)
    spec.add_comment("pad_token_id is missing: transformers takes a single sample until it is set.\n");
}

}  // namespace

Head head_of(const Config& config, const std::string& architecture, const std::string& prefix,
             const std::string& language_model, const std::vector<Head>& heads) {
  const auto class_of = [&](Head head) {
    switch (head) {
      case Head::none: return prefix + "Model";
      case Head::encoder: return prefix + "EncoderModel";
      case Head::language_model: return prefix + language_model;
      case Head::samples: return prefix + "ForSequenceClassification";
      case Head::tokens: return prefix + "ForTokenClassification";
      case Head::span: return prefix + "ForQuestionAnswering";
    }
    return prefix;
  };
  std::vector<std::string> known;
  for (const Head head : heads) {
    known.push_back(class_of(head));
    if (architecture == known.back()) return head;
  }
  expect_architecture(config, architecture, known);
  return heads.front();
}

std::string token_dropout(const Config& config) {
  return config.share("classifier_dropout", config.share("hidden_dropout", "0.1"));
}

std::string samples_loss(const Config& config) {
  const std::string problem =
      config.word("problem_type", config.labels() == 1 ? "regression" : "single_label_classification");
  if (problem == "single_label_classification" && config.labels() == 1)
    throw config.wrong(
        "problem_type",
        "single-label classification needs at least two labels: transformers refuses it with num_labels 1");
  if (problem == "single_label_classification") return "HuggingFaceClassificationLoss()";
  if (problem != "multi_label_classification" && problem != "regression")
    throw config.wrong("problem_type", "unknown problem \"" + problem + "\"")
        .label("expected single_label_classification, multi_label_classification or regression");
  return "HuggingFaceClassificationLoss(problem_type=" + problem + ")";
}

std::string token_classifier(const std::string& name, const std::string& dropout) {
  return "  - {name: dropout, op: Dropout(" + dropout + "), keep: true}\n  - " + name + ": Linear(_, $labels)\n";
}

std::string span_classifier(const std::string& dropout) {
  return (dropout.empty() ? "" : "  - {name: dropout, op: Dropout(" + dropout + "), keep: true}\n") +
         "  - {name: qa_outputs, op: \"Linear(_, 2)\", keep: true}\n  - SpanLogits()\n";
}

void set_head(const Config& config, Head head, const Stack& stack, SpecText& spec) {
  const std::string states = named(head == Head::span ? stack.of_span : stack.name, stack.block);
  std::string layers, loss;
  switch (head) {
    case Head::encoder:
    case Head::language_model: return;
    case Head::none:
      spec.set_section("loss", "");
      if (stack.bare_name.empty())
        spec.unfold(stack.block);
      else
        spec.set_section("layers", "layers:\n" + named(stack.bare_name, stack.block));
      spec.set_section("loss", "loss: mean  # the model itself has none\n");
      return;
    case Head::samples:
      layers = states + "  - {name: score, op: \"Linear(_, $labels, bias=False)\", keep: true}\n" +
               "  - {name: pooled, op: PooledLogits(), from: [score, input_ids], keep: true}\n";
      loss = samples_loss(config);
      warn_of_padding(config, spec);
      break;
    case Head::tokens:
      layers = states + token_classifier(stack.tokens, stack.dropout);
      loss = stack.casts_to_fp32 ? "HuggingFaceTokenLoss(fp32=True)" : "HuggingFaceTokenLoss()";
      break;
    case Head::span:
      layers = states + span_classifier(stack.span_dropout);
      loss = "HuggingFaceSpanLoss()";
      break;
  }
  spec.set_section("layers", "layers:\n" + layers);
  spec.set_section("loss", "loss: " + loss + "\n");
  if (head == Head::samples || head == Head::tokens) spec.set("labels", config.labels(), "num_labels");
}

}  // namespace gpuplan
