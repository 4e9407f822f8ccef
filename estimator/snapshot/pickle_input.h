// The bytes of a pickle, and where an error is.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "estimator/base/error.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

class PickleInput {
 public:
  PickleInput(std::string name, const ReadSnapshotBytes& read) : name_(std::move(name)), read_(read) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(name_ + ": " + what + ", at byte " + std::to_string(position()))
        .help(
            "torch.cuda.memory._dump_snapshot() writes what is read here; of a model, not its weights, name what makes "
            "it: gpuplan FILE.py:NAME");
  }

  std::uint8_t byte() {
    if (at_ == end_) fill();
    return static_cast<std::uint8_t>(buffer_[at_++]);
  }
  /// An unsigned number of so many bytes, the lowest first.
  std::uint64_t number(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= std::uint64_t{byte()} << (8 * i);
    return value;
  }
  /// The same, negative where its highest bit is set.
  std::int64_t signed_number(int bytes) {
    if (bytes == 0) return 0;
    const int above = 64 - 8 * bytes;
    return static_cast<std::int64_t>(number(bytes) << above) >> above;
  }
  /// IEEE 754, the highest byte first: only skipped, as a snapshot's are.
  void skip(int bytes) {
    for (int i = 0; i < bytes; ++i) (void)byte();
  }
  /// A word of so many bytes; what a line of code or a symbol can have.
  const std::string& word(std::uint64_t bytes) {
    constexpr std::uint64_t kMost = 1 << 24;
    if (bytes > kMost) fail("a text of " + std::to_string(bytes) + " bytes");
    word_.clear();
    while (word_.size() < bytes) {
      if (at_ == end_) fill();
      const std::size_t some = std::min<std::size_t>(end_ - at_, bytes - word_.size());
      word_.append(buffer_.data() + at_, some);
      at_ += some;
    }
    return word_;
  }
  std::uint64_t position() const { return before_ + at_; }

 private:
  void fill() {
    before_ += end_;
    at_ = 0;
    end_ = read_(buffer_.data(), buffer_.size());
    if (end_ == 0) fail("the file ends before its pickle does");
  }

  std::string name_, word_;
  const ReadSnapshotBytes& read_;
  std::array<char, 65536> buffer_{};
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t before_ = 0;  // bytes of the file that came before the buffer's
};

}  // namespace gpuplan
