// A report as text. Free functions from values to a string; tools/ decides where it goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/format.h"
#include "estimator/plan/report.h"
#include "estimator/plan/verdict.h"
#include "estimator/report/layer_table.h"
#include "estimator/report/text_style.h"
#include "estimator/search/suggestions.h"

namespace gpuplan {

/// The screen of `gpuplan plan`: verdict, what is alive at the peak, timeline, compute, parameters. The printed rows of
/// each table sum to its printed total.
std::string report_text(const Report& report, const TextStyle& style, const std::vector<Suggestion>& suggestions = {});

/// Schema gpuplan.plan/1 (plan_json_schema): integers with the unit in the key, two spaces of indent, a final newline.
std::string report_json(const Report& report, std::string_view version);
/// The JSON Schema of report_json.
std::string plan_json_schema();

/// One line a layer, heading first; RFC 4180 quoting, sizes as 64x3x224x224, bytes as integers.
std::string report_csv(const Report& report);
/// Markdown: the verdict, what is alive at the peak, and the layer table.
std::string report_md(const Report& report, const LayerTableOptions& layers = {});

/// "NVIDIA T4 (15,095 MiB)", and of a margin "NVIDIA T4 (15,095 MiB less 5 %)".
std::string device_words(const Gpu& gpu, const Margin& margin);

}  // namespace gpuplan
