#include "tools/answers/html_page.h"

#include "configs/embedded.h"
#include "estimator/report/xml_text.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

std::string_view page_file(std::string_view ending) {
  for (const EmbeddedFile& file : embedded_pages())
    if (file.path.ends_with(ending)) return file.text;
  return "";
}

// JSON in a script: nothing in it ends the script.
std::string for_script(std::string_view json) {
  std::string out;
  for (const char c : json) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string list_of(const std::vector<std::string>& jsons) {
  std::string out = "[";
  for (const std::string& json : jsons) out += (out.size() > 1 ? "," : "") + json;
  return out + "]";
}

}  // namespace

std::string html_text(const HtmlPage& page) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src "
      "'unsafe-inline'\">\n<title>" +
      xml_text(page.title) + "</title>\n<style>\n" + std::string(page_file("page.css")) +
      "</style>\n</head>\n<body>\n<h1>" + xml_text(page.title) + "</h1>\n<p class=\"quiet\">" +
      xml_text(page.subtitle) + "</p>\n<p class=\"" + (page.good ? "good" : "bad") + "\">" + xml_text(page.verdict) +
      "</p>\n<div class=\"cards\">\n";
  for (const auto& [name, value] : page.cards)
    out += "<div class=\"card\">" + xml_text(name) + "<b>" + xml_text(value) + "</b></div>\n";
  out += "</div>\n";
  const std::string_view memory = page.memories.empty() ? "" : page_file("memory.html");
  if (page.memory_first) out += memory;
  for (const auto& [heading, svg] : page.drawings)
    out += "<h2>" + xml_text(heading) + "</h2>\n<div class=\"drawing scroll\" tabindex=\"0\">" + svg + "</div>\n";
  out += "<div id=\"tables\"></div>\n";
  if (!page.memory_first) out += memory;
  if (!page.notes.empty()) {
    out += "<h2>Assumed, and to know</h2>\n<ul>\n";
    for (const std::string& note : page.notes) out += "<li>" + xml_text(note) + "</li>\n";
    out += "</ul>\n";
  }
  out += "<h2>The command</h2>\n<pre>" + xml_text(page.command) +
         "</pre>\n<details><summary>The report as text</summary>\n<pre>" + xml_text(page.text) +
         "</pre></details>\n<p class=\"quiet\">Made by gpuplan " + std::string(kVersion) +
         ".</p>\n<script type=\"application/json\" id=\"gpuplan\">{\"report\":" + for_script(page.report_json) +
         ",\"memories\":" + for_script(list_of(page.memories)) + "}</script>\n<script>\n" +
         std::string(page_file("page.js"));
  if (!page.memories.empty()) out += page_file("memory.js");
  return out + std::string(page_file("tables.js")) + "</script>\n</body>\n</html>\n";
}

}  // namespace gpuplan
