#include "estimator/report/check_findings.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "estimator/base/format.h"

namespace gpuplan {
namespace {

constexpr std::string_view kImport = "import:";

// From the top of the repository: "sub/../configs/m.yaml" is configs/m.yaml.
std::string path_of(const CheckReport& report, std::string file) {
  if (file.starts_with(kImport)) file.erase(0, kImport.size());
  const auto real = report.real_paths.find(file);
  if (real != report.real_paths.end()) return real->second;
  return std::filesystem::path(report.folder + file).lexically_normal().generic_string();
}

// The lines of an import are those of the spec that was made of the file.
int line_of(const std::string& file, int line) { return file.starts_with(kImport) ? 1 : std::max(line, 1); }

FindingPlace place_of(const SourceMark& mark, const CheckReport& report, std::string what) {
  FindingPlace place;
  place.path = path_of(report, mark.source != nullptr ? mark.source->name : report.file);
  place.line = std::max(mark.line, 1);
  place.what = std::move(what);
  if (mark.source == nullptr || mark.column < 1) return place;
  const std::string_view line = mark.source->line(mark.line);
  const auto from = std::min(static_cast<std::size_t>(mark.column - 1), line.size());
  const auto to = std::min(from + static_cast<std::size_t>(std::max(mark.length, 1)), line.size());
  place.column = static_cast<int>(display_width(line.substr(0, from))) + 1;
  place.end_column = std::max(static_cast<int>(display_width(line.substr(0, to))) + 1, place.column + 1);
  return place;
}

Finding start(const CheckResult& result, std::string rule, const std::string& subject, const CheckReport& report) {
  Finding finding;
  finding.check = result.check.name;
  finding.rule = std::move(rule);
  finding.fingerprint =
      fingerprint_of(report.folder + report.file + '\n' + result.check.name + '\n' + finding.rule + '\n' + subject);
  return finding;
}

// Of limits of the command line: the model's first line; of a model of the zoo, which is no file, nowhere.
FindingPlace place_of_limit(const CheckResult& result, const SourceMark& mark, const CheckReport& report,
                            const char* what) {
  if (!report.file.empty()) return place_of(mark, report, what);
  FindingPlace place;
  const std::string& model = result.check.model;
  if (!model.starts_with("zoo:") && !model.starts_with('/')) place.path = path_of(report, model);
  place.what = what;
  return place;
}

// The first line that may have made the figure worse; null where it is no worse than at the base.
const CauseLine* cause_of(const CheckResult& result, const Assertion& a) {
  const bool worse = a.base && (a.kind == Assertion::Kind::min ? a.value < *a.base : a.value > *a.base);
  if (!worse) return nullptr;
  for (const CauseLine& cause : result.causes)
    if (!cause.of_run || a.figure != Figure::params) return &cause;
  return nullptr;
}

Finding finding_of(const CheckResult& result, const Assertion& a, const CheckReport& report) {
  const bool of_figure =
      a.kind == Assertion::Kind::max || a.kind == Assertion::Kind::min || a.kind == Assertion::Kind::warn;
  Finding finding = start(
      result, !a.pattern.empty() ? "module" : std::string(of_figure ? name_of(a.figure) : name_of(a.kind)),
      std::string(name_of(a.kind)) + ' ' + a.pattern + ' ' + a.subject + ' ' + std::string(name_of(a.figure)), report);
  finding.error = a.state == State::fail;
  finding.message = result.check.name + ": " + sentence(a);
  const FindingPlace limit = place_of_limit(result, a.mark, report, "the limit");
  const CauseLine* const cause = cause_of(result, a);
  if (cause == nullptr) {
    finding.place = limit;
    return finding;
  }
  finding.place.path = path_of(report, cause->file);
  finding.place.line = line_of(cause->file, cause->line);
  finding.place.what = cause->what;
  finding.related.push_back(limit);
  return finding;
}

}  // namespace

std::vector<Finding> findings(const CheckReport& report) {
  std::vector<Finding> list;
  for (const CheckResult& result : report.results) {
    if (result.state == State::muted) continue;
    if (result.state == State::error) {
      Finding finding = start(result, "plan", "", report);
      finding.error = true;
      finding.message = result.check.name + ": " + result.error;
      finding.place = place_of_limit(result, result.check.mark, report, "the check");
      if (const CauseLine& at = result.error_at; !at.file.empty() && !at.file.starts_with("zoo:")) {
        if (!report.file.empty()) finding.related.push_back(finding.place);
        finding.place = {};
        finding.place.path = path_of(report, at.file);
        finding.place.line = line_of(at.file, at.line);
      }
      list.push_back(std::move(finding));
    }
    for (const Assertion& a : result.assertions)
      if (a.state == State::fail || a.state == State::warn) list.push_back(finding_of(result, a, report));
  }
  std::stable_partition(list.begin(), list.end(), [](const Finding& finding) { return finding.error; });
  return list;
}

std::string fingerprint_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash >> shift & 15];
  return digits;
}

}  // namespace gpuplan
