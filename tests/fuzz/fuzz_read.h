// What every reader may do with any bytes: read them, or throw an Error that says something.
#pragma once

#include <cstdlib>

#include "estimator/base/error.h"

namespace gpuplan {

template <class Read>
void read_or_error(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.render().empty()) std::abort();
  }
}

/// What was read and written again is read without an Error.
template <class Read>
void read_or_abort(Read&& read) {
  try {
    read();
  } catch (const Error&) {
    std::abort();
  }
}

}  // namespace gpuplan
