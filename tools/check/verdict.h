// Whether the answer of gpuplan check is yes.
#pragma once

#include <string>

#include "estimator/report/check_report.h"

namespace gpuplan {

/// What makes the answer no: a broken limit; a warning of a check too; a broken limit on growth only; nothing.
enum class FailOn : unsigned char { error, warn, growth, none };
/// The word of --fail-on. Throws Error (usage).
FailOn read_fail_on(const std::string& word);

/// 0 yes, 1 no, 3 where a check could not be planned, whatever `fail_on` says.
int exit_code_of(const CheckReport& report, FailOn fail_on);

/// Throws Error: nothing was judged, which is no yes.
void refuse_empty_gate(const CheckReport& report, bool with_base);

/// Whether all that is planned and limited is as at the base, and nothing is broken: there is nothing to tell anyone.
bool is_unchanged(const CheckReport& report);

}  // namespace gpuplan
