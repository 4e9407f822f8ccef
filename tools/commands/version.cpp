// gpuplan version: one line; -v: what this binary was made of and what it knows.
#include "tools/process/version.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <utility>

#include "configs/embedded.h"
#include "estimator/plan/run_names.h"
#include "layers/catalog.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/process/programs_on_path.h"

namespace gpuplan {

namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* kCompiler = "GCC " __VERSION__;
#else
constexpr const char* kCompiler = "unknown compiler";
#endif

#ifdef NDEBUG
constexpr const char* kBuild = "optimized, without assertions";
#else
constexpr const char* kBuild = "with assertions";
#endif

std::string details() {
  std::string out;
  const auto line = [&](const std::string& name, const std::string& value) {
    out += "  " + name + std::string(10 - name.size(), ' ') + value + "\n";
  };
  // "0.1.0 (CUDA 13.0)"
  const std::string full = GPUPLAN_VERSION_STRING;
  const std::size_t open = full.find('(');
  line("compiler", kCompiler);
  line("build", kBuild);
  line("cuda", open == std::string::npos ? "no CUDA" : full.substr(open + 1, full.size() - open - 2));
  line("pytorch", "rules of 1.13 and 2.0 to " + version_text(kNewestPyTorch));
  line("knows", std::to_string(make_catalog().size()) + " layers, " + std::to_string(embedded_models().size()) +
                    " models, " + std::to_string(embedded_gpus().size()) + " GPUs");
  const char* const path = std::getenv("PATH");
  std::string name = "programs";
  for (const std::string& place : installations(running_program(), path != nullptr ? path : ""))
    line(std::exchange(name, ""), place);
  return out;
}

}  // namespace

std::string version_line() { return "gpuplan " + std::string(kVersion) + "\n"; }

void add_version_command(CLI::App& app, int& exit_code) {
  const auto verbose = std::make_shared<bool>(false);
  CLI::App* const command = app.add_subcommand("version", "Prints the version; with -v, the build and its contents");
  command->add_flag("-v,--verbose", *verbose,
                    "Also prints the build, how many layers, models and GPUs it has, and every gpuplan on PATH");
  command->callback([verbose, &exit_code] {
    write_stdout(version_line() + (*verbose ? details() : ""));
    exit_code = 0;
  });
}

}  // namespace gpuplan
