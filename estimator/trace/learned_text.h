// The words of a trace file, for its writer and its reader. trace_form() says what they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "estimator/trace/learned_trace.h"

namespace gpuplan {

/// The form of the file, for people and for programs that read it.
std::string_view trace_form();

/// "3211264*batch", "4*batch*seq^2?", "[1024,2048,4096]".
std::string text_of(const LearnedSize& size, std::span<const TraceVariable> variables);
/// Back; nothing where it is not such a text. Recorded points are as many as there are runs.
std::optional<LearnedSize> parse_learned_size(std::string_view text, const LearnedTrace& trace);

/// "@1,3"; "" for all of them.
std::string runs_text(RunSet runs, const LearnedTrace& trace);
/// Back, without the @.
std::optional<RunSet> parse_runs(std::string_view text, const LearnedTrace& trace);

/// A whole number from `least` to 2^53.
std::optional<std::int64_t> parse_number(std::string_view text, std::int64_t least = 0);

/// What stands before `end`, which is then taken off with it; all where there is none.
std::string_view take_until(std::string_view& text, char end);

}  // namespace gpuplan
