// Where device memory lies, against what an H200's driver answered: tests/reference/h200/questions/addresses.plain.tsv.
#include "estimator/allocator/driver_addresses.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <string>

namespace gpuplan {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::uint64_t kTop = std::uint64_t{1} << 40;

}  // namespace

TEST_CASE("memory lies where an H200's driver put it") {
  std::ifstream file(GPUPLAN_SOURCE_DIR "/tests/reference/h200/questions/addresses.plain.tsv");
  REQUIRE(file);
  std::string call;
  std::getline(file, call);  // the heading
  // The context's own windows lie above the first new one, at other distances.
  constexpr std::uint64_t kNewest = 0x7fc42e000000, kOurs = kTop - 64 * kMiB;
  DriverAddresses addresses(kTop);
  std::map<std::uint64_t, std::pair<std::uint64_t, std::int64_t>> ours;  // address and bytes, by the driver's address
  std::int64_t bytes = 0;
  std::uint64_t address = 0;
  int calls = 0;
  while (file >> call >> bytes >> address) {
    ++calls;
    CAPTURE(calls);
    if (call == "free") {
      addresses.release(ours.at(address).first, ours.at(address).second);
      ours.erase(address);
      continue;
    }
    const std::uint64_t placed = addresses.place(bytes);
    ours[address] = {placed, bytes};
    if (address >= kNewest)
      CHECK(placed >= kOurs);
    else
      CHECK(kOurs - placed == kNewest - address);
  }
  CHECK(calls == 209);
}

TEST_CASE("a window is below the one before, and a gap is used before a window is made") {
  DriverAddresses addresses(kTop);
  const std::uint64_t large = addresses.place(148 * kMiB), next = addresses.place(394 * kMiB);
  CHECK(kTop - large == 224 * kMiB);  // the context's two windows, and one of 160 MiB
  CHECK(large - next == 416 * kMiB);
  CHECK(addresses.place(20 * kMiB) == next + 394 * kMiB);  // the lowest of the gaps of 22, 12, 2 and 24 MiB
  CHECK(addresses.place(20 * kMiB) == kTop - 24 * kMiB);
  CHECK(addresses.place(1) == next + 414 * kMiB);
  addresses.release(next, 394 * kMiB);
  CHECK(addresses.place(394 * kMiB) == next);
}

TEST_CASE("an empty window goes, and its addresses are used again") {
  DriverAddresses addresses(kTop);
  const std::uint64_t first = addresses.place(100 * kMiB);
  addresses.release(first, 100 * kMiB);
  CHECK(addresses.place(100 * kMiB) == first);
  const std::uint64_t alone = addresses.place_alone(33 * kMiB);
  CHECK(first - alone == 64 * kMiB);
  CHECK(addresses.place(28 * kMiB) == first + 100 * kMiB);  // what an expandable segment has beyond its end is nobody's
  addresses.release(alone, 33 * kMiB);
  CHECK(addresses.place(64 * kMiB) == alone);
}

TEST_CASE("there is an end to addresses") {
  DriverAddresses addresses(1024 * kMiB, 512 * kMiB);
  CHECK(addresses.place(448 * kMiB) == 512 * std::uint64_t{kMiB});
  CHECK(addresses.place(32 * kMiB) == 0);
  CHECK(addresses.place_alone(2 * kMiB) == 0);
  CHECK(addresses.place(24 * kMiB) != 0);
}

}  // namespace gpuplan
