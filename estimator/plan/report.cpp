#include "estimator/plan/report.h"

namespace gpuplan {

std::string_view name_of(Confidence confidence) {
  switch (confidence) {
    case Confidence::exact: return "exact";
    case Confidence::modelled: return "modelled";
    case Confidence::assumed: return "assumed";
  }
  return "";
}

}  // namespace gpuplan
