#include "tests/cuda/events.h"

#include <algorithm>
#include <array>

#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

constexpr std::array kKinds{"segment",        "segment freed", "range",       "pages mapped",
                            "pages unmapped", "block",         "block freed", "kernel"};

std::string text(const Place& p) {
  return p.segment < 0 ? "nowhere" : std::to_string(p.segment) + "+" + std::to_string(p.offset);
}

}  // namespace

std::string text(const Event& e) {
  std::string out = kKinds[static_cast<std::size_t>(e.kind)];
  if (!e.what.empty()) out += " " + e.what;
  if (e.kind == Event::Kind::kernel) {
    for (const Place& p : e.operands) out += " " + text(p);
    return out;
  }
  return out + " at " + text(e.at) + ", " + std::to_string(e.bytes) + " bytes";
}

Place EventLog::place(std::uint64_t address) const {
  auto found = there_.upper_bound(address);
  if (found == there_.begin()) return {};
  --found;
  const Extent& segment = segments_ever[index(found->second)];
  if (!segment.holds(address, 0)) return {};
  return {found->second, static_cast<std::int64_t>(address - segment.address)};
}

void EventLog::add_segment(std::uint64_t address, std::int64_t bytes, Event::Kind kind) {
  if (address == 0) {
    events.push_back({kind, "refused", {}, bytes, {}});
    return;
  }
  there_[address] = static_cast<std::int32_t>(segments_ever.size());
  segments_ever.push_back({address, bytes});
  events.push_back({kind, "", place(address), bytes, {}});
}
void EventLog::segment_came(std::uint64_t address, std::int64_t bytes) {
  add_segment(address, bytes, Event::Kind::segment);
  if (address != 0) mapped_bytes += bytes;
}
void EventLog::range_came(std::uint64_t address, std::int64_t bytes) {
  add_segment(address, bytes, Event::Kind::range);
}
void EventLog::segment_left(std::uint64_t address, std::int64_t bytes) {
  events.push_back({Event::Kind::segment_freed, "", place(address), bytes, {}});
  mapped_bytes -= bytes;
  there_.erase(address);
}
void EventLog::pages(std::uint64_t address, std::int64_t bytes, bool came) {
  events.push_back({came ? Event::Kind::mapped : Event::Kind::unmapped, "", place(address), bytes, {}});
  mapped_bytes += came ? bytes : -bytes;
}
void EventLog::block(std::uint64_t address, std::int64_t bytes, bool came) {
  events.push_back({came ? Event::Kind::block : Event::Kind::block_freed, "", place(address), bytes, {}});
}
void EventLog::kernel(std::string what, const std::vector<std::uint64_t>& operands) {
  Event e{Event::Kind::kernel, std::move(what), {}, 0, {}};
  for (const std::uint64_t o : operands) e.operands.push_back(place(o));
  events.push_back(std::move(e));
}

}  // namespace gpuplan
