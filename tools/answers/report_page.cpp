#include "tools/answers/report_page.h"

#include <algorithm>
#include <string_view>

#include "tools/answers/html_page.h"
#include "tools/answers/plan_page.h"

namespace gpuplan {
namespace {

// Of a brief report: what a device needs, where that is said.
std::string_view from_needs(std::string_view text) {
  const std::size_t needs = text.find("Needs ");
  return needs == std::string_view::npos ? text : text.substr(needs);
}

std::string first_line(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  if (begin == std::string_view::npos) return "";
  text.remove_prefix(begin);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::string report_page(ReportParts parts, const OutputOptions& output) {
  HtmlPage page;
  page.title = first_line(parts.text);
  page.subtitle = output.command.substr(0, output.command.find(' ', output.command.find(' ') + 1));
  page.verdict = first_line(from_needs(parts.verdict));
  page.good = parts.good;
  page.notes = std::move(parts.notes);
  page.command = output.command;
  page.text = std::move(parts.text);
  page.report_json = std::move(parts.json);
  std::erase_if(parts.drawings, [](const auto& drawing) { return drawing.second.empty(); });
  page.drawings = std::move(parts.drawings);
  page.memories = std::move(parts.memories);
  page.memory_first = parts.memory_first;
  return html_text(page);
}

void keep_what_a_page_holds(ReportParts& parts) {
  std::size_t bytes = 0;
  std::size_t held = 0;
  for (; held < parts.memories.size(); ++held) {
    bytes += parts.memories[held].size();
    if (held > 0 && bytes > kMostMemory) break;
  }
  if (held == parts.memories.size()) return;
  parts.memories.resize(held);
  parts.notes.push_back("this page draws the first " + std::to_string(held) +
                        " of the memories, up to 12 MB; of the others it has the figures only");
}

std::string list_of_lines(const std::string& json_lines) {
  std::string list = "[" + json_lines;
  std::ranges::replace(list, '\n', ',');
  if (list.ends_with(',')) list.pop_back();
  return list + "]";
}

}  // namespace gpuplan
