// The time of a step in a report and on its screen.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "estimator/plan/report.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// Report::time, and each layer's part of it.
void tell_time(const StepTime& time, Report& report);

/// "36.2 ms", "812 us", "4.10 s", "1.25 h": three significant digits.
std::string format_seconds(double seconds);
/// "332", "1,210", "0.46": three significant digits, all of an amount of four and more, two decimals below 1.
std::string format_figure(double amount);
/// "12.3 TFLOP/s".
std::string format_flops_per_second(double flops);

/// What the screen of `gpuplan plan` says of the time: a word and its text each. Nothing where it is not known.
std::vector<std::array<std::string, 2>> time_rows(const Report& report, const std::string& dot);

}  // namespace gpuplan
