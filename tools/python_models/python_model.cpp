#include "tools/python_models/python_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "estimator/report/check_findings.h"
#include "tools/process/environment.h"
#include "tools/process/programs_on_path.h"
#include "tools/process/read_source.h"
#include "tools/process/streams.h"
#include "tools/process/version.h"
#include "tools/python_models/remembered.h"
#include "tools/subprocess/child.h"

extern char** environ;  // NOLINT: macOS' unistd.h has none

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 3> kPackages = {"timm:", "torchvision:", "hf:"};

std::string interpreter() {
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

// sys.path begins with the current folder, whose modules would hide those of packages: it goes.
std::string start_of(const std::string& module) {
  return "import sys; sys.path[:1] = filter(None, [sys.argv[1]]); from gpuplan." + module +
         " import main; sys.exit(main(sys.argv[2:]))";
}

std::vector<std::string> words_of(const PythonModel& model) {
  std::vector<std::string> words = {model.word};
  for (const std::string& input : model.inputs) words.insert(words.end(), {"--input", input});
  for (const std::string& argument : model.arguments) words.insert(words.end(), {"--arg", argument});
  return words;
}

// Readable, and another one for whatever the export depends on beside the files in SPEC.sources.
fs::path remembered_as(const std::vector<std::string>& words, const std::string& python, const std::string& package) {
  std::string key = std::string(kVersion) + '\n' + python + '\n' + package + '\n' + environment("PYTHONPATH");
  for (const std::string& word : words) key += '\n' + word;
  // A path means another file elsewhere; so may a name of Hugging Face's, which can be a folder's.
  if (python_code(words[0]) == PythonCode::file || words[0].starts_with("hf:"))
    key += '\n' + fs::current_path().string();
  std::string name = fs::path(words[0]).filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return exports_folder() / (name.substr(0, 100) + '-' + fingerprint_of(key) + ".yaml");
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
    if (!std::string_view(text).substr(begin).starts_with("gpuplan shadow: ")) return text.substr(begin);
  }
  return text;
}

// What follows "error: ", lines of its own included, and after that "  help: "; or the last line of a traceback.
Error error_in(const std::string& errors, const std::string& python) {
  const std::string text = errors.substr(0, errors.find_last_not_of('\n') + 1);
  const std::size_t told = text.starts_with("error: ") ? 0 : text.find("\nerror: ");
  if (told == std::string::npos) {
    const std::string last = last_line(text);
    if (last.find("No module named 'gpuplan'") != std::string::npos)
      return Error(python + " does not have the package gpuplan, which exports models", ErrorKind::environment)
          .help("pip install it there, or run the program of a checkout or of a wheel, which brings it");
    return Error(python + " ended with " + (last.empty() ? "no word" : last), ErrorKind::environment)
        .help("GPUPLAN_PYTHON names the interpreter that has the model's packages");
  }
  const std::size_t from = text.find("error: ", told) + 7, help = text.find("\n  help: ", from);
  const std::string message = on_one_line(text.substr(from, help - from));
  if (text.find("No module named") != std::string::npos || text.find("needs torch") != std::string::npos)
    return Error(message, ErrorKind::environment)
        .help("install it there, or name the interpreter that has it: GPUPLAN_PYTHON=venv/bin/python");
  Error error(message);
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

// What runs the model's code: this program, an interpreter, and the folder of the package.
struct Interpreter {
  fs::path program = gpuplan_program();
  std::string python = interpreter(), package = package_folder(program);
};

void run_python(const Interpreter& i, const std::vector<std::string>& command) {
  std::vector<std::string> variables = {"GPUPLAN=" + i.program.string()};
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

void say_that_it_takes_long(const std::string& what) {
  if (isatty(STDERR_FILENO) != 0) write_stderr(what + ", once: the result is kept ...\n");
}

void export_model(const std::vector<std::string>& words, const Interpreter& i, const fs::path& spec) {
  say_that_it_takes_long("exporting " + words[0] + " with " + i.python + ", and comparing the spec with the model");
  std::vector<std::string> command = {i.python, "-c", start_of("door"), i.package, spec.string()};
  command.insert(command.end(), words.begin(), words.end());
  run_python(i, command);
}

// gpuplan.stepped's Step. The words are names of flags' values, without quotes.
std::string json_of(const LearnedStep& s) {
  const auto text = [](const char* name, const std::string& value) {
    return value.empty() ? "" : std::string("\"") + name + "\": \"" + value + "\", ";
  };
  return "{" + text("mode", s.mode == "infer" ? "eval" : s.mode) + text("optimizer", s.optimizer) + text("amp", s.amp) +
         text("precision", s.precision) + "\"channels_last\": " + (s.channels_last ? "true" : "false") + "}";
}

fs::path trace_of(const std::vector<std::string>& words, const Interpreter& i, const LearnedStep& step) {
  std::vector<std::string> key = words;
  key.insert(key.end(), {json_of(step), step.gpu});
  return remembered_as(key, i.python, i.package).replace_extension(".trace");
}

bool holds(const fs::path& trace) {
  std::error_code none;
  return fs::is_regular_file(trace, none) && still_holds(trace);
}

}  // namespace

PythonCode python_code(std::string_view word) {
  for (const std::string_view package : kPackages)
    if (word.starts_with(package) && word.size() > package.size()) return PythonCode::package;
  return word.find(".py:") != std::string_view::npos ? PythonCode::file : PythonCode::none;
}

std::string python_file(const std::string& word) {
  const std::size_t end = word.find(".py:");
  return end == std::string::npos || python_code(word) != PythonCode::file ? "" : word.substr(0, end + 3);
}

std::shared_ptr<const Source> spec_of_python(const PythonModel& model) {
  const Interpreter i;
  const std::vector<std::string> words = words_of(model);
  const fs::path spec = remembered_as(words, i.python, i.package);
  if (!still_holds(spec)) export_model(words, i, spec);
  auto source = std::make_shared<Source>(*read_file_source(spec.string()));
  source->name = model.word;
  return source;
}

bool is_step_remembered(const PythonModel& model, const LearnedStep& step) {
  return holds(trace_of(words_of(model), {}, step));
}

std::string learned_step(const PythonModel& model, const LearnedStep& step) {
  const Interpreter i;
  const std::vector<std::string> words = words_of(model);
  const fs::path trace = trace_of(words, i, step);
  if (holds(trace)) return trace.string();
  say_that_it_takes_long("running steps of " + words[0] + " with " + i.python + " on a simulated " + step.gpu);
  std::vector<std::string> command = {i.program.string(),
                                      "shadow",
                                      "--learn",
                                      trace.string(),
                                      "--vary",
                                      "batch=2,4,6",
                                      "--gpu",
                                      step.gpu,
                                      "--",
                                      i.python,
                                      "-c",
                                      start_of("learned"),
                                      i.package,
                                      trace.string() + ".sources",
                                      "{batch}",
                                      json_of(step)};
  command.insert(command.end(), words.begin(), words.end());
  run_python(i, command);
  return trace.string();
}

}  // namespace gpuplan
