// Models that Python makes, named on the command line: timm:NAME, torchvision:NAME, hf:NAME, FILE.py:CALLABLE. The
// Python package (tools/python/gpuplan) exports them and compares the spec with the model; the spec is kept in the
// user's cache with the files that it was made of, so that the next question needs no Python.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

/// What is asked for: a word, and the --input and --arg that go with it.
struct PythonModel {
  std::string word;
  std::vector<std::string> inputs, arguments;
  std::vector<std::string> sizes;  // NAME=N, of sizes that inputs have by name
};

/// Whose code a word runs.
enum class PythonCode : unsigned char {
  none,     // it names a file or a model of the zoo
  package,  // that of an installed package
  file,     // that of a file, which may be another's
};
PythonCode python_code(std::string_view word);

/// Of FILE.py:CALLABLE the file.
std::string python_file(const std::string& word);

/// How a step of it is taken.
struct ModelStep {
  std::string mode, optimizer, amp, precision;  // as flags have them
  bool channels_last = false;
  std::string gpu;  // a name of the table; of a learned step
};

/// The spec, remembered or exported now, which takes seconds to minutes. It says what it was compared with: the model's
/// own steps in fp32, or in the step's type and mode. Throws Error: there is no Python or no torch, or the model cannot
/// be exported.
std::shared_ptr<const Source> spec_of_python(const PythonModel& model, const ModelStep& step);

/// The batches that it is run at.
constexpr std::string_view kLearnedBatches = "2, 4 and 6";

/// A trace of the model's step, remembered or learned now: `gpuplan shadow --learn` runs it. Its path. Throws Error:
/// what spec_of_python() does, or the step does not run.
std::string learned_step(const PythonModel& model, const ModelStep& step);
/// The same, for the plans of such steps from now on, in the place of a spec, and why.
void plan_learned_step(const PythonModel& model, const ModelStep& step, const std::string& why);
/// What plan_learned_step() was told, while its trace holds; else empty.
std::string why_learned(const PythonModel& model, const ModelStep& step);

}  // namespace gpuplan
