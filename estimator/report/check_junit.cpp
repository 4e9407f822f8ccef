// gpuplan check as JUnit XML, which Jenkins, GitLab, CircleCI and Azure read: a test case a check.
#include "estimator/report/check_report.h"

namespace gpuplan {
namespace {

// Characters that XML 1.0 has none of (w3.org/TR/xml, 2.2) become question marks; so do bytes that are not UTF-8.
std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80 ? 1 : byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : 2;
    bool good = byte < 0x80 ? byte >= 0x20 || byte == '\n' || byte == '\t' : byte >= 0xc2 && byte < 0xf5;
    if (i + length > text.size()) good = false;
    for (std::size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    const std::string_view character = std::string_view(text).substr(i, good ? length : 1);
    if (character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf" ||
        (character[0] == '\xed' && character[1] >= '\xa0'))
      good = false;
    i += character.size();
    if (!good)
      out += '?';
    else if (character == "&")
      out += "&amp;";
    else if (character == "<")
      out += "&lt;";
    else if (character == ">")
      out += "&gt;";
    else if (character == "\"")
      out += "&quot;";
    else if (character == "\n")
      out += "&#10;";
    else
      out += character;
  }
  return out;
}

std::string with_line_ends(std::string text) {
  for (std::size_t at = 0; (at = text.find("&#10;", at)) != std::string::npos;) text.replace(at, 5, "\n");
  return text;
}

std::string attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + escaped(value) + "\"";
}

std::string element(const char* name, const std::string& message, const char* type, const std::string& body) {
  return std::string("      <") + name + attribute("message", message) + attribute("type", type) + ">" +
         with_line_ends(escaped(body)) + "</" + name + ">\n";
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
      inside = "      <system-out>" +
               with_line_ends(escaped(headline(result) + "\n" + failure_text(result, report, style))) +
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
