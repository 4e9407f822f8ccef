#include "estimator/search/largest_batch.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpuplan {
namespace {

struct Point {
  std::int64_t samples, bytes;
};

// Two batches with what they need, and where on the line through them the limit lies.
class Line {
 public:
  Line(Point a, Point b) : a_(a), b_(b) {}

  // Samples, rounded down; nothing where the line does not rise.
  std::optional<double> at(std::int64_t bytes) const {
    const double run = static_cast<double>(b_.samples) - static_cast<double>(a_.samples);
    const double rise = static_cast<double>(b_.bytes) - static_cast<double>(a_.bytes);
    if (run * rise <= 0) return std::nullopt;
    return static_cast<double>(a_.samples) + (static_cast<double>(bytes) - static_cast<double>(a_.bytes)) * run / rise;
  }

 private:
  Point a_, b_;
};

// Narrows down on a batch that fits below one that does not.
class BatchSearch {
 public:
  BatchSearch(const NeedOfBatch& need, std::int64_t limit_bytes, Point fits, std::int64_t most)
      : need_(need), limit_(limit_bytes), least_(fits.samples), fits_(fits), before_(fits), too_many_(most + 1) {}

  FittingBatch run() {
    constexpr std::int64_t kSecond = 32;  // far enough from the first for a slope
    if (too_many_ - fits_.samples > 1) ask(std::clamp(kSecond, fits_.samples + 1, too_many_ - 1));
    for (int guesses = 0; too_many_ - fits_.samples > 1; ++guesses) {
      // Where lines mislead, halving every other time still ends the search soon.
      constexpr int kGuesses = 3;
      ask(guesses < kGuesses || guesses % 2 == 0 ? guess() : middle());
    }
    return {.samples = fits_.samples, .bytes = fits_.bytes, .least = least_};
  }

 private:
  std::int64_t middle() const {
    // From the few samples known to the largest number there is, halving what is left of the digits is faster.
    if (!above_ && too_many_ / 4 > fits_.samples) return fits_.samples * 2;
    return fits_.samples + (too_many_ - fits_.samples) / 2;
  }

  std::int64_t guess() const {
    const std::optional<double> crossing = Line(fits_, above_ ? *above_ : before_).at(limit_);
    if (!crossing) return middle();
    const double least = static_cast<double>(fits_.samples + 1), most = static_cast<double>(too_many_ - 1);
    return static_cast<std::int64_t>(std::clamp(std::floor(*crossing), least, most));
  }

  void ask(std::int64_t samples) {
    const std::optional<std::int64_t> bytes = need_(samples);
    if (bytes && *bytes <= limit_) {
      before_ = fits_;
      fits_ = {samples, *bytes};
    } else {
      too_many_ = samples;
      above_ = bytes ? std::optional<Point>({samples, *bytes}) : std::nullopt;
    }
  }

  const NeedOfBatch& need_;
  std::int64_t limit_, least_;
  Point fits_, before_;
  std::optional<Point> above_;  // where it is known what too many need
  std::int64_t too_many_;
};

}  // namespace

FittingBatch largest_batch(const NeedOfBatch& need, std::int64_t limit_bytes, std::int64_t most) {
  // Some models refuse a single sample: a batch norm in training wants several values a channel.
  constexpr std::int64_t kLeast = 2;
  for (std::int64_t samples = 1; samples <= std::min(kLeast, most); ++samples) {
    const std::optional<std::int64_t> bytes = need(samples);
    if (!bytes) continue;
    if (*bytes > limit_bytes) return {.samples = 0, .bytes = *bytes, .least = samples};
    return BatchSearch(need, limit_bytes, {samples, *bytes}, most).run();
  }
  return {};
}

FittingBatch largest_again(const NeedOfBatch& need, std::int64_t limit_bytes, std::int64_t least, std::int64_t most) {
  for (std::int64_t samples = most; samples >= least; --samples)
    if (const std::optional<std::int64_t> bytes = need(samples); bytes && *bytes <= limit_bytes)
      return {.samples = samples, .bytes = *bytes, .least = 0};
  return {};
}

FittingBatch largest_power_of_two(const NeedOfBatch& need, std::int64_t limit_bytes, std::int64_t largest) {
  if (largest < 1) return {};
  for (auto samples = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(largest))); samples > 0;
       samples /= 2)
    if (const std::optional<std::int64_t> bytes = need(samples); bytes && *bytes <= limit_bytes)
      return {.samples = samples, .bytes = *bytes, .least = 0};
  return {};
}

}  // namespace gpuplan
