#include "tools/options/learned_trace_input.h"

#include <string>

#include "estimator/report/trace_report.h"
#include "tools/options/words.h"

namespace gpuplan {
namespace {

[[noreturn]] void refuse_trace(const std::string& what, const std::string& model) {
  throw Error(what + " is a trace written by gpuplan shadow --learn: it has allocations, but no layers",
              ErrorKind::usage)
      .help("gpuplan plan " + model + " accepts it");
}

}  // namespace

bool is_learned_trace(const NamedFile& input) { return is_trace_text(start_of(input)); }

void refuse_learned_trace(const NamedFile& input) {
  if (is_learned_trace(input)) refuse_trace(called(input.name), input.name);
}

bool is_trace_text(std::string_view text) {
  return text.starts_with(kTraceFirstLine.substr(0, kTraceFirstLine.find(' ')));
}

}  // namespace gpuplan
