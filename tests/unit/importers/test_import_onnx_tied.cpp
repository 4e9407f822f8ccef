// Weights that torch.onnx's older exporter writes down a second time, the other way around (turned_copies.h).
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

constexpr std::int64_t kSmall = 100, kLarge = 1000;  // tokens: 1,600 elements and 16,000
constexpr std::int64_t kHidden = 16;

float element(std::int64_t row, std::int64_t column) { return static_cast<float>(row * kHidden + column); }

// The embedding's elements, row by row, and those of the head, the other way around.
std::string table_of(std::int64_t tokens) {
  std::string raw;
  for (std::int64_t i = 0; i < tokens; ++i)
    for (std::int64_t j = 0; j < kHidden; ++j) {
      const float e = element(i, j);
      raw.append(reinterpret_cast<const char*>(&e), sizeof e);
    }
  return raw;
}
std::string turned_table_of(std::int64_t tokens) {
  std::string raw;
  for (std::int64_t j = 0; j < kHidden; ++j)
    for (std::int64_t i = 0; i < tokens; ++i) {
      const float e = element(i, j);
      raw.append(reinterpret_cast<const char*>(&e), sizeof e);
    }
  return raw;
}

// x [batch, 8] of token numbers, an embedding, and a head that is a product.
onnx::ModelProto head_model(std::int64_t tokens, const std::string& head = "onnx::MatMul_9") {
  onnx::ModelProto model = small_model();
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  add_initializer(model, "embed.weight", {tokens, kHidden});
  add_initializer(model, head, {kHidden, tokens});
  add_node(model, "Gather", {"embed.weight", "x"}, "a");
  add_node(model, "MatMul", {"a", head}, "y").set_name("/head/MatMul");
  return model;
}

onnx::TensorProto& table(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_initializer(0); }
onnx::TensorProto& turned(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_initializer(1); }

onnx::ModelProto stored_model(std::int64_t tokens, const std::string& head = "onnx::MatMul_9") {
  onnx::ModelProto model = head_model(tokens, head);
  table(model).set_raw_data(table_of(tokens));
  turned(model).set_raw_data(turned_table_of(tokens));
  return model;
}

std::int64_t parameters(const onnx::ModelProto& model) {
  return plan_bytes(model.SerializeAsString(), 2).model.parameters;
}

bool has_note(const std::string& spec) {
  return contains(spec, "# head has a weight of the sizes of embed's, turned.");
}

// A folder with a model whose weights lie beside it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gpuplan-tied-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    write("weights", "12345678" + table_of(kLarge) + turned_table_of(kLarge));
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  std::int64_t parameters(const onnx::ModelProto& model) const {
    write("model.onnx", model.SerializeAsString());
    return plan_onnx(file("model.onnx"), 2).model.parameters;
  }

 private:
  std::filesystem::path path_;
};

void put_beside(onnx::TensorProto& tensor, const std::string& location, const std::string& offset,
                const std::string& length) {
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  tensor.clear_external_data();
  const auto add = [&](const char* key, const std::string& value) {
    if (value.empty()) return;
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", location);
  add("offset", offset);
  add("length", length);
}

constexpr std::int64_t kBytes = kLarge * kHidden * 4;

onnx::ModelProto external_model() {
  onnx::ModelProto model = head_model(kLarge);
  put_beside(table(model), "weights", "8", std::to_string(kBytes));
  put_beside(turned(model), "weights", std::to_string(8 + kBytes), std::to_string(kBytes));
  return model;
}

}  // namespace

TEST_CASE("a head whose elements are the embedding's, turned, is tied to it") {
  const onnx::ModelProto model = stored_model(kSmall);
  const std::string spec = spec_of(model.SerializeAsString());
  CHECK(
      contains(spec,
               "# tied: onnx::MatMul_9 [16, 100] is the transpose of embed.weight and counted once: all 1600 elements "
               "are equal.\n"));
  CHECK_FALSE(has_note(spec));
  CHECK(contains(spec, "tie: embed}"));
  CHECK_EQ(parameters(model), kSmall * kHidden);
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).compute.forward_macs, 2 * 8 * kHidden * kSmall);
}

TEST_CASE("of large matrices elements all over them are compared") {
  onnx::ModelProto model = stored_model(kLarge);  // 16 rows and 16 columns in each of 16 places
  CHECK(contains(spec_of(model.SerializeAsString()), ": 4096 elements, spread over both, are equal."));
  CHECK_EQ(parameters(model), kLarge * kHidden);
  // From somewhere on, each row of the head is another one.
  std::string other = turned_table_of(kLarge);
  for (std::size_t row = 0; row < kHidden; ++row)
    for (std::size_t i = 900; i < kLarge; ++i) other[(row * kLarge + i) * 4] ^= 1;
  turned(model).set_raw_data(other);
  CHECK_EQ(parameters(model), 2 * kLarge * kHidden);
}

TEST_CASE("a head of other elements is not tied, and nothing is left to say") {
  onnx::ModelProto model = stored_model(kSmall);
  std::string other = turned_table_of(kSmall);
  other.back() = static_cast<char>(other.back() ^ 1);  // of the last of 1,600
  turned(model).set_raw_data(other);
  const std::string spec = spec_of(model.SerializeAsString());
  CHECK_FALSE(contains(spec, "# tied"));
  CHECK_FALSE(has_note(spec));
  CHECK_EQ(parameters(model), 2 * kSmall * kHidden);
}

TEST_CASE("elements that are mostly one value, or are not there, tell nothing") {
  onnx::ModelProto model = stored_model(kSmall);
  const auto expect_unknown = [&] {
    CHECK(has_note(spec_of(model.SerializeAsString())));
    CHECK_EQ(parameters(model), 2 * kSmall * kHidden);
  };
  table(model).set_raw_data(std::string(kSmall * kHidden * 4, '\0'));
  turned(model).set_raw_data(std::string(kSmall * kHidden * 4, '\0'));
  expect_unknown();
  table(model).set_raw_data(table_of(kSmall));
  turned(model).clear_raw_data();
  expect_unknown();
  turned(model).set_raw_data(turned_table_of(kSmall).substr(4));  // one too few
  expect_unknown();
}

TEST_CASE("only what an exporter made is taken for a copy") {
  // A head by a name of its own is a parameter of its own, as a decoder's that began as its encoder's turned.
  CHECK_EQ(parameters(stored_model(kSmall, "head.weight")), 2 * kSmall * kHidden);
  // What no product reads is a table that was computed.
  onnx::ModelProto model = stored_model(kSmall);
  *model.mutable_graph()->mutable_node(1) = onnx::NodeProto();
  onnx::NodeProto& sum = *model.mutable_graph()->mutable_node(1);
  sum.set_op_type("ReduceSum");
  sum.add_input("onnx::MatMul_9");
  sum.add_output("sum");
  add_node(model, "Add", {"a", "sum"}, "y");
  CHECK_FALSE(contains(spec_of(model.SerializeAsString()), "# tied"));
}

TEST_CASE("a copy that several products read is tied in each of them") {
  onnx::ModelProto model = stored_model(kSmall);
  add_node(model, "Identity", {"onnx::MatMul_9"}, "onnx::MatMul_10");  // as torch.onnx puts it there for an equal one
  add_node(model, "MatMul", {"a", "onnx::MatMul_10"}, "c");
  model.mutable_graph()->mutable_node(1)->set_output(0, "b");
  add_node(model, "Add", {"b", "c"}, "y");
  CHECK_EQ(parameters(model), kSmall * kHidden);
}

TEST_CASE("elements in a file beside the model are compared there") {
  const Folder folder;
  CHECK_EQ(folder.parameters(external_model()), kLarge * kHidden);
  std::filesystem::remove(folder.file("weights"));
  CHECK_EQ(folder.parameters(external_model()), 2 * kLarge * kHidden);
}

TEST_CASE("places that no elements can be at are not read") {
  const Folder folder;
  const std::string end = std::to_string(8 + 2 * kBytes);
  for (const std::string& offset : {end, std::string("9223372036854775807"), std::string("9223372036854775808"),
                                    std::string("-8"), std::string("8 "), std::string("0x8")}) {
    onnx::ModelProto model = external_model();
    put_beside(turned(model), "weights", offset, std::to_string(kBytes));
    CHECK_EQ(folder.parameters(model), 2 * kLarge * kHidden);
  }
  for (const std::string length : {"0", "1", "9223372036854775807", "-1"}) {
    onnx::ModelProto model = external_model();
    put_beside(turned(model), "weights", std::to_string(8 + kBytes), length);
    CHECK_EQ(folder.parameters(model), 2 * kLarge * kHidden);
  }
  // A tensor may say that it is documented, which is where its place is noted (strip.h): that counts for nothing.
  onnx::ModelProto model = head_model(kLarge);
  table(model).set_doc_string("0 " + std::to_string(kBytes));
  turned(model).set_doc_string("0 " + std::to_string(kBytes));
  CHECK_EQ(folder.parameters(model), 2 * kLarge * kHidden);
}

TEST_CASE("no file but one in the model's own folder is opened") {
  const Folder folder;
  std::filesystem::create_directory(folder.file("inner"));
  std::filesystem::copy_file(folder.file("weights"), folder.file("inner/weights"));
  std::filesystem::create_symlink("weights", folder.file("link"));
  REQUIRE_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const std::string up = "../" + std::filesystem::path(folder.file("")).parent_path().filename().string() + "/weights";
  for (const std::string& location :
       {folder.file("weights"), up, std::string("inner/weights"), std::string("./weights"), std::string("link"),
        std::string("pipe"), std::string("inner"), std::string("."), std::string(".."), std::string("weights\0", 8),
        std::string(300, 'w'), std::string()}) {
    onnx::ModelProto model = external_model();
    put_beside(turned(model), location, std::to_string(8 + kBytes), std::to_string(kBytes));
    CHECK_EQ(folder.parameters(model), 2 * kLarge * kHidden);
  }
}
