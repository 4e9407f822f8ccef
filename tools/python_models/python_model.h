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

/// The spec, remembered or exported now, which takes seconds to minutes. Throws Error: there is no Python or no torch,
/// or the model cannot be exported.
std::shared_ptr<const Source> spec_of_python(const PythonModel& model);

/// How a step of it is taken, for a model that cannot be exported.
struct LearnedStep {
  std::string mode, optimizer, amp, precision;  // as flags have them
  bool channels_last = false;
  std::string gpu;  // a name of the table
};

/// The batches that it is run at.
constexpr std::string_view kLearnedBatches = "2, 4 and 6";

/// A trace of the model's step, remembered or learned now: `gpuplan shadow --learn` runs it. Its path. Throws Error:
/// what spec_of_python() does, or the step does not run.
std::string learned_step(const PythonModel& model, const LearnedStep& step);
/// Whether it is remembered.
bool is_step_remembered(const PythonModel& model, const LearnedStep& step);

}  // namespace gpuplan
