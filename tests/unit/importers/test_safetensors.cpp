#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "estimator/spec/read.h"
#include "tools/answers/check_weights.h"
#include "tools/answers/checkpoint_names.h"
#include "tools/importers/hugging_face.h"
#include "tools/importers/safetensors.h"

using namespace gpuplan;
namespace fs = std::filesystem;

namespace {

// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("gpuplan_safetensors_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

std::string length(std::uint64_t n) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(n >> (8 * i) & 0xFFU);
  return bytes;
}
std::string file(const std::string& header, std::size_t data) {
  return length(header.size()) + header + std::string(data, '\0');
}

std::string message(const std::string& header, std::uint64_t data) {
  try {
    (void)parse_safetensors_header({"m", header}, data);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}
std::string message_of_file(const std::string& path) {
  try {
    (void)read_safetensors(path);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

constexpr const char* kTwo =
    R"({"__metadata__": {"format": "pt"}, "fc.weight": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]},
        "fc.bias": {"dtype": "BF16", "shape": [4], "data_offsets": [48, 56]}})";

Model linear() {
  return read_model(std::make_shared<const Source>(
      Source{"m.yaml", "gpuplan: 1\nname: m\ninput: {shape: [3]}\nlayers:\n  - fc: Linear(3, 4)\n"}));
}

}  // namespace

TEST_CASE("a header's tensors have names, types and shapes") {
  const StoredTensors stored = parse_safetensors_header({"m", kTwo}, 56);
  REQUIRE_EQ(stored.tensors.size(), 2);
  CHECK_EQ(stored.tensors[0].name, "fc.weight");
  CHECK_EQ(stored.tensors[0].dtype, "F32");
  CHECK_EQ(stored.tensors[0].shape, std::vector<std::int64_t>{4, 3});
  CHECK_EQ(stored.tensors[1].bytes, 8);
  CHECK(parse_safetensors_header({"m", "{}   "}, 0).tensors.empty());
}

TEST_CASE("headers that the format does not allow are refused") {
  const auto one = [](const std::string& tensor) { return "{\"a\": " + tensor + "}"; };
  CHECK_EQ(message("[]", 0), "a header must be an object, not a list");
  CHECK_EQ(message(one("3"), 0), "the tensor \"a\" is an object with dtype, shape and data_offsets");
  CHECK_EQ(message(one("{}"), 0), "the tensor \"a\" has no \"dtype\"");
  CHECK_EQ(message(one(R"({"dtype": "F31", "shape": [], "data_offsets": [0, 4]})"), 4), "unknown type \"F31\"");
  CHECK_EQ(message(one(R"({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]})"), 4),
           "expected a whole number from 0 to 2^63 - 1");
  CHECK_EQ(message(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]})"), 4),
           "the tensor \"a\" has 8 bytes by its shape, and 4 by its offsets");
  CHECK_EQ(message(one(R"({"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 4]})"), 4),
           "the tensor \"a\" has more bytes than 63 bits count");
  CHECK_EQ(message(one(R"({"dtype": "F32", "shape": [1], "data_offsets": [0]})"), 4),
           "\"data_offsets\" are two numbers");
  CHECK_EQ(message(kTwo, 55), "the file ends before its tensors do: they have 56 bytes, and 55 are there");
  CHECK_EQ(message(kTwo, 57), "1 bytes after the tensors belong to no tensor");
  const std::string overlap =
      R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}})";
  CHECK_EQ(message(overlap, 4), "the tensor \"b\" overlaps another one");
  const std::string gap =
      R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [6, 8]}})";
  CHECK_EQ(message(gap, 8), "bytes that belong to no tensor precede \"b\"");
  CHECK_EQ(message(R"({"a": 1, "a": 2})", 0), "the key \"a\" appears twice");
}

TEST_CASE("files that are truncated, or claim what they have not, are refused without reading on") {
  const Folder folder;
  CHECK_EQ(message_of_file(folder.write("empty", "")).find("fewer than 8 bytes") != std::string::npos, true);
  const std::string huge = folder.write("huge", length(std::uint64_t{1} << 63) + "{\"");
  CHECK_NE(message_of_file(huge).find("its header claims 9223372036854775808 bytes, and 2 follow"), std::string::npos);
  const std::string cut = file(kTwo, 56);
  CHECK_NE(message_of_file(folder.write("cut", cut.substr(0, 40))).find("truncated"), std::string::npos);
  CHECK_NE(message_of_file(folder.write("cut_data", cut.substr(0, cut.size() - 1))).find("55 are there"),
           std::string::npos);
  CHECK_NE(message_of_file("/nonexistent.safetensors").find("cannot read"), std::string::npos);
}

TEST_CASE("an index names the files that hold its tensors, of which some may not be here") {
  const Folder folder;
  folder.write("one.safetensors",
               file(R"({"fc.weight": {"dtype": "F32", "shape": [4, 3], "data_offsets": [0, 48]}})", 48));
  const std::string index = folder.write(
      "m.safetensors.index.json",
      R"({"metadata": {"total_size": 64}, "weight_map": {"fc.weight": "one.safetensors", "fc.bias": "two.safetensors"}})");
  const StoredTensors stored = read_safetensors(index);
  REQUIRE_EQ(stored.tensors.size(), 2);
  CHECK_EQ(stored.tensors[0].dtype, "F32");
  CHECK_EQ(stored.tensors[1].dtype, "");
  CHECK_EQ(stored.absent_files, std::vector<std::string>{"two.safetensors"});
  const WeightCheck check = check_weights(planned_parameters(linear()), stored);
  CHECK(check.equal());
  CHECK_EQ(check.shapes_unknown, 1);
  CHECK_NE(message_of_file(folder.write("a.json", R"({"weight_map": {"a": "../etc"}})")).find("next to the index"),
           std::string::npos);
  CHECK_EQ(message_of_file(folder.write("b.json", R"({"weight_map": {"a": "one.safetensors"}})")),
           "one.safetensors has no tensor \"a\"");
}

TEST_CASE("a checkpoint is compared with the planned parameters") {
  const PlannedParameters planned = planned_parameters(linear());
  REQUIRE_EQ(planned.own.size(), 2);
  StoredTensors stored{.tensors = {{"fc.weight", "F32", {4, 3}, 48}, {"fc.bias", "F32", {4}, 16}}, .absent_files = {}};
  CHECK(check_weights(planned, stored).equal());
  CHECK_EQ(check_weights(planned, stored).elements, 16);
  stored.tensors[0].shape = {3, 4};
  stored.tensors[1].name = "fc.biass";
  const WeightCheck check = check_weights(planned, stored);
  CHECK_EQ(check.differing, std::vector<std::string>{"fc.weight [3, 4], planned [4, 3]"});
  CHECK_EQ(check.missing, std::vector<std::string>{"fc.bias [4]"});
  CHECK_EQ(check.extra, std::vector<std::string>{"fc.biass [4]"});
  const std::string text = weight_check_text(check, stored, "m.safetensors", "m.yaml");
  CHECK_EQ(text,
           "m.safetensors: 2 tensors of F32\n  0 of 2 parameters of m.yaml are there\n  missing    fc.bias [4]\n"
           "  shape      fc.weight [3, 4], planned [4, 3]\n  extra      fc.biass [4]\n");
}

// What from_pretrained of transformers 5.23 says of BertModel from a BertForTokenClassification of the same sizes, and
// the other way around: missing_keys and unexpected_keys.
TEST_CASE("a checkpoint with a head is one of the model without it, and the other way around") {
  const auto planned = [](const std::string& architecture) {
    return planned_parameters(read_model(hugging_face_spec(
        {"config.json", R"({"model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 4,
                            "num_hidden_layers": 1, "vocab_size": 10, "architectures": [")" +
                            architecture + "\"]}"})));
  };
  const auto stored = [](const PlannedParameters& parameters) {
    StoredTensors tensors;
    for (const PlannedParameter& p : parameters.own) {
      StoredTensor tensor{.name = p.name, .dtype = "F32", .shape = {}};
      for (int i = 0; i < p.shape.rank(); ++i) tensor.shape.push_back(p.shape[i]);
      tensors.tensors.push_back(tensor);
    }
    return tensors;
  };
  const PlannedParameters bare = planned("BertModel"), tokens = planned("BertForTokenClassification");
  const WeightCheck of_head = check_weights(bare, stored(tokens));
  CHECK_EQ(of_head.missing, std::vector<std::string>{"pooler.dense.weight [8, 8]", "pooler.dense.bias [8]"});
  CHECK_EQ(of_head.extra, std::vector<std::string>{"classifier.weight [2, 8]", "classifier.bias [2]"});
  const WeightCheck of_bare = check_weights(tokens, stored(bare));
  CHECK_EQ(of_bare.missing, std::vector<std::string>{"classifier.weight [2, 8]", "classifier.bias [2]"});
  CHECK_EQ(of_bare.extra, std::vector<std::string>{"pooler.dense.weight [8, 8]", "pooler.dense.bias [8]"});
}

// As mistralai/Mixtral-8x7B-v0.1, openai-community/gpt2 and google-bert/bert-base-uncased are stored.
TEST_CASE("a checkpoint of an earlier release is read by the names of today") {
  const StoredTensors stored{.tensors = {{"m.0.block_sparse_moe.gate.weight", "BF16", {2, 4}, 16},
                                         {"m.0.block_sparse_moe.experts.0.w1.weight", "BF16", {8, 4}, 64},
                                         {"m.0.block_sparse_moe.experts.0.w2.weight", "BF16", {4, 8}, 64},
                                         {"m.0.block_sparse_moe.experts.0.w3.weight", "BF16", {8, 4}, 64},
                                         {"m.0.block_sparse_moe.experts.1.w1.weight", "BF16", {8, 4}, 64},
                                         {"m.0.block_sparse_moe.experts.1.w2.weight", "BF16", {4, 8}, 64},
                                         {"m.0.block_sparse_moe.experts.1.w3.weight", "BF16", {8, 4}, 64},
                                         {"h.0.attn.bias", "F32", {1, 1, 16, 16}, 1024},
                                         {"h.0.attn.c_attn.bias", "F32", {12}, 48},
                                         {"bert.embeddings.position_ids", "I64", {1, 512}, 4096},
                                         {"bert.embeddings.LayerNorm.gamma", "F32", {4}, 16},
                                         {"bert.embeddings.LayerNorm.beta", "F32", {4}, 16}},
                             .absent_files = {}};
  const std::vector<StoredTensor> read = read_by_present_names(stored).tensors;
  REQUIRE_EQ(read.size(), 6);
  CHECK_EQ(read[0].name, "m.0.mlp.gate.weight");
  CHECK_EQ(read[1].name, "m.0.mlp.experts.gate_up_proj");
  CHECK_EQ(read[1].shape, std::vector<std::int64_t>{2, 16, 4});
  CHECK_EQ(read[1].bytes, 256);
  CHECK_EQ(read[2].name, "m.0.mlp.experts.down_proj");
  CHECK_EQ(read[2].shape, std::vector<std::int64_t>{2, 4, 8});
  CHECK_EQ(read[2].bytes, 128);
  CHECK_EQ(read[3].name, "h.0.attn.c_attn.bias");
  CHECK_EQ(read[4].name, "bert.embeddings.LayerNorm.weight");
  CHECK_EQ(read[5].name, "bert.embeddings.LayerNorm.bias");
}

TEST_CASE("experts that are not whole stay as they are stored") {
  StoredTensors stored{.tensors = {{"m.mlp.experts.0.w1.weight", "F32", {8, 4}, 128},
                                   {"m.mlp.experts.0.w2.weight", "F32", {8, 4}, 128},
                                   {"m.mlp.experts.0.w3.weight", "F32", {8, 4}, 128}},
                       .absent_files = {}};
  CHECK_EQ(read_by_present_names(stored).tensors.size(), 3);
  stored.tensors[1].shape = {4, 8};
  CHECK_EQ(read_by_present_names(stored).tensors.size(), 2);
  stored.tensors[1].name = "m.mlp.experts.1.w2.weight";
  CHECK_EQ(read_by_present_names(stored).tensors.size(), 3);
}

// What transformers 5.23 saves of ViTForImageClassification, BertForMaskedLM and RobertaForMaskedLM, and what the
// parameters of these classes are called.
TEST_CASE("names that are saved and not today's have today's among their others") {
  const auto has = [](const std::string& stored, const std::string& name) {
    return std::ranges::count(other_names(stored), name) == 1;
  };
  const std::string was = "vit.encoder.layer.0.", is = "vit.layers.0.";
  CHECK(has(was + "attention.attention.query.weight", is + "attention.q_proj.weight"));
  CHECK(has(was + "attention.output.dense.bias", is + "attention.o_proj.bias"));
  CHECK(has(was + "intermediate.dense.weight", is + "mlp.fc1.weight"));
  CHECK(has(was + "output.dense.weight", is + "mlp.fc2.weight"));
  CHECK(has(was + "layernorm_before.bias", is + "layernorm_before.bias"));
  CHECK(has("cls.predictions.bias", "cls.predictions.decoder.bias"));
  CHECK(has("lm_head.decoder.bias", "lm_head.bias"));
  CHECK(other_names("model.norm.weight").empty());
}
