// An open file that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace gpuplan {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Negative where it could not be opened; errno says why.
  int number() const { return number_; }
  /// False where what was written is only now found not to fit; errno says why.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

}  // namespace gpuplan
