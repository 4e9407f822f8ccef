// gpuplan sweep's flags, points and rows; gpuplan fit's amounts, rows and JSON.
#include <doctest/doctest.h>

#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "estimator/plan/plan.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/rent_job.h"
#include "estimator/report/sweep_table.h"
#include "estimator/time/rank_time.h"
#include "layers/catalog.h"
#include "tests/support/json_schema.h"
#include "tests/support/zoo_models.h"
#include "tools/answers/sweep_points.h"
#include "tools/options/money.h"
#include "tools/options/run_words.h"
#include "tools/options/swept_flags.h"

using namespace gpuplan;
using gpuplan::tests::check_against;

namespace {

using Words = std::vector<std::string>;

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK_EQ(error.kind(), ErrorKind::usage);
    return error.message();
  }
  return "";
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

SweepPoints points(const Words& over) {
  RunOptions base;
  base.model = "zoo:resnet18";
  std::vector<SweptFlag> flags;
  for (const std::string& text : over) flags.push_back(read_swept_flag(text));
  return SweepPoints(base, flags);
}

}  // namespace

TEST_CASE("--over takes lists and ranges") {
  CHECK_EQ(read_swept_flag("batch=8:512:x2").values, Words{"8", "16", "32", "64", "128", "256", "512"});
  CHECK_EQ(read_swept_flag("batch=8:500:x2").values.back(), "256");
  CHECK_EQ(read_swept_flag("batch=1,2:4,10:30:10").values, Words{"1", "2", "3", "4", "10", "20", "30"});
  CHECK_EQ(read_swept_flag("precision=fp32,amp-bf16").values, Words{"fp32", "amp-bf16"});
  CHECK_EQ(read_swept_flag("--dtype=fp16").name, "precision");
  CHECK_EQ(read_swept_flag("gpu=22 GiB,l4").values, Words{"22 GiB", "l4"});
  CHECK_EQ(read_swept_flag("set.classes=10:30:10").values, Words{"10", "20", "30"});
  CHECK_EQ(read_swept_flag("alloc-conf=max_split_size_mb:64").values, Words{"max_split_size_mb:64"});
  CHECK_EQ(read_swept_flag("batch=9223372036854775806:9223372036854775807").values.size(), 2);
}

TEST_CASE("--over says what is wrong with a list") {
  const auto message = [](const std::string& text) { return error_of([&] { (void)read_swept_flag(text); }); };
  CHECK(says(message("bach=1"), "did you mean \"batch\""));
  CHECK(says(message("set.=1"), "no flag called"));
  CHECK(says(message("batch"), "expects NAME=VALUES"));
  CHECK(says(message("=1"), "expects NAME=VALUES"));
  CHECK(says(message("batch="), "an empty value"));
  CHECK(says(message("batch=1,,2"), "an empty value"));
  CHECK(says(message("batch=1,2,1"), "the value 1 is given twice"));
  CHECK(says(message("batch=1:4,2"), "the value 2 is given twice"));
  CHECK(says(message("batch=2,02"), "the value 2 is given twice"));
  CHECK(says(message("gpus=2,02"), "the value 2 is given twice"));
  CHECK(says(message("batch=4:1"), "starts above its end"));
  for (const char* text : {"batch=1:9:0", "batch=1:9:x1", "batch=0:9:x2", "batch=1:9:-1"})
    CHECK(says(message(text), "never reaches its end"));
  for (const char* text : {"batch=a:9", "batch=1:", "batch=1:9:x", "batch=1:2:3:4", "batch=1.5:2"})
    CHECK(says(message(text), "a range is FROM:TO"));
  CHECK(says(message("batch=1:100001"), "more than 100,000 values"));
}

TEST_CASE("every part of a sweep is in one shard") {
  CHECK(says(error_of([] { (void)read_shard("0/4"); }), "1/4 to 4/4"));
  CHECK(says(error_of([] { (void)read_shard("5/4"); }), "1/4 to 4/4"));
  for (const char* text : {"", "1", "1/0", "a/b", "1/", "/2", "1/2/3", "1.0/2", "-1/-2"})
    CHECK(says(error_of([&] { (void)read_shard(text); }), "expects N/COUNT"));
  std::set<std::size_t> seen;
  for (int n = 1; n <= 5; ++n) {
    const Shard shard = read_shard(std::to_string(n) + "/5");
    for (std::size_t point = shard.number; point < 23; point += shard.count) CHECK(seen.insert(point).second);
  }
  CHECK_EQ(seen.size(), 23);
}

TEST_CASE("the last flag of a sweep changes fastest") {
  SweepPoints sweep = points({"batch=1,2", "opt=sgd,adam,adagrad"});
  CHECK_EQ(sweep.count(), 6);
  CHECK_EQ(sweep.names(), Words{"batch", "opt"});
  CHECK_EQ(sweep.plan_point(0).values, Words{"1", "sgd"});
  CHECK_EQ(sweep.plan_point(1).values, Words{"1", "adam"});
  CHECK_EQ(sweep.plan_point(5).values, Words{"2", "adagrad"});
}

TEST_CASE("a point of a sweep is a plan") {
  SweepPoints sweep = points({"precision=amp-bf16,fp32", "gpu=t4,h200"});
  RunConfig run;
  const Report report = plan_zoo("resnet18", run, "h200");
  const SweepRow row = sweep.plan_point(3);
  REQUIRE(row.figures.has_value());
  CHECK_EQ(row.figures->allocated_bytes, report.peak.reading.allocated_bytes);
  CHECK_EQ(row.figures->reserved_bytes, report.peak.reading.reserved_bytes);
  CHECK_EQ(row.figures->device_bytes, report.peak.device_bytes);
  CHECK_EQ(row.figures->usable_bytes, usable_bytes(*report.gpu));
  CHECK_EQ(row.figures->step_flops, report.compute.step_flops);
  run.autocast = DType::bf16;
  CHECK_EQ(sweep.plan_point(1).figures->device_bytes, plan_zoo("resnet18", run, "h200").peak.device_bytes);
  CHECK(sweep.warnings().empty());
  (void)sweep.plan_point(0);  // bf16 on a T4
  REQUIRE_EQ(sweep.warnings().size(), 1);
  CHECK(says(sweep.warnings().begin()->first, "T4 has no native bf16"));
}

TEST_CASE("what some combination can use is a value, and the others say why they cannot") {
  SweepPoints sweep = points({"batch=1,4", "micro-batches=1,2,4"});
  CHECK(says(sweep.plan_point(1).error, "does not split into 2"));
  CHECK_FALSE(sweep.plan_point(1).figures.has_value());
  CHECK(sweep.plan_point(4).figures.has_value());
  CHECK(says(error_of([] { (void)points({"batch=1,4", "micro-batches=1,3"}); }), "does not split into 3"));
  CHECK(says(error_of([] { (void)points({"opt=adam,adma"}); }), "did you mean \"adam\""));
  CHECK(says(error_of([] { (void)points({"gpu=t4,l44"}); }), "did you mean \"l4"));
  CHECK(says(error_of([] { (void)points({"batch=1", "batch=2"}); }), "given twice"));
  CHECK(says(error_of([] { (void)points({"dtype=fp32", "precision=fp16"}); }), "given twice"));
}

TEST_CASE("a variable of the model is swept too, and one that it has not is an error of the point") {
  SweepPoints sweep = points({"set.classes=10,1000"});
  CHECK_LT(sweep.plan_point(0).figures->allocated_bytes, sweep.plan_point(1).figures->allocated_bytes);
  SweepPoints wrong = points({"set.clases=10"});
  CHECK(says(wrong.plan_point(0).error, "no variable \"clases\""));
  CHECK_THROWS_AS(wrong.throw_reason(0), Error);
}

TEST_CASE("a point of several GPUs is the plan of a rank") {
  RunOptions base;
  base.model = "zoo:resnet18";
  base.batch = "16";
  base.gpu = "h100";
  SweepPoints sweep(base, {read_swept_flag("gpus=2,4"), read_swept_flag("zero=ddp,fsdp")});
  CHECK_EQ(sweep.names(), Words{"gpus", "zero"});
  RunOptions reads;
  reads.model = base.model;
  const Model model = load_model(reads);
  RunConfig run;
  run.batch = 16;
  const Gpu gpu = *gpu_called("h100");
  for (std::size_t point = 0; point < sweep.count(); ++point) {
    const SweepRow row = sweep.plan_point(point);
    REQUIRE_EQ(row.error, "");
    SeveralGpusOptions several;
    several.gpus = row.values[0];
    several.zero = row.values[1];
    const Strategy strategy = *strategy_of(several);
    const Plan planned = make_plan(model, make_catalog(), run, &gpu, strategy, true);
    const Report rank = report_of(planned, topology_of(several, gpu));
    const auto time = rank_time(planned.step, rank.rank->communication, HostCopy::pinned);
    CHECK_EQ(row.figures->device_bytes, rank.peak.device_bytes);
    CHECK_EQ(row.figures->step_flops, rank.compute.step_flops);
    CHECK_EQ(row.figures->step_seconds.value_or(0), time->step.seconds());
    CHECK_EQ(row.figures->samples_per_second.value_or(0), 16 / time->step.seconds());
    CHECK_EQ(row.figures->communication_seconds.value_or(-1), time->step.communication_seconds);
    CHECK_EQ(row.figures->scaling_efficiency.value_or(0), time->efficiency());
  }
  // DDP of four: 3/2 of the gradients of 11,689,512 parameters, and the buffers of 20 batch norms of 4,800 channels,
  // two numbers each and a count.
  CHECK_EQ(sweep.plan_point(2).figures->sent_bytes.value_or(0), 11'689'512 * 4 * 3 / 2 + 4'800 * 2 * 4 + 20 * 8);
}

TEST_CASE("a sweep over GPUs says which points cannot be shared, and which values no point can use") {
  RunOptions base;
  base.model = "zoo:resnet18";
  SweepPoints sweep(base, {read_swept_flag("batch=2,4"), read_swept_flag("gpus=1:4:x2")});
  CHECK_EQ(sweep.count(), 6);
  CHECK(says(sweep.plan_point(2).error, "a batch of 2 cannot be divided equally among 4 ranks"));
  REQUIRE(sweep.plan_point(5).figures.has_value());
  CHECK_FALSE(sweep.plan_point(5).figures->communication_seconds.has_value());  // no GPU, no link
  CHECK_EQ(sweep.plan_point(0).figures->sent_bytes.value_or(-1), 0);
  CHECK(says(error_of([] { (void)points({"batch=2,4", "gpus=1,8"}); }), "cannot be divided equally among 8 ranks"));
  CHECK(says(error_of([] { (void)points({"zero=ddp,fsdp"}); }), "--zero needs --gpus"));
  CHECK(says(error_of([] { (void)points({"gpus=2", "batch=2", "zero=ddp,fspd"}); }), "did you mean \"fsdp\""));
  CHECK(says(error_of([] { (void)points({"gpuss=2"}); }), "did you mean \"gpu"));
  CHECK(says(error_of([] { (void)points({"gpus=2", "batch=2", "network=0,100"}); }), "--network expects"));
  const auto with = [&](const char* kinds) {
    SeveralGpusOptions own;
    own.gpus = "2";
    own.bucket_view = own.keep_unsharded = true;
    return SweepPoints(base, {read_swept_flag("batch=2"), read_swept_flag(kinds)}, own);
  };
  for (std::size_t point = 0; point < 3; ++point) CHECK_EQ(with("zero=1,2,fsdp").plan_point(point).error, "");
  CHECK(says(error_of([&] { (void)with("zero=1,2"); }), "need FSDP2"));
  CHECK(says(error_of([&] { (void)with("zero=2,fsdp"); }), "needs DDP"));
  SeveralGpusOptions two;
  two.gpus = "2";
  CHECK(says(error_of([&] { (void)SweepPoints(base, {read_swept_flag("gpus=2,4")}, two); }), "contradict"));
}

TEST_CASE("lines of a sweep hold to their schema") {
  SweepPoints sweep = points({"batch=1,4", "micro-batches=1,2"});
  std::vector<SweepRow> rows;
  for (std::size_t i = 0; i < sweep.count(); ++i) rows.push_back(sweep.plan_point(i));
  const nlohmann::json schema = nlohmann::json::parse(sweep_json_schema());
  std::istringstream lines(sweep_json_lines(sweep.names(), rows, 4));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    nlohmann::json value = nlohmann::json::parse(line);
    CHECK_EQ(value["over"].size(), 2);
    nlohmann::json open = schema;
    open["properties"].erase("over");
    open["required"].erase(2);
    value.erase("over");
    check_against(open, value, "");
  }
  CHECK_EQ(count, 4);
  // As many fields in every line as in the heading.
  const auto commas = [](const std::string& text) { return std::count(text.begin(), text.end(), ','); };
  const auto heading = commas(sweep_csv_heading(sweep.names()));
  for (const SweepRow& row : rows) CHECK_EQ(commas(sweep_csv_lines({&row, 1})), heading);
}

TEST_CASE("a fit's JSON holds to its schema") {
  FitReport report;
  report.model = "net";
  report.fit.rows.resize(2);
  report.fit.rows[0].gpu.name = "t4";
  report.fit.rows[0].fits = true;
  report.fit.rows[0].largest = {152, 15'000'000'000, 1};
  report.fit.rows[0].power_of_two = {128, 13'000'000'000, 1};
  report.fit.rows[0].instance = Instance{};
  report.fit.rows[0].instance->price_date = "2026-07-20";
  report.fit.rows[0].usd = 0.526;
  report.fit.rows[1].refused = "has no bf16";
  const nlohmann::json schema = nlohmann::json::parse(fit_json_schema());
  check_against(schema, nlohmann::json::parse(fit_json(report, "1", 0)), "");
  report.fit.chosen = 0;
  report.fit.why = "the cheapest that fits";
  report.fit.rows[0].step_seconds = 0.25;
  report.suggestions.push_back({.flags = "--batch 3", .device_bytes = 5, .retries = 0});
  report.question.batch = 64;
  report.question.most_usd = 0.5;
  report.question.kinds = {DataParallel::zero3, DataParallel::fsdp};
  report.question.gpus = {1, 8};
  const nlohmann::json json = nlohmann::json::parse(fit_json(report, "1", 0));
  check_against(schema, json, "");
  CHECK_EQ(json["chosen"]["arguments"], "--batch 64 --gpu t4");
  CHECK_EQ(json["question"]["data_parallel"][1], "fsdp");
  CHECK_EQ(json["question"]["gpus"][1], 8);
  const std::string csv = fit_csv(report);
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) CHECK_EQ(std::count(line.begin(), line.end(), ','), 33);
}

TEST_CASE("a budget is dollars an hour") {
  for (const char* text : {"5usd/h", "5 USD/h", "$5/h", "5.0usd/hour", "5 usd / h"})
    CHECK_EQ(usd_per_hour("--budget", text), 5);
  CHECK_EQ(usd_per_hour("--budget", "0.526usd/h"), 0.526);
  for (const char* text : {"", "5", "5usd", "usd/h", "0usd/h", "-1usd/h", "nanusd/h", "infusd/h", "1e999usd/h",
                           "5eur/h", "$5usd/h", "5usd/d", "5usd/h!", "0x5usd/h"})
    CHECK(says(error_of([&] { (void)usd_per_hour("--budget", text); }), "expects US dollars an hour above 0"));
}

TEST_CASE("a job for SkyPilot is YAML with the instances in their order") {
  RentJob job;
  job.name = "my net";
  job.model = "it's here/net.onnx";
  job.needs_file = true;
  job.flags = {"--batch", "64", "--set", "a=1;rm -rf /"};
  job.gpu = "t4";
  Instance aws;
  aws.provider = "aws";
  aws.name = "g4dn.xlarge";
  aws.gpu = "t4";
  aws.region = "us-east-1";
  aws.usd = 0.526;
  aws.price_date = "2026-07-20";
  Instance gcp = aws, listed = aws;
  gcp.provider = "gcp";
  gcp.name = "n1-standard-4+1x-t4";
  gcp.region = "us-central1";
  listed.provider = "nebius";
  listed.name = "per-GPU rate T4";
  job.instances = {gcp, listed, aws};
  const YAML::Node task = YAML::Load(sky_task(job));
  CHECK_EQ(task["name"].as<std::string>(), "gpuplan-my-net");
  const YAML::Node choices = task["resources"]["ordered"];
  REQUIRE_EQ(choices.size(), 2);
  CHECK_EQ(choices[0]["infra"].as<std::string>(), "gcp/us-central1");
  CHECK_EQ(choices[0]["instance_type"].as<std::string>(), "n1-standard-4");
  CHECK_EQ(choices[0]["accelerators"].as<std::string>(), "T4:1");
  CHECK_EQ(choices[1]["instance_type"].as<std::string>(), "g4dn.xlarge");
  CHECK_EQ(task["file_mounts"]["/tmp/gpuplan-model.onnx"].as<std::string>(), "it's here/net.onnx");
  CHECK_EQ(task["run"].as<std::string>(),
           "tools/run validate /tmp/gpuplan-model.onnx --batch 64 --set 'a=1;rm -rf /' -o validate.json\n");
  CHECK_FALSE(task["resources"]["use_spot"]);
  job.spot = true;
  CHECK(YAML::Load(sky_task(job))["resources"]["use_spot"].as<bool>());
  const std::string script = slurm_script(job);
  CHECK(says(script, "#SBATCH --gres=gpu:t4:1\n"));
  CHECK(says(script, "tools/run validate 'it'\\''s here/net.onnx' --batch 64 "));
}

TEST_CASE("a job for several GPUs runs the user's script with a process for each") {
  RentJob job;
  job.name = "net";
  job.model = "zoo:gpt2";
  job.gpu = "a100-40gb";
  job.processes = 4;
  job.samples = 16;
  job.plan = "zoo:gpt2 --batch 64 --gpu a100-40gb --gpus 4 --zero fsdp";
  Instance gcp;
  gcp.provider = "gcp";
  gcp.name = "a2-highgpu-4g";
  gcp.gpu = "a100-40gb";
  gcp.gpu_count = 4;
  gcp.region = "us-central1";
  gcp.usd = 14.7;
  job.instances = {gcp};
  const YAML::Node task = YAML::Load(sky_task(job));
  CHECK_EQ(task["resources"]["ordered"][0]["accelerators"].as<std::string>(), "A100:4");
  CHECK(task["envs"]["TRAIN"].IsNull());  // SkyPilot asks for it
  CHECK_FALSE(task["num_nodes"]);
  CHECK_EQ(task["run"].as<std::string>(), "torchrun --standalone --nproc-per-node=4 $TRAIN\n");
  CHECK(says(sky_task(job), "16 samples for each"));
  CHECK(says(sky_task(job), "gpuplan zoo:gpt2 --batch 64 --gpu a100-40gb --gpus 4 --zero fsdp\n"));
  const std::string script = slurm_script(job);
  CHECK(says(script, "#SBATCH --gres=gpu:a100-40gb:4\n"));
  CHECK(says(script, "#SBATCH --nodes=1\n"));
  CHECK(says(script, "\ntorchrun --standalone --nproc-per-node=4 $TRAIN\n"));
  job.nodes = 2;
  CHECK_EQ(YAML::Load(sky_task(job))["num_nodes"].as<int>(), 2);
  CHECK(says(sky_task(job), "--nnodes=$SKYPILOT_NUM_NODES --node-rank=$SKYPILOT_NODE_RANK "));
  CHECK(says(slurm_script(job), "#SBATCH --nodes=2\n"));
  CHECK(says(slurm_script(job), "\nsrun torchrun --nnodes=$SLURM_JOB_NUM_NODES "));
}

TEST_CASE("a task has no other fields than SkyPilot's, whatever the model's path is made of") {
  // https://docs.skypilot.co/en/latest/reference/yaml-spec.html; infra is cloud[/region[/zone]].
  const std::set<std::string> fields = {"name", "workdir", "resources", "file_mounts", "setup", "run"};
  RentJob job;
  job.name = "net";
  job.needs_file = true;
  job.flags = {"--batch", "1"};
  job.gpu = "t4";
  for (const char* const provider : {"aws", "azure", "gcp", "lambda", "oci", "runpod"}) {
    Instance i;
    i.provider = provider;
    i.name = "some-type";
    i.gpu = "t4";
    i.region = "us-central1";
    i.usd = 1;
    job.instances.push_back(i);
  }
  for (const char* const path :
       {"/a b/net.yaml", "/it's.yaml", "/\"q\": {x}, [y] #z.yaml", "/$(id)`id`\\.yaml", "/- !!str", "/%TAG &a *b"}) {
    job.model = path;
    const YAML::Node task = YAML::Load(sky_task(job));
    for (const auto& field : task) CHECK_EQ(fields.count(field.first.as<std::string>()), 1);
    REQUIRE_EQ(task["file_mounts"].size(), 1);
    CHECK_EQ(task["file_mounts"].begin()->second.as<std::string>(), path);
    for (const YAML::Node& choice : task["resources"]["ordered"]) {
      const auto infra = choice["infra"].as<std::string>();
      CHECK_LE(std::count(infra.begin(), infra.end(), '/'), 1);
      CHECK_GE(choice.size(), 2);
      CHECK_EQ(choice.size(), choice["accelerators"] ? 3 : 2);
    }
    // The word that the job's shell reads is the path.
    CHECK(says(slurm_script(job), "tools/run validate " + shell_word(path) + " --batch 1 "));
  }
  job.gpu = "my gpu;x";
  CHECK(says(slurm_script(job), "#SBATCH --gres=gpu:1\n"));
}

TEST_CASE("the flags of a run come back as they were written") {
  RunOptions options;
  options.optimizer = "adam";
  options.precision = "bf16";
  options.batch = "3";
  options.gpu = "t4";
  options.set = {"classes=10"};
  options.clip = "1.0";
  options.optimizer_in_backward = true;
  options.labels = true;
  CHECK_EQ(run_words(options), Words{"--precision", "bf16", "--opt", "adam", "--set", "classes=10",
                                     "--clip-grad-norm=1.0", "--optimizer-in-backward", "--labels"});
}
