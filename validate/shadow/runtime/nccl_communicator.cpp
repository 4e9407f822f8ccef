#include "validate/shadow/runtime/nccl_communicator.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

using Clock = std::chrono::steady_clock;

// PyTorch gives a collective as long (init_process_group's default for NCCL): rank 0 may well download a data set while
// the others wait at a barrier.
constexpr std::chrono::seconds kPatience{600};
constexpr std::chrono::seconds kMention{60};  // after this long the wait is mentioned
constexpr std::chrono::milliseconds kLook{200};

constexpr const char* kProcess = "process";  // the subject of a message with the sender's process id

// The report's rank of this process: torchrun's, or that of its first communicator.
void note_rank(int rank) {
  std::atomic<std::int32_t>& noted = counters().rank;
  if (noted.load() >= 0) return;
  const char* const variable = std::getenv("RANK");
  noted = variable != nullptr ? static_cast<std::int32_t>(std::strtol(variable, nullptr, 10)) : rank;
}

// The process id of rank `sender`; 0 where it has not joined yet.
std::int64_t process_of(Communicator& communicator, int sender) {
  const std::lock_guard lock(communicator.mutex);
  std::int64_t& process = communicator.processes[sender];
  if (process == 0) {
    const std::optional<Message> message =
        communicator.mailbox->take(kProcess, sender, communicator.rank, Clock::time_point::min());
    if (message && message->data.size() == sizeof process) std::memcpy(&process, message->bytes(), sizeof process);
  }
  return process;
}

bool has_ended(std::int64_t process) {
  return process > 0 && kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

std::string waiting_line(const Communicator& communicator, int sender, const char* what) {
  return "gpuplan shadow: rank " + std::to_string(communicator.rank) + " of " + std::to_string(communicator.ranks) +
         " waits in " + what + " for rank " + std::to_string(sender);
}

// Readers may hold the text at any time, so that it stays where it is.
std::array<char, 1024> last_error{};

void keep_last_error(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::snprintf(last_error.data(), last_error.size(), "%s", line.c_str());
}

}  // namespace

const char* last_nccl_error() { return last_error.data(); }

Communicator* join_communicator(const std::string& name, int ranks, int rank, int device, bool exchange) {
  note_rank(rank);
  note_unknown("NCCL's own buffers in device memory are not counted");
  auto* const communicator = new Communicator;
  communicator->name = name;
  communicator->ranks = ranks;
  communicator->rank = rank;
  communicator->device = device;
  if (!exchange || ranks == 1) return communicator;
  const std::string directory =
      session_directory().empty() ? std::filesystem::temp_directory_path().string() : session_directory();
  communicator->mailbox.emplace(directory, name);
  const std::int64_t process = getpid();
  communicator->mailbox->post(kProcess, rank, others_of(*communicator), make_message(&process, sizeof process));
  return communicator;
}

void leave_communicator(Communicator* communicator) {
  if (communicator->mailbox) communicator->mailbox->leave(communicator->rank);
  delete communicator;
}

std::optional<Message> wait_for(Communicator& communicator, const std::string& subject, int sender, const char* what) {
  const Clock::time_point begin = Clock::now();
  for (bool mentioned = false;;) {
    const auto take = [&](Clock::time_point deadline) {
      return communicator.mailbox->take(subject, sender, communicator.rank, deadline);
    };
    if (std::optional<Message> message = take(Clock::now() + kLook)) return message;
    const std::int64_t process = process_of(communicator, sender);
    if (has_ended(process)) {
      if (std::optional<Message> message = take(Clock::time_point::min())) return message;  // its last words
      report_error(
          communicator, kNcclRemoteError,
          waiting_line(communicator, sender, what) + ", whose process " + std::to_string(process) + " has ended");
      return std::nullopt;
    }
    const Clock::duration waited = Clock::now() - begin;
    if (waited >= kPatience) {
      report_error(communicator, kNcclRemoteError,
                   waiting_line(communicator, sender, what) + ": ten minutes have passed");
      return std::nullopt;
    }
    if (waited >= kMention && !mentioned) {
      mentioned = true;
      std::fprintf(stderr, "%s, %s\n", waiting_line(communicator, sender, what).c_str(),
                   process == 0 ? "which has not joined the communicator" : "whose process runs");
    }
  }
}

std::vector<int> others_of(const Communicator& communicator) {
  std::vector<int> others;
  for (int rank = 0; rank < communicator.ranks; ++rank) {
    if (rank != communicator.rank) others.push_back(rank);
  }
  return others;
}

int report_error(Communicator& communicator, int result, const std::string& line) {
  const std::lock_guard lock(communicator.mutex);
  communicator.asynchronous_error = result;
  keep_last_error(line);
  std::fprintf(stderr, "%s\n", line.c_str());
  return result;
}

int refuse_nccl(Communicator* communicator, const char* function) {
  const std::string line =
      std::string("gpuplan shadow: ") + function + " needs a GPU's peers and cannot be stood in for";
  if (communicator != nullptr) return report_error(*communicator, kNcclInvalidUsage, line);
  std::fprintf(stderr, "%s\n", line.c_str());
  return kNcclInvalidUsage;
}

}  // namespace gpuplan::shadow
