#include "tests/scoreboard/scoreboard_gate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace gpuplan {
namespace {

constexpr const char* kHead =
    "# Recorded runs beside their plans. tools/scoreboard --update writes this file; its changes are reviewed like a\n"
    "# golden file's, and the tests fail where a score is another. A set has a line, and each run with figures that\n"
    "# differ: by how much all of them together, and the one that is off by most. The reason below a run is written "
    "by\n"
    "# hand and kept. \"?\" before it marks a run that is new here or further off than before: the tests fail until "
    "its\n"
    "# reason is given.\n";

double relative(const GateMiss& m) {
  return m.expected == 0 ? 1 : static_cast<double>(m.got - m.expected) / static_cast<double>(m.expected);
}

std::string set_line(const GateSet& s) {
  std::ostringstream out;
  out << s.name << ": " << s.runs << " runs, " << s.equal_runs << " equal; " << s.figures << " figures, "
      << s.equal_figures << " equal";
  return out.str();
}

std::string miss_line(const GateMiss& m) {
  char percent[32];
  std::snprintf(percent, sizeof percent, "%+.3f %%", 100 * relative(m));
  std::ostringstream out;
  out << "  " << m.run << ": " << m.differing << " of " << m.figures << " figures by " << m.bytes << " B; " << m.worst
      << ' ' << percent << ", " << m.got << " for " << m.expected;
  return out.str();
}

// A set's lines without reasons.
std::vector<std::string> lines_of(const GateSet& s) {
  std::vector<std::string> lines{set_line(s), "  of " + s.title};
  for (const LeftOut& run : s.left_out) lines.push_back("  left out " + run.run + ": " + run.reason);
  for (const GateMiss& miss : s.misses) lines.push_back(miss_line(miss));
  return lines;
}

bool is_further_off(const GateMiss& now, const GateMiss& before) {
  return now.differing > before.differing || now.bytes > before.bytes ||
         std::abs(relative(now)) > std::abs(relative(before));
}

// In lines of 120 columns.
std::string reason_lines(const std::string& reason) {
  std::string lines, line = "   ";
  std::istringstream words(reason);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > 120) lines += std::exchange(line, "   ") + "\n";
    line += " " + word;
  }
  return lines + line + "\n";
}

const GateMiss* find_miss(const GateSet& set, const std::string& run) {
  const auto found = std::ranges::find(set.misses, run, &GateMiss::run);
  return found == set.misses.end() ? nullptr : &*found;
}

// One line of the file; false where it is none that a set has.
bool read_line(const std::string& line, Gate& gate) {
  std::vector<GateSet>& sets = gate.sets;
  static const std::regex set("([^ ].*): ([0-9]+) runs, ([0-9]+) equal; ([0-9]+) figures, ([0-9]+) equal");
  static const std::regex title("  of (.+)");
  static const std::regex left_out("  left out (.+?): (.*)");
  static const std::regex miss(
      "  (.+?): ([0-9]+) of ([0-9]+) figures by ([0-9]+) B; (.+) [+-][^ ]+ %, (-?[0-9]+) for (-?[0-9]+)");
  static const std::regex reason("    (.+)");
  static const std::regex table("([^ ]+): ([0-9]+) rows");
  std::smatch m;
  const auto number = [&](std::size_t i) { return static_cast<std::int64_t>(std::stoll(m[i])); };
  if (std::regex_match(line, m, set)) {
    sets.push_back({.name = m[1],
                    .title = "",
                    .runs = number(2),
                    .equal_runs = number(3),
                    .figures = number(4),
                    .equal_figures = number(5),
                    .misses = {},
                    .left_out = {}});
    return true;
  }
  if (std::regex_match(line, m, table)) {
    gate.tables.push_back({m[1], number(2)});
    return true;
  }
  if (sets.empty()) return false;
  GateSet& last = sets.back();
  if (std::regex_match(line, m, reason) && !last.misses.empty())
    last.misses.back().reason += (last.misses.back().reason.empty() ? "" : " ") + m[1].str();
  else if (std::regex_match(line, m, title))
    last.title = m[1];
  else if (std::regex_match(line, m, left_out))
    last.left_out.push_back({m[1], m[2]});
  else if (std::regex_match(line, m, miss))
    last.misses.push_back({m[1], number(2), number(3), number(4), m[5], number(7), number(6), ""});
  else
    return false;
  return true;
}

}  // namespace

GateSet gate_of(const ScoreSet& set, const Scored& scored) {
  GateSet gate{.name = set.name, .title = set.title, .misses = {}, .left_out = scored.left_out};
  std::map<std::string, GateMiss> runs;
  std::vector<std::string> order;
  for (const ScoreRow& row : scored.rows) {
    const auto [it, fresh] = runs.try_emplace(row.run);
    if (fresh) order.push_back(row.run);
    GateMiss& run = it->second;
    ++run.figures;
    if (row.expected == row.got) continue;
    ++run.differing;
    run.bytes += std::abs(row.got - row.expected);
    const GateMiss other{.run = "", .worst = row.quantity, .expected = row.expected, .got = row.got, .reason = ""};
    if (!run.worst.empty() && std::abs(relative(other)) <= std::abs(relative(run))) continue;
    run.worst = row.quantity;
    run.expected = row.expected;
    run.got = row.got;
  }
  for (const std::string& name : order) {
    GateMiss& run = runs[name];
    run.run = name;
    gate.runs += 1;
    gate.equal_runs += run.differing == 0 ? 1 : 0;
    gate.figures += run.figures;
    gate.equal_figures += run.figures - run.differing;
    if (run.differing > 0) gate.misses.push_back(run);
  }
  return gate;
}

Gate read_gate(const std::string& text) {
  Gate gate;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line.starts_with("#") || read_line(line, gate)) continue;
    throw std::runtime_error("line " + std::to_string(number) + " is no line of a scoreboard: " + line);
  }
  return gate;
}

std::string write_gate(const Gate& gate) {
  std::string text = kHead;
  for (const GateSet& set : gate.sets) {
    text += "\n";
    const std::vector<std::string> lines = lines_of(set);
    const std::size_t first_miss = lines.size() - set.misses.size();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += lines[i] + "\n";
      if (i >= first_miss) text += reason_lines(set.misses[i - first_miss].reason);
    }
  }
  text += "\n# Tables whose rows other tests hold, each for itself.\n";
  for (const RecordedTable& table : gate.tables) text += table.file + ": " + std::to_string(table.rows) + " rows\n";
  return text;
}

GateSet with_reasons(GateSet now, const GateSet& before) {
  for (GateMiss& miss : now.misses) {
    const GateMiss* const known = find_miss(before, miss.run);
    miss.reason = known == nullptr ? "?" : known->reason;
    if (known != nullptr && is_further_off(miss, *known) && !miss.reason.starts_with("?"))
      miss.reason = "? it was: " + miss.reason;
  }
  return now;
}

std::vector<std::string> complaints(const GateSet& expected, const GateSet& now) {
  std::vector<std::string> out;
  const std::vector<std::string> before = lines_of(expected), after = lines_of(now);
  for (const std::string& line : before)
    if (std::ranges::find(after, line) == after.end()) out.push_back("- " + line);
  for (const std::string& line : after)
    if (std::ranges::find(before, line) == before.end()) out.push_back("+ " + line);
  if (now.runs == 0) out.push_back(now.name + " has no recording in it");
  for (const GateMiss& miss : expected.misses)
    if (miss.reason.empty() || miss.reason.starts_with("?"))
      out.push_back(expected.name + ", " + miss.run + ": the reason of its difference is not given");
  return out;
}

}  // namespace gpuplan
