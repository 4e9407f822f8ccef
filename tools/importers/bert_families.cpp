// BERT and the encoders that are nearly it: transformers/models/bert, roberta and distilbert.
#include "tools/importers/families.h"

namespace gpuplan {

namespace {

struct Sizes {
  std::int64_t hidden, heads, layers;
};

Sizes sizes_of(const Config& config, const char* hidden, const char* heads, const char* layers, std::int64_t depth) {
  const Sizes s{config.size(hidden, 768), config.size(heads, 12), config.size(layers, depth)};
  if (s.hidden % s.heads != 0)
    throw config.wrong(heads, "\"" + std::string(hidden) + "\" " + std::to_string(s.hidden) +
                                  " cannot be divided into " + std::to_string(s.heads) + " heads");
  return s;
}

std::string comment(const Config& config, const std::string& architecture, const Sizes& s) {
  return architecture + " of " + config.file() + ": " + std::to_string(s.layers) + " layers of " +
         std::to_string(s.heads) + " heads.\n";
}

// What BERT and RoBERTa share: the sizes, the dropouts, the norms and the activation.
void set_layers(const Config& config, const Sizes& s, SpecText& spec) {
  spec.set("hidden", s.hidden, "hidden_size");
  spec.set("inner", config.size("intermediate_size", 3072), "intermediate_size");
  spec.set("heads", s.heads, "num_attention_heads");
  spec.set("layers", s.layers, "num_hidden_layers");
  const std::string eps = config.positive("layer_norm_eps", "1e-12");
  spec.replace("LayerNorm($hidden, eps=1e-12)", "LayerNorm($hidden, eps=" + eps + ")");
  const std::string act = activation_call(config, "hidden_act", "gelu");
  spec.replace("intermediate_act_fn: GELU()", "intermediate_act_fn: " + act);
  const std::string weights = config.share("attention_probs_dropout_prob", "0.1");
  spec.replace("HuggingFaceAttention(dropout=0.1, causal=False)",
               "HuggingFaceAttention(dropout=" + weights + ", causal=False)");
  config.refuse("is_decoder", "its mask is then causal");
}

// The head has a bias of its own beside its decoder's, which are the same one only where weights are tied.
void refuse_untied(const Config& config) {
  if (!config.flag("tie_word_embeddings", true))
    throw config.wrong("tie_word_embeddings", "a head with weights of its own is not modelled");
}

}  // namespace

SpecText bert_spec(const Config& config) {
  const std::string architecture = config.architecture("BertForMaskedLM");
  const bool masked_lm = architecture == "BertForMaskedLM";
  expect_architecture(config, architecture, {"BertForMaskedLM", "BertForSequenceClassification"});
  const Sizes s = sizes_of(config, "hidden_size", "num_attention_heads", "num_hidden_layers", 12);
  SpecText spec = template_text(masked_lm ? "bert_masked_lm" : "bert_base");
  spec.set_comment(comment(config, architecture, s));
  spec.set_name("bert");
  set_tokens(spec, "seq", 128, config.size("max_position_embeddings", 512), "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", 30522), "vocab_size");
  spec.set("positions", config.size("max_position_embeddings", 512), "max_position_embeddings");
  spec.set("types", config.size("type_vocab_size", 2), "type_vocab_size");
  const std::string dropout = config.share("hidden_dropout_prob", "0.1");
  if (!masked_lm)
    spec.replace("  - dropout: Dropout(0.1)\n  - classifier", "  - dropout: Dropout(<head>)\n  - classifier");
  spec.replace("dropout: Dropout(0.1)", "dropout: Dropout(" + dropout + ")");
  set_layers(config, s, spec);
  if (masked_lm) {
    spec.remove_variable("labels");
    spec.remove_block("BertPooler");
    spec.replace("transform_act_fn: GELU()", "transform_act_fn: " + activation_call(config, "hidden_act", "gelu"));
    refuse_untied(config);
  } else {
    spec.replace("Dropout(<head>)", "Dropout(" + config.share("classifier_dropout", dropout) + ")");
    spec.set("labels", config.labels(), "num_labels");
  }
  return spec;
}

SpecText roberta_spec(const Config& config) {
  const std::string architecture = config.architecture("RobertaForMaskedLM");
  const bool masked_lm = architecture == "RobertaForMaskedLM";
  expect_architecture(config, architecture, {"RobertaForMaskedLM", "RobertaForSequenceClassification"});
  const Sizes s = sizes_of(config, "hidden_size", "num_attention_heads", "num_hidden_layers", 12);
  if (config.size("pad_token_id", 1) != 1)
    throw config.wrong("pad_token_id", "positions are counted from the padding's number, of which only 1 is modelled");
  SpecText spec = template_text(masked_lm ? "roberta_masked_lm" : "roberta_large");
  spec.set_comment(comment(config, architecture, s));
  spec.set_name("roberta");
  const std::int64_t positions = config.size("max_position_embeddings", 512);
  if (positions < 3)
    throw config.wrong("max_position_embeddings", "positions are counted from 2, so that there are 3 at least");
  set_tokens(spec, "seq", 256, positions - 2, "max_position_embeddings, less the two that are not used");
  spec.set("vocabulary", config.size("vocab_size", 50265), "vocab_size");
  spec.set("positions", positions, "max_position_embeddings");
  spec.set("types", config.size("type_vocab_size", 2), "type_vocab_size");
  const std::string eps = config.positive("layer_norm_eps", "1e-12");
  spec.replace("LayerNorm: LayerNorm($hidden)", "LayerNorm: LayerNorm($hidden, eps=" + eps + ")");
  const std::string dropout = config.share("hidden_dropout_prob", "0.1");
  if (!masked_lm)
    spec.replace("      - Dropout(0.1)", "      - Dropout(" + config.share("classifier_dropout", dropout) + ")");
  spec.replace("dropout: Dropout(0.1)", "dropout: Dropout(" + dropout + ")");
  spec.remove_block("BertEmbeddings");
  spec.remove_block("BertPooler");
  set_layers(config, s, spec);
  if (masked_lm) {
    spec.remove_block("RobertaClassificationHead");
    spec.replace("layer_norm: LayerNorm($hidden)", "layer_norm: LayerNorm($hidden, eps=" + eps + ")");
    spec.remove_variable("labels");
    refuse_untied(config);
  } else {
    spec.set("labels", config.labels(), "num_labels");
  }
  return spec;
}

SpecText distilbert_spec(const Config& config) {
  const std::string architecture = config.architecture("DistilBertForMaskedLM");
  const bool masked_lm = architecture == "DistilBertForMaskedLM";
  expect_architecture(config, architecture, {"DistilBertForMaskedLM", "DistilBertForSequenceClassification"});
  const Sizes s = sizes_of(config, "dim", "n_heads", "n_layers", 6);
  config.refuse("sinusoidal_pos_embds", "the table of positions is then not trained");
  SpecText spec = template_text(masked_lm ? "distilbert_masked_lm" : "distilbert");
  spec.set_comment(comment(config, architecture, s));
  spec.set_name("distilbert");
  const std::int64_t positions = config.size("max_position_embeddings", 512);
  set_tokens(spec, "seq", 256, positions, "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", 30522), "vocab_size");
  spec.set("positions", positions, "max_position_embeddings");
  spec.set("hidden", s.hidden, "dim");
  spec.set("inner", config.size("hidden_dim", 3072), "hidden_dim");
  spec.set("heads", s.heads, "n_heads");
  spec.set("layers", s.layers, "n_layers");
  spec.replace("dropout: Dropout(0.1)", "dropout: Dropout(" + config.share("dropout", "0.1") + ")");
  spec.replace("HuggingFaceAttention(dropout=0.1, causal=False)",
               "HuggingFaceAttention(dropout=" + config.share("attention_dropout", "0.1") + ", causal=False)");
  spec.replace("activation: GELU()", "activation: " + activation_call(config, "activation", "gelu"));
  if (masked_lm) {
    spec.remove_variable("labels");
    if (!config.flag("tie_word_embeddings", true)) spec.replace(", tie: distilbert.embeddings.word_embeddings}", "}");
  } else {
    spec.replace("op: Dropout(0.2)", "op: Dropout(" + config.share("seq_classif_dropout", "0.2") + ")");
    spec.set("labels", config.labels(), "num_labels");
  }
  return spec;
}

}  // namespace gpuplan
