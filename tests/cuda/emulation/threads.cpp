#include "tests/cuda/emulation/threads.h"

#include <link.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tests/cuda/emulation/cuda_language.h"
#include "tests/cuda/emulation/fiber.h"
#include "validate/cuda/kernels/launch.cuh"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace gpuplan::emulation {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr std::size_t kMostShared = 227 << 10;  // a block's of a Hopper ("CUDA C++ Programming Guide", table 30)

// What lanes of a warp do together: the first to come opens it, the last to have read its results ends it.
struct Meeting {
  unsigned mask = 0, arrived = 0, left = 0;
  Place where;
  std::uint64_t values[kWarp] = {};
};

enum class State : std::uint8_t { running, ready, at_barrier, in_meeting, ended };

struct Thread {
  uint3 index{};
  State state = State::ready;
  Fiber* fiber = nullptr;
  Place where;
};

struct Block {
  void (*call)(const void*) = nullptr;
  const void* arguments = nullptr;
  std::vector<Thread> threads;
  std::vector<std::deque<Meeting>> warps;  // deque: a meeting stays where it is while others are opened
  std::deque<int> ready;
  int started = 0, ended = 0, current = 0;
  std::string failure;
};

struct Machine {
  Fiber own;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  Block block;
  unsigned char* dynamic = nullptr;
  GridCounts counts;
};
Machine& machine() {
  static auto* const instance = new Machine;
  return *instance;
}

std::string text_of(Place where) { return std::string(where.file) + ":" + std::to_string(where.line); }

bool same(Place a, Place b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

Fiber& running_fiber() { return *machine().block.threads[static_cast<std::size_t>(machine().block.current)].fiber; }

// Hands over to the scheduler; comes back when it makes the thread run again.
void give_way() {
  Machine& m = machine();
  ++m.counts.waits;
  const int me = m.block.current;
  running_fiber().switch_to(m.own);
  m.block.current = me;
  Thread& t = m.block.threads[static_cast<std::size_t>(me)];
  t.state = State::running;
  threadIdx = t.index;
}

// The block's failure is set. Nothing on this stack is destroyed any more: what would have to be is gone before.
[[noreturn]] void stop_block() {
  for (;;) running_fiber().switch_to(machine().own);
}

void wake(int thread) {
  Block& b = machine().block;
  b.threads[static_cast<std::size_t>(thread)].state = State::ready;
  b.ready.push_back(thread);
}

// A fiber runs thread after thread; where one waits, another fiber goes on with the next.
void run_threads() {
  Fiber::entered();
  Machine& m = machine();
  for (;;) {
    Fiber* const me = m.idle.back();
    m.idle.pop_back();
    Block& b = m.block;
    while (b.started < static_cast<int>(b.threads.size())) {
      const int number = b.current = b.started++;
      Thread& t = b.threads[static_cast<std::size_t>(number)];
      t.fiber = me;
      t.state = State::running;
      threadIdx = t.index;
      b.call(b.arguments);
      t.state = State::ended;
      ++b.ended;
    }
    m.idle.push_back(me);
    me->switch_to(m.own);
  }
}

void start_threads() {
  Machine& m = machine();
  if (m.idle.empty()) {
    m.fibers.push_back(std::make_unique<Fiber>(run_threads));
    m.idle.push_back(m.fibers.back().get());
  }
  m.own.switch_to(*m.idle.back());
}

// Where every thread that has not ended is at one barrier, they go on. Else what they wait for never comes.
bool release_barrier(std::string& why) {
  Block& b = machine().block;
  const Thread* first = nullptr;
  for (const Thread& t : b.threads) {
    if (t.state == State::ended) continue;
    if (first == nullptr) first = &t;
    if (t.state == State::at_barrier && first->state == State::at_barrier && same(t.where, first->where)) continue;
    why = "threads wait for each other: one at " + text_of(first->where) + ", another at " + text_of(t.where);
    return false;
  }
  for (std::size_t i = 0; i < b.threads.size(); ++i)
    if (b.threads[i].state == State::at_barrier) wake(static_cast<int>(i));
  return true;
}

struct Variables {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// This library's variables of a thread: the kernels' shared ones.
Variables shared_variables() {
  static thread_local char one;
  struct Search {
    const char* one;
    Variables found;
  } search{&one, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto* const s = static_cast<Search*>(data);
        const char* const begin = static_cast<const char*>(info->dlpi_tls_data);
        for (int i = 0; begin != nullptr && i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
          const std::size_t bytes = info->dlpi_phdr[i].p_memsz;
          if (s->one >= begin && s->one < begin + bytes) s->found = {info->dlpi_tls_data, bytes};
        }
        return 0;
      },
      &search);
  if (search.found.data == nullptr) throw Error("the kernels' shared variables were not found");
  return search.found;
}

void poison_shared(const Variables& variables, std::size_t dynamic) {
  constexpr int kNaN = 0xFF;
  std::memset(variables.data, kNaN, variables.bytes);
  if (dynamic > 0) std::memset(machine().dynamic, kNaN, dynamic);
}

void run_block() {
  Machine& m = machine();
  Block& b = m.block;
  b.started = b.ended = 0;
  b.ready.clear();
  for (auto& meetings : b.warps) meetings.clear();
  const int count = static_cast<int>(b.threads.size());
  while (b.ended < count && b.failure.empty()) {
    if (b.started < count) {
      start_threads();
    } else if (!b.ready.empty()) {
      const int next = b.ready.front();
      b.ready.pop_front();
      m.own.switch_to(*b.threads[static_cast<std::size_t>(next)].fiber);
    } else if (std::string why; !release_barrier(why)) {
      b.failure = why;
    }
  }
}

void check_configuration(dim3 grid, dim3 block, std::size_t shared) {
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64)
    throw Error("a block of " + std::to_string(threads) + " threads");
  if (grid.x == 0 || grid.x > INT32_MAX || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
    throw Error("a grid of " + std::to_string(grid.x) + " by " + std::to_string(grid.y) + " by " +
                std::to_string(grid.z) + " blocks");
  if (shared > kMostShared) throw Error(std::to_string(shared) + " bytes of shared memory");
}

void make_threads(dim3 block) {
  Block& b = machine().block;
  b.threads.clear();
  for (unsigned z = 0; z < block.z; ++z)
    for (unsigned y = 0; y < block.y; ++y)
      for (unsigned x = 0; x < block.x; ++x) b.threads.push_back({uint3{x, y, z}, State::ready, nullptr, {}});
  b.warps.assign((b.threads.size() + kWarp - 1) / kWarp, {});
}

}  // namespace

const GridCounts& grid_counts() { return machine().counts; }

void fail(const char* why, Place where) {
  machine().block.failure = why + (", at " + text_of(where));
  stop_block();
}

int lane() { return machine().block.current % kWarp; }

void wait_for_block(Place where) {
  Block& b = machine().block;
  Thread& me = b.threads[static_cast<std::size_t>(b.current)];
  me.state = State::at_barrier;
  me.where = where;
  give_way();
}

namespace {

// The open meeting of these lanes at this place, with the caller in it.
Meeting& join(unsigned mask, std::uint64_t value, Place where) {
  Block& b = machine().block;
  const unsigned me = 1U << lane();
  if ((mask & me) == 0) fail("a lane that its own mask leaves out", where);
  auto& meetings = b.warps[static_cast<std::size_t>(b.current / kWarp)];
  auto open = std::ranges::find_if(
      meetings, [&](const Meeting& m) { return m.mask == mask && m.arrived != mask && (m.arrived & me) == 0; });
  if (open == meetings.end()) {
    meetings.push_back({mask, 0, 0, where, {}});
    open = meetings.end() - 1;
  }
  Meeting& meeting = *open;
  if (!same(meeting.where, where)) {
    b.failure = "lanes of a warp meet at " + text_of(meeting.where) + " and at " + text_of(where);
    stop_block();
  }
  meeting.arrived |= me;
  meeting.values[lane()] = value;
  if (meeting.arrived != mask) {
    Thread& t = b.threads[static_cast<std::size_t>(b.current)];
    t.state = State::in_meeting;
    t.where = where;
    give_way();
    return meeting;
  }
  const int first = b.current / kWarp * kWarp;
  for (unsigned others = mask & ~me; others != 0; others &= others - 1) wake(first + std::countr_zero(others));
  return meeting;
}

void leave(Meeting& meeting) {
  Block& b = machine().block;
  meeting.left |= 1U << lane();
  auto& meetings = b.warps[static_cast<std::size_t>(b.current / kWarp)];
  while (!meetings.empty() && meetings.front().left == meetings.front().mask) meetings.pop_front();
}

}  // namespace

void exchange(unsigned mask, std::uint64_t value, std::uint64_t (&all)[32], Place where) {
  Meeting& meeting = join(mask, value, where);
  std::ranges::copy(meeting.values, all);
  leave(meeting);
}

unsigned vote(unsigned mask, bool yes, Place where) {
  Meeting& meeting = join(mask, yes ? 1 : 0, where);
  unsigned votes = 0;
  for (int i = 0; i < kWarp; ++i)
    if ((mask >> i & 1U) != 0 && meeting.values[i] != 0) votes |= 1U << i;
  leave(meeting);
  return votes;
}

}  // namespace gpuplan::emulation

namespace gpuplan::cuda {

unsigned char* dynamic_shared() { return emulation::machine().dynamic; }

void run_grid(dim3 grid, dim3 block, std::size_t shared, void (*thread)(const void* arguments), const void* arguments) {
  using namespace gpuplan::emulation;
  check_configuration(grid, block, shared);
  Machine& m = machine();
  const auto dynamic = std::make_unique<unsigned char[]>(shared);  // exactly so many: AddressSanitizer guards its ends
  m.dynamic = dynamic.get();
  m.block.call = thread;
  m.block.arguments = arguments;
  m.block.failure.clear();
  gridDim = grid;
  blockDim = block;
  make_threads(block);
  const Variables variables = shared_variables();
  ++m.counts.grids;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        poison_shared(variables, shared);
        run_block();
        ++m.counts.blocks;
        m.counts.threads += static_cast<std::int64_t>(m.block.threads.size());
        if (m.block.failure.empty()) continue;
        m.idle.clear();
        m.fibers.clear();
        throw Error(m.block.failure, ErrorKind::environment);
      }
}

}  // namespace gpuplan::cuda
