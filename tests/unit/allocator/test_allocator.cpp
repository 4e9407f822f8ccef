// The caching allocator: one case per rule of c10/cuda/CUDACachingAllocator.cpp, derived by hand from its
// text, and random histories against an independent checker. Recorded histories are in test_replay.cpp.
#include "estimator/allocator/allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "tests/support/block_checker.h"

using namespace gpuplan;

namespace {

constexpr std::int64_t kKiB = 1 << 10;
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

// An allocator over its own segments, with places relative to the first address.
struct Bench {
  explicit Bench(const AllocatorSettings& settings = {}, std::int64_t capacity = INT64_MAX)
      : segments(capacity), allocator(segments, settings), base(ArithmeticSegments().reserve(0)) {}
  BlockId allocate(std::int64_t bytes, std::int64_t stream = 0) { return allocator.allocate(bytes, stream); }
  std::int64_t place(BlockId b) const { return static_cast<std::int64_t>(allocator.address(b) - base); }

  ArithmeticSegments segments;
  CachingAllocator allocator;
  std::uint64_t base;
};

AllocatorSettings conf(const char* text) { return parse_alloc_conf(text); }

std::int64_t charged(std::int64_t bytes, const AllocatorSettings& settings = {}) {
  Bench b(settings);
  return b.allocator.charged_bytes(b.allocate(bytes));
}

std::int64_t reserved_by(std::int64_t bytes, const AllocatorSettings& settings = {}) {
  Bench b(settings);
  b.allocate(bytes);
  return b.allocator.reserved_bytes();
}

}  // namespace

TEST_CASE("allocator: sizes are rounded up to 512 bytes") {
  CHECK(charged(1) == 512);
  CHECK(charged(512) == 512);
  CHECK(charged(513) == 1024);
  CHECK(charged(kMiB - 1) == kMiB);
}

TEST_CASE("allocator: 0 bytes take no block") {
  Bench b;
  CHECK(b.allocate(0) == kNoBlock);
  b.allocator.release(kNoBlock);
  CHECK(b.allocator.reserved_bytes() == 0);
}

TEST_CASE("allocator: impossible sizes are errors") {
  Bench b;
  CHECK_THROWS_AS(b.allocate(-1), Error);
  CHECK_THROWS_AS(b.allocate(INT64_MAX), Error);
}

TEST_CASE("allocator: segment sizes") {
  CHECK(reserved_by(1) == 2 * kMiB);
  CHECK(reserved_by(kMiB) == 2 * kMiB);
  CHECK(reserved_by(kMiB + 1) == 20 * kMiB);
  CHECK(reserved_by(8519680) == 20 * kMiB);  // the cuBLAS workspace
  CHECK(reserved_by(10 * kMiB - 512) == 20 * kMiB);
  CHECK(reserved_by(10 * kMiB) == 10 * kMiB);
  CHECK(reserved_by(10 * kMiB + 1) == 12 * kMiB);
  CHECK(reserved_by(33554432) == 32 * kMiB);  // Hopper's cuBLAS workspace
}

TEST_CASE("allocator: large_segment_size_mb") {
  const AllocatorSettings settings = conf("large_segment_size_mb:12");
  CHECK(reserved_by(2 * kMiB, settings) == 12 * kMiB);
  CHECK(reserved_by(20 * kMiB, settings) == 20 * kMiB);
}

TEST_CASE("allocator: a small block is split from 512 bytes of rest on") {
  Bench b;
  const BlockId first = b.allocate(kMiB);
  const BlockId second = b.allocate(kMiB - 512);
  CHECK(b.place(second) == b.place(first) + kMiB);
  CHECK(b.place(b.allocate(512)) == 2 * kMiB - 512);
  CHECK(b.allocator.reserved_bytes() == 2 * kMiB);
}

TEST_CASE("allocator: a large block is split only for a rest above 1 MiB") {
  Bench b;
  CHECK(b.allocator.charged_bytes(b.allocate(11 * kMiB)) == 12 * kMiB);  // rest 1 MiB: stays, and is charged
  CHECK(b.allocator.charged_bytes(b.allocate(13 * kMiB - 512)) == 13 * kMiB - 512);  // rest 1 MiB + 512
  CHECK(b.allocator.requested_bytes() == 24 * kMiB - 512);
}

TEST_CASE("allocator: the smallest block that fits, of equals the one at the lowest address") {
  Bench b;
  const BlockId wide = b.allocate(16 * kMiB);
  const BlockId narrow_first = b.allocate(12 * kMiB);
  const BlockId narrow_second = b.allocate(12 * kMiB);
  const std::int64_t place_wide = b.place(wide), place_first = b.place(narrow_first),
                     place_second = b.place(narrow_second);
  b.allocator.release(narrow_second);
  b.allocator.release(wide);
  b.allocator.release(narrow_first);
  CHECK(b.place(b.allocate(12 * kMiB - 600)) == place_first);
  CHECK(b.place(b.allocate(11 * kMiB)) == place_second);
  CHECK(b.place(b.allocate(11 * kMiB)) == place_wide);
}

TEST_CASE("allocator: small requests never use the large pool") {
  Bench b;
  b.allocator.release(b.allocate(5 * kMiB));
  b.allocate(kMiB);
  CHECK(b.allocator.reserved_bytes() == 22 * kMiB);
}

TEST_CASE("allocator: free neighbours merge on both sides") {
  Bench b;
  std::vector<BlockId> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(b.allocate(512 * kKiB));
  b.allocator.release(blocks[0]);
  b.allocator.release(blocks[2]);
  b.allocator.release(blocks[1]);
  CHECK(b.allocator.largest_free_bytes() == 1536 * kKiB);
  CHECK(b.place(b.allocate(kMiB)) == 0);
  b.allocator.release(blocks[3]);
  CHECK(b.allocator.largest_free_bytes() == kMiB);
}

TEST_CASE("allocator: a use is an allocation and its release") {
  const auto same = [](const CachingAllocator& a, const CachingAllocator& b) {
    const auto readings = [](const CachingAllocator& of) {
      return std::array{of.allocated_bytes(),           of.requested_bytes(),      of.reserved_bytes(),
                        of.inactive_split_bytes(),      of.peak_allocated_bytes(), of.peak_requested_bytes(),
                        of.peak_inactive_split_bytes(), of.segment_count(),        of.retry_count()};
    };
    const auto blocks = [](const CachingAllocator& of) {
      std::vector<std::pair<std::uint64_t, std::int64_t>> all;
      for (const SegmentView& segment : of.segments())
        for (const BlockView& block : segment.blocks) all.emplace_back(block.address, block.requested_bytes);
      return all;
    };
    return readings(a) == readings(b) && blocks(a) == blocks(b);
  };
  for (const char* text : {"", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:4"}) {
    CAPTURE(text);
    std::mt19937 random(7);
    Bench once(conf(text), 4 * kGiB), twice(conf(text), 4 * kGiB);
    std::vector<std::pair<BlockId, BlockId>> live;
    std::int64_t used = 0;
    for (int i = 0; i < 3000; ++i) {
      const std::int64_t bytes = random() % 2 == 0 ? random() % (64 * kMiB) : random() % (2 * kMiB);
      if (random() % 3 == 0 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        once.allocator.release(live.back().first);
        twice.allocator.release(live.back().second);
        live.pop_back();
      } else if (random() % 2 == 0) {
        const std::optional<std::int64_t> charge = once.allocator.use(bytes);
        const BlockId b = twice.allocate(bytes);
        if (b == kOutOfMemory) break;
        if (charge) CHECK_EQ(*charge, twice.allocator.charged_bytes(b));
        used += charge ? 1 : 0;
        twice.allocator.release(b);
        if (!charge) once.allocator.release(once.allocate(bytes));
      } else {
        live.emplace_back(once.allocate(bytes), twice.allocate(bytes));
        if (live.back().first == kOutOfMemory) break;
      }
      REQUIRE(same(once.allocator, twice.allocator));
    }
    CHECK((used > 100) == (*text == '\0'));
  }
}

TEST_CASE("allocator: streams share nothing") {
  Bench b;
  b.allocator.release(b.allocate(kKiB, 1));
  CHECK(b.place(b.allocate(kKiB, 2)) == 2 * kMiB);
  CHECK(b.place(b.allocate(kKiB, 1)) == 0);
}

TEST_CASE("allocator: peaks are running and can be reset") {
  Bench b;
  b.allocator.release(b.allocate(1000));
  b.allocate(100);
  CHECK(b.allocator.peak_allocated_bytes() == 1024);
  CHECK(b.allocator.peak_requested_bytes() == 1000);
  b.allocator.reset_peaks();
  CHECK(b.allocator.peak_allocated_bytes() == 512);
  CHECK(b.allocator.peak_requested_bytes() == 100);
  CHECK(b.allocator.peak_reserved_bytes() == 2 * kMiB);
}

TEST_CASE("allocator: inactive split bytes are what is free in segments in use") {
  Bench b;
  const BlockId block = b.allocate(3 * kMiB);
  CHECK(b.allocator.inactive_split_bytes() == 17 * kMiB);
  const BlockId second = b.allocate(4 * kMiB);
  CHECK(b.allocator.inactive_split_bytes() == 13 * kMiB);
  b.allocator.release(block);
  CHECK(b.allocator.inactive_split_bytes() == 16 * kMiB);
  b.allocator.release(second);
  CHECK(b.allocator.inactive_split_bytes() == 0);
  CHECK(b.allocator.peak_inactive_split_bytes() == 17 * kMiB);
}

TEST_CASE("allocator: what another stream has used is free when the next block is asked for") {
  // DeviceCachingAllocator::free, whose stream_uses are not empty: allocated_bytes at once, all else in process_events,
  // which malloc calls first.
  Bench b;
  const BlockId first = b.allocate(3 * kMiB);
  b.allocator.release_later(first);
  CHECK_EQ(b.allocator.allocated_bytes(), 0);
  CHECK_EQ(b.allocator.requested_bytes(), 3 * kMiB);
  const BlockId second = b.allocate(2 * kMiB);
  CHECK_EQ(b.place(second), 0);  // where the first one was
  CHECK_EQ(b.allocator.requested_bytes(), 2 * kMiB);
  CHECK_EQ(b.allocator.peak_allocated_bytes(), 3 * kMiB);
  b.allocator.release_later(second);
  b.allocator.empty_cache();  // waits for events
  CHECK_EQ(b.allocator.reserved_bytes(), 0);
}

TEST_CASE("allocator: empty_cache gives back segments that are wholly free") {
  Bench b;
  const BlockId kept = b.allocate(kKiB);
  b.allocator.release(b.allocate(2 * kKiB));  // in the same segment
  b.allocator.release(b.allocate(30 * kMiB));
  b.allocator.empty_cache();
  CHECK(b.allocator.reserved_bytes() == 2 * kMiB);
  CHECK(b.allocator.segment_count() == 1);
  b.allocator.release(kept);
  b.allocator.empty_cache();
  CHECK(b.allocator.reserved_bytes() == 0);
  CHECK(b.segments.used_bytes() == 0);
}

TEST_CASE("allocator: no room empties the cache and tries again") {
  Bench b({}, 40 * kMiB);
  b.allocator.release(b.allocate(30 * kMiB));
  CHECK(b.allocate(31 * kMiB) != kOutOfMemory);  // 32 MiB: only without the cached 30
  CHECK(b.allocator.reserved_bytes() == 32 * kMiB);
  CHECK(b.allocator.retry_count() == 1);
}

TEST_CASE("allocator: out of memory is a value with the readings PyTorch prints") {
  Bench b({}, 40 * kMiB);
  b.allocate(30 * kMiB);
  CHECK(b.allocate(11 * kMiB) == kOutOfMemory);
  const OutOfMemory& oom = b.allocator.out_of_memory();
  CHECK(oom.tried_bytes == 12 * kMiB);
  CHECK(oom.requested_bytes == 11 * kMiB);
  CHECK(oom.allocated_bytes == 30 * kMiB);
  CHECK(oom.reserved_bytes == 30 * kMiB);
  CHECK(b.allocate(10 * kMiB) != kOutOfMemory);  // it goes on
}

TEST_CASE("allocator: the memory fraction limits what is reserved") {
  AllocatorSettings settings;
  settings.memory_limit_bytes = 20 * kMiB;
  Bench b(settings);
  CHECK(b.allocate(20 * kMiB) != kOutOfMemory);
  CHECK(b.allocate(1) == kOutOfMemory);
}

TEST_CASE("allocator: max_split_size_mb keeps big blocks whole and for big requests") {
  Bench b(conf("max_split_size_mb:32"));
  const BlockId big = b.allocate(40 * kMiB);
  b.allocator.release(big);
  CHECK(b.place(b.allocate(12 * kMiB)) == 40 * kMiB);  // smaller than 32 MiB: not from a block of 40
  // Big requests take a cached block of less than 20 MiB more, whole.
  const BlockId reused = b.allocate(33 * kMiB);
  CHECK(b.place(reused) == 0);
  CHECK(b.allocator.charged_bytes(reused) == 40 * kMiB);
}

TEST_CASE("allocator: max_non_split_rounding_mb bounds what a big block may waste") {
  for (const auto& [text, expected] :
       {std::pair{"max_split_size_mb:32", 60 * kMiB},
        std::pair{"max_split_size_mb:32,max_non_split_rounding_mb:21", std::int64_t{0}}}) {
    Bench b(conf(text));
    b.allocator.release(b.allocate(60 * kMiB));
    CHECK(b.place(b.allocate(40 * kMiB)) == expected);  // 20 MiB too many
  }
}

TEST_CASE("allocator: under max_split_size_mb no room releases big cached blocks first") {
  Bench b(conf("max_split_size_mb:32"), 200 * kMiB);
  const BlockId one = b.allocate(40 * kMiB), two = b.allocate(80 * kMiB), three = b.allocate(60 * kMiB);
  for (const BlockId block : {one, two, three}) b.allocator.release(block);
  SUBCASE("the smallest that is big enough") {
    b.allocate(38 * kMiB);  // takes the 40, whole
    b.allocate(48 * kMiB);  // takes the 60
    CHECK(b.allocator.reserved_bytes() == 180 * kMiB);
    b.allocate(50 * kMiB);  // 80 wastes 30: released, and a segment of 50 taken
    CHECK(b.allocator.reserved_bytes() == 150 * kMiB);
    CHECK(b.allocator.retry_count() == 0);
  }
  SUBCASE("or the largest ones until there is enough") {
    b.allocate(130 * kMiB);  // 80 + 60 go, the 40 stays
    CHECK(b.allocator.reserved_bytes() == 170 * kMiB);
    CHECK(b.allocator.retry_count() == 0);
  }
}

TEST_CASE("allocator: roundup_power2_divisions") {
  const AllocatorSettings four = conf("roundup_power2_divisions:4");
  CHECK(charged(1200, four) == 1536);  // not above 512 * 4: plain rounding
  CHECK(charged(2048, four) == 2048);
  CHECK(charged(2049, four) == 2560);                // steps of 2048 / 4
  CHECK(charged(1100 * kKiB, four) == 1280 * kKiB);  // 1024, 1280, 1536, 1792, 2048 KiB
  CHECK(charged(2 * kMiB, four) == 2 * kMiB);
  CHECK(charged(3000, conf("roundup_power2_divisions:1")) == 3072);  // 1: off
}

TEST_CASE("allocator: roundup_power2_divisions by interval") {
  const AllocatorSettings s = conf("roundup_power2_divisions:[1:2,4:8,>:0]");
  CHECK(charged(1100 * kKiB, s) == 1536 * kKiB);         // 1 to 2 MiB: 2 divisions
  CHECK(charged(5 * kMiB - 100 * kKiB, s) == 5 * kMiB);  // 4 to 8 MiB: steps of 512 KiB
  CHECK(charged(3 * kKiB + 1, s) == 4 * kKiB);           // below 1 MiB: as from 1 MiB
  CHECK(charged(9 * kMiB + 1, s) == 9 * kMiB + 512);     // above: none
}

TEST_CASE("allocator: garbage collection releases the older segments above the threshold") {
  // 78 MiB are reserved where a limit of 100 and a threshold of 0.5 want 50. The ages, in lookups since a free
  // segment was freed, are 2 and 1 and their mean 1.5: the older goes, and its 30 MiB are enough.
  AllocatorSettings settings = conf("garbage_collection_threshold:0.5");
  settings.memory_limit_bytes = 100 * kMiB;
  Bench b(settings);
  const BlockId older = b.allocate(30 * kMiB), newer = b.allocate(28 * kMiB);
  b.allocate(2 * kMiB);  // of 20: in use, so never a candidate
  b.allocator.release(older);
  b.allocate(3 * kMiB);  // a lookup that finds the rest of the 20
  b.allocator.release(newer);
  CHECK(b.allocator.reserved_bytes() == 78 * kMiB);
  b.allocate(32 * kMiB);
  CHECK(b.allocator.reserved_bytes() == (28 + 20 + 32) * kMiB);
  CHECK(b.allocator.retry_count() == 0);
}

TEST_CASE("allocator: without a memory fraction there is no garbage collection") {
  Bench b(conf("garbage_collection_threshold:0.5"), 100 * kMiB);
  b.allocator.release(b.allocate(60 * kMiB));
  b.allocate(2 * kMiB);  // fits
  CHECK(b.allocator.reserved_bytes() == 60 * kMiB);
}

TEST_CASE("expandable segments: pages are mapped as needed and blocks run across them") {
  Bench b(conf("expandable_segments:True"));
  const BlockId first = b.allocate(15 * kMiB);
  CHECK(b.allocator.reserved_bytes() == 20 * kMiB);
  const BlockId second = b.allocate(15 * kMiB);  // 5 MiB are there, one more page
  CHECK(b.place(second) == b.place(first) + 15 * kMiB);
  CHECK(b.allocator.reserved_bytes() == 40 * kMiB);
  b.allocate(kKiB);
  CHECK(b.allocator.reserved_bytes() == 42 * kMiB);  // small pages are 2 MiB
  CHECK(b.allocator.segment_count() == 0);
}

TEST_CASE("expandable segments: large blocks are split from 512 bytes of rest on") {
  Bench b(conf("expandable_segments:True"));
  CHECK(b.allocator.charged_bytes(b.allocate(20 * kMiB - 512)) == 20 * kMiB - 512);
}

TEST_CASE("expandable segments: a block that can grow is the last choice") {
  Bench b(conf("expandable_segments:True"));
  const BlockId first = b.allocate(6 * kMiB);
  const BlockId wall = b.allocate(9 * kMiB);  // 5 MiB free at the end, before unmapped addresses
  b.allocator.release(first);
  CHECK(b.place(b.allocate(4 * kMiB)) == b.place(wall) - 6 * kMiB);  // from the 6, though 5 fits better
}

TEST_CASE("expandable segments: empty_cache unmaps whole free pages, and they are filled first again") {
  Bench b(conf("expandable_segments:True"));
  const BlockId first = b.allocate(10 * kMiB), hole = b.allocate(45 * kMiB), last = b.allocate(5 * kMiB);
  CHECK(b.allocator.reserved_bytes() == 60 * kMiB);
  const std::int64_t start = b.place(first);
  b.allocator.release(hole);  // 10 to 55: whole pages 20 to 40
  b.allocator.empty_cache();
  CHECK(b.allocator.reserved_bytes() == 40 * kMiB);
  CHECK(b.allocator.segments().size() == 2);
  CHECK(check_blocks(b.allocator, std::vector<LiveBlock>{{b.allocator.address(first), 10 * kMiB},
                                                         {b.allocator.address(last), 5 * kMiB}}) == "");
  CHECK(b.place(b.allocate(45 * kMiB)) == start + 10 * kMiB);
  CHECK(b.allocator.reserved_bytes() == 60 * kMiB);
}

TEST_CASE("expandable segments: no room unmaps free pages of the other pool") {
  Bench b(conf("expandable_segments:True"), 40 * kMiB);
  b.allocator.release(b.allocate(40 * kMiB));
  CHECK(b.allocate(kKiB) != kOutOfMemory);
  CHECK(b.allocator.reserved_bytes() == 2 * kMiB);
  CHECK(b.allocate(39 * kMiB) == kOutOfMemory);
}

TEST_CASE("expandable segments: a range that is full is followed by another") {
  AllocatorSettings settings = conf("expandable_segments:True");
  settings.expandable_range_bytes = 40 * kMiB;
  Bench b(settings);
  const BlockId first = b.allocate(30 * kMiB);
  const BlockId second = b.allocate(30 * kMiB);
  CHECK(b.place(second) == b.place(first) + 40 * kMiB);
  CHECK(b.allocate(100 * kMiB) != kOutOfMemory);
}

namespace {

// A random history: sizes of all classes, freed in random order, the cache emptied now and then.
std::string run_random_history(std::uint32_t seed, const AllocatorSettings& settings, int steps, int check_every) {
  struct Held {
    BlockId block;
    LiveBlock live;
  };
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  ArithmeticSegments segments(2 * kGiB);
  CachingAllocator a(segments, settings);
  std::vector<Held> held;
  const auto check = [&] {
    std::vector<LiveBlock> live;
    for (const Held& h : held) live.push_back(h.live);
    return check_blocks(a, live);
  };
  const auto release = [&](std::size_t i) {
    a.release(held[i].block);
    held[i] = held.back();
    held.pop_back();
  };
  for (int step = 0; step < steps; ++step) {
    if (!held.empty() && below(100) < 45) {
      release(below(static_cast<std::uint32_t>(held.size())));
    } else {
      const std::int64_t bytes = 1 + below(1U << (9 + below(18)));
      const BlockId block = a.allocate(bytes, below(8) == 0 ? 7 : 0);
      if (block != kOutOfMemory) held.push_back({block, {a.address(block), bytes}});
    }
    if (below(64) == 0) a.empty_cache();
    if (step % check_every == 0)
      if (std::string why = check(); !why.empty()) return why;
  }
  while (!held.empty()) release(held.size() - 1);
  if (std::string why = check(); !why.empty()) return why;
  a.empty_cache();
  return a.reserved_bytes() == 0 && segments.used_bytes() == 0 ? "" : "memory is left";
}

}  // namespace

TEST_CASE("allocator: 10,000 random histories without an overlap or a leak") {
  const AllocatorSettings settings[] = {{},
                                        conf("expandable_segments:True"),
                                        conf("max_split_size_mb:21"),
                                        conf("roundup_power2_divisions:[1:4,4:2,>:8]"),
                                        conf("large_segment_size_mb:12,max_split_size_mb:16")};
  for (std::uint32_t seed = 0; seed < 10'000; ++seed) {
    const std::string why = run_random_history(seed, settings[seed % 5], 60, 20);
    CAPTURE(seed);
    REQUIRE(why == "");
  }
}

TEST_CASE("allocator: long random histories, checked at every step") {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const std::string why =
        run_random_history(seed, seed % 2 == 0 ? conf("") : conf("expandable_segments:True"), 2000, 1);
    CAPTURE(seed);
    REQUIRE(why == "");
  }
}

TEST_CASE("allocator: each cached placement is the best fit of what is free") {
  // Looks at the snapshot before each allocation: the least (bytes, address) that fits, or a new segment.
  std::mt19937 random(1);
  for (int history = 0; history < 300; ++history) {
    ArithmeticSegments segments;
    CachingAllocator a(segments);
    std::vector<BlockId> held;
    for (int step = 0; step < 60; ++step) {
      if (!held.empty() && random() % 2 == 0) {
        std::swap(held[random() % held.size()], held.back());
        a.release(held.back());
        held.pop_back();
        continue;
      }
      const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % (1U << (9 + random() % 16)));
      const std::int64_t size = (bytes + 511) / 512 * 512;
      BlockView best;
      std::uint64_t end = 0;
      for (const SegmentView& segment : a.segments()) {
        end = segment.address + static_cast<std::uint64_t>(segment.bytes);
        for (const BlockView& block : segment.blocks) {
          if (block.allocated || block.bytes < size || segment.small != (size <= kMiB)) continue;
          if (best.bytes == 0 || block.bytes < best.bytes) best = block;  // addresses ascend
        }
      }
      held.push_back(a.allocate(bytes));
      const std::uint64_t address = a.address(held.back());
      REQUIRE((best.bytes == 0 ? address >= end : address == best.address));
    }
  }
}

TEST_CASE("allocator: best fit among many free blocks of nearly one size") {
  // Blocks of 2 MiB and a little, each followed by one that stays so that nothing merges, against a std::set.
  std::mt19937 random(3);
  const auto nearly_2_mib = [&] { return 2 * kMiB + 512 * static_cast<std::int64_t>(random() % 60); };
  ArithmeticSegments segments;
  CachingAllocator a(segments);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 1000; ++i) {
    blocks.push_back(a.allocate(nearly_2_mib()));
    a.allocate(2 * kMiB);
  }
  std::set<std::pair<std::int64_t, std::uint64_t>> free;
  const auto list_free = [&] {
    free.clear();
    for (const SegmentView& segment : a.segments())
      for (const BlockView& block : segment.blocks)
        if (!block.allocated) free.emplace(block.bytes, block.address);
  };
  std::size_t compared = 0;
  for (int round = 0; round < 3; ++round) {
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (std::size_t i = 100; i < blocks.size(); ++i) a.release(blocks[i]);
    blocks.resize(100);
    list_free();
    for (int i = 0; i < 900; ++i) {
      const std::int64_t bytes = nearly_2_mib();
      blocks.push_back(a.allocate(bytes));
      const auto best = free.lower_bound({bytes, 0});
      if (best == free.end() || best->first > bytes + kMiB) {
        list_free();  // a new segment or a split
      } else {
        REQUIRE(a.address(blocks.back()) == best->second);
        free.erase(best);
        ++compared;
      }
    }
  }
  CHECK(compared > 2000);
}

TEST_CASE("allocator: many live blocks, freed in random order, merge into whole segments") {
  ArithmeticSegments segments;
  CachingAllocator a(segments);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 200'000; ++i) blocks.push_back(a.allocate(512));
  CHECK(a.allocated_bytes() == 102'400'000);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  for (std::size_t i = 0; i < blocks.size() / 2; ++i) a.release(blocks[i]);
  for (std::size_t i = 0; i < blocks.size() / 2; ++i) blocks[i] = a.allocate(512);
  CHECK(a.reserved_bytes() == (102'400'000 + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
  for (const BlockId block : blocks) a.release(block);
  CHECK(a.largest_free_bytes() == 2 * kMiB);
  a.empty_cache();
  CHECK(a.reserved_bytes() == 0);
}
