// What a session leaves behind, and the reports made of it: from events as the Python hook writes them to every format.
#include <doctest/doctest.h>

#include <sys/mman.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/golden.h"
#include "tests/support/json_schema.h"
#include "tools/options/run_options.h"
#include "validate/shadow/host/describe_gpu.h"
#include "validate/shadow/host/directories.h"
#include "validate/shadow/host/progress.h"
#include "validate/shadow/host/read_session.h"
#include "validate/shadow/host/run_report.h"
#include "validate/shadow/host/run_words.h"

namespace gpuplan::shadow {
namespace {

using Json = nlohmann::json;
using tests::check_against;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::string recorded(const std::string& name) {
  std::ifstream file(std::string(GPUPLAN_SOURCE_DIR) + "/tests/shadow_session/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

const std::string kEvents = recorded("two_steps.jsonl");
const std::string kOutOfMemory = recorded("out_of_memory.jsonl");

RunFacts facts_for(const Ending& ending = {}) {
  RunFacts facts{.gpu = {},
                 .settings = {},
                 .command = {"python", "train.py"},
                 .ending = ending,
                 .max_peak_bytes = {},
                 .catalog = gpu_table()};
  RunOptions options;
  options.gpu = "t4";
  facts.gpu = *load_gpu(options);
  facts.settings.gpu = describe(facts.gpu, facts.gpu).description;
  return facts;
}

SessionRecord session_of(const std::string& events) {
  SessionRecord session;
  ProcessRecord process;
  process.pid = 10;
  process.kernels = 70;
  process.used[0] = {.peak_bytes = 20971520, .allocations = 4};
  read_events(events, process, session);
  session.processes.push_back(process);
  session.fullest[0] = {.bytes = 20971520 + 512 * kMiB, .contexts = 1};
  return session;
}

RunReport report_of(const std::string& events, const Ending& ending = {}) {
  return make_run_report(session_of(events), facts_for(ending));
}

Ending status(int code) { return {.status = code, .signal = 0, .by_request = false}; }

TEST_CASE("events become figures") {
  const SessionRecord session = session_of(kEvents);
  const ProcessRecord& process = session.processes[0];
  CHECK(process.torch == "2.15.0+cu132");
  CHECK(process.cuda == "13.2");
  CHECK(process.rank == 0);
  CHECK(process.end_reason == "exit");
  const TorchDevice& device = process.devices.at(0);
  CHECK(device.peak.allocated == 4194304);
  CHECK(device.peak.requested == 4000000);
  CHECK(device.peak.reserved == 20971520);
  CHECK(device.segments == 3);
  CHECK(device.retries == 1);
  REQUIRE(device.steps.size() == 2);
  CHECK(device.steps[0].peak.allocated == 3145728);
  CHECK(device.steps[1].kernels == 20);
  CHECK(device.alive.when == "step 1");
  CHECK(device.alive.categories[0] == std::pair<std::string, std::int64_t>("activations", 2097152));
  CHECK(device.alive.lines[0].line == 7);
  CHECK(session.unknown == std::vector<std::string>{"nonzero took the zero path"});
}

TEST_CASE("events of a killed process, and of nobody, are read as far as they go") {
  for (std::size_t n = 0; n <= kEvents.size(); n += 7) (void)report_of(kEvents.substr(0, n));
  const RunReport half = report_of(kEvents.substr(0, kEvents.find("\"unknown\"")));
  CHECK(half.ranks[0].peak.allocated == 4194304);
  CHECK(half.end_reason.empty());
  const std::string odd =
      "\n{}\n[]\nnull\n{\"event\":7}\n{\"event\":\"step\",\"devices\":[1]}\n{\"event\":\"step\",\"devices\":{\"x\":{},"
      "\"0\":3}}\n"
      "{\"event\":\"peak\",\"device\":\"a\",\"lines\":{\"a\":1},\"categories\":[1,2]}\n\xff\xfe\n{\"event\":\"end\"";
  CHECK(report_of(odd).ranks.size() == 1);
}

TEST_CASE("the device total is all processes' memory and a context each") {
  SessionRecord session = session_of(kEvents);
  session.processes.push_back(session.processes[0]);
  session.processes[1].pid = 11;
  session.fullest[0] = {.bytes = 1074 * kMiB, .contexts = 2};
  const RunReport report = make_run_report(session, facts_for());
  REQUIRE(report.ranks.size() == 2);
  CHECK(report.ranks[0].context_bytes == 1024 * kMiB);
  CHECK(report.ranks[0].device_bytes == 1074 * kMiB);
}

TEST_CASE("processes one after another have one context, and what one had freed by then is taken off") {
  SessionRecord session = session_of(kEvents);  // 20 MiB reserved
  session.processes.push_back(session.processes[0]);
  session.fullest[0] = {.bytes = 532 * kMiB, .contexts = 1};
  const RunReport one = make_run_report(session, facts_for());
  CHECK(one.ranks[0].context_bytes == 512 * kMiB);
  CHECK(one.ranks[0].device_bytes == 532 * kMiB);
  session.fullest[0] = {.bytes = 1034 * kMiB, .contexts = 2};  // both together, with 10 MiB
  const RunReport both = make_run_report(session, facts_for());
  CHECK(both.ranks[0].context_bytes == 1024 * kMiB);
  CHECK(both.ranks[0].device_bytes == 1034 * kMiB);
  CHECK(run_text(both, {}).find("- freed    10.0 MiB") != std::string::npos);
}

TEST_CASE("PyTorch without the hook is said, with the flags that came to nothing") {
  SessionRecord session = session_of("");
  session.processes[0].pytorch = true;
  RunFacts facts = facts_for();
  facts.settings.steps = 3;
  facts.settings.no_compile = true;
  const RunReport report = make_run_report(session, facts);
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].text.find("-I, -E or -S") != std::string::npos);
  CHECK(report.problems[0].text.ends_with("; ignored: --steps, --no-compile"));
  CHECK(report.exit_code == 0);
  SessionRecord with = session_of(kEvents);
  with.processes[0].pytorch = true;
  CHECK(make_run_report(with, facts).problems.empty());
}

TEST_CASE("the word of a moment orders moments") {
  CHECK(word_of({.bytes = 2, .contexts = 1}) > word_of({.bytes = 1, .contexts = kMaxProcesses}));
  const DeviceMoment moment = moment_of(word_of({.bytes = 141 * 1024 * kMiB, .contexts = kMaxProcesses}));
  CHECK(moment.bytes == 141 * 1024 * kMiB);
  CHECK(moment.contexts == kMaxProcesses);
}

TEST_CASE("the figures at the top are the fullest rank's") {
  SessionRecord session = session_of(kEvents);
  ProcessRecord other = session.processes[0];
  other.pid = 11;
  other.rank = 1;
  other.used = {{1, {.peak_bytes = 90 * kMiB, .allocations = 1}}};
  other.devices = {{0, other.devices[0]}};  // CUDA_VISIBLE_DEVICES=1: its device 0 is the session's device 1
  session.fullest[1] = {.bytes = 602 * kMiB, .contexts = 1};
  session.processes.push_back(other);
  const RunReport report = make_run_report(session, facts_for());
  REQUIRE(report.ranks.size() == 2);
  CHECK(report.fullest == 1);
  CHECK(report.ranks[1].device_bytes == (90 + 512) * kMiB);
  CHECK(report.ranks[0].device_bytes == (20 + 512) * kMiB);
}

TEST_CASE("exit codes") {
  CHECK(report_of(kEvents).exit_code == 0);
  CHECK(report_of(kEvents, status(7)).exit_code == 7);
  CHECK(report_of(kEvents, {.status = 0, .signal = SIGKILL, .by_request = false}).exit_code == 137);
  CHECK(report_of(kEvents + kOutOfMemory).exit_code == 1);  // caught by the script
  CHECK(report_of(kEvents + kOutOfMemory, status(1)).exit_code == 1);
  CHECK(report_of(R"({"event":"problem","code":4,"text":"no CUDA"})", status(1)).exit_code == 4);
  CHECK(report_of(R"({"event":"problem","code":0,"text":"no lines"})").exit_code == 0);
  RunFacts facts = facts_for();
  facts.max_peak_bytes = 4194304;
  CHECK(make_run_report(session_of(kEvents), facts).exit_code == 0);
  --*facts.max_peak_bytes;
  CHECK(make_run_report(session_of(kEvents), facts).exit_code == 1);
  facts.ending = status(7);
  CHECK(make_run_report(session_of(kEvents), facts).exit_code == 7);
}

TEST_CASE("a program without PyTorch ran out of memory only where it could not do without") {
  SessionRecord session = session_of("");
  session.processes[0].refusals = 2;
  session.processes[0].refused_bytes = 99;
  session.processes[0].refused_free_bytes = 9;
  CHECK(!make_run_report(session, facts_for()).out_of_memory);
  const RunReport failed = make_run_report(session, facts_for(status(2)));
  REQUIRE(failed.out_of_memory);
  CHECK(failed.out_of_memory->wanted_bytes == 99);
  CHECK(failed.out_of_memory->free_bytes == 9);
  CHECK(failed.exit_code == 2);
}

TEST_CASE("on which GPUs a run fits is known where it came to its end") {
  const RunReport report = report_of(kEvents);
  REQUIRE(report.fits.size() == gpu_table().size());
  CHECK(report.fits.front().gpu == "rtx2060");  // the smallest
  CHECK(report.fits.front().fits);
  CHECK(report_of(kEvents + kOutOfMemory, status(1)).fits.empty());
  CHECK(report_of(kEvents, status(1)).fits.empty());
}

TEST_CASE("the JSON is what its schema says") {
  const Json schema = Json::parse(run_json_schema());
  const auto check = [&](const RunReport& report) {
    const Json json = Json::parse(run_json(report, "0.1.0"));
    check_against(schema, json, "shadow");
    return json;
  };
  const Json json = check(report_of(kEvents));
  CHECK(json["schema"] == "gpuplan.shadow/1");
  CHECK(json["gpu"] == "t4");
  CHECK(json["exit_code"] == 0);
  CHECK(json["out_of_memory"].is_null());
  CHECK(json["peak"]["allocated_bytes"] == 4194304);
  CHECK(json["peak"]["device_bytes"] == 532 * kMiB);
  CHECK(json["segments"] == 3);
  CHECK(json["kernels"] == 70);
  CHECK(json["steps"][0]["reserved_bytes"] == 20971520);
  CHECK(json["alive"]["lines"][0]["code"] == "x = self.fc(x)");
  CHECK(json["ranks"][0]["rank"] == 0);
  CHECK(json["unknown"].size() == 1);
  const Json out = check(report_of(kEvents + kOutOfMemory, status(1)));
  CHECK(out["out_of_memory"]["wanted_bytes"] == 1073741824);
  CHECK(out["exit_code"] == 1);
  check(report_of(""));
  check(make_run_report({}, facts_for()));
  RunReport odd = report_of(kEvents);
  odd.command = {"\xff\xfe"};
  odd.ranks[0].alive.lines[0].code = "\xc3";
  check(odd);
}

TEST_CASE("the screen") {
  TextStyle style;
  style.unicode = false;
  tests::check_golden("shadow.txt", run_text(report_of(kEvents), style));
}

TEST_CASE("the screen of a run that did not come to its end") {
  TextStyle style;
  style.unicode = false;
  style.brief = true;
  const std::string text = run_text(report_of(kEvents + kOutOfMemory, status(1)), style);
  CHECK(text.find(
            "[no] out of memory on NVIDIA T4: requested 1.00 GiB, 5 B free, 4.00 MiB allocated, 20.0 MiB reserved") !=
        std::string::npos);
  CHECK(text.find("exit code 1") != std::string::npos);
  CHECK(text.find(" fits") == std::string::npos);
  const std::string killed = run_text(report_of(kEvents, {.status = 0, .signal = SIGKILL, .by_request = false}), style);
  CHECK(killed.find("as Linux does when the host's memory is full") != std::string::npos);
  const std::string nothing = run_text(make_run_report({}, facts_for()), style);
  CHECK(nothing.find("the command used no GPU memory") != std::string::npos);
}

TEST_CASE("what torch.compile made, what CUDA graphs hold, and what could not be timed") {
  const std::string events = kEvents +
                             R"events({"event":"compiling","graph":3}
{"event":"compiled","graphs":3,"breaks":[{"file":"/x/train.py","line":9,"reason":"call to print","times":2}]}
{"event":"choice","kind":"operator","name":"mm(64x8, 8x8)","taken":"mm","of":20,"workspace":1048576}
{"event":"choice","kind":"operator","name":"mm(64x8, 8x8)","taken":"mm","of":20,"workspace":1048576}
{"event":"choice","kind":"configuration","name":"triton_red_0","taken":"XBLOCK: 8","of":2,"workspace":0}
{"event":"end","reason":"exit","devices":{"0":{"graphs":10485760}}}
)events";
  const RunReport report = report_of(events);
  CHECK(report.compiled.graphs == 3);
  CHECK(report.autotuned.operators == 1);
  CHECK(report.autotuned.workspace_bytes == kMiB);
  CHECK(report.ranks[0].graph_bytes == 10 * kMiB);
  const std::string text = run_text(report, {});
  CHECK(text.find("  + cache    6.00 MiB") != std::string::npos);  // 20 reserved, 4 allocated
  CHECK(text.find("  + graphs   10.0 MiB") != std::string::npos);
  CHECK(text.find("compiled  3 graphs, 2 breaks\n    train.py:9  2 times  call to print") != std::string::npos);
  CHECK(text.find("autotuning of 1 operator and 1 kernel configuration: nothing can be timed") != std::string::npos);
  CHECK(text.find("the largest workspace of another choice is 1.00 MiB") != std::string::npos);
  const Json json = Json::parse(run_json(report, "0.1.0"));
  check_against(Json::parse(run_json_schema()), json, "shadow");
  CHECK(json["compiled"]["breaks"][0]["line"] == 9);
  CHECK(json["graph_bytes"] == 10 * kMiB);
  // A killed process has said how far it was.
  CHECK(report_of(R"({"event":"compiling","graph":2})").compiled.graphs == 2);
}

TEST_CASE("what a serving engine has measured: the most of its processes, and each line once") {
  const RunReport report =
      report_of(kEvents + R"x({"event":"engine","name":"vLLM 0.33.0","part":"weights","bytes":1048576}
{"event":"engine","name":"vLLM 0.33.0","line":"GPU KV cache size: 7 tokens"}
{"event":"engine","name":"vLLM 0.33.0","part":"weights","bytes":2097152}
{"event":"engine","name":"vLLM 0.33.0","line":"GPU KV cache size: 7 tokens"}
)x");
  const std::string text = run_text(report, {});
  CHECK(text.find("  vLLM 0.33.0 measured\n  weights               2.00 MiB\n  GPU KV cache size: 7 tokens\n") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(run_json(report, "0"));
  CHECK(json["engine"]["parts"][0]["bytes"] == 2097152);
  CHECK(json["engine"]["lines"].size() == 1);
}

TEST_CASE("what was decided without values, by line, most often first") {
  const RunReport report = report_of(kEvents + R"x({"event":"decided","reads":[
)x"
                                               "");
  CHECK(report.decided.empty());  // a line that was cut off
  const RunReport whole = report_of(
      kEvents +
      R"x({"event":"decided","reads":[{"file":"/x/train.py","line":9,"function":"item","times":2,"drawn":0},{"file":"","line":0,"function":"","times":1,"drawn":0},{"file":"/x/moe.py","line":7,"function":"where","times":1200,"drawn":1}]}
)x");
  const std::string text = run_text(whole, {});
  CHECK(text.find("  decided without values\n"
                  "    moe.py:7  1,200 times  where (assumed)\n"
                  "    train.py:9  2 times  item (zeros)\n"
                  "    1 read in other threads, optimizers or compiled code (zeros)\n") != std::string::npos);
  const Json json = Json::parse(run_json(whole, "0.1.0"));
  check_against(Json::parse(run_json_schema()), json, "shadow");
  CHECK(json["decided"][0]["drawn"] == true);
}

TEST_CASE("a table of every rank, and CSV and Markdown of the same") {
  SessionRecord session = session_of(kEvents);
  session.processes.push_back(session.processes[0]);
  session.processes[1].pid = 11;
  session.processes[1].rank = 1;
  const RunReport report = make_run_report(session, facts_for());
  const std::string text = run_text(report, {});
  CHECK(text.find("  rank  device  allocated") != std::string::npos);
  CHECK(text.find("those of rank 0, which needs the most memory") != std::string::npos);
  CHECK(run_csv(report).find("1,0,2,4194304,4000000,20971520,,20\n1,0,all,4194304,") != std::string::npos);
  CHECK(run_md(report).find("| rank | device |") != std::string::npos);
}

TEST_CASE("Markdown says what went wrong, also where nothing was used") {
  SessionRecord session;
  session.processes.emplace_back().pid = 10;
  read_events(kOutOfMemory, session.processes[0], session);
  session.problems.push_back({.code = 0, .text = "no lines"});
  const std::string text = run_md(make_run_report(session, facts_for()));
  CHECK(text.find("**out of memory on NVIDIA T4: requested 1.00 GiB") != std::string::npos);
  CHECK(text.find("no lines\n") != std::string::npos);
}

TEST_CASE("words") {
  CHECK(shortened("abcdefghij", 10) == "abcdefghij");
  CHECK(shortened("abcdefghijk", 10) == "abcde...jk");
  CHECK(shortened("éééééééé", 9).size() <= 9);
  CHECK(command_words({"sh", "-c", "a b\nc"}, 60) == "sh -c 'a b c'");
  CHECK(line_words({.file = "", .function = "(backward pass)", .code = "", .line = 0, .bytes = 0, .blocks = 0}) ==
        "(backward pass)");
}

TEST_CASE("a session's directory is read whole: counters, events, what is unknown") {
  const SessionDirectory session({});
  SessionCounters* const counters = map_counters(session.path());
  counters->fullest[2] = word_of({.bytes = 7 * kMiB, .contexts = 1});
  ProcessCounters& process = counters->processes[0];
  process.pid = 10;
  process.rank = -1;
  process.launches = 5;
  process.devices[2].peak = 7 * kMiB;
  process.devices[2].allocations = 2;
  munmap(counters, sizeof(SessionCounters));
  std::ofstream(session.path() + "/events.10.jsonl") << kEvents;
  std::ofstream(session.path() + "/events.11.jsonl") << "{\"event\":\"start\",\"torch\":\"2.8.0\"";  // cut off
  std::ofstream(session.path() + "/events.x.jsonl") << kEvents;
  std::ofstream(session.path() + "/unknown.10") << "one\ntwo\none\nthr";  // cut off
  const SessionRecord record = read_session(session.path());
  CHECK(record.fullest.at(2).bytes == 7 * kMiB);
  CHECK(record.fullest.at(2).contexts == 1);
  REQUIRE(record.processes.size() == 2);
  CHECK(record.processes[1].pid == 10);
  CHECK(record.processes[1].kernels == 5);
  CHECK(record.processes[1].used.at(2).peak_bytes == 7 * kMiB);
  CHECK(record.unknown == std::vector<std::string>{"nonzero took the zero path", "one", "two"});
  CHECK(make_run_report(record, facts_for()).ranks.size() == 1);
}

TEST_CASE("a directory that is gone is an empty session") { CHECK(read_session("/nowhere").processes.empty()); }

TEST_CASE("progress says nothing at first") {
  const SessionDirectory session({});
  Progress progress(session.path());
  CHECK(progress.line().empty());
}

}  // namespace
}  // namespace gpuplan::shadow
