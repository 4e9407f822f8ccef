#include "estimator/search/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gpuplan {
namespace {

// What the threads share.
class Queue {
 public:
  Queue(std::size_t n, const std::function<void(std::size_t)>& work) : n_(n), work_(work) {}

  // One piece; false where none is left.
  bool run_one() {
    const std::size_t piece = next_.fetch_add(1);
    if (piece >= n_) return false;
    attempt(piece, [&] { work_(piece); });
    done_.fetch_add(1);
    return true;
  }

  // What is thrown is kept, that of the first piece, and no more pieces are handed out.
  void attempt(std::size_t piece, const auto& action) {
    try {
      action();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!thrown_ || piece < thrown_by_) {
        thrown_ = std::current_exception();
        thrown_by_ = piece;
      }
      next_ = n_;
    }
  }

  std::size_t done() const { return done_; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::size_t n_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::exception_ptr thrown_;
  std::size_t thrown_by_ = 0;
};

}  // namespace

void run_on_workers(std::size_t n, std::size_t threads, const std::function<void(std::size_t)>& work,
                    const std::function<void(std::size_t)>& between) {
  Queue queue(n, work);
  {
    std::vector<std::jthread> others;  // joined at the end of the block
    for (std::size_t t = 1; t < std::min(threads, n); ++t)
      others.emplace_back([&queue] {
        while (queue.run_one()) {
        }
      });
    while (queue.run_one())
      if (between) queue.attempt(n, [&] { between(queue.done()); });
  }
  queue.rethrow();
}

std::size_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace gpuplan
