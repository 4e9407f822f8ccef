#include "tools/check/check_output.h"

#include <algorithm>
#include <cstdlib>

#include "tools/answers/plan_page.h"
#include "tools/answers/report_page.h"
#include "tools/files/write_file.h"
#include "tools/options/words.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

// A comment holds 65,536 characters, and so fits wherever Markdown of a job goes.
constexpr std::size_t kMostOfComment = 65'536;

const Choices<CheckFormat>& formats() {
  static const Choices<CheckFormat> words = {{"table", CheckFormat::table},   {"json", CheckFormat::json},
                                             {"md", CheckFormat::md},         {"github", CheckFormat::github},
                                             {"gitlab", CheckFormat::gitlab}, {"junit", CheckFormat::junit},
                                             {"sarif", CheckFormat::sarif},   {"openmetrics", CheckFormat::openmetrics},
                                             {"html", CheckFormat::html}};
  return words;
}

const Choices<CheckFormat>& endings() {
  static const Choices<CheckFormat> words = {{".json", CheckFormat::json},   {".md", CheckFormat::md},
                                             {".txt", CheckFormat::table},   {".xml", CheckFormat::junit},
                                             {".sarif", CheckFormat::sarif}, {".prom", CheckFormat::openmetrics},
                                             {".html", CheckFormat::html}};
  return words;
}

CheckFile file_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  for (const auto& [word, format] : formats())
    if (colon != std::string::npos && text.substr(0, colon) == word)
      return {.format = format, .path = text.substr(colon + 1)};
  const std::string name = text.substr(text.find_last_of('/') + 1);
  if (name == "metrics.txt") return {.format = CheckFormat::openmetrics, .path = text};  // as GitLab's pages call it
  for (const auto& [ending, format] : endings())
    if (name.ends_with(ending) && name.size() > ending.size()) return {.format = format, .path = text};
  throw Error("-o " + text + ": unknown file extension", ErrorKind::usage)
      .help("known are .json, .md, .txt, .html, .xml (JUnit), .sarif and .prom; or give the format: -o junit:" + text);
}

std::string page_of(const CheckReport& report, const OutputOptions& output) {
  const std::string text = check_text(report, file_style(output));
  const bool good = report.worst() < State::fail;
  std::vector<std::string> memories;
  for (const CheckResult& result : report.results)
    if (!result.memory.empty()) memories.push_back(result.memory);
  const std::size_t last = text.find_last_of('\n', text.size() - 2);
  ReportParts parts = {.text = text,
                       .json = check_json(report, kVersion),
                       .verdict = mark_of(good, {}) + " " + text.substr(last + 1),
                       .good = good,
                       .notes = report.warnings,
                       .drawings = {},
                       .memories = std::move(memories)};
  keep_what_a_page_holds(parts);
  return report_page(std::move(parts), output);
}

}  // namespace

CheckFormat check_format(const OutputOptions& options) {
  return options.format.empty() ? CheckFormat::table : choose<CheckFormat>("--format", options.format, formats());
}

std::vector<CheckFile> check_files(const OutputOptions& options) {
  std::vector<CheckFile> files;
  for (const std::string& text : options.files) {
    refuse_standard_output(text);
    files.push_back(file_of(text));
    files.back().force = options.force;
    if (files.back().path.empty()) throw Error("-o " + text + ": the file name is missing", ErrorKind::usage);
  }
  return files;
}

std::string render(const CheckReport& report, CheckFormat format, const TextStyle& style, const OutputOptions& output) {
  switch (format) {
    case CheckFormat::table: return check_text(report, style);
    case CheckFormat::json: return check_json(report, kVersion);
    case CheckFormat::md: return check_md(report, kVersion, kMostOfComment);
    case CheckFormat::github: return check_github(report);
    case CheckFormat::gitlab: return check_gitlab(report);
    case CheckFormat::junit: return check_junit(report);
    case CheckFormat::sarif: return check_sarif(report, kVersion);
    case CheckFormat::openmetrics: return check_openmetrics(report);
    case CheckFormat::html: return page_of(report, output);
  }
  return "";
}

void write_check_file(const CheckFile& file, const std::string& text) {
  const char* const summary = std::getenv("GITHUB_STEP_SUMMARY");
  if (summary != nullptr && file.path == summary) return append_to_file(file.path, text);
  write_report({.format = Format::table, .path = file.path, .force = file.force}, text);
}

}  // namespace gpuplan
