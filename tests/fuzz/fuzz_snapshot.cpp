// libFuzzer target: any bytes are either a snapshot of PyTorch's allocator or an Error; what is one is explained,
// replayed and drawn, and what is printed of it has no control character.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "estimator/allocator/replay.h"
#include "estimator/base/error.h"
#include "estimator/report/memory_page.h"
#include "estimator/report/snapshot_report_writers.h"
#include "estimator/snapshot/replayed_snapshot.h"
#include "estimator/snapshot/snapshot_trace.h"

namespace {

void expect_printable(const std::string& text) {
  for (const char c : text)
    if (c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')) std::abort();
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gpuplan;
  try {
    std::string_view left(reinterpret_cast<const char*>(data), size);
    const Snapshot snapshot = read_snapshot("fuzz.pickle", [&](char* to, std::size_t most) {
      const std::size_t bytes = left.copy(to, most);
      left.remove_prefix(bytes);
      return bytes;
    });
    SnapshotPage page{.file = snapshot.name, .alloc_conf = snapshot.alloc_conf, .devices = {}, .warnings = {}};
    const std::vector<SnapshotLine> lines = lines_of(snapshot);
    constexpr std::size_t kDevices = 4;
    for (std::size_t device = 0; device < std::min(snapshot.devices(), kDevices); ++device) {
      page.devices.push_back(report_of(snapshot, device, lines));
      (void)replay(trace_of(snapshot, device), {}, false);
      const Snapshot again = replayed_snapshot(snapshot, device, {}, "");
      if (follow(again, 0).peak.allocated_bytes < 0) std::abort();
      (void)memory_page_json(snapshot.name, snapshot, device, PagePart::peak_step);
    }
    expect_printable(snapshot_text(page, {}, 0));
    expect_printable(snapshot_csv(page));
    expect_printable(snapshot_json(page, "0"));
  } catch (const Error& error) {
    if (error.render().empty()) std::abort();
  }
  return 0;
}
