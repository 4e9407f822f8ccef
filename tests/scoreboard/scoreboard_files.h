// For the test cases of the scoreboard.
#pragma once

#include <string>
#include <vector>

#include "tests/scoreboard/scoreboard_gate.h"

namespace gpuplan {

/// tests/scoreboard/scoreboard.expected
Gate expected_gate();

/// Scores a set anew and compares it with what the file says.
void check_set(const std::string& name);

}  // namespace gpuplan
