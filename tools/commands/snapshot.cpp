// gpuplan snapshot RUN.pickle...: what torch.cuda.memory._dump_snapshot() has recorded, explained.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "estimator/report/snapshot_report_writers.h"
#include "tools/answers/snapshot_page.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

struct SnapshotOptions {
  std::vector<std::string> files;
  std::string device, rows;
  OutputOptions output;
  bool strict = false;
};

}  // namespace

void add_snapshot_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<SnapshotOptions>();
  CLI::App* const command = app.add_subcommand(
      "snapshot", "Explains a memory snapshot of PyTorch's: the peak, what was alive, what grows, what failed");
  command
      ->add_option("FILE", options->files,
                   "What torch.cuda.memory._dump_snapshot() wrote; several: of the ranks of a run")
      ->required();
  command->add_option("--device", options->device, "Only this GPU of the process, from 0 (all that were used)")
      ->type_name("N");
  command->add_option("-n,--rows", options->rows, "Lines of code to list; 0: all (10)")->type_name("N");
  command->add_flag("--strict", options->strict, "Treats warnings as errors");
  add_output_options(*command, options->output);
  command->get_option("--format")->type_name(kFormatsWithViewers);
  command->callback([options, command, &exit_code] {
    exit_code = print_snapshots(
        {options->files, options->device, options->rows, given_command(*command), options->strict}, options->output);
  });
}

}  // namespace gpuplan
