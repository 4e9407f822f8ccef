#include "estimator/plan/assumptions.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/text_table.h"
#include "estimator/report/writers.h"

namespace gpuplan {

namespace {

std::string verdict_words(const Report& report) {
  const Verdict v = verdict(report);
  std::string needs = "needs **" + format_bytes(report.peak.device_bytes) + "**";
  if (report.at_most && report.at_most->device_bytes != report.peak.device_bytes)
    needs += ", at most " + format_bytes(report.at_most->device_bytes);
  if (!v.known) return needs;
  const std::string device = (v.fits ? "fits " : "does not fit ") + report.gpu->title;
  return needs + ", " + device + " (" + format_bytes(v.usable_bytes) + ")";
}

std::string parts_table(const Report& report) {
  TextTable table({TextTable::Align::left, TextTable::Align::right, TextTable::Align::right, TextTable::Align::left});
  std::vector<std::int64_t> values;
  for (const PeakPart& part : report.peak.parts) values.push_back(part.bytes);
  const ColumnUnit unit = column_unit(report.peak.reading.allocated_bytes);
  const std::vector<std::int64_t> tenths = tenths_that_sum(values, unit.bytes), shares = shares_per_mille(values);
  table.row({"alive at the peak", std::string(unit.name), "%", "confidence"});
  std::int64_t total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const PeakPart& part = report.peak.parts[i];
    total += tenths[i];
    if (part.bytes > 0)
      table.row({std::string(name_of(part.category)), format_tenths(tenths[i]), format_tenths(shares[i]),
                 std::string(name_of(part.confidence))});
  }
  table.row({"**total**", format_tenths(total), "100.0", ""});
  return table.markdown();
}

// What saving memory costs, and what a generation keeps.
std::string extra_costs(const Report& report) {
  std::string out;
  if (report.compute.recompute_flops > 0)
    out += " " + format_flops(report.compute.recompute_flops) + " are recomputed in backward.";
  if (report.model.checkpointed_blocks > 0)
    out += " Checkpointed blocks: " + format_count(report.model.checkpointed_blocks) + ".";
  if (report.bytes.kv_cache > 0) out += " Cached keys and values: " + format_bytes(report.bytes.kv_cache) + ".";
  if (report.offload_bytes_to_host > 0 || report.offload_bytes_from_host > 0)
    out += " Over the link: " + format_bytes(report.offload_bytes_to_host) + " to the host, " +
           format_bytes(report.offload_bytes_from_host) + " back.";
  return out;
}

}  // namespace

std::string report_md(const Report& report, const LayerTableOptions& layers) {
  std::string out = "### " + report.model.name + ": peak " + format_bytes(report.peak.reading.allocated_bytes) + "\n\n";
  out += std::string(name_of(report.run.mode)) + ", batch " + format_count(report.run.batch) + ", " +
         precision_words(report.run);
  if (report.run.mode == Mode::train) out += ", " + std::string(name_of(report.run.optimizer));
  for (const std::string& words : header_words(report)) out += ", " + words;
  out += "; " + verdict_words(report) + ". Peak in " + std::string(name_of(report.peak.phase));
  if (!report.peak.layer.empty()) out += " of `" + report.peak.layer + "`";
  out += "." + extra_costs(report) + "\n\n" + parts_table(report) + "\n<details><summary>Layers</summary>\n\n" +
         report_layers_md(report, layers);
  return out + "\n</details>\n";
}

}  // namespace gpuplan
