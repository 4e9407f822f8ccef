#include "estimator/serve/load.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"

namespace gpuplan {
namespace {

// Vigna's SplitMix64: a number from 0 to below 1 of 53 bits.
double uniform(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

struct Sequence {
  const Request* request = nullptr;
  std::int64_t computed = 0;   // tokens in the cache
  std::int64_t generated = 0;  // tokens of the answer
  std::int64_t blocks = 0;
  double first = 0;

  std::int64_t known() const { return request->prompt + generated; }
  bool decodes() const { return computed == known() - 1 && generated > 0; }
};

class Engine {
 public:
  Engine(std::span<const Request> requests, const EngineLimits& limits, const StepSeconds& seconds, std::int64_t prefix)
      : limits_(limits), seconds_(seconds), prefix_(prefix / limits.block_tokens * limits.block_tokens) {
    free_ = limits.cache_tokens / limits.block_tokens - prefix_ / limits.block_tokens;
    for (const Request& r : requests) {
      check(r);
      Sequence s;
      s.request = &r;
      arriving_.push_back(s);
    }
    out_.requests = requests.size();
  }

  ServedLoad run() {
    if (arriving_.empty()) return out_;
    const double begin = arriving_.front().request->arrival;
    now_ = begin;
    while (!arriving_.empty() || !waiting_.empty() || !running_.empty()) {
      admit_arrivals();
      if (waiting_.empty() && running_.empty()) {
        now_ = arriving_.front().request->arrival;
        continue;
      }
      step();
    }
    finish(begin);
    return out_;
  }

 private:
  void check(const Request& r) const {
    const std::int64_t tokens = checked_add(r.prompt, r.answer);
    if (limits_.length > 0 && tokens > limits_.length)
      throw Error("a request of " + std::to_string(r.prompt) + " and " + std::to_string(r.answer) +
                      " tokens is longer than the engine takes: " + std::to_string(limits_.length),
                  ErrorKind::usage)
          .help("--max-len " + std::to_string(tokens));
    if (blocks_of(tokens) > free_)
      throw Error("a request of " + std::to_string(r.prompt) + " and " + std::to_string(r.answer) +
                      " tokens is larger than the cache of " + std::to_string(limits_.cache_tokens),
                  ErrorKind::usage);
  }

  // Beside those of the prefix, which all share.
  std::int64_t blocks_of(std::int64_t tokens) const {
    return ceil_div(std::max<std::int64_t>(tokens - prefix_, 0), limits_.block_tokens);
  }

  void admit_arrivals() {
    while (!arriving_.empty() && arriving_.front().request->arrival <= now_) {
      waiting_.push_back(arriving_.front());
      arriving_.pop_front();
    }
  }

  // Blocks for so many tokens; the last one that came gives way, itself at last. False: it was that one.
  bool grow(std::size_t index, std::int64_t tokens) {
    while (blocks_of(tokens) - running_[index].blocks > free_) {
      Sequence victim = running_.back();
      running_.pop_back();
      free_ += victim.blocks;
      victim.blocks = victim.computed = 0;
      waiting_.push_front(victim);
      ++out_.preemptions;
      if (running_.size() == index) return false;
    }
    const std::int64_t more = std::max<std::int64_t>(blocks_of(tokens) - running_[index].blocks, 0);
    free_ -= more;
    running_[index].blocks += more;
    return true;
  }

  // So many tokens of what a sequence has not computed yet.
  void prefill(Sequence& s, std::int64_t tokens, EngineStep& step) {
    step.prefill_tokens += tokens;
    step.prefill_pairs +=
        static_cast<double>(tokens) * (static_cast<double>(s.computed) + 0.5 * static_cast<double>(tokens));
    s.computed += tokens;
    prefix_made_ = prefix_made_ || s.computed >= prefix_;  // allocate_slots() knows its blocks from then on
  }

  // Scheduler.schedule(): running sequences first; waiting ones where none of these had to give way.
  void step() {
    EngineStep step;
    std::int64_t room = limits_.batched_tokens;
    const std::int64_t before = out_.preemptions;
    run_running(step, room);
    const bool gave_way = out_.preemptions > before;
    const bool no_blocks = !gave_way && admit_waiting(step, room);
    note_limit(room, gave_way || no_blocks);
    finish_step(seconds_(step));
  }

  void run_running(EngineStep& step, std::int64_t& room) {
    for (std::size_t i = 0; i < running_.size() && room > 0; ++i) {
      const std::int64_t tokens = std::min(running_[i].known() - running_[i].computed, room);
      if (!grow(i, running_[i].computed + tokens)) break;
      Sequence& s = running_[i];
      if (s.decodes()) {
        ++step.decoding;
        step.context_tokens += s.computed;
        ++s.computed;
      } else {
        prefill(s, tokens, step);
      }
      room -= tokens;
    }
  }

  // Whether one waits for blocks: all that it knows has to find room, of which it takes what the step computes
  // (SchedulerConfig.scheduler_reserve_full_isl).
  bool admit_waiting(EngineStep& step, std::int64_t& room) {
    while (!waiting_.empty() && room > 0 && std::ssize(running_) < limits_.sequences) {
      Sequence s = waiting_.front();
      if (blocks_of(s.known()) > free_) return true;
      s.computed = std::min(prefix_made_ ? prefix_ : 0, s.request->prompt - 1);
      const std::int64_t tokens = std::min(s.known() - s.computed, room);
      s.blocks = blocks_of(s.computed + tokens);
      free_ -= s.blocks;
      waiting_.pop_front();
      prefill(s, tokens, step);
      room -= tokens;
      running_.push_back(s);
    }
    return false;
  }

  void note_limit(std::int64_t room, bool out_of_blocks) {
    ++steps_;
    if (waiting_.empty()) return;
    if (out_of_blocks)
      ++waits_for_cache_;
    else if (std::ssize(running_) >= limits_.sequences)
      ++waits_for_places_;
    else if (room <= 0)
      ++waits_for_compute_;
  }

  void finish_step(double seconds) {
    out_.most_running = std::max<std::int64_t>(out_.most_running, std::ssize(running_));
    running_seconds_ += seconds * static_cast<double>(running_.size());
    busy_seconds_ += seconds;
    now_ += seconds;
    const std::int64_t used = limits_.cache_tokens / limits_.block_tokens - free_;
    out_.most_cache = std::max(out_.most_cache, used * limits_.block_tokens);
    for (Sequence& s : running_) {
      if (s.computed < s.known()) continue;  // its prompt is not whole yet
      if (s.generated == 0) s.first = now_;
      ++s.generated;
      ++generated_;
      if (s.generated == s.request->answer) leave(s);
    }
    std::erase_if(running_, [](const Sequence& s) { return s.generated == s.request->answer; });
  }

  void leave(const Sequence& s) {
    free_ += s.blocks;
    first_.push_back(s.first - s.request->arrival);
    if (s.generated > 1) between_.push_back((now_ - s.first) / static_cast<double>(s.generated - 1));
  }

  void finish(double begin) {
    out_.seconds = now_ - begin;
    out_.first_token = quantiles_of(std::move(first_));
    out_.token = quantiles_of(std::move(between_));
    if (out_.seconds > 0) {
      out_.output_rate = static_cast<double>(generated_) / out_.seconds;
      out_.request_rate = static_cast<double>(out_.requests) / out_.seconds;
      out_.mean_running = running_seconds_ / out_.seconds;
      out_.busy = busy_seconds_ / out_.seconds;
    }
    out_.limit = limit();
  }

  // What keeps requests waiting in more than one step of twenty.
  const char* limit() const {
    const std::int64_t most = std::max({waits_for_cache_, waits_for_places_, waits_for_compute_});
    if (20 * most <= steps_) return "arrivals";
    return most == waits_for_cache_ ? "cache" : most == waits_for_places_ ? "sequences" : "tokens of a step";
  }

  const EngineLimits limits_;
  const StepSeconds& seconds_;
  std::int64_t prefix_;  // whole blocks of it
  bool prefix_made_ = false;
  std::int64_t free_ = 0;  // blocks
  std::deque<Sequence> arriving_, waiting_;
  std::vector<Sequence> running_;
  double now_ = 0, running_seconds_ = 0, busy_seconds_ = 0;
  std::int64_t generated_ = 0, waits_for_cache_ = 0, waits_for_places_ = 0, waits_for_compute_ = 0, steps_ = 0;
  std::vector<double> first_, between_;
  ServedLoad out_;
};

}  // namespace

std::vector<double> poisson_arrivals(double rate, std::size_t requests, std::uint64_t seed) {
  std::vector<double> out;
  double now = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    out.push_back(now);
    now -= std::log1p(-uniform(seed)) / rate;
  }
  return out;
}

double quantile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return 0;
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  double sum = 0;
  for (const double v : values) sum += v;
  return {sum / static_cast<double>(values.size()), quantile(values, 0.5), quantile(values, 0.9),
          quantile(values, 0.99)};
}

ServedLoad simulate_load(std::span<const Request> requests, const EngineLimits& limits, const StepSeconds& seconds,
                         std::int64_t shared_prefix) {
  return Engine(requests, limits, seconds, shared_prefix).run();
}

}  // namespace gpuplan
