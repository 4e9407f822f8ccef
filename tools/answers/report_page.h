// The HTML page of a command's report: its verdict, drawings, memory event by event where it has that, and its JSON's
// lists as tables.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/options/output_options.h"

namespace gpuplan {

struct ReportParts {
  std::string text;     // as a file has it; its first line is the page's title
  std::string json;     // as --format json prints it
  std::string verdict;  // a brief report: its line of what is needed, or its first, is shown
  bool good = true;
  std::vector<std::string> notes;                             // assumptions and warnings
  std::vector<std::pair<std::string, std::string>> drawings;  // a heading, and an SVG; one without is left out
  std::vector<std::string> memories;                          // memory_page_json()
  bool memory_first = false;                                  // before drawings and tables
};

std::string report_page(ReportParts parts, const OutputOptions& output);

/// Drops the memories beyond kMostMemory (the first stays), and says in the notes that it did.
void keep_what_a_page_holds(ReportParts& parts);

/// Of `gpuplan sweep --format jsonl`: the JSON that a page has of it.
std::string list_of_lines(const std::string& json_lines);

}  // namespace gpuplan
