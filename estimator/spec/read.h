// From the text of a model spec to an expanded Model. The format: YAML (yaml.h), the keys (syntax.h),
// layer calls (call.h), expressions (expression.h), names (expand.h), bounds (limits.h).
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "estimator/spec/model.h"

namespace gpuplan {

struct SpecOptions {
  /// `--set name=value`: replaces the value of a variable in `vars:`.
  std::vector<Variable> set;
  /// Opens the file that `extends: NAME` in the source `relative_to` means. Without it `extends` is an
  /// error. May throw Error, which then points at the `extends:` line.
  std::function<std::shared_ptr<const Source>(std::string_view name, std::string_view relative_to)> open;
};

/// Throws Error, with the place, for anything that is not a well-formed spec. Which layers exist and what
/// they accept is not looked at.
Model read_model(std::shared_ptr<const Source> source, const SpecOptions& options = {});

}  // namespace gpuplan
