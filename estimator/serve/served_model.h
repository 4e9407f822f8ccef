// A decoder as an engine serves it: the products that its own code merges, and what its attention caches. Derived from
// the model's graph and not from its name, so that a spec of one's own is served like those of the zoo.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/spec/model.h"

namespace gpuplan {

/// What a product is for. Engines merge the products of one input: queries, keys and values, and gate and up.
enum class MatrixRole : std::uint8_t { attention_input, attention_output, mlp_input, mlp_output, router };

/// A weight [out, in], of `copies` experts of which a token visits `used`.
struct ServedMatrix {
  MatrixRole role = MatrixRole::attention_input;
  std::int64_t in = 0, out = 0;
  std::int64_t copies = 1, used = 1;
  std::int64_t parts = 1;  // products of the model that are one here
  bool expert = false;
  bool microscaled = false;  // published with 4 bits an element and a scale for 32 (mxfp4)
};

struct ServedAttention {
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t key_size = 0, value_size = 0;  // elements of a head
  std::int64_t window = 0;                    // tokens that it looks back; 0: all
  std::int64_t latent = 0;                    // MLA: elements of a token that are cached instead; 0: keys and values
  std::int64_t latent_value = 0;              // of these, what values are made of: the rest is position

  /// Elements that a token leaves in the cache of this layer.
  std::int64_t cached() const { return latent > 0 ? latent : kv_heads * (key_size + value_size); }
};

/// A decoder layer. Matrices in the order in which a token passes them.
struct ServedLayer {
  ServedAttention attention;
  std::vector<ServedMatrix> matrices;
  std::int64_t vectors = 0;  // elements of norms and biases

  const ServedMatrix* find(MatrixRole role) const;
};

struct ServedModel {
  std::string name;
  std::int64_t vocabulary = 0, hidden = 0;
  std::int64_t positions = 0;               // the longest sequence that it was made for; 0: nobody says
  std::int64_t learned_positions = 0;       // rows of a table of positions that is trained
  std::vector<std::int64_t> rotary_tables;  // elements a position, of each rotary embedding
  bool tied = false;                        // the head is the embedding
  std::vector<ServedLayer> layers;
  std::int64_t vectors = 0;  // elements of parameters outside layers, but embeddings and head

  /// All elements, of layers, embeddings and head.
  std::int64_t parameters() const;
};

/// Throws Error for a model that is no decoder: it has no embedding of tokens, no attention, or no head. `model` as it
/// was expanded to `graph`, a forward of inference.
ServedModel served_model(const Model& model, const Graph& graph);

}  // namespace gpuplan
