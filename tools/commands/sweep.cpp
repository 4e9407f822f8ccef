// gpuplan sweep MODEL --over batch=8:512:x2 --over gpu=t4,l4: a plan for every combination of values.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <unordered_map>

#include "estimator/base/excerpt.h"
#include "estimator/report/sweep_curves.h"
#include "estimator/search/workers.h"
#include "tools/answers/plan_page.h"
#include "tools/answers/report_page.h"
#include "tools/answers/sweep_points.h"
#include "tools/commands/commands.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/output_options.h"
#include "tools/options/words.h"
#include "tools/process/progress_line.h"

namespace gpuplan {

namespace {

struct SweepOptions {
  RunOptions run;
  OutputOptions output;
  SeveralGpusOptions several;
  std::vector<std::string> over;
  std::string shard, jobs;
  bool plot = false;
};

// A sweep's JSON is an object a line, which has a name and an ending of its own.
void take_json_lines(OutputOptions& output) {
  if (output.format == "jsonl") output.format = "json";
  for (std::string& file : output.files) {
    if (file.starts_with("jsonl:")) file.erase(4, 1);
    if (file.ends_with(".jsonl") && file.find(':') == std::string::npos) file.insert(0, "json:");
  }
}

// "sweep [#####.....] 52 %  2,600 of 5,000, 3 s left"
std::string progress_text(std::size_t done, std::size_t all, double seconds) {
  constexpr std::size_t kColumns = 20;
  std::string bar(done * kColumns / all, '#');
  bar.resize(kColumns, '.');
  const double left = seconds / static_cast<double>(std::max<std::size_t>(done, 1)) * static_cast<double>(all - done);
  return "sweep [" + bar + "] " + std::to_string(done * 100 / all) + " %  " +
         format_count(static_cast<std::int64_t>(done)) + " of " + format_count(static_cast<std::int64_t>(all)) + ", " +
         format_count(static_cast<std::int64_t>(left) + 1) + " s left";
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, SweepPoints& points)
      : options_(options), points_(points), names_(points.names()), format_(format_of(options.output)) {
    const Shard shard = options.shard.empty() ? Shard{} : read_shard(options.shard);
    constexpr std::size_t kMostPoints = 1'000'000;
    first_ = shard.number;
    stride_ = shard.count;
    count_ = points.count() > first_ ? (points.count() - first_ - 1) / stride_ + 1 : 0;
    if (count_ > kMostPoints)
      throw Error("this sweep has " + format_count(static_cast<std::int64_t>(count_)) + " points, more than " +
                      format_count(static_cast<std::int64_t>(kMostPoints)) + " at once",
                  ErrorKind::usage)
          .help("--shard 1/" + std::to_string(count_ / kMostPoints + 1) + " plans a part of them");
  }

  int run() {
    const std::vector<OutputFile> files = files_of(options_.output);
    refuse_unwritable(files);
    refuse_too_many(files);
    plan_all();
    show_warnings();
    if (count_ == 0 && format_ == Format::csv) write_stdout(sweep_csv_heading(names_));
    for (const OutputFile& file : files)
      write_report(file, render(rows_, file.format, file_style(options_.output), true));
    if (!streams()) write_stdout(render(rows_, format_, terminal_style(options_.output), true));
    if (options_.plot) write_stdout(plots());
    return 0;
  }

 private:
  // What a browser opens within seconds.
  void refuse_too_many(const std::vector<OutputFile>& files) const {
    constexpr std::size_t kMostDrawn = 20'000;
    const auto is_drawn = [](Format f) { return f == Format::html || f == Format::svg; };
    if (count_ <= kMostDrawn || (!is_drawn(format_) && std::ranges::none_of(files, is_drawn, &OutputFile::format)))
      return;
    throw Error("a page or a drawing has " + format_count(kMostDrawn) + " points at most, and this sweep has " +
                    format_count(static_cast<std::int64_t>(count_)),
                ErrorKind::usage)
        .help("--format csv has them all; --shard 1/N is a part");
  }
  // Lines can be printed as they come.
  bool streams() const { return format_ == Format::json || format_ == Format::csv; }

  void plan_all() {
    constexpr std::size_t kChunk = 4096;
    const std::size_t threads =
        options_.jobs.empty() ? cores() : static_cast<std::size_t>(whole_number("--jobs", options_.jobs, 1, 4096));
    ProgressLine progress(!options_.output.quiet);
    const auto started = std::chrono::steady_clock::now();
    rows_.resize(count_);
    for (std::size_t from = 0; from < count_; from += kChunk) {
      const std::size_t n = std::min(kChunk, count_ - from);
      const std::vector<Groups> lines = lines_of(groups_of(from, n), threads);
      std::atomic<std::size_t> planned{0};
      const auto show_progress = [&] {
        if (!progress.due()) return;
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
        progress.show(progress_text(from + planned, count_, passed.count()));
      };
      const std::thread::id shown_by = std::this_thread::get_id();
      run_on_workers(
          lines.size(), threads,
          [&](std::size_t i) {
            points_.plan_line(lines[i], [&](std::vector<SweepRow> rows) {
              planned += rows.size();
              for (SweepRow& row : rows)
                rows_[(static_cast<std::size_t>(row.point) - first_) / stride_] = std::move(row);
              if (std::this_thread::get_id() == shown_by) show_progress();
            });
          },
          [&](std::size_t) { show_progress(); });
      const std::span<const SweepRow> chunk = std::span(rows_).subspan(from, n);
      const bool all = n == count_;  // of more, others may follow that can be run
      if (all && std::ranges::none_of(chunk, [](const SweepRow& r) { return r.figures.has_value(); }))
        points_.throw_reason(first_);
      if (streams()) write_stdout(render(chunk, format_, {}, from == 0));
    }
  }

  using Groups = std::vector<std::vector<std::size_t>>;

  // The points that are planned together, in the order of the first of each.
  Groups groups_of(std::size_t from, std::size_t n) const {
    Groups groups;
    std::unordered_map<std::string, std::size_t> numbers;
    for (std::size_t i = from; i < from + n; ++i) {
      const std::size_t point = first_ + i * stride_;
      const auto [at, is_new] = numbers.try_emplace(points_.group_of(point), groups.size());
      if (is_new) groups.emplace_back();
      groups[at->second].push_back(point);
    }
    return groups;
  }

  // Groups that differ in their batch only: so many of them that what a line costs, some ten plans, is little beside
  // them, and so few that every thread has several.
  static std::size_t groups_of_line(std::size_t groups, std::size_t threads) {
    constexpr std::size_t kLeast = 64, kMost = 512, kLinesOfThread = 4;
    return threads == 1 ? kMost : std::clamp(groups / (threads * kLinesOfThread), kLeast, kMost);
  }

  std::vector<Groups> lines_of(Groups groups, std::size_t threads) const {
    const std::size_t most = groups_of_line(groups.size(), threads);
    std::vector<Groups> lines;
    std::unordered_map<std::string, std::size_t> numbers;
    for (std::vector<std::size_t>& group : groups) {
      const std::string name = points_.line_of(group.front());
      const auto [at, is_new] = numbers.try_emplace(name, lines.size());
      if (!is_new && (name.empty() || lines[at->second].size() == most)) at->second = lines.size();
      if (at->second == lines.size()) lines.emplace_back();
      lines[at->second].push_back(std::move(group));
    }
    return lines;
  }

  // Each once, whatever the number of points that it is about.
  void show_warnings() const {
    if (options_.output.quiet) return;
    for (const auto& [warning, times] : points_.warnings())
      write_stderr("warning: " + warning + " (" + format_count(times) + (times == 1 ? " point)\n" : " points)\n"));
  }

  std::string render(std::span<const SweepRow> rows, Format format, const TextStyle& style, bool heading) const {
    switch (format) {
      case Format::json: return json_lines(rows);
      case Format::csv: return (heading ? sweep_csv_heading(names_) : "") + sweep_csv_lines(rows);
      case Format::md: return sweep_md(names_, rows);
      case Format::html: return page(rows);
      case Format::svg: return drawing(rows);
      case Format::table: break;
    }
    return sweep_text(names_, rows, style);
  }

  std::string json_lines(std::span<const SweepRow> rows) const {
    return sweep_json_lines(names_, rows, static_cast<std::int64_t>(points_.count()));
  }
  std::string model() const { return printable_text(options_.run.model); }
  std::string drawing(std::span<const SweepRow> rows) const {
    std::string svg = curves_svg("Sweep of " + model(), sweep_curves(names_, rows));
    if (svg.empty()) throw Error("no point of this sweep can be run, so there is nothing to draw");
    return svg;
  }
  std::string page(std::span<const SweepRow> rows) const {
    const auto fitting = std::ranges::count_if(
        rows, [](const SweepRow& r) { return r.figures && r.figures->usable_bytes > 0 && r.figures->fits; });
    const bool limited =
        std::ranges::any_of(rows, [](const SweepRow& r) { return r.figures && r.figures->usable_bytes > 0; });
    std::vector<std::string> warnings;
    for (const auto& [warning, times] : points_.warnings()) warnings.push_back(warning);
    const std::string count = format_count(static_cast<std::int64_t>(rows.size())) + " points";
    ReportParts parts = {
        .text = "Sweep of " + model() + "\n\n" + sweep_text(names_, rows, {}),
        .json = list_of_lines(json_lines(rows)),
        .verdict = limited ? format_count(fitting) + " of " + count + " fit" : count,
        .good = !limited || fitting > 0,
        .notes = std::move(warnings),
        .drawings = {{"Over the points", curves_svg("Sweep of " + model(), sweep_curves(names_, rows))}},
        .memories = memories(rows)};
    keep_what_a_page_holds(parts);
    return report_page(std::move(parts), options_.output);
  }
  // As many as a page holds, and one more, by which the page knows that it does not hold all.
  std::vector<std::string> memories(std::span<const SweepRow> rows) const {
    std::vector<std::string> made;
    std::size_t bytes = 0;
    for (const SweepRow& row : rows) {
      if (bytes > kMostMemory) break;
      if (!row.figures) continue;
      std::string memory = points_.memory_of_point(static_cast<std::size_t>(row.point));
      bytes += memory.size();
      if (!memory.empty()) made.push_back(std::move(memory));
    }
    return made;
  }
  std::string plots() const {
    std::string out;
    for (const CurveFrame& frame : sweep_curves(names_, rows_))
      out += curves_text(frame, terminal_style(options_.output));
    return out;
  }

  const SweepOptions& options_;
  SweepPoints& points_;
  std::vector<std::string> names_;
  Format format_;
  std::size_t first_ = 0, stride_ = 1, count_ = 0;
  std::vector<SweepRow> rows_;
};

// "--gpus 1,2,4,8" is swept as "--over gpus=1,2,4,8" is.
void take_lists(SweepOptions& options) {
  const auto take = [&](const char* name, std::string& value) {
    if (value.find_first_of(",:") == std::string::npos) return;
    options.over.push_back(name + ("=" + value));
    value.clear();
  };
  take("gpus", options.several.gpus);
  take("zero", options.several.zero);
}

int run_sweep(SweepOptions options) {
  if (options.plot && format_of(options.output) != Format::table)
    throw Error("--plot draws below a table", ErrorKind::usage)
        .help("-o FILE.svg draws into a file beside any --format");
  refuse_learned_trace({options.run.model, options.run.piped});
  take_lists(options);
  if (asks_for_every_rank(options.several))
    throw Error("--rank all is of plan", ErrorKind::usage).help("--over rank=0,1,2 sweeps ranks");
  if (options.over.empty())
    throw Error("no flag to sweep", ErrorKind::usage).help("--over batch=8:512:x2, or --over precision=fp32,amp-bf16");
  std::vector<SweptFlag> flags;
  for (const std::string& text : options.over) flags.push_back(read_swept_flag(text));
  SweepPoints points(options.run, std::move(flags), options.several);
  return Sweep(options, points).run();
}

}  // namespace

void add_sweep_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<SweepOptions>();
  CLI::App* const command = app.add_subcommand("sweep", "Plans every combination of the given flag values");
  add_run_options(*command, options->run);
  add_margin_option(*command, options->run);
  command->add_option("--over", options->over, "Values of a flag, or of a model variable (set.NAME); repeatable")
      ->type_name("NAME=A,B,...|FROM:TO[:STEP|:xFACTOR]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--shard", options->shard, "Plans only this share of the points, such as 1/16")
      ->type_name("N/COUNT");
  command->add_option("-j,--jobs", options->jobs, "Threads (one per core)")->type_name("N");
  add_data_parallel_options(*command, options->several, true);
  command->add_flag("--plot", options->plot, "Also draws memory, and samples a second, over the points");
  add_output_options(*command, options->output);
  options->output.has_page = options->output.has_drawing = true;
  command->get_option("--format")->type_name("table|jsonl|csv|md|html|svg");
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command);
    take_json_lines(options->output);
    exit_code = run_sweep(*options);
  });
}

}  // namespace gpuplan
