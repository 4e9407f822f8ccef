// What would make a step faster, as it is printed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/plan/report.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

std::string_view name_of(Advice::Kind kind);

/// A row a change with its step, what it gains and what it needs. Report::advice must be there.
std::string advice_text(const Report& report, const TextStyle& style);
/// The same in Markdown.
std::string advice_md(const Report& report);

}  // namespace gpuplan
