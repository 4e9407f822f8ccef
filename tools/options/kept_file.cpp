#include "tools/options/kept_file.h"

#include <algorithm>
#include <filesystem>

#include "estimator/allocator/trace.h"
#include "estimator/report/read_figures.h"
#include "tools/importers/import.h"
#include "tools/options/learned_trace_input.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// "word:", with or without quotes, at the beginning of a line, or anywhere where `anywhere`: in JSON.
bool has_key(std::string_view text, std::string_view word, bool anywhere) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const bool quoted = at > 0 && (text[at - 1] == '"' || text[at - 1] == '\'');
    const std::size_t begin = quoted ? at - 1 : at;
    std::size_t end = at + word.size() + (quoted ? 1 : 0);
    while (end < text.size() && (text[end] == ' ' || text[end] == '\t')) ++end;
    const bool line_begins = begin == 0 || text[begin - 1] == '\n' || text.substr(0, begin) == "\xEF\xBB\xBF";
    if ((line_begins || (anywhere && quoted)) && end < text.size() && text[end] == ':') return true;
  }
  return false;
}

// By its keys rather than by its reader: a model with a mistake in it is one too.
std::string kind_of_spec(std::string_view text) {
  const std::size_t first = static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin());
  const bool json = first < text.size() && text[first] == '{';
  if (!json && has_key(text, "checks", false)) return "a budget";
  for (const std::string_view key : {"gpuplan", "extends"})
    if (has_key(text, key, json)) return json && has_key(text, "checks", true) ? "a budget" : "a model";
  return !json && has_key(text, "layers", false) ? "a model" : "";
}

// The first line that is no comment and no phase is an event.
bool is_history(std::string_view start) {
  while (!start.empty()) {
    const std::string_view line = start.substr(0, start.find('\n'));
    const bool skipped = line.empty() || line == "\r" || line.front() == '#' || line.front() == '=';
    if (!skipped) return is_trace_event(line);
    start.remove_prefix(std::min(line.size() + 1, start.size()));
  }
  return false;
}

bool is_packed(std::string_view start) { return start.starts_with("\x1f\x8b"); }

bool is_job(std::string_view start) { return start.find("\n# Written by gpuplan fit --emit") != start.npos; }

}  // namespace

std::string kept_kind(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return "";
  const std::string start = read_start(path, kRecognisedBytes);
  if (start.empty() || is_saved_plan(start)) return "";
  if (start.starts_with("#!")) return is_job(start) ? "" : "a script";
  if (is_packed(start) || is_trace_text(start) || is_history(start)) return "a trace";
  const FileKind kind = recognise(start, path);
  if (!is_text(kind)) return std::string(describe(kind));
  const std::string text = read_start(path, kMaxSourceBytes);
  return recognise(text, path) == FileKind::spec ? kind_of_spec(text) : "a model";
}

void refuse_to_replace(std::string_view flag, const std::string& path, bool force, std::string_view own) {
  const std::string kind = force ? "" : kept_kind(path);
  if (kind.empty() || kind == own) return;
  throw Error(std::string(flag) + " " + path + " would overwrite " + kind, ErrorKind::usage)
      .help("choose another file, or replace this one with --force");
}

}  // namespace gpuplan
