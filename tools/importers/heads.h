// What stands on top of the stack of layers, by the class that a config.json names: nothing (of two stacks both, or the
// encoder alone), a language model's head, a
// classifier of samples, of tokens, or of the span of an answer.
#pragma once

#include <string>
#include <vector>

#include "tools/importers/config.h"
#include "tools/importers/spec_text.h"

namespace gpuplan {

enum class Head : std::uint8_t { none, encoder, language_model, samples, tokens, span };

/// The head of the class `architecture` of a family: "LlamaModel", "LlamaForTokenClassification". `heads` are those
/// that the family has, `language_model` is how it calls that one: "ForCausalLM". Throws Error where it is none of
/// them.
Head head_of(const Config& config, const std::string& architecture, const std::string& prefix,
             const std::string& language_model, const std::vector<Head>& heads);

/// A stack of layers as the top of a spec writes it.
struct Stack {
  std::string block;                    // "LlamaModel"; the model without a head is what it has
  std::string name = "model";           // within a model with a head
  std::string bare_name;                // within the model without one, where that is not the block itself
  std::string dropout = "0.1";          // before a classifier of tokens
  std::string span_dropout;             // before the classifier that finds spans, where there is one
  std::string tokens = "score";         // the classifier's name
  std::string of_span = "transformer";  // the stack's name in a model that finds spans
  bool casts_to_fp32 = true;            // the logits of tokens, before their loss
};
/// Puts a head other than the language model's in the place of the template's: `layers`, `loss` and the variable
/// `labels`.
void set_head(const Config& config, Head head, const Stack& stack, SpecText& spec);

/// The entries of a classifier of tokens, or one that finds spans, behind the states.
std::string token_classifier(const std::string& name, const std::string& dropout);
std::string span_classifier(const std::string& dropout);

/// What comes before a classifier of tokens: classifier_dropout, or hidden_dropout, or a tenth.
std::string token_dropout(const Config& config);
/// "HuggingFaceClassificationLoss(...)" of problem_type, or of the number of labels where there is none.
std::string samples_loss(const Config& config);

}  // namespace gpuplan
