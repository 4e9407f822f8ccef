// Families that are not of text alone, or have two stacks: transformers/models/t5, vit and whisper.
#include <cstdlib>

#include "tools/importers/families.h"
#include "tools/importers/heads.h"
#include "tools/importers/numbered_layers.h"

namespace gpuplan {

namespace {

void expect_division(const Config& config, std::int64_t hidden, std::int64_t heads, std::string_view key) {
  if (hidden % heads != 0)
    throw config.wrong(key,
                       std::to_string(hidden) + " states cannot be divided into " + std::to_string(heads) + " heads");
}

// The template writes the blocks of both stacks but the first down one by one, since all read the first one's bias.
// `from` is what the entry behind "block.1, " in the list reads.
void set_blocks(SpecText& spec, const std::string& block, const std::string& from, std::int64_t count) {
  const auto entry = [&](std::int64_t i) {
    const std::string before = "block." + std::to_string(i - 1);
    return "      - name: block." + std::to_string(i) + "\n        block: " + block + "\n        from: [" + before +
           ", " + from + "]\n";
  };
  std::string written, wanted;
  for (std::int64_t i = 1; i < 6; ++i) written += entry(i);
  for (std::int64_t i = 1; i < count; ++i) wanted += entry(i);
  spec.replace(written, wanted);
}

// "relu" as in T5, or "gated-gelu" as in T5 v1.1 and FLAN-T5: T5DenseGatedActDense holds both products until it
// returns.
void set_feed_forward(const Config& config, SpecText& spec) {
  const std::string kind = config.word("feed_forward_proj", "relu");
  if (kind == "relu") return;
  if (kind != "gated-gelu")
    throw config.wrong("feed_forward_proj", "feed forward layers of the kind \"" + kind + "\" are not modelled")
        .help("those that are: relu, gated-gelu");
  spec.replace("      - wi: Linear(_, $inner, bias=False)\n      - act: ReLU()\n",
               "      - wi_0: Linear(_, $inner, bias=False)\n"
               "      - {name: act, op: NewGELU(), keep: true}\n"
               "      - {name: wi_1, op: \"Linear(_, $inner, bias=False)\", from: input, keep: true}\n"
               "      - {name: gated, op: Mul(), from: [act, wi_1]}\n");
}

// "tie_word_embeddings": false says that the states are not scaled before the head. transformers 5 ties the head all
// the same where it makes the weights; from_pretrained leaves it apart where the checkpoint has both, as those of
// FLAN-T5 do.
void set_head_apart(SpecText& spec) {
  spec.replace("  - {name: sequence_output, op: Mul(0.04419417382415922), keep: true}  # 1 / sqrt(512)\n", "");
  spec.replace("op: \"Linear(_, $vocabulary, bias=False)\", tie: shared}",
               "op: \"Linear(_, $vocabulary, bias=False)\"}");
}

// T5Model and WhisperModel: both stacks without a head, whose decoder is given its tokens. `prefix` is what a model
// with a head calls it.
void set_bare_stacks(const std::string& prefix, SpecText& spec) {
  spec.replace("labels: {shape: [$target], dtype: int64}", "decoder_input_ids: {shape: [$target], dtype: int64}");
  std::string layers = spec.section("layers");
  const std::string shifted = "  - {name: decoder_input_ids, op: ShiftRight(), from: labels, keep: true}\n";
  layers.erase(layers.find(shifted), shifted.size());
  const std::string decoder = "from: [decoder_input_ids, encoder_last_hidden_state], keep: true}\n";
  layers.erase(layers.find(decoder) + decoder.size());
  if (!prefix.empty())
    for (std::size_t at = 0; (at = layers.find(prefix)) != std::string::npos;) layers.erase(at, prefix.size());
  spec.set_section("layers", layers);
  spec.set_section("loss", "loss: mean  # of the decoder's states; the model itself has none\n");
}

// T5EncoderModel: the first stack alone, and T5ForTokenClassification, which has one under this name.
void set_encoder_alone(const std::string& prefix, SpecText& spec) {
  for (const char* block : {"T5Decoder", "T5DecoderBlock", "T5LayerCrossAttention", "T5CrossAttention"})
    spec.remove_block(block);
  spec.remove_variable("target");
  spec.remove_variable("use_cache");
  spec.set_section("inputs", "inputs:\n  input_ids: {shape: [$seq], dtype: int64}\n");
  if (!prefix.empty()) spec.replace("tie: shared", "tie: " + prefix + "shared");
  spec.set_section("layers", "layers:\n  - " + prefix + "shared: SharedEmbedding($vocabulary, $hidden)\n  - {name: " +
                                 prefix + "encoder, block: T5Encoder, from: input_ids, keep: true}\n");
  spec.set_section("loss", "loss: mean  # the model itself has none\n");
}

// ViTModel: the stack and what it makes of the first token, of which both are returned.
void set_bare_vit(const Config& config, std::int64_t hidden, SpecText& spec) {
  const std::string size = std::to_string(config.size("pooler_output_size", hidden));
  const std::string activation = activation_call(config, "pooler_act", "tanh");
  spec.remove_variable("classes");
  spec.set_section("loss", "");
  spec.unfold("ViTModel");
  spec.set_section("layers", spec.section("layers") + "  - Slice(0)\n  - Select(1, 0)\n  - pooler.dense: Linear(_, " +
                                 size + ")\n  - pooler.activation: " + activation +
                                 "\n  - ReturnedState()\n  - {op: Identity(), from: layernorm}\n");
  spec.set_section("loss", "loss: mean  # of the states; the model itself has none\n");
}

}  // namespace

SpecText t5_spec(const Config& config) {
  std::string architecture = config.architecture("T5ForConditionalGeneration");
  // T5WithLMHeadModel is what the class was called when the first files were published.
  if (architecture == "T5WithLMHeadModel") architecture = "T5ForConditionalGeneration";
  const Head head = head_of(config, architecture, "T5", "ForConditionalGeneration",
                            {Head::language_model, Head::encoder, Head::none, Head::tokens});
  const bool encodes = head == Head::encoder || head == Head::tokens;
  const std::int64_t hidden = config.size("d_model", 512), layers = config.size("num_layers", 6);
  const std::int64_t decoder_layers = config.size("num_decoder_layers", layers);
  const std::int64_t heads = config.size("num_heads", 8);
  if (layers > kMostLayers) throw config.wrong("num_layers", "\"num_layers\" is above 1000");
  if (decoder_layers > kMostLayers) throw config.wrong("num_decoder_layers", "\"num_decoder_layers\" is above 1000");
  const bool tied = config.flag("tie_word_embeddings", true);
  SpecText spec = template_text("t5_small");
  spec.set_comment(architecture + " of " + config.file() + ": " + std::to_string(layers) + " and " +
                   std::to_string(decoder_layers) + " layers of " + std::to_string(heads) +
                   " heads, one table for both stacks" + (tied ? " and the head" : "") +
                   ".\nIn training the decoder's tokens are made from the labels; in " +
                   "inference that input is the tokens. The first layer of a\nstack computes the position " +
                   "bias that all of its layers use, so it is written out.\n");
  spec.set_name("t5");
  spec.set("seq", 512, "tokens of the encoder");
  spec.set("target", 128, "tokens of the decoder");
  spec.set("vocabulary", config.size("vocab_size", 32128), "vocab_size");
  spec.set("hidden", hidden, "d_model");
  spec.set("inner", config.size("d_ff", 2048), "d_ff");
  spec.set("heads", heads, "num_heads");
  spec.set("head", config.size("d_kv", 64), "d_kv");
  spec.set("buckets", config.size("relative_attention_num_buckets", 32), "relative_attention_num_buckets");
  spec.set("use_cache", config.flag("use_cache", true) ? 1 : 0, "0: the decoder fills no cache of keys and values");
  set_blocks(spec, "T5EncoderBlock", "block.0.layer.0.SelfAttention.relative_attention_bias, input", layers);
  set_blocks(spec, "T5DecoderBlock",
             "block.0.layer.0.SelfAttention.relative_attention_bias, mask, input.1, zeros, input", decoder_layers);
  set_feed_forward(config, spec);
  if (tied || head == Head::none)
    spec.replace("Mul(0.04419417382415922), keep: true}  # 1 / sqrt(512)",
                 "Mul(" + inverse_root(hidden) + "), keep: true}  # 1 / sqrt(" + std::to_string(hidden) + ")");
  else
    set_head_apart(spec);
  const std::string dropout = config.share("dropout_rate", "0.1");
  spec.replace("Dropout(0.1)", "Dropout(" + dropout + ")");
  spec.replace("dropout=0.1", "dropout=" + dropout);
  const std::string eps = config.positive("layer_norm_epsilon", "1e-6");
  if (std::strtod(eps.c_str(), nullptr) != 1e-6) spec.replace("T5LayerNorm(_)", "T5LayerNorm(_, eps=" + eps + ")");
  if (head == Head::none) set_bare_stacks("", spec);
  if (!encodes) return spec;
  set_encoder_alone(head == Head::tokens ? "transformer." : "", spec);
  if (head == Head::tokens) {
    spec.set_section(
        "layers", spec.section("layers") + token_classifier("classifier", config.share("classifier_dropout", "0.0")));
    spec.set_section("loss", "loss: HuggingFaceTokenLoss()\n");
    spec.set("labels", config.labels(), "num_labels");
  }
  spec.set_comment(architecture + " of " + config.file() + ": " + std::to_string(layers) + " layers of " +
                   std::to_string(heads) +
                   " heads. The first layer computes the bias of\npositions that all use, so it is written within the "
                   "stack.\n");
  return spec;
}

SpecText vit_spec(const Config& config) {
  const std::string architecture = config.architecture("ViTForImageClassification");
  expect_architecture(config, architecture, {"ViTForImageClassification", "ViTModel"});
  const std::int64_t hidden = config.size("hidden_size", 768), heads = config.size("num_attention_heads", 12);
  const std::int64_t size = config.size("image_size", 224), patch = config.size("patch_size", 16);
  expect_division(config, hidden, heads, "num_attention_heads");
  if (patch > size) throw config.wrong("patch_size", "a patch is larger than the image");
  SpecText spec = template_text("vit_base");
  const std::int64_t layers = config.size("num_hidden_layers", 12);
  spec.set_comment(stack_comment(config, architecture, {hidden, heads, layers}));
  spec.set_name("vit");
  spec.set("size", size, "image_size");
  spec.set("patch", patch, "patch_size");
  spec.set("hidden", hidden, "hidden_size");
  spec.set("inner", config.size("intermediate_size", 3072), "intermediate_size");
  spec.set("heads", heads, "num_attention_heads");
  spec.set("layers", layers, "num_hidden_layers");
  spec.set("classes", config.labels(), "num_labels");
  const std::int64_t channels = config.size("num_channels", 3);
  if (channels != 3) {
    spec.replace("[3, $size, $size]", "[$channels, $size, $size]");
    spec.replace("Conv2d(3, ", "Conv2d($channels, ");
    spec.set("channels", channels, "num_channels");
  }
  if (!config.flag("qkv_bias", true)) {
    for (const char* name : {"q_proj", "k_proj", "v_proj"})
      spec.replace(std::string(name) + ", op: \"Linear(_, $hidden)\"",
                   std::string(name) + ", op: \"Linear(_, $hidden, bias=False)\"");
  }
  spec.replace("LayerNorm($hidden, eps=1e-12)",
               "LayerNorm($hidden, eps=" + config.positive("layer_norm_eps", "1e-12") + ")");
  spec.replace("activation_fn: GELU()", "activation_fn: " + activation_call(config, "hidden_act", "gelu"));
  const std::string weights = config.share("attention_probs_dropout_prob", "0.0");
  if (weights != "0.0")
    spec.replace("HuggingFaceAttention(softmax=fp32)", "HuggingFaceAttention(dropout=" + weights + ", softmax=fp32)");
  if (architecture == "ViTModel")
    set_bare_vit(config, hidden, spec);
  else
    spec.set_section("loss", "loss: " + samples_loss(config) + "\n");
  const std::string dropout = config.share("hidden_dropout_prob", "0.0");
  if (dropout == "0.0") return spec;
  spec.replace("dropout: Dropout(0.0)", "dropout: Dropout(" + dropout + ")");
  spec.replace(
      "      - {name: attended, op: Add(), from: [attention, input]}\n",
      "      - dropout: Dropout(" + dropout + ")\n" + "      - {name: attended, op: Add(), from: [dropout, input]}\n");
  spec.replace(
      "      - {name: output, op: Add(), from: [mlp, attended]}\n",
      "      - dropped: Dropout(" + dropout + ")\n" + "      - {name: output, op: Add(), from: [dropped, attended]}\n");
  return spec;
}

SpecText whisper_spec(const Config& config) {
  const std::string architecture = config.architecture("WhisperForConditionalGeneration");
  const Head head =
      head_of(config, architecture, "Whisper", "ForConditionalGeneration", {Head::language_model, Head::none});
  for (const char* key : {"encoder_layerdrop", "decoder_layerdrop"})
    config.refuse(key, "training then drops layers at random");
  config.refuse("apply_spec_augment", "training then masks parts of its input at random");
  if (!config.flag("tie_word_embeddings", true) && head != Head::none)
    throw config.wrong("tie_word_embeddings", "a head with weights of its own is not modelled");
  const std::int64_t hidden = config.size("d_model", 384);
  const std::int64_t encoder_heads = config.size("encoder_attention_heads", 6);
  const std::int64_t decoder_heads = config.size("decoder_attention_heads", 6);
  expect_division(config, hidden, encoder_heads, "encoder_attention_heads");
  expect_division(config, hidden, decoder_heads, "decoder_attention_heads");
  if (encoder_heads != decoder_heads)
    throw config.wrong("decoder_attention_heads", "heads of another size than the encoder's are not modelled");
  SpecText spec = template_text("whisper");
  const std::int64_t encoder_layers = config.size("encoder_layers", 4);
  const std::int64_t decoder_layers = config.size("decoder_layers", 4);
  spec.set_comment(
      architecture + " of " + config.file() + ": " + std::to_string(encoder_layers) + " and " +
      std::to_string(decoder_layers) + " layers of " + std::to_string(encoder_heads) +
      " heads.\nThe decoder's tokens are made of the labels, in inference the same input is its tokens.\n");
  const std::int64_t targets = config.size("max_target_positions", 448);
  set_tokens(spec, "target", 448, targets, "max_target_positions");
  spec.set("mels", config.size("num_mel_bins", 80), "num_mel_bins");
  spec.set("positions", config.size("max_source_positions", 1500), "max_source_positions: half as many as frames");
  spec.set("target_positions", targets, "max_target_positions");
  spec.set("vocabulary", config.size("vocab_size", 51865), "vocab_size");
  spec.set("hidden", hidden, "d_model");
  spec.set("encoder_inner", config.size("encoder_ffn_dim", 1536), "encoder_ffn_dim");
  spec.set("encoder_heads", encoder_heads, "encoder_attention_heads");
  spec.set("encoder_layers", encoder_layers, "encoder_layers");
  spec.set("decoder_inner", config.size("decoder_ffn_dim", 1536), "decoder_ffn_dim");
  spec.set("decoder_heads", decoder_heads, "decoder_attention_heads");
  spec.set("decoder_layers", decoder_layers, "decoder_layers");
  spec.replace("Mul(0.125)", "Mul(" + inverse_root(hidden / encoder_heads) + ")");
  const std::string inner = config.share("activation_dropout", "0.0");
  spec.replace("activation_dropped: Dropout(0.0)", "activation_dropped: Dropout(" + inner + ")");
  const std::string dropout = config.share("dropout", "0.0");
  for (const char* name : {" dropped", "dropped_again", "cross_dropped"})
    spec.replace(std::string(name) + ": Dropout(0.0)", std::string(name) + ": Dropout(" + dropout + ")");
  const std::string weights = config.share("attention_dropout", "0.0");
  if (weights != "0.0")
    spec.replace("HuggingFaceAttention(causal=$causal)",
                 "HuggingFaceAttention(dropout=" + weights + ", causal=$causal)");
  const std::string activation = activation_call(config, "activation_function", "gelu");
  if (activation != "GELU()") spec.replace("activation_fn: GELU()", "activation_fn: " + activation);
  if (head == Head::none) set_bare_stacks("model.", spec);
  return spec;
}

}  // namespace gpuplan
