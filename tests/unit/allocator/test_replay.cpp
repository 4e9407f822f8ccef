// Recorded traces of PyTorch's allocator, replayed event by event.
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/allocator/replay.h"
#include "estimator/base/error.h"
#include "tools/commands/commands.h"

using namespace gpuplan;
namespace fs = std::filesystem;

namespace {

fs::path trace_root() { return fs::path(GPUPLAN_SOURCE_DIR) / "tests/shadow/traces"; }

// The recorder writes the setting into the file name.
AllocatorSettings settings_of(const std::string& name) {
  if (name.find("expandable_segments_on") != name.npos) return parse_alloc_conf("expandable_segments:True");
  if (name.find("max_split_size_mb_32") != name.npos) return parse_alloc_conf("max_split_size_mb:32");
  if (name.find("roundup_power2_divisions_4") != name.npos) return parse_alloc_conf("roundup_power2_divisions:4");
  return {};
}

Trace parse_trace(const std::string& name, const std::string& text) {
  std::istringstream in(text);
  return read_trace(name, [&](char* to, std::size_t most) {
    return static_cast<std::size_t>(in.read(to, static_cast<std::streamsize>(most)).gcount());
  });
}

std::string error_of(const std::string& text) {
  try {
    parse_trace("t.tsv", text);
  } catch (const Error& e) {
    return e.render();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A file of its own in the system's temporary folder, gone at the end of the test.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& bytes) : path_(fs::temp_directory_path() / name) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { fs::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("replay: every recorded trace lands at its segment and offset") {
  std::size_t traces = 0;
  std::int64_t allocations = 0;
  for (const auto& entry : fs::recursive_directory_iterator(trace_root())) {
    if (entry.path().extension() != ".gz") continue;
    const std::string path = entry.path().string();
    CAPTURE(path);
    const Trace trace = open_trace(path);
    const ReplayReport report = replay(trace, settings_of(path), true);
    if (report.difference) {
      CAPTURE(report.difference->expected);
      CAPTURE(report.difference->actual);
      FAIL_CHECK("line " << trace.events[report.difference->event].line << " differs");
    }
    ++traces;
    allocations += report.allocations;
  }
  // zcat tests/shadow/traces/*/*.gz | grep -c ^alloc
  CHECK(traces == 96);
  CHECK(allocations == 173037);
}

TEST_CASE("replay: live and peak bytes at every phase are PyTorch's own readings") {
  struct Reading {
    std::string phase;
    std::vector<std::string> values;
  };
  std::map<std::string, std::vector<Reading>> readings;
  std::ifstream file(trace_root() / "readings.tsv");
  for (std::string line; std::getline(file, line);) {
    if (line.front() == '#') continue;
    std::istringstream fields(line);
    std::string set, name, mark;
    Reading r;
    fields >> set >> name >> mark >> r.phase;
    for (std::string value; fields >> value;) r.values.push_back(value);
    readings[set + "/" + name + ".tsv.gz"].push_back(r);
  }
  REQUIRE(readings.size() == 76);  // the traces of training: those without "infer" in the name

  std::size_t compared = 0;
  for (const auto& reading : readings) {
    const std::string& name = reading.first;
    const std::vector<Reading>& expected = reading.second;
    CAPTURE(name);
    const Trace trace = open_trace((trace_root() / name).string());
    ArithmeticSegments segments;
    CachingAllocator a(segments, settings_of(name));
    std::vector<BlockId> blocks(trace.tensor_count);
    std::size_t event = 0;
    for (std::size_t mark = 0; mark < trace.phases.size(); ++mark) {
      for (; event < trace.phases[mark].event - mark; ++event) {
        const TraceEvent& e = trace.events[event];
        if (e.action == TraceAction::alloc) blocks[e.tensor] = a.allocate(e.bytes);
        if (e.action == TraceAction::free_completed) a.release(blocks[e.tensor]);
      }
      CAPTURE(mark);
      REQUIRE(trace.phases[mark].name == expected[mark].phase);
      const std::int64_t actual[] = {a.requested_bytes(),      a.allocated_bytes(),      a.reserved_bytes(),
                                     a.peak_requested_bytes(), a.peak_allocated_bytes(), a.peak_reserved_bytes()};
      for (std::size_t i = 0; i < 6; ++i) {
        if (expected[mark].values[i] == "-") continue;
        CHECK(std::to_string(actual[i]) == expected[mark].values[i]);
        ++compared;
      }
      a.reset_peaks();
    }
  }
  CHECK(compared > 3500);
}

TEST_CASE("replay: segments, allocations and inactive split bytes are those of PyTorch's statistics") {
  std::ifstream file(trace_root() / "allocator.tsv");
  std::size_t traces = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.front() == '#') continue;
    std::istringstream fields(line);
    std::string name;
    std::int64_t segments = 0, inactive_split = 0, allocations = 0;
    fields >> name >> segments >> inactive_split >> allocations;
    CAPTURE(name);
    const Trace trace = open_trace((trace_root() / (name + ".tsv.gz")).string());
    ArithmeticSegments source;
    CachingAllocator a(source, settings_of(name));
    std::vector<BlockId> blocks(trace.tensor_count);
    bool seen = false;  // the recorded inactive split bytes, since the last allocation
    for (const TraceEvent& e : trace.events) {
      if (e.action == TraceAction::alloc) {
        blocks[e.tensor] = a.allocate(e.bytes);
        seen = false;
      } else if (e.action == TraceAction::free_completed) {
        a.release(blocks[e.tensor]);
      }
      seen = seen || a.inactive_split_bytes() == inactive_split;
    }
    CHECK(a.segment_count() == segments);
    CHECK(trace.tensor_count == allocations);
    CHECK(seen);
    ++traces;
  }
  CHECK(traces == 76);
}

TEST_CASE("replay: the first difference is shown with what was expected") {
  // 1 MiB + 1 B goes to the large pool; a trace that says otherwise is not PyTorch's.
  const Trace trace = parse_trace("t.tsv",
                                  "segment_alloc\t0+0\t20971520\n"
                                  "alloc\t0+0\t1048577\n"
                                  "alloc\t0+1048576\t1048577\n");
  const ReplayReport report = replay(trace, {}, true);
  REQUIRE(report.difference);
  CHECK(report.difference->event == 2);
  CHECK(report.difference->expected == "alloc 0+1048576 1048577");
  CHECK(report.difference->actual == "alloc 0+1049088 1048577");
}

TEST_CASE("replay: a segment that was not recorded is a difference") {
  const ReplayReport report = replay(parse_trace("t.tsv", "alloc\t0+0\t512\n"), {}, true);
  REQUIRE(report.difference);
  CHECK(report.difference->actual == "segment_alloc 0+0 2097152");
  const Trace other = parse_trace("t.tsv", "segment_alloc\t0+0\t20971520\nalloc\t0+0\t512\n");
  CHECK(replay(other, {}, true).difference->expected == "segment_alloc 0+0 20971520");
}

TEST_CASE("replay: the report of a small trace") {
  // 3 MiB in a 20 MiB segment, 1 KiB in a 2 MiB one; the first is freed.
  const Trace trace = parse_trace("t.tsv",
                                  "# comment\n"
                                  "segment_alloc\t0+0\t20971520\n"
                                  "alloc\t0+0\t3145728\n"
                                  "= forward\n"
                                  "segment_alloc\t1+0\t2097152\n"
                                  "alloc\t1+0\t1000\n"
                                  "free_requested\t0+0\t3145728\n"
                                  "free_completed\t0+0\t3145728\n");
  REQUIRE(trace.phases.size() == 1);
  CHECK(trace.phases[0].event == 2);
  const ReplayReport r = replay(trace, {}, true);
  CHECK_FALSE(r.difference);
  CHECK(r.peak_requested_bytes == 3145728 + 1000);
  CHECK(r.peak_allocated_bytes == 3145728 + 1024);
  CHECK(r.peak_reserved_bytes == 20971520 + 2097152);
  CHECK(r.fragmentation_bytes == 20971520 + 2097152 - 3145728 - 1024);
  CHECK(r.segments == 2);
  CHECK(r.inactive_split_bytes == 2097152 - 1024);  // the large segment is whole again
  CHECK(r.peak_inactive_split_bytes == 20971520 - 3145728 + 2097152 - 1024);
  CHECK(r.largest_free_bytes == 20971520);
  CHECK(r.allocated_bytes == 1024);
}

TEST_CASE("trace: bad lines are errors that point at the place") {
  CHECK(mentions(error_of("alloc\t0+0\t512\nalloc\t0+512\t5x2\n"), "t.tsv:2:13"));
  CHECK(mentions(error_of("aloc\t0+0\t512\n"), "did you mean \"alloc\""));
  CHECK(mentions(error_of("alloc 0+0 512\n"), "tabs"));
  CHECK(mentions(error_of("alloc\t00\t512\n"), "SEGMENT+OFFSET"));
  CHECK(mentions(error_of("alloc\t0+-1\t512\n"), "t.tsv:1:9"));
  CHECK(mentions(error_of("alloc\t0+0\t99999999999999999999\n"), "whole number"));
  CHECK(mentions(error_of("alloc\t0+9999999999999\t512\n"), "no more than"));
  CHECK(mentions(error_of("=forward\n"), "= name"));
}

TEST_CASE("trace: the history must be possible") {
  CHECK(mentions(error_of("free_completed\t0+0\t512\n"), "nothing is allocated here"));
  CHECK(mentions(error_of("alloc\t0+0\t512\nalloc\t0+0\t512\n"), "allocated here already"));
  CHECK(mentions(error_of("alloc\t0+0\t512\nfree_completed\t0+0\t511\n"), "allocated with 512"));
  CHECK(mentions(error_of("alloc\t0+0\t512\nfree_requested\t0+0\t512\nfree_requested\t0+0\t512\n"), "freed twice"));
  CHECK(mentions(error_of("alloc\t0+0\t0\n"), "0 bytes"));
}

TEST_CASE("trace: a line without end does not fill the memory") {
  CHECK(mentions(error_of("alloc\t0+0\t512\n" + std::string(1 << 20, 'x')), "t.tsv:2:1"));
}

TEST_CASE("trace: a plain file, a last line without line end, and Windows line ends") {
  const TemporaryFile file("gpuplan_test_replay.tsv", "segment_alloc\t0+0\t2097152\r\nalloc\t0+0\t512");
  const Trace trace = open_trace(file.path());
  REQUIRE(trace.events.size() == 2);
  CHECK(trace.events[1].bytes == 512);
  CHECK(trace.events[1].line == 2);
}

TEST_CASE("trace: a gzip stream that ends early or is damaged is an error") {
  const std::string whole = bytes_of(trace_root() / "h200.torch2.15/mlp.b128.fp32.sgd.tsv.gz");
  const TemporaryFile half("gpuplan_test_replay_half.tsv.gz", whole.substr(0, whole.size() / 2));
  CHECK_THROWS_WITH_AS(open_trace(half.path()), doctest::Contains("ends early"), Error);
  std::string wrong = whole;
  wrong[wrong.size() / 2] = static_cast<char>(~wrong[wrong.size() / 2]);
  const TemporaryFile damaged("gpuplan_test_replay_damaged.tsv.gz", wrong);
  CHECK_THROWS_AS(open_trace(damaged.path()), Error);
}

TEST_CASE("trace: a packed trace may come byte by byte, in several members and with something behind it") {
  const std::string whole = bytes_of(trace_root() / "h200.torch2.15/mlp.b128.fp32.sgd.tsv.gz");
  const auto read = [](const std::string& bytes) {
    std::size_t at = 0;
    return read_trace("t.tsv.gz", [&](char* to, std::size_t) -> std::size_t {
      if (at == bytes.size()) return 0;
      *to = bytes[at++];
      return 1;
    });
  };
  const std::size_t events = read(whole).events.size();
  CHECK(events > 100);
  // An empty file by gzip -n: its header (RFC 1952, 2.3), an empty block of deflate, CRC and size 0.
  const std::string empty("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20);
  CHECK(read(empty + whole + empty + "padding").events.size() == events);
  CHECK(read(empty).events.empty());
  CHECK(read("#").events.empty());
  CHECK_THROWS_WITH_AS(read("\x1f\x8b"), doctest::Contains("ends early"), Error);
}

TEST_CASE("trace: what has no end is no trace") {
  std::string comments;
  for (int i = 0; i < 16; ++i) comments += std::string(4000, '#') + "\n";
  const auto endless = [&](char* to, std::size_t most) { return comments.copy(to, most); };
  CHECK_THROWS_WITH_AS(read_trace("t.tsv", endless), doctest::Contains("larger than 1 GiB"), Error);
}

TEST_CASE("trace: a file that is not there") {
  CHECK_THROWS_WITH_AS(open_trace("/no/such/trace.tsv.gz"), doctest::Contains("No such file"), Error);
}
