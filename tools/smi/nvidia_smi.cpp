// The `nvidia-smi` that a program finds on the PATH of its run: the questions that scripts ask, answered from the
// session. Forms and exit codes are those of NVIDIA's own.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

#include "tools/smi/fields.h"

namespace gpuplan::shadow {
namespace {

constexpr int kInvalidArgument = 2, kNoGpu = 6, kNoDriver = 9;

struct Question {
  std::vector<std::string> gpu_fields, process_fields, format, ids;
  bool list = false;
  double seconds = 0;  // between two answers; 0: one answer
  std::string file;
};

// An ID of --id is a number, or what the GPU is called in the system.
std::vector<int> asked(const Machine& machine, const Question& question) {
  std::vector<int> devices;
  for (int device = 0; device < machine.settings.devices; ++device) {
    const bool named = std::ranges::any_of(question.ids, [&](const std::string& id) {
      return id == std::to_string(device) || id == uuid_of(device) || id == bus_of(device);
    });
    if (question.ids.empty() || named) devices.push_back(device);
  }
  return devices;
}

using Value = std::function<std::optional<FieldValue>(std::size_t row, const std::string& field)>;

// Rows of CSV; throws CLI::ValidationError for a field that there is none of.
std::string table(const Question& question, const std::vector<std::string>& fields, std::size_t rows,
                  const Value& value) {
  const auto with = [&](const char* word) { return std::ranges::find(question.format, word) == question.format.end(); };
  std::ostringstream out;
  if (with("noheader")) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const std::optional<FieldValue> first = rows > 0 ? value(0, fields[f]) : std::nullopt;
      const bool unit = with("nounits") && first && !first->unit.empty();
      out << (f > 0 ? ", " : "") << fields[f] << (unit ? " [" + first->unit + "]" : "");
    }
    out << '\n';
  }
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const FieldValue cell = *value(row, fields[f]);
      out << (f > 0 ? ", " : "") << cell.text << (with("nounits") && !cell.unit.empty() ? " " + cell.unit : "");
    }
    out << '\n';
  }
  return out.str();
}

std::string list(const Machine& machine, const std::vector<int>& devices) {
  std::string out;
  for (const int device : devices)
    out += "GPU " + std::to_string(device) + ": " + machine.settings.gpu.name + " (UUID: " + uuid_of(device) + ")\n";
  return out;
}

// What nvidia-smi prints without arguments, as far as programs read it: the versions, the GPUs, the processes.
std::string summary(const Machine& machine, const std::vector<int>& devices) {
  constexpr int kWidth = 89;
  const std::string rule = "+" + std::string(kWidth, '-') + "+\n";
  const auto row = [](std::string text) {
    text.resize(kWidth, ' ');
    return "|" + text + "|\n";
  };
  const std::string version = kDriverVersion;
  const std::string cuda = std::to_string(kNewestCuda / 1000) + "." + std::to_string(kNewestCuda % 1000 / 10);
  std::string out = rule;
  out += row(" NVIDIA-SMI " + version + "    Driver Version: " + version + "    CUDA Version: " + cuda +
             "    (gpuplan shadow: no GPU)");
  out += rule;
  for (const int device : devices) {
    std::string line = " " + std::to_string(device) + "  " + machine.settings.gpu.name;
    line.resize(40, ' ');
    out += row(line + bus_of(device) + "  " + std::to_string(mebibytes(machine.used(device))) + "MiB / " +
               std::to_string(mebibytes(machine.total())) + "MiB  0%  Default");
  }
  out += rule + row(" Processes:");
  for (const GpuProcess& process : processes_of(machine))
    out += row(" " + std::to_string(process.device) + "  " + std::to_string(process.pid) + "  C  " + process.name +
               "  " + std::to_string(mebibytes(process.used)) + "MiB");
  return out + rule;
}

std::string answer(const Machine& machine, const Question& question) {
  const std::vector<int> devices = asked(machine, question);
  if (!question.gpu_fields.empty())
    return table(question, question.gpu_fields, devices.size(),
                 [&](std::size_t row, const std::string& field) { return gpu_field(machine, devices[row], field); });
  if (!question.process_fields.empty()) {
    const std::vector<GpuProcess> processes = processes_of(machine);
    return table(question, question.process_fields, processes.size(), [&](std::size_t row, const std::string& field) {
      return process_field(machine, processes[row], field);
    });
  }
  return question.list ? list(machine, devices) : summary(machine, devices);
}

// nvidia-smi's own words and exit code where a field is unknown.
int refuse_unknown(const Machine& machine, const Question& question) {
  const auto complain = [](const std::string& field, const char* option) {
    std::cout << "Field \"" << field << "\" is not a valid field to query.\n\n"
              << "gpuplan's nvidia-smi knows the common fields of " << option << ".\n";
    return kInvalidArgument;
  };
  for (const std::string& field : question.gpu_fields)
    if (!gpu_field(machine, 0, field)) return complain(field, "--query-gpu");
  for (const std::string& field : question.process_fields)
    if (!process_field(machine, {}, field)) return complain(field, "--query-compute-apps");
  return 0;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int respond(const Question& question, const std::string& session) {
  const Machine machine{read_settings(read_file(session + "/session")), map_counters(session)};
  if (const int code = refuse_unknown(machine, question)) return code;
  if (asked(machine, question).empty()) {
    std::cout << "No devices were found\n";
    return kNoGpu;
  }
  std::ofstream file;
  if (!question.file.empty()) {
    file.open(question.file);
    if (!file) {
      std::cout << "Failed to open output file " << question.file << '\n';
      return kInvalidArgument;
    }
  }
  Question next = question;
  std::ostream& out = question.file.empty() ? std::cout : file;
  while (true) {
    out << answer(machine, next) << std::flush;
    if (question.seconds <= 0 || !out) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(question.seconds));
    if (!std::filesystem::exists(session)) return 0;  // the run is over
    next.format.emplace_back("noheader");
  }
}

int main_with(int argc, char** argv) {
  Question question;
  double milliseconds = 0;
  CLI::App app("gpuplan's nvidia-smi: what the GPU of this run under `gpuplan shadow` would answer", "nvidia-smi");
  app.add_flag("-L,--list-gpus", question.list, "the GPUs, one a line");
  app.add_option("--query-gpu", question.gpu_fields, "fields of each GPU")->delimiter(',');
  app.add_option("--query-compute-apps", question.process_fields, "fields of each process")->delimiter(',');
  app.add_option("--format", question.format, "csv[,noheader][,nounits]")->delimiter(',');
  app.add_option("-i,--id", question.ids, "only these GPUs: index, UUID or bus ID")->delimiter(',');
  app.add_option("-l,--loop", question.seconds, "repeat every SECONDS");
  app.add_option("--loop-ms", milliseconds, "repeat every MILLISECONDS (-lms)");
  app.add_option("-f,--filename", question.file, "write there");
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& argument : arguments)
    if (argument.starts_with("-lms")) argument = "--loop-ms" + argument.substr(4);
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kInvalidArgument;
  }
  if (milliseconds > 0) question.seconds = milliseconds / 1000;
  const char* session = std::getenv(kSessionVariable);
  if (session == nullptr || !std::filesystem::exists(session)) {
    std::cout << "gpuplan's nvidia-smi answers within a run of `gpuplan shadow` only\n";
    return kNoDriver;
  }
  return respond(question, session);
}

}  // namespace
}  // namespace gpuplan::shadow

int main(int argc, char** argv) {
  try {
    return gpuplan::shadow::main_with(argc, argv);
  } catch (const std::exception& error) {
    std::cout << "nvidia-smi: " << error.what() << '\n';
    return 1;
  }
}
