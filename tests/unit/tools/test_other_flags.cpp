// Flags as other tools have them lead to flags that there are.
#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "tools/commands/commands.h"
#include "tools/options/other_flags.h"

using namespace gpuplan;

TEST_CASE("a flag of another tool is known in any spelling") {
  for (const char* written : {"--per_device_train_batch_size", "--per-device-train-batch-size", "--batchSize", "-bs"})
    CHECK_EQ(other_flag(written)->here, "--batch N");
  CHECK_EQ(other_flag("--bf16")->here, "--amp bf16");
  CHECK_EQ(other_flag("-lr")->here, "");
  for (const char* written : {"", "--", "--batch", "--s", "--eval steps"}) CHECK_EQ(other_flag(written), nullptr);
}

TEST_CASE("what is named instead is a flag of plan, and no flag of plan is renamed") {
  CLI::App app;
  int exit_code = 0;
  add_plan_command(app, exit_code);
  const CLI::App& plan = *app.get_subcommand("plan");
  for (const OtherFlag& flag : other_flags()) {
    CAPTURE(flag.spellings);
    CHECK((flag.here.empty() || plan.get_option_no_throw(std::string(flag.here.substr(0, flag.here.find(' '))))));
    CHECK_FALSE((flag.here.empty() && flag.why.empty()));
  }
  for (const CLI::Option* option : plan.get_options())
    for (const std::string& name : option->get_lnames()) {
      CAPTURE(name);
      const OtherFlag* const other = other_flag(name);
      CHECK((other == nullptr || option->get_positional()));
    }
}
