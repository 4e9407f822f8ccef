// NCCL's entry points for communicators; nccl_memory.cpp and nccl_collectives.cpp have the others.
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "validate/shadow/runtime/nccl_communicator.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

constexpr const char kOurId[] = "gpuplan";
// Where the program has no NCCL of its own, which PyTorch's wheels always bring: what PyTorch 2.8 was built with.
constexpr int kVersionWithoutLibrary = 22703;

std::string hexadecimal(const char* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
    text += digits;
  }
  return text;
}

// An id of another library's making ends up in a name, too.
std::string name_of_id(const NcclUniqueId& id) { return hexadecimal(id.internal + sizeof kOurId, 16); }

bool peers_are_real() { return settings().peers == Peers::real; }

// Runs `make` and stores what it returns.
template <typename F>
int create(Communicator** communicator, F&& make) {
  try {
    *communicator = make();
    return kNcclSuccess;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpuplan shadow: NCCL communicator: %s\n", error.what());
    return kNcclSystemError;
  }
}

int join(Communicator** communicator, int ranks, const NcclUniqueId& id, int rank) {
  if (communicator == nullptr || ranks < 1 || rank < 0 || rank >= ranks) return kNcclInvalidArgument;
  return create(communicator,
                [&] { return join_communicator(name_of_id(id), ranks, rank, current_device(), peers_are_real()); });
}

// What a rank tells the others of a communicator that is to be split.
struct Choice {
  int color;
  int key;
};

// Every rank's choice, by rank.
std::optional<std::vector<Choice>> choices(Communicator& parent, const std::string& subject, Choice own) {
  std::vector<Choice> all(static_cast<std::size_t>(parent.ranks), own);
  parent.mailbox->post(subject, parent.rank, others_of(parent), make_message(&own, sizeof own));
  for (const int rank : others_of(parent)) {
    const std::optional<Message> message = wait_for(parent, subject, rank, "ncclCommSplit");
    if (!message || message->size != sizeof own) return std::nullopt;
    Choice theirs{0, 0};
    if (message->bytes() != nullptr) std::memcpy(&theirs, message->bytes(), sizeof theirs);
    all[static_cast<std::size_t>(rank)] = theirs;
  }
  return all;
}

// This rank's place in its part: ranks of one color by key, equal keys by rank.
struct Place {
  int ranks = 0;
  int rank = 0;
};

Place place_of(const std::vector<Choice>& all, int own_rank) {
  const Choice own = all[static_cast<std::size_t>(own_rank)];
  Place place;
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    const Choice each = all[static_cast<std::size_t>(rank)];
    if (each.color != own.color) continue;
    ++place.ranks;
    if (each.key < own.key || (each.key == own.key && rank < own_rank)) ++place.rank;
  }
  return place;
}

// The part that an imagined rank splits off next, where somebody said so.
std::mutex expected_mutex;
Place expected;

// What imagined ranks choose can only be said from outside; without that they choose as this one does.
Place imagined_place(const Communicator& parent) {
  const std::lock_guard lock(expected_mutex);
  if (expected.ranks > 0) return std::exchange(expected, Place());
  if (parent.ranks > 1) note_unknown("how imagined ranks split a communicator: all were taken to be in one part");
  return {.ranks = parent.ranks, .rank = parent.rank};
}

std::uint64_t next_split(Communicator& parent) {
  const std::lock_guard lock(parent.mutex);
  return parent.splits++;
}

Communicator* split(Communicator& parent, Choice own) {
  const std::string number = std::to_string(next_split(parent));
  std::optional<std::vector<Choice>> all;
  if (parent.mailbox && !(all = choices(parent, "split." + number, own))) return nullptr;
  if (own.color == kNcclSplitNoColor) return nullptr;
  const Place place = all ? place_of(*all, parent.rank) : imagined_place(parent);
  return join_communicator(parent.name + "-" + number + "-" + std::to_string(own.color), place.ranks, place.rank,
                           parent.device, parent.mailbox.has_value());
}

}  // namespace
}  // namespace gpuplan::shadow

using namespace gpuplan::shadow;

SHADOW_API int ncclGetVersion(int* version) {
  using Function = int (*)(int*);
  if (version == nullptr) return kNcclInvalidArgument;
  const auto real = reinterpret_cast<Function>(real_symbol("libnccl.so.", "ncclGetVersion"));
  if (real != nullptr) return real(version);
  *version = kVersionWithoutLibrary;
  return kNcclSuccess;
}

SHADOW_API int ncclGetUniqueId(NcclUniqueId* id) {
  if (id == nullptr) return kNcclInvalidArgument;
  *id = {};
  std::memcpy(id->internal, kOurId, sizeof kOurId);
  return getrandom(id->internal + sizeof kOurId, 16, 0) == 16 ? kNcclSuccess : kNcclSystemError;
}

SHADOW_API int ncclCommInitRank(Communicator** communicator, int ranks, NcclUniqueId id, int rank) {
  return join(communicator, ranks, id, rank);
}

SHADOW_API int ncclCommInitRankConfig(Communicator** communicator, int ranks, NcclUniqueId id, int rank, void*) {
  return join(communicator, ranks, id, rank);
}

SHADOW_API int ncclCommInitRankScalable(Communicator** communicator, int ranks, int rank, int ids,
                                        const NcclUniqueId* id, void*) {
  if (ids < 1 || id == nullptr) return kNcclInvalidArgument;
  return join(communicator, ranks, *id, rank);
}

SHADOW_API int ncclCommInitAll(Communicator** communicators, int ranks, const int* devices) {
  NcclUniqueId id;
  if (communicators == nullptr || ranks < 1) return kNcclInvalidArgument;
  if (const int result = ncclGetUniqueId(&id); result != kNcclSuccess) return result;
  for (int rank = 0; rank < ranks; ++rank) {
    const int result = create(&communicators[rank], [&] {
      return join_communicator(name_of_id(id), ranks, rank, devices == nullptr ? rank : devices[rank], true);
    });
    if (result != kNcclSuccess) return result;
  }
  return kNcclSuccess;
}

// For the Python hook: the next communicator that ncclCommSplit makes in a world of imagined ranks has `ranks` ranks,
// of which this is `rank`.
SHADOW_API void gpuplan_shadow_expect_split(int ranks, int rank) {
  const std::lock_guard lock(expected_mutex);
  expected = {.ranks = ranks, .rank = rank};
}

SHADOW_API int ncclCommSplit(Communicator* parent, int color, int key, Communicator** part, void*) {
  if (parent == nullptr || part == nullptr) return kNcclInvalidArgument;
  *part = nullptr;
  const int result = create(part, [&] { return split(*parent, {.color = color, .key = key}); });
  if (result != kNcclSuccess) return result;
  return *part == nullptr && color != kNcclSplitNoColor ? kNcclRemoteError : kNcclSuccess;
}

SHADOW_API int ncclCommShrink(Communicator* parent, const int* excluded, int count, Communicator** part, void*, int) {
  if (parent == nullptr || part == nullptr || (count > 0 && excluded == nullptr)) return kNcclInvalidArgument;
  int ranks = parent->ranks, rank = parent->rank;
  for (int i = 0; i < count; ++i) {
    if (excluded[i] == parent->rank) return kNcclInvalidArgument;
    --ranks;
    if (excluded[i] < parent->rank) --rank;
  }
  return create(part, [&] {
    return join_communicator(parent->name + "-" + std::to_string(next_split(*parent)) + "-shrunk", ranks, rank,
                             parent->device, parent->mailbox.has_value());
  });
}

SHADOW_API int ncclCommGetUniqueId(Communicator* communicator, NcclUniqueId*) {
  return refuse_nccl(communicator, "ncclCommGetUniqueId (growing a communicator)");
}
SHADOW_API int ncclCommGrow(Communicator* communicator, int, const NcclUniqueId*, int, Communicator**, void*) {
  return refuse_nccl(communicator, "ncclCommGrow");
}

SHADOW_API int ncclCommFinalize(Communicator* communicator) {
  return communicator == nullptr ? kNcclInvalidArgument : kNcclSuccess;
}
SHADOW_API int ncclCommDestroy(Communicator* communicator) {
  if (communicator != nullptr) leave_communicator(communicator);
  return kNcclSuccess;
}
SHADOW_API int ncclCommAbort(Communicator* communicator) { return ncclCommDestroy(communicator); }
SHADOW_API int ncclCommRevoke(Communicator* communicator, int) { return ncclCommFinalize(communicator); }
SHADOW_API int ncclCommSuspend(Communicator* communicator, int) { return ncclCommFinalize(communicator); }
SHADOW_API int ncclCommResume(Communicator* communicator) { return ncclCommFinalize(communicator); }

SHADOW_API int ncclCommMemStats(Communicator* communicator, int, std::uint64_t* value) {
  if (communicator == nullptr || value == nullptr) return kNcclInvalidArgument;
  *value = 0;  // join_communicator has noted that NCCL's own memory is not counted
  return kNcclSuccess;
}

SHADOW_API const char* ncclGetErrorString(int result) {
  switch (result) {
    case kNcclSuccess: return "no error";
    case kNcclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case kNcclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case kNcclInternalError: return "internal error - please report this issue to the NCCL developers";
    case kNcclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case kNcclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case kNcclRemoteError: return "remote process exited or there was a network error";
    case kNcclInProgress: return "NCCL operation in progress";
    case kNcclTimeout: return "timeout";
    default: return "unknown result code";
  }
}

SHADOW_API const char* ncclGetLastError(Communicator*) { return last_nccl_error(); }

SHADOW_API int ncclCommGetAsyncError(Communicator* communicator, int* error) {
  if (communicator == nullptr || error == nullptr) return kNcclInvalidArgument;
  const std::lock_guard lock(communicator->mutex);
  *error = communicator->asynchronous_error;
  return kNcclSuccess;
}

SHADOW_API int ncclCommCount(const Communicator* communicator, int* count) {
  if (communicator == nullptr || count == nullptr) return kNcclInvalidArgument;
  *count = communicator->ranks;
  return kNcclSuccess;
}
SHADOW_API int ncclCommCuDevice(const Communicator* communicator, int* device) {
  if (communicator == nullptr || device == nullptr) return kNcclInvalidArgument;
  *device = communicator->device;
  return kNcclSuccess;
}
SHADOW_API int ncclCommUserRank(const Communicator* communicator, int* rank) {
  if (communicator == nullptr || rank == nullptr) return kNcclInvalidArgument;
  *rank = communicator->rank;
  return kNcclSuccess;
}

SHADOW_API int ncclRedOpCreatePreMulSum(int* operation, const void* scalar, int type, int residence,
                                        Communicator* communicator) {
  const std::size_t bytes = nccl_size_of(type);
  if (operation == nullptr || scalar == nullptr || communicator == nullptr || bytes == 0) return kNcclInvalidArgument;
  if (residence == kNcclScalarOnDevice && !is_known(scalar, bytes)) {
    note_unknown("ncclRedOpCreatePreMulSum: a factor that a kernel computed is taken as 0");
  }
  std::array<std::byte, sizeof(double)> value{};
  copy_memory(value.data(), scalar, bytes);
  const double factor = read_element(value.data(), type);
  const std::lock_guard lock(communicator->mutex);
  std::vector<Reduction>& reductions = communicator->reductions;
  const auto same = std::find_if(reductions.begin(), reductions.end(), [&](const Reduction& r) {
    return r.factor == factor || (std::isnan(r.factor) && std::isnan(factor));
  });
  *operation = kNcclBuiltInReductions + static_cast<int>(same - reductions.begin());
  if (same == reductions.end()) reductions.push_back({.kind = kNcclSum, .factor = factor});
  return kNcclSuccess;
}
// A number stays valid, as operations in flight may name it, and equal factors share one: FSDP makes and destroys one
// for every reduction.
SHADOW_API int ncclRedOpDestroy(int, Communicator*) { return kNcclSuccess; }
