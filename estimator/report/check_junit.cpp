// gpuplan check as JUnit XML, which Jenkins, GitLab, CircleCI and Azure read: a test case a check.
#include <algorithm>

#include "estimator/report/check_report.h"
#include "estimator/report/xml_text.h"

namespace gpuplan {
namespace {

// A line end in an attribute is a blank to whoever reads it, unless it is written as a reference.
std::string attribute(const char* name, const std::string& value) {
  std::string text = xml_text(value);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) text.replace(at, 1, "&#10;");
  return std::string(" ") + name + "=\"" + text + "\"";
}

std::string element(const char* name, const std::string& message, const char* type, const std::string& body) {
  return std::string("      <") + name + attribute("message", message) + attribute("type", type) + ">" +
         xml_text(body) + "</" + name + ">\n";
}

std::string test_case(const CheckResult& result, const CheckReport& report) {
  TextStyle style;
  std::string out = "    <testcase" + attribute("classname", "gpuplan") + attribute("name", result.check.name) +
                    attribute("file", report.folder + report.file) +
                    attribute("line", std::to_string(std::max(result.check.mark.line, 1)));
  std::string inside;
  switch (result.state) {
    case State::ok: return out + "/>\n";
    case State::muted:
      inside = "      <skipped" +
               attribute("message", "muted until " + date_text(*result.check.skip_until) + ": " + result.check.reason) +
               "/>\n";
      break;
    case State::warn:
      inside = "      <system-out>" + xml_text(headline(result) + "\n" + failure_text(result, report, style)) +
               "</system-out>\n";
      break;
    case State::fail:
      inside =
          element("failure", headline(result), "budget", headline(result) + "\n" + failure_text(result, report, style));
      break;
    case State::error: inside = element("error", result.error, "input", result.error_report); break;
  }
  return out + ">\n" + inside + "    </testcase>\n";
}

}  // namespace

std::string check_junit(const CheckReport& report) {
  const std::string counts = attribute("tests", std::to_string(report.results.size())) +
                             attribute("failures", std::to_string(report.count(State::fail))) +
                             attribute("errors", std::to_string(report.count(State::error)));
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + attribute("name", "gpuplan") + counts +
                    ">\n  <testsuite" + attribute("name", "gpuplan") + counts +
                    attribute("skipped", std::to_string(report.count(State::muted))) + ">\n";
  for (const CheckResult& result : report.results) out += test_case(result, report);
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace gpuplan
