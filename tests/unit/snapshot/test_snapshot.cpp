// Snapshots that PyTorch 2.1, 2.8 and 2.15 wrote (tests/recorders/snapshots.py), beside what PyTorch counted in the
// same runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "estimator/allocator/replay.h"
#include "estimator/base/error.h"
#include "estimator/snapshot/replayed_snapshot.h"
#include "estimator/snapshot/snapshot_report.h"
#include "estimator/snapshot/snapshot_trace.h"

using namespace gpuplan;

namespace {

const std::filesystem::path kFolder = std::string(GPUPLAN_SOURCE_DIR) + "/tests/snapshots";

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Snapshot read_text(std::string_view left) {
  return read_snapshot("run.pickle", [&](char* to, std::size_t most) {
    const std::size_t bytes = left.copy(to, most);
    left.remove_prefix(bytes);
    return bytes;
  });
}
Snapshot read_file(const std::string& name) { return read_text(bytes_of(kFolder / (name + ".pickle"))); }

// The peaks of allocated, requested and reserved bytes, and what is allocated and reserved at the end.
std::vector<std::int64_t> counted(std::filesystem::path file) {
  std::ifstream in(file.replace_extension(".tsv"));
  std::string heading;
  std::getline(in, heading);
  return {std::istream_iterator<std::int64_t>(in), {}};
}

std::string refusal(std::string_view text) {
  try {
    const Snapshot snapshot = read_text(text);
    for (std::size_t device = 0; device < snapshot.devices(); ++device)
      (void)report_of(snapshot, device, lines_of(snapshot));
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("a snapshot's peaks are those that PyTorch counted") {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".pickle") continue;
    CAPTURE(file.path().string());
    const SnapshotHistory history = follow(read_text(bytes_of(file)), 0);
    CHECK_EQ(counted(file.path()),
             std::vector{history.peak.allocated_bytes, history.peak.requested_bytes, history.peak.reserved_bytes,
                         history.end.allocated_bytes, history.end.reserved_bytes});
    CHECK(history.adds_up);
    const std::string stem = file.path().stem().string();
    CHECK_EQ(history.whole, !stem.starts_with("cut") && !stem.starts_with("late"));
    ++files;
  }
  CHECK_GE(files, 10);
}

TEST_CASE("a whole history replays to every segment and offset") {
  for (const char* name :
       {"plain-2.1", "oom-2.8", "plain-2.15", "leak-2.15", "expandable-2.15", "settings-2.15", "two-2.15"}) {
    CAPTURE(name);
    const Snapshot snapshot = read_file(name);
    const ReplayReport report = replay(trace_of(snapshot, 0), parse_alloc_conf(snapshot.alloc_conf), true);
    const std::string difference = report.difference ? report.difference->actual : "";
    CHECK_EQ(difference, "");
    CHECK_EQ(report.peak_reserved_bytes, counted(kFolder / (std::string(name) + ".tsv"))[2]);
  }
}

TEST_CASE("a run replays under other settings as PyTorch ran under them") {
  const ReplayReport report =
      replay(trace_of(read_file("plain-2.15"), 0), parse_alloc_conf("expandable_segments:True"), false);
  const std::vector<std::int64_t> really = counted(kFolder / "expandable-2.15.tsv");
  CHECK_EQ(report.peak_allocated_bytes, really[0]);
  CHECK_EQ(report.peak_reserved_bytes, really[2]);
}

TEST_CASE("what grows after every step is named with its line") {
  const Snapshot snapshot = read_file("leak-2.15");
  const SnapshotReport report = report_of(snapshot, 0, lines_of(snapshot));
  REQUIRE_EQ(report.growth.size(), 1);
  CHECK_EQ(report.growth[0].bytes_of_step, 4 << 20);  // torch.zeros(1 << 20) of fp32
  CHECK(report.growth[0].text.starts_with("train.py:"));
  const Snapshot other = read_file("plain-2.15");
  CHECK(report_of(other, 0, lines_of(other)).growth.empty());
}

TEST_CASE("what is alive is told apart by its life") {
  const Snapshot snapshot = read_file("plain-2.15");
  const SnapshotReport report = report_of(snapshot, 0, lines_of(snapshot));
  CHECK_EQ(report.steps.size(), 4);
  REQUIRE_EQ(report.kinds.size(), kSnapshotKinds);
  std::int64_t sum = 0;
  for (const std::int64_t bytes : report.kinds) sum += bytes;
  CHECK_EQ(sum, report.history.peak.allocated_bytes);
  // The net's parameters: 3*32*9 + 32, 2*32, 32*64*9 + 64 and 4096*1000 + 1000, in fp32 15.7 MiB; Adam has two tensors
  // of each and a step, in blocks of 512 bytes or what is left of a segment. What is kept has the buffers, too.
  const std::int64_t state = report.kinds[static_cast<std::size_t>(SnapshotKind::optimizer)];
  const std::int64_t kept = report.kinds[static_cast<std::size_t>(SnapshotKind::kept)];
  CHECK_EQ(state / (1 << 20), 32);
  CHECK_EQ(kept / (1 << 20), 16);
  std::int64_t alive = 0;
  for (const SnapshotShare& share : report.alive) alive += share.bytes;
  CHECK_EQ(alive, report.history.peak.allocated_bytes);
}

TEST_CASE("steps that nothing marks are told by what torch.optim allocates") {
  const Snapshot old = read_file("plain-2.1"), marked = read_file("plain-2.15");
  const SnapshotReport report = report_of(old, 0, lines_of(old)), with_marks = report_of(marked, 0, lines_of(marked));
  CHECK(old.marks.empty());
  CHECK(report.steps_by_lines);
  CHECK_FALSE(with_marks.steps_by_lines);
  CHECK_EQ(report.steps.size(), 4);
  REQUIRE_EQ(report.kinds.size(), kSnapshotKinds);
  // The same net and optimizer as in the other release; 2.1 keeps cuBLAS's workspace besides, 2 * 4096 + 8 * 16 KiB.
  const auto of_kind = [](const SnapshotReport& r, SnapshotKind kind) {
    return r.kinds[static_cast<std::size_t>(kind)];
  };
  CHECK_EQ(of_kind(report, SnapshotKind::optimizer), of_kind(with_marks, SnapshotKind::optimizer));
  CHECK_EQ(of_kind(report, SnapshotKind::kept), of_kind(with_marks, SnapshotKind::kept) + (8192 + 128) * 1024);
}

TEST_CASE("the phases of the peak's step, and the modules whose forwards allocated") {
  const Snapshot snapshot = read_file("plain-2.15");
  const SnapshotReport report = report_of(snapshot, 0, lines_of(snapshot));
  REQUIRE_EQ(report.phases.size(), 3);
  CHECK_EQ(report.phases[1].name, "backward");
  CHECK_EQ(report.phases[1].peak_bytes, report.history.peak.allocated_bytes);  // 128 MiB of the convolutions' gradients
  CHECK_LT(report.phases[2].peak_bytes, report.phases[0].peak_bytes);
  std::vector<std::string> modules;
  std::int64_t bytes = 0;
  for (const SnapshotShare& share : report.modules) modules.push_back(share.text), bytes += share.bytes;
  CHECK(std::ranges::find(modules, "torch.nn.modules.conv") != modules.end());
  CHECK(std::ranges::find(modules, "torch.nn.modules.container") == modules.end());  // it only calls the others
  CHECK_LT(bytes, report.history.peak.allocated_bytes);  // backward and the optimizer are in no forward
}

TEST_CASE("a replay is a snapshot, too: what PyTorch would have written under other settings") {
  const Snapshot recorded = read_file("plain-2.15");
  const Snapshot same = replayed_snapshot(recorded, 0, parse_alloc_conf(recorded.alloc_conf), recorded.alloc_conf);
  const SnapshotHistory history = follow(recorded, 0), again = follow(same, 0);
  CHECK(again.whole);
  CHECK(again.adds_up);
  CHECK_EQ(again.peak.allocated_bytes, history.peak.allocated_bytes);
  CHECK_EQ(again.peak.reserved_bytes, history.peak.reserved_bytes);
  CHECK_EQ(again.end.allocated_bytes, history.end.allocated_bytes);
  CHECK_EQ(report_of(same, 0, lines_of(same)).steps.size(), 4);
  const std::vector<std::int64_t> really = counted(kFolder / "expandable-2.15.tsv");
  const Snapshot other =
      replayed_snapshot(recorded, 0, parse_alloc_conf("expandable_segments:True"), "expandable_segments:True");
  CHECK(other.expandable_segments);
  CHECK_EQ(follow(other, 0).peak.allocated_bytes, really[0]);
  CHECK_EQ(follow(other, 0).peak.reserved_bytes, really[2]);
}

TEST_CASE("an error of memory says what was asked and what was there") {
  const Snapshot snapshot = read_file("oom-2.15");
  const SnapshotReport report = report_of(snapshot, 0, lines_of(snapshot));
  REQUIRE_EQ(report.failures.size(), 1);
  const SnapshotFailure& failure = report.failures[0];
  CHECK_EQ(failure.reading.asked_bytes, std::int64_t{200000} * 32 * 64 * 64 * 4);  // of the first convolution
  CHECK_GT(failure.reading.free_bytes, std::int64_t{12} << 30);
  REQUIRE_EQ(failure.ways.size(), 1);
  CHECK_FALSE(failure.ways[0].runs);
}

TEST_CASE("two GPUs have two histories") {
  const Snapshot snapshot = read_file("two-2.15");
  REQUIRE_EQ(snapshot.devices(), 2);
  const SnapshotHistory other = follow(snapshot, 1);
  CHECK(other.whole);
  CHECK_EQ(other.peak.allocated_bytes, 2 * (4 << 22));
  CHECK_EQ(other.end.allocated_bytes, 4 << 22);
}

TEST_CASE("nothing in a file is run") {
  using namespace std::string_literals;
  const std::string runs = "it asks Python to import or to call something";
  CHECK(refusal("\x80\x02"
                "cposix\nsystem\n."s)
            .find(runs) != std::string::npos);                                                  // GLOBAL
  CHECK(refusal("\x80\x04\x8c\x05posix\x8c\x06system\x93."s).find(runs) != std::string::npos);  // STACK_GLOBAL
  CHECK(refusal("\x80\x04})R."s).find(runs) != std::string::npos);                              // REDUCE
  CHECK(refusal("\x80\x04}}b."s).find(runs) != std::string::npos);                              // BUILD
  CHECK(refusal("\x80\x04(i__main__\nA\n."s).find(runs) != std::string::npos);                  // INST
  CHECK(refusal("\x80\x04}Q."s).find(runs) != std::string::npos);                               // BINPERSID
  CHECK(refusal("\x80\x04\x43\x01z."s).find("which no snapshot has") != std::string::npos);     // bytes
}

TEST_CASE("other pickles, and files that are cut short, are refused") {
  using namespace std::string_literals;
  CHECK_EQ(refusal("PK\x03\x04"s), "run.pickle: no pickle, at byte 1");
  CHECK_EQ(refusal(""s), "run.pickle: the file ends before its pickle does, at byte 0");
  CHECK_EQ(refusal("\x80\x04}."s), "run.pickle: a pickle that has neither segments nor device_traces, at byte 4");
  CHECK(refusal("\x80\x04]\x94h\x00\x61."s).find("holds itself") != std::string::npos);
  CHECK(refusal("\x80\x04Nr\xff\xff\xff\x7f."s).find("more to remember") != std::string::npos);
  CHECK(refusal("\x80\x04X\xff\xff\xff\x7f"s).find("a text of") != std::string::npos);
  CHECK(refusal("\x80\x04" + std::string(300'000, '(')).find("more marks") != std::string::npos);
  CHECK(refusal("\x80\x04" + std::string(300'000, 'N')).find("more values") != std::string::npos);
  CHECK(refusal("\x80\x04" + std::string(300'000, ']')).find("more values") != std::string::npos);
  const std::string whole = bytes_of(kFolder / "oom-2.8.pickle");
  for (std::size_t bytes = 0; bytes + 1 < whole.size(); bytes += 211)
    CHECK(refusal(std::string_view(whole).substr(0, bytes)).find("the file ends before") != std::string::npos);
}

TEST_CASE("a file with some other bytes is a snapshot or refused") {
  const std::string whole = bytes_of(kFolder / "cut-2.15.pickle");
  std::uint64_t state = 88172645463325252;
  const auto next = [&] { return state ^= state << 13, state ^= state >> 7, state ^= state << 17; };
  for (int i = 0; i < 400; ++i) {
    std::string other = whole;
    for (int k = 0; k < 3; ++k) other[next() % other.size()] = static_cast<char>(next());
    CHECK_NOTHROW(refusal(other));  // neither a crash nor a hang
  }
}
