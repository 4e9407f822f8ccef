// The Python that runs a model's code with the package gpuplan (tools/python/gpuplan).
#pragma once

#include <string>
#include <vector>

namespace gpuplan {

struct Interpreter {
  std::string program;  // gpuplan's
  std::string python;   // $GPUPLAN_PYTHON, that of an active virtual environment, or python3
  std::string package;  // the folder that holds the package; empty: the interpreter's own packages may
};

/// Throws Error (environment): this is not the program gpuplan, and PATH has none.
Interpreter interpreter();

/// What runs main() of a module of the package, with the words that are appended.
std::vector<std::string> python_command(const Interpreter& i, const std::string& module);

/// Runs it, with the environment's GPUPLAN naming the program. Throws Error: it cannot be run, or what it said when it
/// failed.
void run_python(const Interpreter& i, const std::vector<std::string>& command);

}  // namespace gpuplan
