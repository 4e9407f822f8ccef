#include "estimator/budget/matrix.h"

#include "estimator/base/integers.h"

namespace gpuplan {

std::vector<Check> multiply(const Check& check, const std::vector<MatrixAxis>& axes) {
  std::int64_t count = 1;
  for (const MatrixAxis& axis : axes) {
    count = checked_mul(count, static_cast<std::int64_t>(axis.size()));
    if (count > static_cast<std::int64_t>(kMostChecks))
      throw Error("the matrix has more than " + std::to_string(kMostChecks) + " combinations").at(axis[0].key_mark);
  }
  std::vector<Check> checks;
  checks.reserve(static_cast<std::size_t>(count));
  for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
    Check& one = checks.emplace_back(check);
    std::size_t rest = n;
    std::vector<const Setting*> chosen(axes.size());
    for (std::size_t i = axes.size(); i-- > 0; rest /= axes[i].size()) chosen[i] = &axes[i][rest % axes[i].size()];
    std::string values;
    for (const Setting* setting : chosen) {
      values += (values.empty() ? "" : ",") + setting->written + "=" + setting->text;
      one.settings.push_back(*setting);
    }
    if (!values.empty()) one.name += "[" + values + "]";
  }
  return checks;
}

}  // namespace gpuplan
