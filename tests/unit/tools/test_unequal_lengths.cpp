#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/json_schema.h"
#include "tests/support/temporary_folder.h"
#include "tools/answers/unequal_lengths.h"

namespace gpuplan {
namespace {

LengthsReport loop_of(const std::string& lengths, const std::string& gpu = "h200") {
  RunOptions run;
  run.model = "zoo:gpt2";
  run.batch = "2";
  run.optimizer = "adamw";
  run.gpu = gpu;
  return unequal_lengths(run, {lengths, ""});
}

std::string why_not(const LengthsOptions& options) {
  try {
    (void)sample_lengths(options, 2);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

}  // namespace

TEST_CASE("a loop of equal batches is the plan of one") {
  const tests::Folder folder;
  const std::string file = folder.with("lengths.txt", "128 128 128 128\n128,128 128\n128\n");
  const LengthsReport r = loop_of(file);
  REQUIRE(r.steps.size() == 4);
  CHECK(r.padding == 0);
  CHECK(r.assumptions.empty());
  CHECK(r.steps[3].peak.reserved_bytes == r.steps[2].peak.reserved_bytes);
  CHECK(r.steps[3].peak.allocated_bytes == r.steps[2].peak.allocated_bytes);
  CHECK(r.growing_steps().front() == 0);
  CHECK(r.others.front().reserved_bytes == r.reserved_bytes());
}

TEST_CASE("a longer batch after shorter ones finds blocks that are too small") {
  const tests::Folder folder;
  const LengthsReport up = loop_of(folder.with("rising.txt", "100 200 300 400 500 600 700 800 900 1000"));
  const LengthsReport down = loop_of(folder.with("falling.txt", "1000 900 800 700 600 500 400 300 200 100"));
  CHECK(up.reserved_bytes() > down.reserved_bytes());
  CHECK(up.growing_steps().size() > 2);
  CHECK(up.peak_step() == 4);
  CHECK(up.assumptions.size() == 1);  // 100 beside 200: padding, and a mask
  // What the loop takes with the longest batch first, by its own row.
  CHECK(up.others[2].what == "the longest batch first");
  CHECK(up.others[2].reserved_bytes < up.reserved_bytes());
  const nlohmann::json schema = nlohmann::json::parse(lengths_json_schema());
  tests::check_against(schema, nlohmann::json::parse(lengths_json(up, "0.1.0")), "lengths");
}

TEST_CASE("a loop that does not fit says which step runs out of memory") {
  const tests::Folder folder;
  const std::string file = folder.with("lengths.txt", "64 64 64 64 1000 1000 64 64");
  const LengthsReport r = loop_of(file, "4 GiB");
  CHECK_FALSE(r.fits());
  REQUIRE(r.within_memory);
  CHECK_FALSE(r.within_memory->runs);
  CHECK(r.within_memory->step == 3);
  TextStyle style;
  CHECK(lengths_text(r, style).find("requested in step 3, 2 × 1,000 tokens, ") != std::string::npos);
  const nlohmann::json schema = nlohmann::json::parse(lengths_json_schema());
  tests::check_against(schema, nlohmann::json::parse(lengths_json(r, "0.1.0")), "lengths");
}

TEST_CASE("lengths that are not understood are refused") {
  CHECK(why_not({"lognormal:mean=600", ""}) == "--seq-lengths: lognormal needs mean and max");
  CHECK(why_not({"lognormal:mean=600,maks=4", ""}) == "--seq-lengths: unknown key \"maks\" — did you mean \"max\"?");
  CHECK(why_not({"lognormal:mean=600,max=40,min=50", ""}) == "--seq-lengths: min is larger than max");
  CHECK(why_not({"lognormal:mean=600,max=40,sigma=x", ""}) ==
        "--seq-lengths: sigma expects a number from 0 to 10, not \"x\"");
  CHECK(why_not({"lognormal:mean=600,max=40,max=50", ""}) == "--seq-lengths: max is given twice");
  CHECK(why_not({"lognormal:mean=600,max=40", "100000"}) == "");
  CHECK_THROWS_WITH_AS((void)sample_lengths({"lognormal:mean=6,max=40", "100000"}, 1000),
                       "--seq-lengths: 100000 steps of 1000 samples are more than 10000000 samples", Error);
  CHECK(sample_lengths({"lognormal:mean=6,max=40,seed=2", "1"}, 1).words == "lognormal:mean=6,max=40,seed=2,sigma=0.8");
  CHECK(why_not({"normal:mean=600", ""}) == "--seq-lengths: unknown distribution \"normal:mean=600\"");
  const tests::Folder folder;
  const std::string file = folder.with("lengths.txt", "64 128\n17 x9\n");
  CHECK(why_not({file, ""}) == "a sample's length is a whole number from 1 to 10000000");
  (void)folder.with("lengths.txt", "64 128 17");
  CHECK(why_not({file, "3"}) == "--steps 3: " + file + " has 3 samples, enough for 2 steps");
  CHECK(sample_lengths({file, "1"}, 2).samples == std::vector<std::int64_t>{64, 128});
  (void)folder.with("lengths.txt", "\n");
  CHECK(why_not({file, ""}) == file + " has no lengths");
}

}  // namespace gpuplan
