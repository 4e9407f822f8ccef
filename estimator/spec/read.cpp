#include "estimator/spec/read.h"

#include <string>

#include "estimator/spec/expand.h"
#include "estimator/spec/extends.h"
#include "estimator/spec/syntax.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {
namespace {

// "configs/models/resnet50.yaml" -> "resnet50"
std::string stem(const std::string& path) {
  const auto slash = path.find_last_of("/\\");
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string name = file.substr(0, file.find('.'));
  return name.empty() ? "model" : name;
}

// Last of all, as whoever made another mistake learns more of that.
void require_version(const YamlNode& document) {
  if (document.find("gpuplan") == nullptr)
    throw Error("a model spec needs gpuplan:, the version of its format")
        .at(document.mark)
        .label("write gpuplan: 1 before it");
}

}  // namespace

Model read_model(std::shared_ptr<const Source> source, const SpecOptions& options) {
  YamlArena arena;
  std::vector<std::shared_ptr<const Source>> sources;
  const std::string default_name = stem(source->name);
  const YamlNode& document = read_document(std::move(source), options, arena, sources);
  Model model = expand(parse_spec(document, default_name), options.set);
  require_version(document);
  model.sources = std::move(sources);
  return model;
}

}  // namespace gpuplan
