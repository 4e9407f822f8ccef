// gpuplan check for those who put findings beside lines: GitHub's workflow commands and GitLab's Code Quality report.
#include <algorithm>
#include <array>

#include "estimator/base/excerpt.h"
#include "estimator/report/check_findings.h"
#include "estimator/report/json_parts.h"

namespace gpuplan {
namespace {

// docs.github.com/actions, workflow commands: what a value must not hold is written as % and two digits.
std::string escaped(const std::string& text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%')
      out += "%25";
    else if (c == '\r')
      out += "%0D";
    else if (c == '\n')
      out += "%0A";
    else if (property && c == ':')
      out += "%3A";
    else if (property && c == ',')
      out += "%2C";
    else
      out += c;
  }
  return out;
}

std::string command(const Finding& finding) {
  std::string out = finding.error ? "::error " : "::warning ";
  if (!finding.place.path.empty()) {
    out += "file=" + escaped(finding.place.path, true) + ",line=" + std::to_string(finding.place.line);
    if (finding.place.column > 0) out += ",col=" + std::to_string(finding.place.column);
  }
  std::string message = printable_text(finding.message);
  for (const FindingPlace& place : finding.related)
    message += "\n" + place.what + ": " + place.path + ":" + std::to_string(place.line);
  return out + (finding.place.path.empty() ? "title=" : ",title=") + escaped("gpuplan " + finding.rule, true) +
         "::" + escaped(message, false) + "\n";
}

}  // namespace

// A step shows ten annotations of a kind and drops the rest without a word.
std::string check_github(const CheckReport& report) {
  constexpr std::size_t kMost = 10;
  const std::vector<Finding> all = findings(report);
  std::string out;
  for (const bool error : {true, false}) {
    const auto n = static_cast<std::size_t>(std::ranges::count(all, error, &Finding::error));
    const std::size_t shown = n > kMost ? kMost - 1 : n;
    std::size_t i = 0;
    for (const Finding& finding : all)
      if (finding.error == error && i++ < shown) out += command(finding);
    if (n > shown)
      out += std::string("::") + (error ? "error" : "warning") + " title=gpuplan::and " + std::to_string(n - shown) +
             " more: see the job's summary\n";
  }
  return out;
}

// docs.gitlab.com/ci/testing/code_quality: the fields of a finding.
std::string check_gitlab(const CheckReport& report) {
  Json list = Json::array();
  for (const Finding& finding : findings(report))
    list.push_back({{"description", finding.message},
                    {"check_name", "gpuplan/" + finding.rule},
                    {"fingerprint", finding.fingerprint},
                    {"severity", finding.error ? "major" : "minor"},
                    {"location",
                     {{"path", finding.place.path.empty() ? "." : finding.place.path},
                      {"lines", {{"begin", finding.place.line}}}}}});
  return json_text(list);
}

}  // namespace gpuplan
