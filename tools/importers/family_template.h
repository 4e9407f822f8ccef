// Families of transformers of which configs/families has a template: a spec whose numbers are expressions of the sizes
// in a config.json, and what the importer does with the other keys. tests/recorders/hugging_face_families.py writes
// them, from exports of the class; the words of a template are explained there and in configs/families/README.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/importers/config.h"
#include "tools/importers/spec_text.h"

namespace gpuplan {

/// The families that have a template, by their "model_type".
std::vector<std::string> families_with_template();

/// The spec of a configuration; none where the family has no template. Throws Error at the key whose value the template
/// was not made with, and for sizes that no model has.
std::optional<SpecText> spec_of_template(const Config& config, std::string_view family);

}  // namespace gpuplan
