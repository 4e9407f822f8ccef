#include "tools/answers/viewer_files.h"

#include "estimator/report/snapshot_viewers.h"
#include "estimator/snapshot/write_snapshot.h"

namespace gpuplan {
namespace {

std::string folded(const Snapshot& snapshot) {
  std::string text;
  for (std::size_t device = 0; device < snapshot.devices(); ++device) text += snapshot_folded(snapshot, device);
  return text;
}

std::string rendered(const Snapshot& snapshot, Viewer viewer) {
  switch (viewer) {
    case Viewer::html: break;
    case Viewer::memviz: return snapshot_pickle(snapshot);
    case Viewer::trace: return snapshot_trace_events(snapshot);
    case Viewer::speedscope: return snapshot_speedscope(snapshot);
    case Viewer::folded: break;
  }
  return folded(snapshot);
}

}  // namespace

bool write_viewers(const std::vector<ViewerFile>& files, const std::function<Snapshot()>& make,
                   const std::function<std::string(const Snapshot&)>& page,
                   const std::function<TimedSnapshot()>& timed) {
  if (files.empty()) return false;
  const Snapshot snapshot = make();
  bool to_standard_output = false;
  for (const ViewerFile& file : files) {
    if (file.viewer == Viewer::trace && timed) {
      const TimedSnapshot of = timed();
      write_viewer_file(file, snapshot_trace_events(of.snapshot, of.operations));
    } else {
      write_viewer_file(file, file.viewer == Viewer::html ? page(snapshot) : rendered(snapshot, file.viewer));
    }
    to_standard_output = to_standard_output || file.path.empty();
  }
  return to_standard_output;
}

}  // namespace gpuplan
