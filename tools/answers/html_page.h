// HTML reports: one file without network or library, whose scripts (configs/pages) draw what its JSON says.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpuplan {

struct HtmlPage {
  std::string title, subtitle;  // plain text, as everything here but the two of JSON
  std::string verdict;
  bool good = true;
  std::vector<std::pair<std::string, std::string>> cards;  // what it is, and how much
  std::vector<std::string> notes;                          // assumptions and warnings
  std::string command;
  std::string text;         // the report as a terminal shows it
  std::string report_json;  // as --format json prints it; its lists are the page's tables
  std::vector<std::pair<std::string, std::string>> drawings;  // a heading, and an SVG
  bool memory_first = true;                                   // before drawings and tables
  std::vector<std::string> memories;                          // memory_page_json() of each run or plan
};

std::string html_text(const HtmlPage& page);

}  // namespace gpuplan
