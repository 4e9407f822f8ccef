#include "tools/options/output_options.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "estimator/report/rent_job.h"
#include "tools/files/write_file.h"
#include "tools/options/kept_file.h"
#include "tools/options/words.h"
#include "tools/process/environment.h"

namespace gpuplan {

namespace {

const Choices<Format>& formats() {
  static const Choices<Format> words = {{"table", Format::table}, {"json", Format::json}, {"csv", Format::csv},
                                        {"md", Format::md},       {"html", Format::html}, {"svg", Format::svg}};
  return words;
}

// Formats of other commands, which are refused as what they are.
bool is_of_another_command(const std::string& word, const OutputOptions& options) {
  static constexpr const char* kOthers[] = {"github", "gitlab", "sarif",      "junit", "openmetrics",
                                            "memviz", "trace",  "speedscope", "folded"};
  return (word == "html" && !options.has_page) || (word == "svg" && !options.has_drawing) ||
         std::any_of(std::begin(kOthers), std::end(kOthers), [&](const char* name) { return word == name; });
}

Format format_named(const std::string& flag, const std::string& word, const OutputOptions& options) {
  if (is_of_another_command(word, options))
    throw Error("this command cannot write the format " + word, ErrorKind::usage)
        .help("gpuplan explain files says which command writes what");
  Choices<Format> known;
  std::ranges::copy_if(formats(), std::back_inserter(known),
                       [&](const auto& choice) { return !is_of_another_command(choice.first, options); });
  return choose<Format>(flag, word, known);
}

bool is_format(const std::string& word, const OutputOptions& options) {
  return is_of_another_command(word, options) ||
         std::any_of(formats().begin(), formats().end(), [&](const auto& f) { return f.first == word; });
}

OutputFile output_file(const std::string& text, const OutputOptions& options) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && is_format(text.substr(0, colon), options))
    return {.format = format_named("-o", text.substr(0, colon), options), .path = text.substr(colon + 1)};
  const std::size_t dot = text.find_last_of("./");
  const std::string ending = dot == std::string::npos || text[dot] == '/' ? "" : text.substr(dot + 1);
  if (ending == "txt") return {.format = Format::table, .path = text};
  if (is_format(ending, options) && ending != "table")
    return {.format = format_named("-o", ending, options), .path = text};
  throw Error("-o " + text + ": unknown file extension", ErrorKind::usage)
      .help(std::string("known are .json, .csv, .md and .txt") + (options.has_page ? ", and .html" : "") +
            (options.has_drawing ? ", and .svg" : "") +
            "; of plan and snapshot also .pickle, .speedscope.json and .folded; or give the format: -o json:" + text);
}

// The character set of the locale that programs run under, POSIX's order of variables. A pipe without any locale, as in
// most CI jobs, gets UTF-8: what is stored is the same on every machine. A terminal without one is the C locale's.
bool shows_unicode(bool terminal) {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = environment(name);
  if (terminal && environment("TERM") == "dumb") return false;
  if (locale.empty()) return !terminal;
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

bool wants_color(const OutputOptions& options, bool terminal) {
  const std::string when = options.color.empty() ? "auto" : options.color;
  const int choice = choose<int>("--color", when, {{"auto", 0}, {"always", 1}, {"never", 2}});
  if (choice != 0) return choice == 1;
  if (!environment("NO_COLOR").empty()) return false;
  const std::string force = environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return terminal && environment("TERM") != "dumb";
}

int terminal_width(const OutputOptions& options, int stream) {
  if (!options.width.empty()) return static_cast<int>(whole_number("--width", options.width, 40, 1000));
  winsize size{};
  if (ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 80;
}

}  // namespace

void add_file_options(CLI::App& command, OutputOptions& o) {
  const char* const group = "Output";
  command.add_option("--format", o.format, "Format of standard output (table)")
      ->type_name("table|json|csv|md")
      ->group(group);
  command.add_option("-o,--output", o.files, "Also writes a file; FORMAT defaults to the file's extension; repeatable")
      ->type_name("[FORMAT:]FILE")
      ->group(group)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--force", o.force, "Lets -o replace a model, a budget, a trace or a script")->group(group);
}

void add_output_options(CLI::App& command, OutputOptions& o) {
  const char* const group = "Output";
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    command.add_option(names, value, text)->type_name(type)->group(group);
  };
  add_file_options(command, o);
  command.add_flag("--bytes", o.bytes, "Prints amounts in bytes")->group(group);
  add("--units", o.units, "iec|si", "Units of bytes: powers of 1024 or of 1000 (iec)");
  add("--width", o.width, "N", "Width of the output in columns");
  command.add_flag("--ascii", o.ascii, "Prints ASCII only")->group(group);
  add("--color", o.color, "auto|always|never", "Colour (auto)");
  command.add_flag("-q,--quiet", o.quiet, "Prints the verdict only, without warnings")->group(group);
  command.add_flag("-v,--verbose", o.verbose, "Also prints phases and allocator statistics")->group(group);
}

std::string given_command(const CLI::App& command, bool (*leaves_out)(const CLI::Option&)) {
  std::string words = "gpuplan " + command.get_name(), flags;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || (leaves_out != nullptr && leaves_out(*option))) continue;
    if (option->get_positional() && option->get_lnames().empty()) {
      for (const std::string& value : option->results()) words += " " + shell_word(value);
      continue;
    }
    const bool of_output = option->check_lname("output") || option->check_lname("format") ||
                           option->check_lname("force") || option->check_lname("quiet") || option->check_lname("emit");
    if (of_output || option->get_lnames().empty()) continue;
    const std::string name = " --" + option->get_lnames().front();
    if (option->get_items_expected_max() == 0)
      flags += name;
    else
      for (const std::string& value : option->results()) flags += name + " " + shell_word(value);
  }
  return words + flags;
}

void add_layer_options(CLI::App& command, OutputOptions& o) {
  const char* const group = "Layer table";
  const auto add = [&](const char* names, std::string& value, const char* type, const char* text) {
    command.add_option(names, value, text)->type_name(type)->group(group);
  };
  add("--depth", o.depth, "N", "Depth of the module tree to print; 0: all (1)");
  add("-n,--rows", o.rows, "N", "Rows to print; 0: all (40)");
  add("--sort", o.sort, "model|mem|params|flop|name|time", "Sort key among siblings (model: order in the model)");
  add("--columns", o.columns, "A,B,...", "Columns to print, in this order");
}

Format format_of(const OutputOptions& options) {
  return options.format.empty() ? Format::table : format_named("--format", options.format, options);
}

void refuse_standard_output(const std::string& text) {
  if (text == "-" || text.ends_with(":-"))
    throw Error("-o " + text + " is standard output, which already gets the report", ErrorKind::usage)
        .help("--format sets the format of standard output");
}

std::vector<OutputFile> files_of(const OutputOptions& options) {
  std::vector<OutputFile> files;
  for (const std::string& text : options.files) {
    refuse_standard_output(text);
    OutputFile& file = files.emplace_back(output_file(text, options));
    if (file.path.empty()) throw Error("-o " + text + ": the file's name is missing", ErrorKind::usage);
    file.force = options.force;
    refuse_to_replace("-o", file.path, file.force);
  }
  return files;
}

namespace {

const Choices<Viewer>& viewers() {
  static const Choices<Viewer> words = {{"html", Viewer::html},
                                        {"memviz", Viewer::memviz},
                                        {"trace", Viewer::trace},
                                        {"speedscope", Viewer::speedscope},
                                        {"folded", Viewer::folded}};
  return words;
}

// "memviz:plan.pickle", "plan.pickle", "plan.speedscope.json", "peak.folded"; a trace is always named as one.
std::optional<ViewerFile> viewer_file(const std::string& text) {
  for (const auto& [word, viewer] : viewers())
    if (text.starts_with(word + ":")) return ViewerFile{viewer, text.substr(word.size() + 1)};
  if (text.find(':') != std::string::npos) return std::nullopt;
  if (text.ends_with(".html")) return ViewerFile{Viewer::html, text};
  if (text.ends_with(".pickle")) return ViewerFile{Viewer::memviz, text};
  if (text.ends_with(".speedscope.json")) return ViewerFile{Viewer::speedscope, text};
  if (text.ends_with(".folded")) return ViewerFile{Viewer::folded, text};
  return std::nullopt;
}

}  // namespace

std::vector<ViewerFile> take_viewers(OutputOptions& options) {
  std::vector<ViewerFile> taken;
  std::erase_if(options.files, [&](const std::string& text) {
    std::optional<ViewerFile> file = viewer_file(text);
    if (!file) return false;
    refuse_standard_output(text);
    if (file->path.empty()) throw Error("-o " + text + ": the file's name is missing", ErrorKind::usage);
    file->force = options.force;
    refuse_to_replace("-o", file->path, file->force);
    taken.push_back(*std::move(file));
    return true;
  });
  for (const auto& [word, viewer] : viewers())
    if (options.format == word) {
      taken.push_back({viewer, "", false});
      options.format.clear();
      options.quiet = true;
    }
  return taken;
}

void write_viewer_file(const ViewerFile& file, const std::string& text) {
  if (file.path.empty()) return write_stdout(text);
  refuse_to_replace("-o", file.path, file.force);
  write_file(file.path, text);
}

void refuse_unwritable(const std::vector<OutputFile>& files) {
  for (const OutputFile& file : files) {
    refuse_to_replace("-o", file.path, file.force);
    if (!can_be_written(file.path))
      throw Error("-o " + file.path + ": cannot be written there", ErrorKind::environment);
  }
}

LayerTableOptions layer_table_options(const OutputOptions& o, bool unicode) {
  LayerTableOptions table;
  if (!o.depth.empty()) table.depth = static_cast<int>(whole_number("--depth", o.depth, 0, 1000));
  if (!o.rows.empty()) table.max_rows = static_cast<int>(whole_number("-n", o.rows, 0, 1'000'000));
  if (!o.sort.empty())
    table.sort = choose<LayerSort>("--sort", o.sort,
                                   {{"model", LayerSort::model},
                                    {"mem", LayerSort::memory},
                                    {"params", LayerSort::parameters},
                                    {"flop", LayerSort::flops},
                                    {"name", LayerSort::name},
                                    {"time", LayerSort::time}});
  Choices<LayerColumn> columns;
  for (std::size_t i = 0; i < layer_column_names().size(); ++i)
    columns.emplace_back(layer_column_names()[i], static_cast<LayerColumn>(i));
  for (std::size_t from = 0; from < o.columns.size();) {
    const std::size_t comma = std::min(o.columns.find(',', from), o.columns.size());
    table.columns.push_back(choose<LayerColumn>("--columns", o.columns.substr(from, comma - from), columns));
    from = comma + 1;
  }
  table.unicode = unicode;
  table.exact_bytes = o.bytes;
  table.units = file_style(o).units;
  return table;
}

void refuse_table_styles(const OutputOptions& o) {
  const std::pair<const char*, bool> flags[] = {
      {"--bytes", o.bytes}, {"--units", !o.units.empty()}, {"--width", !o.width.empty()}};
  for (const auto& [flag, given] : flags)
    if (given)
      throw Error(std::string(flag) + ": this table always has the units in its heading, and all columns",
                  ErrorKind::usage)
          .help("leave it out; scripts can use --format csv or json");
}

TextStyle file_style(const OutputOptions& o) {
  TextStyle style;
  style.unicode = !o.ascii;
  style.exact_bytes = o.bytes;
  if (!o.units.empty()) style.units = choose<Units>("--units", o.units, {{"iec", Units::iec}, {"si", Units::si}});
  if (o.quiet && o.verbose) throw Error("-q and -v contradict each other", ErrorKind::usage);
  style.verbose = o.verbose;
  style.brief = o.quiet;
  style.timeline = o.timeline;
  return style;
}

TextStyle terminal_style(const OutputOptions& o, int stream) {
  TextStyle style = file_style(o);
  const bool terminal = isatty(stream) == 1;
  style.interactive = terminal;
  style.unicode = !o.ascii && shows_unicode(terminal);
  style.color = wants_color(o, terminal);
  style.width = terminal_width(o, stream);
  return style;
}

void write_report(const OutputFile& file, const std::string& text) {
  refuse_to_replace("-o", file.path, file.force);
  write_file(file.path, text);
}

}  // namespace gpuplan
