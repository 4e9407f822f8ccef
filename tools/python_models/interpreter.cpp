#include "tools/python_models/interpreter.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "estimator/base/error.h"
#include "tools/process/environment.h"
#include "tools/process/programs_on_path.h"
#include "tools/process/version.h"
#include "tools/subprocess/child.h"

extern char** environ;  // NOLINT: macOS' unistd.h has none

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

std::string python_named() {
  if (std::string named = environment("GPUPLAN_PYTHON"); !named.empty()) return named;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = environment(variable); !folder.empty())
      if (const fs::path python = fs::path(folder) / "bin" / "python"; access(python.c_str(), X_OK) == 0)
        return python.string();
  return "python3";
}

// The folder that holds the package `gpuplan`: that of the wheel that this program lies in, or of its checkout. Empty:
// the interpreter's own packages may have it.
std::string package_folder(const fs::path& program) {
  std::error_code none;
  const fs::path wheel = program.parent_path().parent_path();
  for (const fs::path& folder : {wheel.parent_path(), wheel / "tools" / "python"})
    if (fs::is_regular_file(folder / "gpuplan" / "door.py", none)) return folder.string();
  return "";
}

// "calls without a layer:\n  net.py:4: f\n  net.py:5: g": an Error is one line.
std::string on_one_line(const std::string& text) {
  std::string line;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::size_t begin = std::min(text.find_first_not_of(' ', from), end);
    if (!line.empty()) line += line.ends_with(':') ? " " : "; ";
    line += text.substr(begin, end - begin);
    from = end + 1;
  }
  return line;
}

// Of a program; what `gpuplan shadow` adds to it comes after it.
std::string last_line(std::string text) {
  for (std::size_t begin = 0; !text.empty(); text.erase(begin == 0 ? 0 : begin - 1)) {
    begin = text.rfind('\n') + 1;
    const std::string_view line = std::string_view(text).substr(begin);
    if (!line.starts_with("gpuplan shadow: ") && !line.starts_with("  the command ended with "))
      return text.substr(begin);
  }
  return text;
}

// What follows "error: ", lines of its own included, and after that "  help: "; or the last line of a traceback.
Error error_in(const std::string& errors, const std::string& python) {
  std::string text = errors.substr(0, errors.find_last_not_of('\n') + 1);
  const std::size_t told = text.starts_with("error: ") ? 0 : text.find("\nerror: ");
  if (told == std::string::npos) {
    const std::string last = last_line(text);
    if (last.find("No module named 'gpuplan'") != std::string::npos)
      return Error(python + " does not have the package gpuplan, which exports models", ErrorKind::environment)
          .help("pip install it there, or run the program of a checkout or of a wheel, which brings it");
    return Error(python + " ended with " + (last.empty() ? "no word" : last), ErrorKind::environment)
        .help("GPUPLAN_PYTHON names the interpreter that has the model's packages");
  }
  for (const char* report : {"\n\n", "\ngpuplan shadow: "})
    if (const std::size_t end = text.find(report, told); end != std::string::npos) text.resize(end);
  const std::size_t from = text.find("error: ", told) + 7, help = text.find("\n  help: ", from);
  const std::string message = on_one_line(text.substr(from, help - from));
  // Of packages that are only looked for, warnings before the error say the same.
  if (message.find("No module named") != std::string::npos || message.find("needs torch") != std::string::npos)
    return Error(message, ErrorKind::environment)
        .help("install it there, or name the interpreter that has it: GPUPLAN_PYTHON=venv/bin/python");
  Error error(message, message.starts_with("--") ? ErrorKind::usage : ErrorKind::input);
  if (help != std::string::npos) error.help(text.substr(help + 9));
  return error;
}

// This program, or, of one that the library is linked into, the one on PATH.
fs::path gpuplan_program() {
  const fs::path running = running_program().file;
  if (running.filename() == "gpuplan") return running;
  const std::vector<fs::path> found = programs_on_path(environment("PATH"), "gpuplan");
  if (found.empty())
    throw Error("there is no program gpuplan on PATH, which exports models in Python", ErrorKind::environment);
  return found.front();
}

}  // namespace

Interpreter interpreter() {
  Interpreter i{gpuplan_program().string(), python_named(), ""};
  i.package = package_folder(i.program);
  return i;
}

// sys.path begins with the current folder, whose modules would hide those of packages: it goes.
std::vector<std::string> python_command(const Interpreter& i, const std::string& module) {
  return {i.python, "-c",
          "import sys; sys.path[:1] = filter(None, [sys.argv[1]]); from gpuplan." + module +
              " import main; sys.exit(main(sys.argv[2:]))",
          i.package};
}

void run_python(const Interpreter& i, const std::vector<std::string>& command) {
  std::vector<std::string> variables = {"GPUPLAN=" + i.program};
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("GPUPLAN=")) variables.emplace_back(*variable);
  try {
    Child child(command, variables);
    const Child::Rest said = child.read_all();
    if (child.wait() != 0) throw error_in(said.errors, i.python);
  } catch (const std::system_error& problem) {
    throw Error("cannot run " + command[0] + ": " + problem.code().message(), ErrorKind::environment)
        .help("models in Python are run by Python: GPUPLAN_PYTHON names the interpreter that has torch");
  }
}

}  // namespace gpuplan
