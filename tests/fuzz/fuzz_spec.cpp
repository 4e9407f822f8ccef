// libFuzzer target: any bytes are either a model or an Error, and what is a model reads back from its
// canonical form.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "estimator/spec/canonical.h"
#include "estimator/spec/read.h"

namespace {

std::shared_ptr<const gpuplan::Source> source(std::string name, std::string text) {
  return std::make_shared<const gpuplan::Source>(gpuplan::Source{std::move(name), std::move(text)});
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kSmall = 20'000;  // the canonical form of what fits is checked
  gpuplan::SpecOptions options;
  options.open = [](std::string_view, std::string_view) {
    return source("base.yaml",
                  "gpuplan: 1\nvars: {c: 8, n: 2}\ninput: {shape: [$c]}\nlayers:\n  - fc: Linear(_, $c)\n");
  };
  std::string canonical;
  try {
    const gpuplan::Model model =
        gpuplan::read_model(source("fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size)), options);
    canonical = gpuplan::canonical_yaml(model);
  } catch (const gpuplan::Error& error) {
    if (error.render().empty()) std::abort();
    return 0;
  }
  if (canonical.size() > kSmall) return 0;
  try {
    if (gpuplan::canonical_yaml(gpuplan::read_model(source("canonical.yaml", canonical))) != canonical) std::abort();
  } catch (const gpuplan::Error&) {
    std::abort();  // what was a model must stay one
  }
  return 0;
}
