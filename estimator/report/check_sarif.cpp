// gpuplan check as SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), for code scanning.
#include <algorithm>
#include <array>

#include "estimator/report/check_findings.h"
#include "estimator/report/json_parts.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostResults = 5000;  // that GitHub shows of a file

struct Rule {
  const char* id;
  const char* text;
};
constexpr std::array<Rule, 12> kRules = {{{"peak", "Allocated memory at the peak of a step"},
                                          {"reserved", "Memory that PyTorch's allocator reserves"},
                                          {"device", "Device memory in all"},
                                          {"params", "Parameters of a model"},
                                          {"step_flop", "FLOPs of a step"},
                                          {"step_time", "Time of a step"},
                                          {"cost", "Price of a million samples"},
                                          {"saved", "Bytes that autograd keeps for backward"},
                                          {"growth", "Growth against the base"},
                                          {"fits", "Whether a step fits a GPU"},
                                          {"module", "A module's limits"},
                                          {"plan", "A check that cannot be planned"}}};

// RFC 3986: what is no unreserved character of a path, as % and two digits.
std::string uri_of(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
  }
  return out;
}

Json location(const FindingPlace& place) {
  Json region = {{"startLine", place.line}};
  if (place.column > 0) region["startColumn"] = place.column;
  if (place.end_column > 0) region["endColumn"] = place.end_column;
  return {{"physicalLocation",
           {{"artifactLocation", {{"uri", uri_of(place.path)}, {"uriBaseId", "%SRCROOT%"}}}, {"region", region}}}};
}

std::size_t rule_index(const std::string& id) {
  const auto at = std::ranges::find_if(kRules, [&](const Rule& r) { return r.id == id; });
  return static_cast<std::size_t>(at - kRules.begin());
}

Json result_json(const Finding& finding) {
  Json related = Json::array();
  for (std::size_t i = 0; i < finding.related.size(); ++i) {
    Json one = location(finding.related[i]);
    one["id"] = i + 1;
    one["message"] = {{"text", finding.related[i].what}};
    related.push_back(std::move(one));
  }
  return {{"ruleId", "gpuplan/" + finding.rule},
          {"ruleIndex", rule_index(finding.rule)},
          {"level", finding.error ? "error" : "warning"},
          {"message", {{"text", finding.message}}},
          {"locations", finding.place.path.empty() ? Json::array() : Json::array({location(finding.place)})},
          {"relatedLocations", related},
          {"partialFingerprints", {{"gpuplanCheck/v1", finding.fingerprint}}}};
}

}  // namespace

std::string check_sarif(const CheckReport& report, std::string_view version) {
  Json rules = Json::array(), results = Json::array();
  for (const Rule& rule : kRules)
    rules.push_back({{"id", std::string("gpuplan/") + rule.id}, {"shortDescription", {{"text", rule.text}}}});
  const std::vector<Finding> all = findings(report);
  for (const Finding& finding : all)
    if (results.size() < kMostResults) results.push_back(result_json(finding));
  Json notifications = Json::array();
  if (all.size() > kMostResults)
    notifications.push_back(
        {{"level", "warning"},
         {"message",
          {{"text", "the first " + std::to_string(kMostResults) + " of " + std::to_string(all.size()) +
                        " results, errors first: gpuplan check -o check.json has all of them"}}}});
  const Json json = {
      {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
      {"version", "2.1.0"},
      {"runs", Json::array({{{"tool", {{"driver", {{"name", "gpuplan"}, {"version", version}, {"rules", rules}}}}},
                             {"invocations", Json::array({{{"executionSuccessful", report.worst() != State::error},
                                                           {"toolExecutionNotifications", notifications}}})},
                             {"columnKind", "unicodeCodePoints"},
                             {"results", results}}})}};
  return json_text(json);
}

}  // namespace gpuplan
