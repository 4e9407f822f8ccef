#include "estimator/report/check_findings.h"

#include <algorithm>
#include <array>

#include "estimator/report/format.h"

namespace gpuplan {
namespace {

FindingPlace place_of(const SourceMark& mark, const CheckReport& report, std::string what) {
  FindingPlace place;
  place.path = report.folder + (mark.source != nullptr ? mark.source->name : report.file);
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
  finding.fingerprint = fingerprint_of(report.file + '\n' + result.check.name + '\n' + finding.rule + '\n' + subject);
  return finding;
}

// Of limits of the command line: the model's first line.
FindingPlace place_of_limit(const CheckResult& result, const SourceMark& mark, const CheckReport& report,
                            const char* what) {
  if (!report.file.empty()) return place_of(mark, report, what);
  FindingPlace place;
  place.path = report.folder + result.check.model;
  place.what = what;
  return place;
}

Finding finding_of(const CheckResult& result, const Assertion& a, const CheckReport& report) {
  const bool of_figure =
      a.kind == Assertion::Kind::max || a.kind == Assertion::Kind::min || a.kind == Assertion::Kind::warn;
  Finding finding =
      start(result, std::string(of_figure ? name_of(a.figure) : name_of(a.kind)),
            std::string(name_of(a.kind)) + ' ' + a.subject + ' ' + std::string(name_of(a.figure)), report);
  finding.error = a.state == State::fail;
  finding.message = result.check.name + ": " + sentence(a);
  const FindingPlace limit = place_of_limit(result, a.mark, report, "the limit");
  if (result.causes.empty()) {
    finding.place = limit;
    return finding;
  }
  const CauseLine& cause = result.causes.front();
  finding.place = {.path = report.folder + cause.file,
                   .line = std::max(cause.line, 1),
                   .column = 0,
                   .end_column = 0,
                   .what = cause.what};
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
