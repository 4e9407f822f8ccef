// ONNX files whose numbers and sizes are as no exporter writes them: each is an error that names the node, or a plan;
// none overflows, runs out of memory, or takes longer than its size asks for.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "onnx_schema/onnx.pb.h"
#include "tests/support/onnx_files.h"
#include "tools/importers/onnx/extent.h"

using namespace gpuplan;
using namespace gpuplan::onnx_files;

namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name) {
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(name);
  return a;
}

void set_ints(onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& numbers) {
  onnx::AttributeProto& a = attribute(node, name);
  for (const std::int64_t n : numbers) a.add_ints(n);
}

// x [batch, 8] as images [batch, 2, 2, 2], "images".
onnx::ModelProto image_model() {
  onnx::ModelProto model = small_model();
  add_integers(model, "sizes", {0, 2, 2, 2});
  add_node(model, "Reshape", {"x", "sizes"}, "images");
  return model;
}

// The result of a model whose first nodes are what is looked at.
void end(onnx::ModelProto& model) { add_node(model, "Relu", {"x"}, "y"); }

std::string problem_of(const onnx::ModelProto& model) { return problem(model.SerializeAsString()); }

std::string numbered(const std::string& name, int i) { return name + std::to_string(i); }

}  // namespace

TEST_CASE("sizes of any numbers have a text") {
  using onnx_import::Extent;
  using onnx_import::kBatches;
  CHECK_EQ(to_string(Extent(kLeast, kMost)), "?");
  CHECK_EQ(to_string(Extent(kMost, kLeast)), "?");
  CHECK_EQ(to_string(Extent(kLeast, kLeast + kBatches[1] - kBatches[0])), "?");  // rest: the least less a batch
  CHECK_EQ(to_string(Extent(kLeast + kBatches[0], kLeast + kBatches[1])), "N - 9223372036854775808");
  CHECK_EQ(to_string(Extent(kBatches[0] - 1, kBatches[1] - 1)), "N - 1");
}

TEST_CASE("paddings, strides and sizes of windows at the ends of what 64 bits hold are errors") {
  for (const std::int64_t extra : {kMost, kLeast}) {
    onnx::ModelProto model = image_model();
    add_initializer(model, "up.weight", {2, 3, 2, 2});
    set_ints(add_node(model, "ConvTranspose", {"images", "up.weight"}, "y"), "output_padding", {extra, 0});
    CHECK(contains(problem_of(model), "node_of_y (ConvTranspose)"));
  }
  for (const std::int64_t pad : {kMost, kLeast}) {
    onnx::ModelProto model = small_model();
    add_integers(model, "pads", {0, pad, 0, pad});
    add_node(model, "Pad", {"x", "pads"}, "y");
    CHECK(contains(problem_of(model), "node_of_y (Pad)"));
  }
  // A sequence of 2^63 - 1 numbers, padded by 5 before and cut by 5 behind, in windows rounded up.
  onnx::ModelProto model = small_model();
  add_initializer(model, "table", {1, 1, kMost}, 3);
  onnx::NodeProto& pool = add_node(model, "MaxPool", {"table"}, "pooled");
  set_ints(pool, "kernel_shape", {1});
  set_ints(pool, "strides", {1 << 30});
  set_ints(pool, "pads", {5, -5});
  attribute(pool, "ceil_mode").set_i(1);
  end(model);
  CHECK(contains(problem_of(model), "does not fit in 64 bits"));
}

TEST_CASE("an index of more dimensions than there are is an error") {
  for (const std::int64_t batch : {std::int64_t{2}, kMost}) {
    onnx::ModelProto model = small_model();
    add_initializer(model, "index", {2, 1}, 7);
    attribute(add_node(model, "GatherND", {"x", "index"}, "y"), "batch_dims").set_i(batch);
    CHECK(contains(problem_of(model), "an index of 1 dimensions into [N, 8]"));
  }
}

TEST_CASE("an order of dimensions may count from the last") {
  onnx::ModelProto model = small_model();
  onnx::TensorProto& table = add_initializer(model, "table", {2, 3}, 7);
  for (int i = 0; i < 6; ++i) table.add_int64_data(i);
  set_ints(add_node(model, "Transpose", {"table"}, "turned"), "perm", {-1, 0});
  add_integers(model, "flat", {6});
  add_node(model, "Reshape", {"turned", "flat"}, "all");  // 0 3 1 4 2 5
  add_integers(model, "second", {1});
  add_node(model, "Gather", {"all", "second"}, "three");
  add_integers(model, "one", {1});
  add_node(model, "Concat", {"one", "three"}, "times").add_attribute()->set_name("axis");
  model.mutable_graph()->mutable_node(3)->mutable_attribute(0)->set_i(0);
  add_node(model, "Tile", {"x", "times"}, "y");
  CHECK(contains(spec_of(model.SerializeAsString()), "Repeat(1, 3)"));
}

TEST_CASE("bounds of a range that are of two types are an error") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "from", {}, 7).add_int64_data(0);
  add_initializer(model, "to", {}, 1).add_float_data(3);
  add_node(model, "Range", {"from", "to", "from"}, "range");
  end(model);
  CHECK(contains(problem_of(model), "its bounds are integers and reals"));
}

TEST_CASE("a batch that is written down may be as large as 64 bits hold") {
  onnx::ModelProto model = small_model();
  write_batch(model, kMost);
  add_node(model, "ReduceSum", {"x"}, "sum");
  add_integers(model, "sizes", {16, 1});
  add_node(model, "Tile", {"x", "sizes"}, "more");
  add_initializer(model, "table", {17, 8});
  add_node(model, "Add", {"more", "table"}, "y");
  CHECK(contains(problem_of(model), "node_of_y (Add)"));
}

TEST_CASE("tensors without elements may have sizes of any number") {
  constexpr std::int64_t kLarge = std::int64_t{1} << 60;
  for (const bool first : {true, false})
    for (const int axis : {0, 1}) {
      onnx::ModelProto model = small_model();
      add_initializer(model, "empty",
                      first ? std::vector<std::int64_t>{kLarge, 0} : std::vector<std::int64_t>{0, kLarge}, 7);
      for (const char* name : {"cut", "joined"}) {
        const bool cuts = std::string(name) == "cut";
        onnx::NodeProto& node =
            cuts ? add_node(model, "Split", {"empty"}, name) : add_node(model, "Concat", {"empty", "empty"}, name);
        attribute(node, "axis").set_i(axis);
      }
      add_integers(model, "start", {0});
      add_integers(model, "end", {kMost});
      add_integers(model, "axes", {axis});
      add_node(model, "Slice", {"empty", "start", "end", "axes"}, "slice");
      add_node(model, "Transpose", {"empty"}, "turned");
      add_node(model, "Add", {"empty", "empty"}, "sum");
      end(model);
      CHECK_EQ(problem_of(model), "");
    }
}

TEST_CASE("recurrent layers of other than one or two directions are errors") {
  onnx::ModelProto model = image_model();
  add_integers(model, "steps", {0, 2, 4});
  add_node(model, "Reshape", {"x", "steps"}, "tokens");
  add_initializer(model, "W", {std::int64_t{1} << 50, 8, 4});
  add_initializer(model, "R", {std::int64_t{1} << 50, 8, 8});
  onnx::NodeProto& rnn = add_node(model, "RNN", {"tokens", "W", "R"}, "y");
  attribute(rnn, "activations").add_strings("Relu");
  CHECK(contains(problem_of(model), "it has 1125899906842624 directions, expected 1 or 2"));
}

TEST_CASE("results that are left out, or more than an operator has, are none that is read") {
  onnx::ModelProto model = small_model();
  attribute(add_node(model, "Cast", {"x"}, ""), "to").set_i(7);
  add_node(model, "Erf", {"x"}, "");
  add_node(model, "Identity", {"x"}, "").clear_output();
  add_node(model, "Sub", {"x", "x"}, "").clear_output();
  end(model);
  CHECK_EQ(problem_of(model), "");
  attribute(add_node(model, "Split", {"x"}, ""), "axis").set_i(1);
  model.mutable_graph()->mutable_node(5)->clear_output();
  CHECK(contains(problem_of(model), "it has no result"));

  onnx::ModelProto two = small_model();
  add_initializer(two, "fc.weight", {4, 8});
  add_node(two, "Identity", {"fc.weight"}, "first").add_output("second");
  add_node(two, "Add", {"x", "second"}, "y");
  CHECK(contains(problem_of(two), "reads a value that is not known"));
}

TEST_CASE("a view is one of its first operand") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "fc.weight", {4, 8});
  add_integers(model, "index", {1, 2});
  add_integers(model, "table", {1, 2, 3, 4, 5, 6, 7, 8});
  add_node(model, "Identity", {"table", "fc.weight"}, "both");
  add_node(model, "Gather", {"both", "index"}, "rows");
  end(model);
  CHECK_EQ(problem_of(model), "");
}

TEST_CASE("an axis that is cut twice is an error") {
  onnx::ModelProto model = small_model();
  add_integers(model, "starts", {0, 1});
  add_integers(model, "ends", {6, 4});
  add_integers(model, "axes", {1, -1});
  add_node(model, "Slice", {"x", "starts", "ends", "axes"}, "y");
  CHECK(contains(problem_of(model), "an axis is named twice"));
}

TEST_CASE("thousands of views of a weight are one after the other") {
  onnx::ModelProto model = small_model();
  add_initializer(model, "table", {8, 8});
  constexpr int kViews = 50'000;
  for (int i = 0; i < kViews; ++i)
    add_node(model, "Transpose", {i == 0 ? "table" : numbered("view", i)}, numbered("view", i + 1));
  add_node(model, "ReduceSum", {numbered("view", kViews)}, "sum");
  add_node(model, "Add", {"x", "sum"}, "y");
  CHECK_EQ(plan_bytes(model.SerializeAsString(), 2).model.parameters, 64);
}

TEST_CASE("weights of a recurrent layer that are joined again and again are not followed for ever") {
  onnx::ModelProto model = image_model();
  add_integers(model, "steps", {0, 2, 4});
  add_node(model, "Reshape", {"x", "steps"}, "tokens");
  add_initializer(model, "W", {1, 32, 4});
  add_initializer(model, "R", {1, 32, 8});
  for (int i = 0; i < 40; ++i) {  // each is twice the one before: 2^40 slices of W
    const std::string from = i == 0 ? "W" : numbered("w", i);
    attribute(add_node(model, "Concat", {from, from}, numbered("w", i + 1)), "axis").set_i(0);
  }
  add_node(model, "LSTM", {"tokens", "w40", "R"}, "y");
  CHECK_EQ(problem_of(model), "");
}

TEST_CASE("what may follow from the graph alone is limited") {
  // 8,192 numbers, added to themselves in as many nodes.
  onnx::ModelProto model = small_model();
  onnx::TensorProto& table = add_initializer(model, "table", {8192}, 7);
  table.set_raw_data(std::string(8192 * 8, '\1'));
  for (int i = 0; i < 8192; ++i) add_node(model, "Add", {"table", "table"}, numbered("sum", i));
  end(model);
  CHECK(contains(problem_of(model),
                 "(Add): sizes and tables of more than 16777216 elements follow from the graph alone"));
}

TEST_CASE("what calls of functions hand on is limited") {
  const auto model_of = [](const std::string& name, bool with_table) {
    onnx::ModelProto model = small_model();
    onnx::FunctionProto& f = *model.add_functions();
    f.set_domain("own");
    f.set_name("F");
    f.add_input("a");
    f.add_output("o");
    f.add_attribute("table");
    const auto add = [&](const std::string& op, const std::string& output) -> onnx::NodeProto& {
      onnx::NodeProto& node = *f.add_node();
      node.set_op_type(op);
      node.add_output(output);
      return node;
    };
    add("Relu", "o").add_input("a");
    for (int i = 0; i < 2000; ++i) {
      if (!with_table) {
        add("Relu", numbered("r", i)).add_input("a");
        continue;
      }
      onnx::AttributeProto& value = attribute(add("Constant", numbered("c", i)), "value");
      value.set_ref_attr_name("table");
      value.set_type(onnx::AttributeProto::TENSOR);
    }
    onnx::NodeProto& call = add_node(model, "F", {"x"}, "y");
    call.set_domain("own");
    call.set_name(name);
    onnx::TensorProto& table = *attribute(call, "table").mutable_t();
    table.set_data_type(7);
    table.add_dims(8000);
    table.set_raw_data(std::string(8000 * 8, '\1'));
    return model;
  };
  CHECK_EQ(problem_of(model_of("call", false)), "");
  CHECK(contains(problem_of(model_of("call", true)), "with its functions written out it has more than"));
  CHECK(contains(problem_of(model_of(std::string(60'000, 'n'), false)), "with its functions written out it has more"));
}

TEST_CASE("a node of more operations than a model has layers is an error") {
  onnx::ModelProto model = small_model();
  onnx::NodeProto& sum = add_node(model, "Sum", {}, "y");
  for (int i = 0; i < 260'000; ++i) sum.add_input("x");
  CHECK(contains(problem_of(model), "has more than 250000 operations"));
}
