#include <doctest/doctest.h>

#include <string>

#include "tools/importers/import.h"

using namespace gpuplan;

namespace {

std::string bytes(std::string_view text) { return std::string(text); }

}  // namespace

TEST_CASE("a model file is known by what it holds, whatever its name") {
  CHECK_EQ(recognise("gpuplan: 1\nname: mlp\n", "model.json"), FileKind::spec);
  CHECK_EQ(recognise(R"({"gpuplan": 1, "name": "mlp"})", "config.json"), FileKind::spec);
  CHECK_EQ(recognise(R"({gpuplan: 1, name: mlp})", "-"), FileKind::spec);
  CHECK_EQ(recognise("\xEF\xBB\xBF \n{\"model_type\": \"gpt2\"}", "m"), FileKind::hugging_face);
  CHECK_EQ(recognise(R"({"architectures": ["GPT2LMHeadModel"],)", "config.json"), FileKind::hugging_face);
  CHECK_EQ(recognise(R"({"metadata": {}, "weight_map": {}})", "m.json"), FileKind::safetensors_index);
  CHECK_EQ(recognise(bytes(std::string_view("\x10\0\0\0\0\0\0\0{\"__metadata__\"", 22)), "m"), FileKind::safetensors);
  CHECK_EQ(recognise(std::string_view("PK\x03\x04\x14\0", 6), "model.yaml"), FileKind::zip);
  CHECK_EQ(recognise("\x80\x02}q\x01", "weights.bin"), FileKind::pickle);
  CHECK_EQ(recognise("GGUF\x03", "m"), FileKind::gguf);
  CHECK_EQ(recognise("\x89HDF\r\n\x1a\n", "m.h5"), FileKind::hdf5);
  CHECK_EQ(recognise("\x08\x07\x12\x07pytorch", "m"), FileKind::onnx);
  CHECK_EQ(recognise("\x08\x0a:\x04", "m"), FileKind::onnx);
  CHECK_EQ(recognise("", "model.onnx"), FileKind::onnx);
  CHECK_EQ(recognise("", "m"), FileKind::spec);
  CHECK_EQ(recognise(std::string_view("\x1C\0\0\0TFL3\x14\0", 10), "m"), FileKind::tflite);
  CHECK_EQ(recognise("ftrt\x01", "m.engine"), FileKind::tensorrt);
  CHECK_EQ(recognise("\x08\x01\x12\x10", "folder/saved_model.pb"), FileKind::tensorflow);
  CHECK_EQ(recognise("\x0A\x10\x0A\x05input", "frozen.pb"), FileKind::tensorflow);
  CHECK_EQ(recognise("\x08\x07\x12\x07pytorch", "onnx_model.pb"), FileKind::onnx);
}

TEST_CASE("a file of weights is answered with what to name instead") {
  for (const FileKind kind :
       {FileKind::safetensors, FileKind::safetensors_index, FileKind::zip, FileKind::pickle, FileKind::gguf}) {
    const Error error = not_a_model("weights.bin", kind);
    CHECK_EQ(error.message(), "weights.bin is " + std::string(describe(kind)) + ", which has weights but no model");
    CHECK_NE(error.render().find("help: "), std::string::npos);
    CHECK_FALSE(is_text(kind));
    std::vector<Variable> set;
    CHECK_THROWS_AS((void)spec_of_file("weights.bin", kind, set), Error);
  }
}

TEST_CASE("a model of another framework is answered with the way to ONNX") {
  CHECK_NE(not_a_model("saved_model.pb", FileKind::tensorflow).render().find("tf2onnx.convert --saved-model"),
           std::string::npos);
  CHECK_NE(not_a_model("m.tflite", FileKind::tflite).render().find("tf2onnx.convert --tflite"), std::string::npos);
  CHECK_NE(not_a_model("m.h5", FileKind::hdf5).render().find("tf2onnx.convert --keras"), std::string::npos);
  CHECK_EQ(not_a_model("m.plan", FileKind::tensorrt).message(), "m.plan is a TensorRT engine, compiled for one GPU");
}

TEST_CASE("a spec stays what it is") {
  const auto text = std::make_shared<const Source>(Source{"m.yaml", "gpuplan: 1\n"});
  CHECK_EQ(spec_of_text(text, FileKind::spec), text);
}
