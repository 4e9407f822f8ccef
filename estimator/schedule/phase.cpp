#include "estimator/schedule/phase.h"

namespace gpuplan {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::start: return "start";
    case Phase::forward: return "forward";
    case Phase::loss: return "loss";
    case Phase::backward: return "backward";
    case Phase::clip: return "clip";
    case Phase::optimizer: return "optimizer";
    case Phase::end: return "end";
    case Phase::save: return "save";
  }
  return "";
}

}  // namespace gpuplan
