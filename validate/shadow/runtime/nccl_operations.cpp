// What NCCL's collectives do with small messages; see nccl_communicator.h.
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "validate/shadow/runtime/nccl_communicator.h"
#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

using Kind = Operation::Kind;

// An operation between its halves.
struct Posted {
  const Operation* operation;
  std::string subject;
  Message own;         // this rank's contribution, which an in-place operation overwrites
  std::size_t bytes;   // of `count` elements
  bool moves = false;  // small enough
};

bool is_point_to_point(Kind kind) { return kind == Kind::send || kind == Kind::receive; }

bool has_root(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
}

bool is_root(const Operation& o) { return o.communicator->rank == o.other; }

// How many blocks of `count` elements a rank contributes.
std::size_t blocks_contributed(const Operation& o) {
  switch (o.kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all: return static_cast<std::size_t>(o.communicator->ranks);
    case Kind::scatter: return is_root(o) ? static_cast<std::size_t>(o.communicator->ranks) : 0;
    case Kind::broadcast: return is_root(o) ? 1 : 0;
    case Kind::receive: return 0;
    default: return 1;
  }
}

// Ranks that need this one's contribution.
std::vector<int> readers_of(const Operation& o) {
  switch (o.kind) {
    case Kind::send: return {o.other};
    case Kind::receive: return {};
    case Kind::reduce:
    case Kind::gather: return is_root(o) ? std::vector<int>() : std::vector<int>{o.other};
    case Kind::broadcast:
    case Kind::scatter: return is_root(o) ? others_of(*o.communicator) : std::vector<int>();
    default: return others_of(*o.communicator);
  }
}

// Ranks whose contributions this one needs, itself among them.
std::vector<int> senders_of(const Operation& o) {
  switch (o.kind) {
    case Kind::send: return {};
    case Kind::receive: return {o.other};
    case Kind::broadcast:
    case Kind::scatter: return {o.other};
    case Kind::reduce:
    case Kind::gather:
      if (!is_root(o)) return {};
      [[fallthrough]];
    default: {
      std::vector<int> all(static_cast<std::size_t>(o.communicator->ranks));
      for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
      return all;
    }
  }
}

// The same text on all ranks that take part: how many such operations came before on the communicator, or between the
// two ranks.
std::string next_subject(const Operation& o) {
  Communicator& c = *o.communicator;
  const std::lock_guard lock(c.mutex);
  if (o.kind == Kind::send) return "one." + std::to_string(c.sent[o.other]++);
  if (o.kind == Kind::receive) return "one." + std::to_string(c.received[o.other]++);
  return "all." + std::to_string(c.collectives++);
}

Reduction reduction_of(const Operation& o) {
  if (o.reduction < kNcclBuiltInReductions) return {.kind = o.reduction, .factor = 1};
  const std::lock_guard lock(o.communicator->mutex);
  return o.communicator->reductions[static_cast<std::size_t>(o.reduction - kNcclBuiltInReductions)];
}

// What lies at `from`, on a device or the host.
Message read_message(const void* from, std::size_t bytes) {
  if (bytes == 0 || (device_of(from) >= 0 && !is_known(from, bytes))) return {.size = bytes, .data = {}};
  std::vector<std::byte> copy(bytes);
  copy_memory(copy.data(), from, bytes);
  return make_message(copy.data(), bytes);
}

// How many blocks of `count` elements this rank's buffer `to` takes.
std::size_t blocks_received(const Operation& o) {
  switch (o.kind) {
    case Kind::all_gather:
    case Kind::all_to_all: return static_cast<std::size_t>(o.communicator->ranks);
    case Kind::gather: return is_root(o) ? static_cast<std::size_t>(o.communicator->ranks) : 0;
    case Kind::reduce: return is_root(o) ? 1 : 0;
    case Kind::send: return 0;
    default: return 1;
  }
}

// A message that is not exchanged leaves device memory as a kernel would: with values that are not known.
void write_unknown(const Operation& o, std::size_t bytes) {
  if (o.to != nullptr && device_of(o.to) >= 0) forget_written(o.to, blocks_received(o) * bytes);
}

Posted post(const Operation& o) {
  Posted posted{.operation = &o, .subject = next_subject(o), .own = {}, .bytes = o.count * nccl_size_of(o.type)};
  // Every rank comes to the same answer: it does not depend on who is the root.
  const bool whole = o.kind == Kind::reduce_scatter || o.kind == Kind::all_to_all || o.kind == Kind::scatter;
  const std::size_t largest = posted.bytes * (whole ? static_cast<std::size_t>(o.communicator->ranks) : 1);
  posted.moves = o.count > 0 && largest <= static_cast<std::size_t>(settings().copy_limit);
  if (!posted.moves) return posted;
  posted.own = read_message(o.from, blocks_contributed(o) * posted.bytes);
  if (o.communicator->mailbox) {
    o.communicator->mailbox->post(posted.subject, o.communicator->rank, readers_of(o), posted.own);
  }
  return posted;
}

// Device memory that only kernels should have written is zero, and so is what this says of `bytes` at `to`.
void write_zeros(void* to, std::size_t bytes) {
  if (device_of(to) >= 0) {
    forget_written(to, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
}

void write_block(const Operation& o, std::size_t block, std::size_t bytes, const std::byte* source) {
  std::byte* const destination = static_cast<std::byte*>(o.to) + block * bytes;
  if (source == nullptr) return write_zeros(destination, bytes);
  copy_memory(destination, source, bytes);
}

const std::byte* block_of(const Message& message, std::size_t block, std::size_t bytes) {
  return message.bytes() == nullptr ? nullptr : message.bytes() + block * bytes;
}

bool reduces(Kind kind) { return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter; }

// `contributions` belong to senders_of(o), in this order.
void finish(const Posted& posted, const std::vector<const Message*>& contributions) {
  const Operation& o = *posted.operation;
  const auto rank = static_cast<std::size_t>(o.communicator->rank);
  if (reduces(o.kind)) {
    const std::size_t block = o.kind == Kind::reduce_scatter ? rank : 0;
    std::vector<const std::byte*> arrays;
    bool zeros = true;
    for (const Message* const message : contributions) {
      arrays.push_back(block_of(*message, block, posted.bytes));
      zeros = zeros && arrays.back() == nullptr;
    }
    if (zeros) return write_block(o, 0, posted.bytes, nullptr);
    std::vector<std::byte> result(posted.bytes);
    reduce(arrays, o.count, o.type, reduction_of(o), result.data());
    return write_block(o, 0, posted.bytes, result.data());
  }
  const bool one_for_me = o.kind == Kind::all_to_all || o.kind == Kind::scatter;
  for (std::size_t i = 0; i < contributions.size(); ++i) {
    write_block(o, i, posted.bytes, block_of(*contributions[i], one_for_me ? rank : 0, posted.bytes));
  }
}

int finish_with_peers(const Posted& posted) {
  const Operation& o = *posted.operation;
  Communicator& c = *o.communicator;
  const std::vector<int> senders = senders_of(o);
  std::vector<Message> taken(senders.size());
  std::vector<const Message*> contributions;
  for (std::size_t i = 0; i < senders.size(); ++i) {
    if (senders[i] == c.rank && !is_point_to_point(o.kind)) {
      contributions.push_back(&posted.own);
      continue;
    }
    std::optional<Message> message = wait_for(c, posted.subject, senders[i], name_of(o.kind));
    if (!message) return kNcclRemoteError;
    const bool from_root = o.kind == Kind::broadcast || o.kind == Kind::scatter || o.kind == Kind::receive;
    const std::size_t wanted =
        from_root ? posted.bytes * (o.kind == Kind::scatter ? static_cast<std::size_t>(c.ranks) : 1) : posted.own.size;
    if (message->size < wanted) {
      return report_error(c, kNcclInvalidUsage,
                          std::string("gpuplan shadow: ") + name_of(o.kind) + " of " + std::to_string(wanted) +
                              " bytes got " + std::to_string(message->size) + " from rank " +
                              std::to_string(senders[i]));
    }
    taken[i] = std::move(*message);
    contributions.push_back(&taken[i]);
  }
  if (!contributions.empty()) finish(posted, contributions);
  return kNcclSuccess;
}

// What a rank like this one sends is what this one sends in the same group: to the rank that it receives from, or as
// the root of its own broadcast (PyTorch gathers a list of tensors by one broadcast for each rank).
const Message* sent_alike(const Posted& receive, std::span<const Posted> group) {
  const Operation& mine = *receive.operation;
  for (const Posted& other : group) {
    const Operation& o = *other.operation;
    if (o.communicator != mine.communicator || other.bytes != receive.bytes) continue;
    const bool sent = mine.kind == Kind::receive && o.kind == Kind::send && o.other == mine.other;
    const bool broadcast = mine.kind == Kind::broadcast && o.kind == Kind::broadcast && is_root(o);
    if (sent || broadcast) return &other.own;
  }
  return nullptr;
}

void finish_alike(const Posted& posted, std::span<const Posted> group) {
  const Operation& o = *posted.operation;
  const Communicator& c = *o.communicator;
  if (o.kind == Kind::send || ((o.kind == Kind::reduce || o.kind == Kind::gather) && !is_root(o))) return;
  const Message* const received = o.kind == Kind::receive || !is_root(o) ? sent_alike(posted, group) : nullptr;
  if (received != nullptr) return finish(posted, {received});
  if (o.kind == Kind::receive || (has_root(o.kind) && !is_root(o))) {
    note_unknown("what an imagined rank would have sent (broadcast, scatter, receive): the buffer was left as it was");
    return;
  }
  if (reduces(o.kind)) {
    if (posted.own.bytes() == nullptr) return write_block(o, 0, posted.bytes, nullptr);
    const std::size_t block = o.kind == Kind::reduce_scatter ? static_cast<std::size_t>(c.rank) : 0;
    std::vector<std::byte> result(posted.bytes);
    reduce_alike(block_of(posted.own, block, posted.bytes), c.ranks, o.count, o.type, reduction_of(o), result.data());
    return write_block(o, 0, posted.bytes, result.data());
  }
  finish(posted, std::vector<const Message*>(senders_of(o).size(), &posted.own));
}

int finish_one(const Posted& posted, std::span<const Posted> group) {
  if (!posted.moves) {
    write_unknown(*posted.operation, posted.bytes);
    return kNcclSuccess;
  }
  if (posted.operation->communicator->mailbox) return finish_with_peers(posted);
  finish_alike(posted, group);
  return kNcclSuccess;
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "ncclAllReduce";
    case Kind::reduce: return "ncclReduce";
    case Kind::broadcast: return "ncclBroadcast";
    case Kind::all_gather: return "ncclAllGather";
    case Kind::reduce_scatter: return "ncclReduceScatter";
    case Kind::all_to_all: return "ncclAlltoAll";
    case Kind::gather: return "ncclGather";
    case Kind::scatter: return "ncclScatter";
    case Kind::send: return "ncclSend";
    case Kind::receive: return "ncclRecv";
  }
  return "nccl";
}

int run_group(std::span<const Operation> operations) {
  int result = kNcclSuccess;
  try {
    std::vector<Posted> posted;
    for (const Operation& operation : operations) posted.push_back(post(operation));
    // Only now: after a launch, parts of what the host copied in count as written by a kernel (written.h).
    for (const Operation& operation : operations) {
      if (operation.count > 0) count_launch(operation.stream, name_of(operation.kind));
    }
    for (const Posted& each : posted) {
      if (const int failed = finish_one(each, posted); failed != kNcclSuccess) result = failed;
    }
  } catch (const std::exception& error) {
    result = report_error(*operations.front().communicator, kNcclSystemError,
                          std::string("gpuplan shadow: NCCL messages: ") + error.what());
  }
  return result;
}

}  // namespace gpuplan::shadow
