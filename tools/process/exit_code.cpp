#include "tools/process/exit_code.h"

namespace gpuplan {

int exit_code_of(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::usage: return 2;
    case ErrorKind::input: return 3;
    case ErrorKind::environment: return 4;
  }
  return 3;
}

}  // namespace gpuplan
