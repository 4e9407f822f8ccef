// The formats of gpuplan check, and the files of -o.
#pragma once

#include <string>
#include <vector>

#include "estimator/report/check_report.h"
#include "tools/options/output_options.h"

namespace gpuplan {

enum class CheckFormat : unsigned char { table, json, md, github, gitlab, junit, sarif, openmetrics, html };

struct CheckFile {
  CheckFormat format = CheckFormat::table;
  std::string path;
  bool force = false;  // also where a model, a budget, a trace or a script is
};

/// Of standard output.
CheckFormat check_format(const OutputOptions& options);
/// The files of -o: "FILE" with the format of its ending, or "FORMAT:FILE". Throws Error (usage).
std::vector<CheckFile> check_files(const OutputOptions& options);
std::string render(const CheckReport& report, CheckFormat format, const TextStyle& style, const OutputOptions& output);
/// Also appends to the summary of a GitHub job, which several steps share. Throws Error as write_report() does.
void write_check_file(const CheckFile& file, const std::string& text);

}  // namespace gpuplan
