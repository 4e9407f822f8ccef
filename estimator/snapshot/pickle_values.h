// The values of a pickle as its reader holds them: what a snapshot has many of is a number of Snapshot's own tables.
#pragma once

#include <cstdint>

namespace gpuplan {

enum class PickleKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  word,
  open_list,  // of PickleReader's lists, while something may be added
  open_dictionary,
  empty_list,
  frame,
  stack,   // a list of frames
  event,   // the last one
  events,  // a list of them: of one device
  block,
  blocks,
  segment,
  segments,
  traces,  // a list of lists of events
  mark,
  marks,
  other,  // which a snapshot has, too, and nothing asks for
};

constexpr std::uint32_t kNotKept = UINT32_MAX;

struct PickleValue {
  std::int64_t number = 0;           // of an integer; else of the table of its kind
  std::uint32_t kept_as = kNotKept;  // its number in the memo, while it is open
  PickleKind kind = PickleKind::other;
};

}  // namespace gpuplan
