// A communicator, and what its collectives do. Nothing moves that is larger than settings().copy_limit a rank: device
// memory holds no results of kernels, so that there is nothing to move. Small messages are what scripts exchange among
// themselves (sizes, flags, pickled objects, metrics), and those must arrive:
//   real peers      every rank posts its contribution and then waits for the others'
//   imagined peers  every other rank is taken to contribute what this one does: a gather is copies of it, a sum is it
//                   times the number of ranks, and what comes from one other rank (broadcast, scatter, receive) leaves
//                   the buffer as it was
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "validate/shadow/runtime/mailbox.h"
#include "validate/shadow/runtime/nccl_abi.h"
#include "validate/shadow/runtime/nccl_reduce.h"

namespace gpuplan::shadow {

struct Communicator {
  std::string name;  // the same on every rank, unique in the session
  int ranks = 1;
  int rank = 0;
  int device = 0;
  std::optional<Mailbox> mailbox;  // absent where the peers are imagined, or there are none

  std::mutex mutex;               // of what follows
  std::uint64_t collectives = 0;  // begun so far: ranks begin the same ones in the same order
  std::uint64_t splits = 0;
  std::map<int, std::uint64_t> sent, received;  // by the other rank
  std::map<int, std::int64_t> processes;        // by rank, as far as somebody asked
  std::vector<Reduction> reductions;            // that ncclRedOpCreatePreMulSum made
  int asynchronous_error = kNcclSuccess;
};

/// What went wrong last in this process, on any communicator: ncclGetLastError takes none from PyTorch.
const char* last_nccl_error();

/// Joins the communicator `name`: announces this process to the other ranks, and waits for nobody. `exchange`: the
/// other ranks are processes or threads of this session.
Communicator* join_communicator(const std::string& name, int ranks, int rank, int device, bool exchange);
/// Takes back what join_communicator made.
void leave_communicator(Communicator* communicator);

/// Waits for the message of rank `sender` on `subject`. Absent, with the error set and a line written
/// to stderr that names `what` is waited for, where the sender's process has ended or ten minutes have passed.
std::optional<Message> wait_for(Communicator& communicator, const std::string& subject, int sender, const char* what);

/// Ranks other than its own.
std::vector<int> others_of(const Communicator& communicator);

/// Sets the communicator's errors, writes `line` to stderr and returns `result`.
int report_error(Communicator& communicator, int result, const std::string& line);

/// Refuses a function that would need a peer's memory or another rank's cooperation; `communicator` may be null.
int refuse_nccl(Communicator* communicator, const char* function);

struct Operation {
  enum class Kind {
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    send,
    receive,
  };
  Kind kind = Kind::all_reduce;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // elements: of the smaller of both buffers where their sizes differ
  int type = kNcclInt8;
  int reduction = kNcclSum;
  int other = 0;  // the root, or the peer
  Communicator* communicator = nullptr;
  const void* stream = nullptr;
};

/// "ncclAllReduce".
const char* name_of(Operation::Kind kind);

/// Runs the operations of one group: all that this thread contributes is posted before any of it waits, so that one
/// thread can be several ranks. Returns an ncclResult_t.
int run_group(std::span<const Operation> operations);

}  // namespace gpuplan::shadow
