#include "estimator/spec/construction_steps.h"

#include <charconv>
#include <sstream>

#include "estimator/spec/keys.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

std::int64_t number(const std::string& word, const YamlNode& node) {
  std::int64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data() + 1, end, value);
  if (word.size() < 2 || (word[0] != '+' && word[0] != '-') || at != end || error != std::errc{} || value < 0 ||
      value > kMostBytes || (word[0] == '+' && value == 0))
    throw Error("\"" + word + "\" is neither +BYTES nor -K").at(node.mark).label("expected such as +4096 -0");
  return value;
}

// Of the steps so far: `live` whether each allocation is there, `total` all that was allocated, below twice kMostBytes.
std::vector<std::int64_t> read_run(const YamlNode& node, std::vector<bool>& live, std::int64_t& total) {
  if (node.kind != YamlNode::Kind::scalar) throw Error("run must be a text, not " + describe(node)).at(node.mark);
  std::vector<std::int64_t> run;
  std::istringstream words(node.text);
  for (std::string word; words >> word;) {
    const std::int64_t value = number(word, node);
    if (word[0] == '+') {
      live.push_back(true);
      if ((total += value) > kMostBytes) throw Error("the construction allocates more than 1 EiB").at(node.mark);
      run.push_back(value);
      continue;
    }
    const auto which = static_cast<std::size_t>(value);
    if (which >= live.size() || !live[which])
      throw Error("\"" + word + "\" frees what is not there; allocations before it: " + std::to_string(live.size()))
          .at(node.mark);
    live[which] = false;
    run.push_back(-value - 1);
  }
  return run;
}

}  // namespace

std::vector<ConstructionStep> read_construction(const YamlNode& node) {
  expect_list(node, "construction");
  std::vector<ConstructionStep> steps;
  std::vector<bool> live;
  std::int64_t total = 0;
  for (const YamlNode* item : node.children) {
    expect_keys(*item, "a step of the construction", {"after", "run"});
    ConstructionStep step;
    step.mark = item->mark;
    if (const YamlNode* after = item->find("after")) {
      step.after = read_module_name(*after);
      step.mark = after->mark;
    }
    step.run = read_run(require(*item, "a step of the construction", "run"), live, total);
    steps.push_back(std::move(step));
  }
  return steps;
}

std::string construction_text(const ConstructionStep& step) {
  std::string text;
  for (const std::int64_t action : step.run) {
    if (!text.empty()) text += ' ';
    text += action > 0 ? "+" + std::to_string(action) : "-" + std::to_string(-action - 1);
  }
  return text;
}

}  // namespace gpuplan
