// libFuzzer target: any bytes are either a learned trace or an Error; what is a trace reads back from what is written
// of it, and plans or is refused at any values. What is printed of it has no control character.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "estimator/report/trace_report.h"
#include "estimator/trace/plan_trace.h"

namespace {

void expect_printable(const std::string& text) {
  for (const char c : text)
    if (c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')) std::abort();
}

void plan_at(const gpuplan::LearnedTrace& trace, std::int64_t value) {
  try {
    const std::vector<std::int64_t> values(trace.variables.size(), value);
    gpuplan::TraceReport report;
    report.file = "fuzz.trace";
    report.trace = &trace;
    report.plan = gpuplan::plan_trace(trace, values, {});
    expect_printable(gpuplan::trace_report_text(report, {}));
    expect_printable(gpuplan::trace_report_md(report));
    expect_printable(gpuplan::trace_report_csv(report));
    expect_printable(gpuplan::trace_report_json(report, "0"));
  } catch (const gpuplan::Error&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpuplan::LearnedTrace trace;
  try {
    trace = gpuplan::read_learned_trace({"fuzz.trace", std::string(reinterpret_cast<const char*>(data), size)});
  } catch (const gpuplan::Error& error) {
    if (error.render().empty()) std::abort();
    return 0;
  }
  const std::string written = gpuplan::write_learned_trace(trace);
  try {
    if (gpuplan::write_learned_trace(gpuplan::read_learned_trace({"written.trace", written})) != written) std::abort();
  } catch (const gpuplan::Error&) {
    std::abort();  // what was a trace must stay one
  }
  for (const std::int64_t value : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1'000'000'000'000}})
    plan_at(trace, value);
  return 0;
}
