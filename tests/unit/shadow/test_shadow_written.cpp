// Which bytes of device memory are known: what a kernel can write, by the types in its mangled name (c++filt prints
// them), and what is forgotten then.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/answers.h"
#include "validate/shadow/runtime/launch_arguments.h"
#include "validate/shadow/runtime/written.h"

using namespace gpuplan::shadow;

extern "C" {
std::uint64_t gpuplan_shadow_write(void*, const void*, std::size_t);
int gpuplan_shadow_holds(const void*, std::uint64_t);
std::size_t gpuplan_shadow_answer(const std::int64_t*, std::size_t);
std::int64_t gpuplan_shadow_guesses(int);
}

namespace {

// A range of device memory that is given back.
struct Space {
  std::uintptr_t base = reserve_addresses(0, kGranularity);
  const void* at(std::size_t offset) const { return reinterpret_cast<const void*>(base + offset); }
  ~Space() { release_addresses(base); }
};

void touch(std::uintptr_t address) { forget_touched(std::array{address}); }

}  // namespace

TEST_CASE("shadow: a pointer to const is not written through, of an elementwise kernel only the first") {
  using enum Writes;
  // void nll<int>(float*, float const*, long const*)
  CHECK(writes_of("_Z3nllIiEvPfPKfPKl", 3) == std::vector{all, nothing, nothing});
  // plain(long*, long const*, D): whatever a structure holds may be written
  CHECK(writes_of("_Z5plainPlPKl1D", 3) == std::vector{all, nothing, all});
  // void vectorized_elementwise_kernel<4, F, std::array<char*, 2ul> >(int, F, std::array<char*, 2ul>): the function may
  // hold addresses, too; elementwise_kernel has all in one
  CHECK(writes_of("_Z29vectorized_elementwise_kernelILi4E1FSt5arrayIPcLm2EEEviT0_T1_", 3) ==
        std::vector{all, all, first});
  CHECK(writes_of("_Z18elementwise_kernelILi128ELi4E1FEviT1_", 2) == std::vector{all, all});
  // void n::elementwise_kernel<128, 4, g()::{lambda(int)#1}>(int, g()::{lambda(int)#1})
  CHECK(writes_of("_ZN1n18elementwise_kernelILi128ELi4EZ1gvEUliE_EEviT1_", 2) == std::vector{all, behind_strides});
  // void (anonymous namespace)::lam<use()::{lambda(int, int const*)#1}>(use()::{lambda(int, int const*)#1}, int const*,
  // void (*)(int, int const*)): commas and parentheses inside a type
  CHECK(writes_of("_ZN12_GLOBAL__N_13lamIZ3usevEUliPKiE_EEvT_S2_PFviS2_E", 3) == std::vector{all, nothing, all});
  CHECK(writes_of("triton_poi_fused_add_0", 2) == std::vector{all, all});  // says nothing
  CHECK(writes_of("_Z5plainPlPKl1D", 2) == std::vector{all, all});         // does not agree with the image
}

TEST_CASE("shadow: the addresses that a kernel can write at, inside structures, too") {
  const Space space;
  const std::array<std::uintptr_t, 3> pointers{space.base, 7, space.base + 512};
  const std::uintptr_t read = space.base + 1024;
  const int number = 5;
  std::array<void*, 3> arguments{const_cast<int*>(&number), const_cast<std::uintptr_t*>(pointers.data()),
                                 const_cast<std::uintptr_t*>(&read)};
  KernelResources kernel;
  kernel.parameters = {{0, 0, 4}, {1, 8, 24}, {2, 32, 8}};
  const auto written = [&](Writes structure, Writes pointer) {
    const auto found = written_addresses(kernel, {Writes::all, structure, pointer}, arguments.data());
    return std::vector(found.begin(), found.end());
  };
  CHECK(written(Writes::all, Writes::all) == std::vector{space.base, space.base + 512, read});
  CHECK(written(Writes::all, Writes::nothing) == std::vector{space.base, space.base + 512});
  CHECK(written(Writes::first, Writes::nothing) == std::vector{space.base});
  CHECK(written(Writes::but_first, Writes::nothing) == std::vector{space.base + 512});
  CHECK(written_addresses(kernel, {}, nullptr).empty());
}

TEST_CASE("shadow: among strides that nobody has set there can be addresses") {
  const Space space;
  std::array<std::uintptr_t, 81> lambda{};  // 648 bytes: three operands at 608, and a function of 16 bytes
  lambda[20] = space.base + 4096;
  lambda[76] = space.base;
  lambda[77] = space.base + 512;
  lambda[78] = space.base + 1024;
  std::array<void*, 1> arguments{lambda.data()};
  KernelResources kernel;
  kernel.parameters = {{0, 0, sizeof lambda}};
  const auto written = [&] {
    const auto found = written_addresses(kernel, {Writes::behind_strides}, arguments.data());
    return std::vector(found.begin(), found.end());
  };
  CHECK(written() == std::vector{space.base});
  lambda[78] = 7;  // something else: whatever looks like an address
  CHECK(written() == std::vector{space.base + 4096, space.base, space.base + 512});
}

TEST_CASE("shadow: bytes are forgotten once something was given their block's address") {
  const Space space;
  remember_written(space.at(0), 16);
  touch(space.base + 512);  // another block
  CHECK(is_known(space.at(0), 16));
  CHECK(is_known(space.at(4), 4));
  forget_parts();
  CHECK(is_known(space.at(0), 16));
  CHECK_FALSE(is_known(space.at(4), 4));
  touch(space.base);
  CHECK_FALSE(is_known(space.at(0), 16));
  remember_written(space.at(64), 16);  // behind the address, in the same block
  touch(space.base);
  CHECK_FALSE(is_known(space.at(64), 16));
  remember_written(space.at(0), 2048);  // a block of several units, touched inside
  touch(space.base + 1024);
  CHECK_FALSE(is_known(space.at(0), 2048));
}

TEST_CASE("shadow: reads that nobody knows are answered in order, then with zeros, which are counted") {
  const std::int64_t before = gpuplan_shadow_guesses(0), everywhere = gpuplan_shadow_guesses(1);
  const std::array<std::int64_t, 3> counts{7, 300, 9};
  CHECK(gpuplan_shadow_answer(counts.data(), counts.size()) == 0);
  std::int32_t narrow = -1;
  std::int64_t wide = -1;
  std::array<std::int64_t, 2> long_read{-1, -1};
  answer_read(&narrow, sizeof narrow);
  CHECK(narrow == 7);
  answer_read(long_read.data(), sizeof long_read);  // no count
  CHECK(long_read == std::array<std::int64_t, 2>{0, 0});
  answer_read(&wide, sizeof wide);
  CHECK(wide == 300);
  CHECK(gpuplan_shadow_answer(nullptr, 0) == 1);  // dropped
  answer_read(&wide, sizeof wide);
  CHECK(wide == 0);
  CHECK(gpuplan_shadow_guesses(0) == before + 2);
  CHECK(gpuplan_shadow_guesses(1) == everywhere + 2);
}

TEST_CASE("shadow: what Python knows is put where the GPU's result lies") {
  const Space space;
  const std::int64_t value = 42;
  const std::uint64_t first = gpuplan_shadow_write(const_cast<void*>(space.at(8)), &value, sizeof value);
  CHECK(is_known(space.at(8), sizeof value));
  CHECK(*static_cast<const std::int64_t*>(space.at(8)) == 42);
  CHECK(gpuplan_shadow_holds(space.at(8), first) == 1);
  const std::uint64_t second = gpuplan_shadow_write(const_cast<void*>(space.at(8)), &value, sizeof value);
  CHECK(gpuplan_shadow_holds(space.at(8), first) == 0);
  touch(space.base + 8);
  CHECK(gpuplan_shadow_holds(space.at(8), second) == 0);
  CHECK(lost_writes() == std::vector{space.base + 8});
  CHECK(lost_writes().empty());
}
