// NCCL's groups, collectives and point-to-point calls.
#include <cstdint>
#include <vector>

#include "validate/shadow/runtime/nccl_communicator.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

using Kind = Operation::Kind;

// A thread's open group. Calls wait in it for the outermost ncclGroupEnd, as NCCL's do.
struct Group {
  int depth = 0;
  std::vector<Operation> operations;
};

Group& group() {
  thread_local Group instance;
  return instance;
}

int submit(const Operation& operation) {
  Communicator* const c = operation.communicator;
  if (c == nullptr || nccl_size_of(operation.type) == 0) return kNcclInvalidArgument;
  // Of all ranks together, so that no buffer's size overflows.
  if (operation.count > (SIZE_MAX >> 1) / static_cast<std::size_t>(c->ranks) / nccl_size_of(operation.type)) {
    return kNcclInvalidArgument;
  }
  if (operation.other < 0 || operation.other >= c->ranks) return kNcclInvalidArgument;
  {
    const std::lock_guard lock(c->mutex);
    const int reductions = kNcclBuiltInReductions + static_cast<int>(c->reductions.size());
    if (operation.reduction < 0 || operation.reduction >= reductions) return kNcclInvalidArgument;
  }
  if (group().depth == 0) return run_group({&operation, 1});
  group().operations.push_back(operation);
  return kNcclSuccess;
}

}  // namespace
}  // namespace gpuplan::shadow

using namespace gpuplan::shadow;

SHADOW_API int ncclGroupStart() {
  ++group().depth;
  return kNcclSuccess;
}

SHADOW_API int ncclGroupEnd() {
  if (group().depth == 0) return kNcclInvalidUsage;
  if (--group().depth > 0) return kNcclSuccess;
  const std::vector<Operation> operations = std::move(group().operations);
  group().operations.clear();
  return run_group(operations);
}

// Simulates, so that nothing runs; how long it would take is not known, which NCCL says with -1 (left as it is).
SHADOW_API int ncclGroupSimulateEnd(void*) {
  if (group().depth == 0) return kNcclInvalidUsage;
  if (--group().depth == 0) group().operations.clear();
  return kNcclSuccess;
}

SHADOW_API int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int reduction, Communicator* c,
                             const void* stream) {
  return submit({.kind = Kind::all_reduce,
                 .from = from,
                 .to = to,
                 .count = count,
                 .type = type,
                 .reduction = reduction,
                 .communicator = c,
                 .stream = stream});
}

SHADOW_API int ncclReduce(const void* from, void* to, std::size_t count, int type, int reduction, int root,
                          Communicator* c, const void* stream) {
  return submit({.kind = Kind::reduce,
                 .from = from,
                 .to = to,
                 .count = count,
                 .type = type,
                 .reduction = reduction,
                 .other = root,
                 .communicator = c,
                 .stream = stream});
}

SHADOW_API int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int reduction,
                                 Communicator* c, const void* stream) {
  return submit({.kind = Kind::reduce_scatter,
                 .from = from,
                 .to = to,
                 .count = count,
                 .type = type,
                 .reduction = reduction,
                 .communicator = c,
                 .stream = stream});
}

namespace {

// Calls without a reduction.
int move(Kind kind, const void* from, void* to, std::size_t count, int type, int other, Communicator* c,
         const void* stream) {
  return submit({.kind = kind,
                 .from = from,
                 .to = to,
                 .count = count,
                 .type = type,
                 .other = other,
                 .communicator = c,
                 .stream = stream});
}

}  // namespace

SHADOW_API int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Communicator* c,
                             const void* stream) {
  return move(Kind::broadcast, from, to, count, type, root, c, stream);
}
SHADOW_API int ncclBcast(void* buffer, std::size_t count, int type, int root, Communicator* c, const void* stream) {
  return move(Kind::broadcast, buffer, buffer, count, type, root, c, stream);
}
SHADOW_API int ncclAllGather(const void* from, void* to, std::size_t count, int type, Communicator* c,
                             const void* stream) {
  return move(Kind::all_gather, from, to, count, type, 0, c, stream);
}
SHADOW_API int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, Communicator* c,
                            const void* stream) {
  return move(Kind::all_to_all, from, to, count, type, 0, c, stream);
}
SHADOW_API int ncclGather(const void* from, void* to, std::size_t count, int type, int root, Communicator* c,
                          const void* stream) {
  return move(Kind::gather, from, to, count, type, root, c, stream);
}
SHADOW_API int ncclScatter(const void* from, void* to, std::size_t count, int type, int root, Communicator* c,
                           const void* stream) {
  return move(Kind::scatter, from, to, count, type, root, c, stream);
}
SHADOW_API int ncclSend(const void* from, std::size_t count, int type, int peer, Communicator* c, const void* stream) {
  return move(Kind::send, from, nullptr, count, type, peer, c, stream);
}
SHADOW_API int ncclRecv(void* to, std::size_t count, int type, int peer, Communicator* c, const void* stream) {
  return move(Kind::receive, nullptr, to, count, type, peer, c, stream);
}

// One-sided transfers write to a peer's memory, which is another process's address space here.
SHADOW_API int ncclPutSignal(const void*, std::size_t, int, int, void*, std::size_t, int, int, unsigned, Communicator*,
                             const void* stream) {
  count_launch(stream, "ncclPutSignal");
  note_unknown("NCCL's one-sided puts and signals: nothing was written to the peer");
  return kNcclSuccess;
}
SHADOW_API int ncclSignal(int, int, int, unsigned, Communicator*, const void* stream) {
  count_launch(stream, "ncclSignal");
  note_unknown("NCCL's one-sided puts and signals: nothing was written to the peer");
  return kNcclSuccess;
}
SHADOW_API int ncclWaitSignal(int, NcclWaitSignal*, Communicator*, const void* stream) {
  count_launch(stream, "ncclWaitSignal");
  return kNcclSuccess;
}
