// Where a result goes and how it looks there: formats, files, and what the terminal can show.
#pragma once

#include <string>
#include <vector>

#include "estimator/report/writers.h"
#include "tools/process/streams.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
class Option;
}  // namespace CLI

namespace gpuplan {

/// html and svg of the commands that have them (OutputOptions).
enum class Format : unsigned char { table, json, csv, md, html, svg };

struct OutputOptions {
  std::string format, units, color, width, sort, depth, rows, columns;
  std::vector<std::string> files;
  bool bytes = false, ascii = false, quiet = false, verbose = false, force = false;
  bool timeline = false;                       // of plan
  bool has_page = false, has_drawing = false;  // whether the command writes HTML, and SVG
  std::string command;                         // as it was given, for a page: given_command()
};

/// The words of --format where viewers' are among them.
inline constexpr const char* kFormatsWithViewers = "table|json|csv|md|html|memviz|trace|speedscope|folded";

/// What viewers open, which plan and snapshot write.
enum class Viewer : unsigned char { html, memviz, trace, speedscope, folded };

struct ViewerFile {
  Viewer viewer = Viewer::memviz;
  std::string path;  // empty: standard output
  bool force = false;
};

struct OutputFile {
  Format format = Format::table;
  std::string path;
  bool force = false;  // also where a model, a budget, a trace or a script is
};

void add_output_options(CLI::App& command, OutputOptions& options);
/// Of a command whose text is always the same: --format, -o and --force.
void add_file_options(CLI::App& command, OutputOptions& options);
/// The command as it was given, for a shell, without what says where the result goes and what `leaves_out` says.
std::string given_command(const CLI::App& command, bool (*leaves_out)(const CLI::Option&) = nullptr);
void add_layer_options(CLI::App& command, OutputOptions& options);

/// Of standard output.
Format format_of(const OutputOptions& options);
/// The files of -o: "FILE" with the format of its ending, or "FORMAT:FILE". Throws Error (usage), also where one would
/// replace what is no report.
std::vector<OutputFile> files_of(const OutputOptions& options);
/// Takes the files and the format of viewers out of `options`. Throws Error (usage).
std::vector<ViewerFile> take_viewers(OutputOptions& options);
/// Throws Error: environment where it cannot be written, usage where it would replace what is no report.
void write_viewer_file(const ViewerFile& file, const std::string& text);
/// Of a command whose table has its units in the heading and all of its columns always: throws Error (usage) for
/// --bytes,
/// --units and --width.
void refuse_table_styles(const OutputOptions& options);
/// Of a -o: throws Error (usage) for "-" and "json:-".
void refuse_standard_output(const std::string& text);
/// Before something runs, perhaps for hours, in vain: throws Error (environment) where a file cannot be written, and
/// Error (usage) where one would replace what is no report.
void refuse_unwritable(const std::vector<OutputFile>& files);
LayerTableOptions layer_table_options(const OutputOptions& options, bool unicode);

/// How text looks on standard output: flags first, then the environment (NO_COLOR, CLICOLOR_FORCE, TERM, the locale)
/// and whether it is a terminal. `stream`: 2 for text that goes to standard error.
TextStyle terminal_style(const OutputOptions& options, int stream = 1);
/// How text looks in a file: plain, UTF-8 unless --ascii.
TextStyle file_style(const OutputOptions& options);

/// Throws Error: environment where it cannot be written, usage where it would replace what is no report.
void write_report(const OutputFile& file, const std::string& text);

}  // namespace gpuplan
