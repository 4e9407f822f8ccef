// The words of a script that starts Megatron-LM's pretrain_gpt.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

/// `--name value ...` as the script says it. Marks point into the script's Source.
struct ScriptArgument {
  std::string name;  // without the dashes, with dashes between words
  SourceMark mark;
  std::vector<std::string> values;
};

/// All that stands behind the last word that ends in .py, or all there is. Comments, quotes and line ends behind
/// backslashes are read as a shell reads them; variables are left as they are.
std::vector<ScriptArgument> script_arguments(const Source& script);

}  // namespace gpuplan
