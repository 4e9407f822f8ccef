#include "tools/commands/fit_changes.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "estimator/report/read_sweep.h"
#include "estimator/report/sweep_table.h"
#include "tools/answers/combinations.h"
#include "tools/answers/meshes.h"
#include "tools/answers/offered_meshes_text.h"
#include "tools/answers/offered_parts.h"
#include "tools/answers/solve.h"
#include "tools/commands/fit_changes_flags.h"
#include "tools/options/instance_input.h"
#include "tools/options/several_gpus.h"
#include "tools/options/words.h"
#include "tools/process/progress_line.h"
#include "tools/process/read_source.h"
#include "tools/process/version.h"

namespace gpuplan {
namespace {

const std::vector<std::string> kNamesOfChanges = {"changes"};

std::vector<std::string> names_of_gpus(const FitOptions& options) {
  if (!options.on.empty()) return options.on;
  if (!options.run.gpu.empty()) return {options.run.gpu};
  return gpu_names();
}

std::string render_changes(std::span<const SweepRow> rows, const std::vector<std::string>& names, Format format,
                           const TextStyle& style) {
  switch (format) {
    case Format::json: return sweep_json_lines(names, rows, static_cast<std::int64_t>(rows.size()));
    case Format::csv: return sweep_csv_heading(names) + sweep_csv_lines(rows);
    case Format::md: return sweep_md(names, rows);
    case Format::html:
    case Format::svg:
    case Format::table: break;
  }
  return sweep_text(names, rows, style);
}

// Their rows are few.
OutputOptions without_page(OutputOptions output) {
  output.has_page = false;
  return output;
}

bool may(const FitOptions& options, const char* word) {
  return std::ranges::find(options.may, word) != options.may.end();
}

// Those of a few lines, which are drawn as `text` says.
void write_rows(const OutputOptions& output, const std::vector<std::string>& names, const std::vector<SweepRow>& rows,
                const std::function<std::string(const TextStyle&)>& text) {
  const auto render = [&](Format format, const TextStyle& style) {
    return format == Format::table ? text(style) : render_changes(rows, names, format, style);
  };
  for (const OutputFile& file : files_of(output)) write_report(file, render(file.format, file_style(output)));
  TextStyle style = terminal_style(output);
  if (!output.width.empty()) style.interactive = true;  // a pipe has all columns, unless it is told how wide it is
  if (!output.quiet || format_of(output) != Format::table) write_stdout(render(format_of(output), style));
}

// A part of a search, in the order of its points.
int write_part(const FitOptions& options, const std::vector<std::string>& names, const std::vector<SweepRow>& rows,
               std::int64_t points) {
  const OutputOptions output = without_page(options.output);
  const bool is_one = may(options, "mesh") && options.gpus.size() == 1;
  const AskedSearch search = {std::string(kVersion), options.search, options.run.batch,
                              is_one ? options.gpus.front() : "", options.network};
  const auto text = [&](Format format, const TextStyle& style) {
    if (format == Format::json) return sweep_json_lines(names, rows, points, search);
    std::string drawn = render_changes(rows, names, format, style);
    if (format == Format::table)
      drawn += "  a part, of " + format_count(points) + (points == 1 ? " point" : " points") +
               "; gpuplan fit --join puts parts in --format json together\n";
    return drawn;
  };
  for (const OutputFile& file : files_of(output)) write_report(file, text(file.format, file_style(output)));
  if (!output.quiet || format_of(output) != Format::table)
    write_stdout(text(format_of(output), terminal_style(output)));
  return 0;
}

// `before`: the flags of the run that those of a row go with.
int write_offers(const OutputOptions& output, const OfferedMeshes& meshes, const FitQuestion* market,
                 const std::string& before) {
  write_rows(output, offered_mesh_names(), sweep_rows(meshes),
             [&](const TextStyle& style) { return offered_meshes_text(meshes, market, style, today()); });
  const OfferedMesh* const best = cheapest(meshes);
  if (best != nullptr && output.quiet && format_of(output) == Format::table) write_stdout(before + best->flags + "\n");
  return best != nullptr ? 0 : 1;
}

Shard shard_of(const FitOptions& options) { return options.shard.empty() ? Shard{} : read_shard(options.shard); }

// --may mesh of what is offered: any number of GPUs, several, or of several kinds.
int run_offered_meshes(const FitOptions& options) {
  const OutputOptions output = without_page(options.output);
  (void)format_of(output);  // refused before the search, which may take minutes
  FitOptions market = options;
  market.fsdp.clear();  // of the ways
  OfferedQuestion question;
  question.run = options.run;
  question.run.gpu.clear();
  question.names = names_of_gpus(options);
  question.gpus = gpus_of(options);
  question.fsdp.fsdp = options.fsdp;
  question.market = question_of(market);
  question.checkpoints = may(options, "checkpoint");
  question.micro_batches = may(options, "micro-batches");
  const std::vector<Instance> instances = load_instances(options.prices, gpu_table());
  match_places(question.market.providers, question.market.region, instances);
  OfferedMeshes meshes;
  {
    ProgressLine progress(!options.output.quiet);
    const auto told = [&](std::size_t done, std::size_t all) {
      if (progress.due()) progress.show(std::to_string(done) + " of " + std::to_string(all) + " planned");
    };
    meshes = offered_meshes(question, instances, told, shard_of(options));
  }
  if (!options.shard.empty()) return write_part(options, offered_mesh_names(), part_rows(meshes), meshes.offers);
  return write_offers(output, meshes, &question.market, "--batch " + options.run.batch + " ");
}

// --may mesh: of several GPUs.
MeshQuestion question_of_mesh(const FitOptions& options) {
  SeveralGpusOptions several;
  several.gpus = options.gpus.front();
  several.network = options.network;
  several.fsdp = options.fsdp;
  return {options.run, several, may(options, "checkpoint"), may(options, "micro-batches")};
}

std::vector<SweepRow> rows_of_all(const FitOptions& options, bool shares) {
  if (!shares) return combinations({options.run, options.may});
  ProgressLine progress(!options.output.quiet);
  return meshes(question_of_mesh(options), [&](std::size_t done, std::size_t all) {
    if (progress.due()) progress.show(std::to_string(done) + " of " + std::to_string(all) + " planned");
  });
}

int run_part(const FitOptions& options, bool shares) {
  if (!shares) {
    const CombinationPart part = combination_part({options.run, options.may}, shard_of(options));
    return write_part(options, kNamesOfChanges, part.rows, part.points);
  }
  ProgressLine progress(!options.output.quiet);
  const MeshPart part = mesh_part(question_of_mesh(options), shard_of(options), [&](std::size_t done, std::size_t all) {
    if (progress.due()) progress.show(std::to_string(done) + " of " + std::to_string(all) + " planned");
  });
  return write_part(options, kNamesOfChanges, part.rows, part.points);
}

// Of rows that are sorted; `asks_network`: times may be known with one.
std::string best_of(const std::vector<SweepRow>& rows, const std::string& best, bool asks_network) {
  if (best.empty()) return "";
  if (rows.front().figures->samples_per_second) return ", the fastest: " + best;
  return std::string(", the first of them: ") + best + "; times are not known" +
         (asks_network ? " (--network for more than one node)" : "");
}

std::string plan_words(const std::string& gpus) {
  return "  each is a plan: gpuplan MODEL --gpus " + gpus + " with its flags\n";
}

// The fastest combination, and a few of those that are slower or do not fit.
int write_combinations(const OutputOptions& output, std::vector<SweepRow> rows, bool asks_network,
                       const std::string& last_line) {
  constexpr std::size_t kFitting = 6, kOthers = 3;
  const Format format = format_of(output);
  const auto fitting =
      static_cast<std::size_t>(std::ranges::count_if(rows, [](const SweepRow& row) { return row.figures->fits; }));
  const std::string best = fitting > 0 ? rows.front().values.front() : "";
  for (const OutputFile& file : files_of(output))
    write_report(file, render_changes(rows, kNamesOfChanges, file.format, file_style(output)));
  if (format == Format::table && output.quiet) {
    write_stdout(best == "as asked" || best.empty() ? "" : best + "\n");
  } else if (format != Format::table) {
    write_stdout(render_changes(rows, kNamesOfChanges, format, terminal_style(output)));
  } else {
    const std::size_t all = rows.size();
    rows.resize(std::min(all, fitting + kOthers));
    if (fitting > kFitting) rows.erase(rows.begin() + kFitting, rows.begin() + static_cast<std::ptrdiff_t>(fitting));
    write_stdout(render_changes(rows, kNamesOfChanges, format, terminal_style(output)) + "  " +
                 format_count(static_cast<std::int64_t>(fitting)) + " of " +
                 format_count(static_cast<std::int64_t>(all)) + " combinations fit" +
                 best_of(rows, best, asks_network) + "\n" + last_line);
  }
  return fitting > 0 ? 0 : 1;
}

// Files of --join.
SweepLines read_parts(const std::vector<std::string>& files) {
  std::vector<Source> parts;
  for (const std::string& file : files) {
    if (std::ranges::count(files, file) > 1)
      throw Error("--join " + file + " is given more than once", ErrorKind::usage).help("give each part once");
    parts.push_back(*read_file_source(file, kTraceLimit));
  }
  SweepLines lines = read_sweep_lines(parts);
  if (!lines.search || (lines.names != offered_mesh_names() && lines.names != kNamesOfChanges))
    throw Error("--join puts parts of fit --may together, and these are none")
        .help("gpuplan fit --may ... --shard 1/16 --format json writes a part");
  return lines;
}

}  // namespace

int run_solve(const FitOptions& options) {
  const OutputOptions output = without_page(options.output);
  refuse_beside_changes("--solve " + options.solve, options);
  const Format format = format_of(output);
  const std::vector<std::string> names = {"gpu", options.solve};
  (void)gpus_of(options);  // checked
  std::vector<SweepRow> rows;
  std::string notes, flags;
  if (options.solve != "batch")
    notes = "  at a batch of " + (options.run.batch.empty() ? "1" : options.run.batch) + "; --batch is another\n";
  for (const SolvedRow& solved : solve({options.run, options.solve, names_of_gpus(options), options.max_batch})) {
    rows.push_back(solved.row);
    if (solved.fits())
      flags += (options.run.gpu.empty() ? "--gpu " + solved.row.values[0] + " " : "") + solved.flags + "\n";
    if (solved.fits() && solved.models_most)
      notes += "  " + solved.row.values[0] + ": the model takes no " + options.solve + " above " +
               solved.row.values[1] + "\n";
  }
  for (const OutputFile& file : files_of(output))
    write_report(file, render_changes(rows, names, file.format, file_style(options.output)));
  if (format != Format::table || !options.output.quiet)
    write_stdout(render_changes(rows, names, format, terminal_style(options.output)) +
                 (format == Format::table ? notes : ""));
  else
    write_stdout(flags);
  return flags.empty() ? 1 : 0;
}

int run_may(const FitOptions& options) {
  const OutputOptions output = without_page(options.output);
  const bool shares = may(options, "mesh");
  FitOptions others = options;
  if (shares) refuse_with_mesh(options);
  const bool is_one = options.gpus.size() == 1 && options.gpus.front() != "any";
  if (shares && (!is_one || !options.on.empty())) {
    for (std::vector<std::string>* list : {&others.gpus, &others.providers}) list->clear();
    for (std::string* word : {&others.network, &others.region, &others.budget, &others.prices}) word->clear();
    others.spot = false;
    refuse_beside_changes("--may mesh", others);
    return run_offered_meshes(options);
  }
  if (shares) others.gpus.clear();
  if (shares) others.network.clear();
  if (!shares) refuse_unknown_changes(options.may);
  refuse_beside_changes("--may", others);
  if (!shares && !options.fsdp.empty()) throw Error("--fsdp is not for --may without mesh", ErrorKind::usage);
  if (!options.on.empty() || !options.solve.empty())
    throw Error("--may asks of one GPU: --gpu names it, without --on and --solve", ErrorKind::usage);
  (void)format_of(output);  // refused before the search
  if (!options.shard.empty()) return run_part(options, shares);
  return write_combinations(output, rows_of_all(options, shares), shares && options.network.empty(),
                            shares ? plan_words(options.gpus.front()) : "");
}

int run_join(const FitOptions& options) {
  const OutputOptions output = without_page(options.output);
  (void)format_of(output);  // refused before files are read
  const SweepLines lines = read_parts(options.join);
  const AskedSearch& search = *lines.search;
  if (lines.names == offered_mesh_names())
    return write_offers(output, joined_offers(lines), nullptr, "--batch " + search.batch + " ");
  const auto again = std::ranges::adjacent_find(lines.rows, {}, &SweepRow::point);  // offers have several rows
  if (again != lines.rows.end())
    throw Error(lines.places[static_cast<std::size_t>(again - lines.rows.begin()) + 1] + " has point " +
                std::to_string(again->point) + " again")
        .help("a part has each of its points once");
  std::vector<SweepRow> rows = joined_meshes(lines.rows);
  if (rows.empty()) throw Error(lines.places.front() + ": " + lines.rows.front().error);
  const bool shares = !search.gpus.empty();
  return write_combinations(output, std::move(rows), shares && search.network.empty(),
                            shares ? plan_words(search.gpus) : "");
}

}  // namespace gpuplan
