#include <doctest/doctest.h>

#include "configs/embedded.h"
#include "estimator/spec/canonical.h"
#include "estimator/spec/read.h"
#include "tools/importers/spec_text.h"
#include "tools/process/read_source.h"

using namespace gpuplan;

namespace {

std::string canonical(const std::string& text) {
  SpecOptions options;
  options.open = [](std::string_view name, std::string_view) {
    return read_zoo_source(name.substr(0, name.find('.')));
  };
  return canonical_yaml(read_model(std::make_shared<const Source>(Source{"model.yaml", text}), options));
}

}  // namespace

TEST_CASE("a model of the zoo with what it extends written out is the same model") {
  for (const EmbeddedFile& file : embedded_models()) {
    CAPTURE(std::string(file.name));
    const SpecText text = template_text(file.name);
    CHECK(text.extends().empty());
    CHECK_EQ(canonical(text.text()), canonical(std::string(file.text)));
  }
}

TEST_CASE("templates of Hugging Face's models stand alone") {
  for (const EmbeddedFile& file : embedded_huggingface()) {
    CAPTURE(std::string(file.name));
    CHECK_FALSE(canonical(template_text(file.name).text()).empty());
  }
  CHECK_THROWS_AS((void)template_text("zoo:nothing"), Error);
}

TEST_CASE("parts of a text are exchanged, the others stay as they were written") {
  SpecText text(
      "# Old.\ngpuplan: 1\nname: a  # why\nvars: {n: 1, m: 2}\nblocks:\n  B:  # of x\n    layers:\n"
      "      - ReLU()\nlayers:\n  - fc: Linear($n, $m)\n");
  text.set_comment("New.\n");
  text.set_name("b");
  text.set("m", 3, "so many");
  text.replace("ReLU()", "GELU()");
  CHECK_EQ(text.text(),
           "# New.\ngpuplan: 1\nname: b\nvars:\n  n: 1\n  m: 3  # so many\nblocks:\n  B:  # of x\n    layers:\n"
           "      - GELU()\nlayers:\n  - fc: Linear($n, $m)\n");
  CHECK_THROWS_AS(text.replace("Tanh()", "GELU()"), std::logic_error);
  text.remove_variable("n");
  text.remove_block("B");
  text.set_section("blocks", "");
  CHECK_EQ(text.text(), "# New.\ngpuplan: 1\nname: b\nvars:\n  m: 3  # so many\nlayers:\n  - fc: Linear($n, $m)\n");
}
