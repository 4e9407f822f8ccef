// BERT and the encoders that are nearly it: transformers/models/bert, roberta and distilbert.
#include "tools/importers/families.h"
#include "tools/importers/heads.h"

namespace gpuplan {

namespace {

const std::vector<Head> kHeads{Head::language_model, Head::none, Head::samples, Head::tokens, Head::span};

// What BERT and RoBERTa share: the sizes, the dropouts, the norms and the activation.
void set_layers(const Config& config, const StackSizes& s, SpecText& spec) {
  spec.set("hidden", s.hidden, "hidden_size");
  spec.set("inner", config.size("intermediate_size", 3072), "intermediate_size");
  spec.set("heads", s.heads, "num_attention_heads");
  spec.set("layers", s.layers, "num_hidden_layers");
  const std::string eps = config.positive("layer_norm_eps", "1e-12");
  spec.replace("LayerNorm($hidden, eps=1e-12)", "LayerNorm($hidden, eps=" + eps + ")");
  const std::string act = activation_call(config, "hidden_act", "gelu");
  spec.replace("intermediate_act_fn: GELU()", "intermediate_act_fn: " + act);
  const std::string weights = config.share("attention_probs_dropout_prob", "0.1");
  spec.replace("HuggingFaceAttention(dropout=0.1,", "HuggingFaceAttention(dropout=" + weights + ",");
  config.refuse("is_decoder", "its mask is then causal");
}

// The stack's own modules without the name that a model with a head has for them; the pooler's result and the states
// are both returned.
void set_bare(const std::string& prefix, const std::string& embeddings, SpecText& spec) {
  std::string layers = spec.section("layers");
  layers.erase(layers.find("  - {name: " + prefix + ".pooler"));
  for (std::size_t at = 0; (at = layers.find(prefix + ".")) != std::string::npos;) layers.erase(at, prefix.size() + 1);
  for (const std::string& entry : {"block: " + embeddings, std::string("from: input_ids")})  // local names
    layers.insert(layers.find(entry) + entry.size(), ", keep: true");
  layers += "  - {name: pooler, block: BertPooler}\n  - ReturnedState()\n  - {op: Identity(), from: encoder.layer}\n";
  spec.set_section("layers", layers);
  spec.set_section("loss", "loss: mean  # of the states; the model itself has none\n");
  spec.remove_variable("labels");
}

// `layers` up to the states, with a head that finds spans, or one that classifies tokens.
void set_classifier(const Config& config, Head head, const std::string& states, const std::string& dropout,
                    SpecText& spec) {
  const bool span = head == Head::span;
  // Its logits are as many as labels, and split into the two of a span.
  if (span && config.labels() != 2) throw config.wrong("num_labels", "a model that finds spans takes two labels only");
  spec.set_section("layers", states + (span ? span_classifier("") : token_classifier("classifier", dropout)));
  spec.set_section("loss", span ? "loss: HuggingFaceSpanLoss()\n" : "loss: HuggingFaceTokenLoss()\n");
  if (span)
    spec.remove_variable("labels");
  else
    spec.set("labels", config.labels(), "num_labels");
}

// What a template has before an entry of the model's top.
std::string before(std::string_view entry, const SpecText& spec) {
  const std::string layers = spec.section("layers");
  return layers.substr(0, layers.find(entry));
}

// The head has a bias of its own beside its decoder's, which are the same one only where weights are tied.
void refuse_untied(const Config& config) {
  if (!config.flag("tie_word_embeddings", true))
    throw config.wrong("tie_word_embeddings", "a head with weights of its own is not modelled");
}

}  // namespace

SpecText bert_spec(const Config& config) {
  const std::string architecture = config.architecture("BertForMaskedLM");
  const Head head = head_of(config, architecture, "Bert", "ForMaskedLM", kHeads);
  const bool pools = head == Head::none || head == Head::samples;
  const StackSizes s = sizes_of(config, {}, {768, 12, 12});
  SpecText spec = template_text(pools ? "bert_base" : "bert_masked_lm");
  spec.set_comment(stack_comment(config, architecture, s));
  spec.set_name("bert");
  set_tokens(spec, "seq", 128, config.size("max_position_embeddings", 512), "max_position_embeddings");
  spec.set("vocabulary", config.size("vocab_size", 30522), "vocab_size");
  spec.set("positions", config.size("max_position_embeddings", 512), "max_position_embeddings");
  spec.set("types", config.size("type_vocab_size", 2), "type_vocab_size");
  const std::string dropout = config.share("hidden_dropout_prob", "0.1");
  const std::string of_head = config.share("classifier_dropout", dropout);
  if (pools) spec.replace("  - dropout: Dropout(0.1)\n  - classifier", "  - dropout: Dropout(<head>)\n  - classifier");
  spec.replace("dropout: Dropout(0.1)", "dropout: Dropout(" + dropout + ")");
  set_layers(config, s, spec);
  if (!pools) spec.remove_block("BertPooler");
  if (head == Head::language_model) {
    spec.remove_variable("labels");
    spec.replace("transform_act_fn: GELU()", "transform_act_fn: " + activation_call(config, "hidden_act", "gelu"));
    refuse_untied(config);
  } else if (head == Head::none) {
    set_bare("bert", "BertEmbeddings", spec);
  } else if (head == Head::samples) {
    spec.replace("Dropout(<head>)", "Dropout(" + of_head + ")");
    spec.set("labels", config.labels(), "num_labels");
    spec.set_section("loss", "loss: " + samples_loss(config) + "\n");
  } else {
    spec.remove_block("BertPredictionHeadTransform");
    set_classifier(config, head, before("  - {name: cls.predictions.transform", spec), of_head, spec);
  }
  return spec;
}

SpecText roberta_spec(const Config& config) {
  const std::string architecture = config.architecture("RobertaForMaskedLM");
  const Head head = head_of(config, architecture, "Roberta", "ForMaskedLM", kHeads);
  const bool classifies = head == Head::samples;
  const StackSizes s = sizes_of(config, {}, {768, 12, 12});
  if (config.size("pad_token_id", 1) != 1)
    throw config.wrong("pad_token_id", "positions are counted from the padding's number, of which only 1 is modelled");
  SpecText spec = template_text(classifies ? "roberta_large" : "roberta_masked_lm");
  spec.set_comment(stack_comment(config, architecture, s));
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
  const std::string of_head = config.share("classifier_dropout", dropout);
  if (classifies) spec.replace("      - Dropout(0.1)", "      - Dropout(" + of_head + ")");
  spec.replace("dropout: Dropout(0.1)", "dropout: Dropout(" + dropout + ")");
  spec.remove_block("BertEmbeddings");
  if (head != Head::none) spec.remove_block("BertPooler");
  set_layers(config, s, spec);
  if (!classifies) spec.remove_block("RobertaClassificationHead");
  if (head == Head::samples) {
    spec.set("labels", config.labels(), "num_labels");
    spec.set_section("loss", "loss: " + samples_loss(config) + "\n");
  } else if (head == Head::language_model) {
    spec.replace("layer_norm: LayerNorm($hidden)", "layer_norm: LayerNorm($hidden, eps=" + eps + ")");
    spec.remove_variable("labels");
    refuse_untied(config);
  } else {
    spec.remove_block("RobertaLMHead");
    const std::string states = before("  - {name: lm_head", spec);
    if (head != Head::none) {
      set_classifier(config, head, states, of_head, spec);
    } else {
      spec.set_section("layers", states + "  - {name: roberta.pooler, block: BertPooler}\n");
      set_bare("roberta", "RobertaEmbeddings", spec);
    }
  }
  return spec;
}

SpecText distilbert_spec(const Config& config) {
  const std::string architecture = config.architecture("DistilBertForMaskedLM");
  const Head head = head_of(config, architecture, "DistilBert", "ForMaskedLM", kHeads);
  const StackSizes s = sizes_of(config, {"dim", "n_heads", "n_layers"}, {768, 12, 6});
  config.refuse("sinusoidal_pos_embds", "the table of positions is then not trained");
  SpecText spec = template_text(head == Head::samples ? "distilbert" : "distilbert_masked_lm");
  spec.set_comment(stack_comment(config, architecture, s));
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
  spec.replace("HuggingFaceAttention(dropout=0.1,",
               "HuggingFaceAttention(dropout=" + config.share("attention_dropout", "0.1") + ",");
  spec.replace("activation: GELU()", "activation: " + activation_call(config, "activation", "gelu"));
  if (head == Head::samples) {
    spec.replace("op: Dropout(0.2)", "op: Dropout(" + config.share("seq_classif_dropout", "0.2") + ")");
    spec.set("labels", config.labels(), "num_labels");
    spec.set_section("loss", "loss: " + samples_loss(config) + "\n");
    return spec;
  }
  spec.remove_variable("labels");
  if (head == Head::language_model && !config.flag("tie_word_embeddings", true))
    spec.replace(", tie: distilbert.embeddings.word_embeddings}", "}");
  if (head == Head::span && config.labels() != 2)
    throw config.wrong("num_labels", "DistilBertForQuestionAnswering takes two labels only");
  Stack stack;
  stack.block = "DistilBertModel";
  stack.name = stack.of_span = "distilbert";
  stack.dropout = config.share("dropout", "0.1");
  stack.span_dropout = config.share("qa_dropout", "0.1");
  stack.tokens = "classifier";
  stack.casts_to_fp32 = false;
  set_head(config, head, stack, spec);
  return spec;
}

}  // namespace gpuplan
