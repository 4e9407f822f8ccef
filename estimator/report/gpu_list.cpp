#include "estimator/report/gpu_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "estimator/base/list_text.h"
#include "estimator/device/arithmetic.h"
#include "estimator/report/gpu_json.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

using gpus::capability, gpus::gpu_json;
using enum TextTable::Align;

// fp16 and bf16 run at one rate wherever a GPU has both.
std::optional<double> half_rate(const Datasheet& sheet) {
  return sheet.rate(Rate::bf16_tensor) ? sheet.rate(Rate::bf16_tensor) : sheet.rate(Rate::fp16_tensor);
}

TextTable list_table(std::span<const Gpu> gpus, const std::string& unknown) {
  TextTable table({left, left, right, right, right, right, right, right, right, right});
  table.row({"GPU", "", "compute", "usable MiB", "GB/s", "fp32", "tf32", "fp16, bf16", "fp8", "NVLink"});
  for (const Gpu& gpu : gpus) {
    const Datasheet sheet = gpu.datasheet.value_or(Datasheet{});
    const auto rate = [&](const std::optional<double>& value) { return value ? format_rate(*value) : unknown; };
    const std::string memory = (gpu.memory_assumed ? "~" : "") + format_count(usable_bytes(gpu) >> 20);
    const std::string bandwidth = sheet.bandwidth_gb_s > 0 ? format_rate(sheet.bandwidth_gb_s) : unknown;
    table.row({gpu.name, gpu.title, capability(gpu), memory, bandwidth, rate(sheet.rate(Rate::fp32)),
               rate(sheet.rate(Rate::tf32)), rate(half_rate(sheet)), rate(sheet.rate(Rate::fp8)),
               rate(sheet.nvlink_gb_s)});
  }
  return table;
}

void rate_rows(const Datasheet& sheet, TextTable& table) {
  constexpr std::array<std::string_view, kRates> kTitles = {"fp64",
                                                            "fp64 tensor",
                                                            "fp32",
                                                            "fp16, CUDA cores",
                                                            "tf32",
                                                            "fp16",
                                                            "fp16, accumulated in fp16",
                                                            "bf16",
                                                            "fp8",
                                                            "fp8, accumulated in fp16",
                                                            "fp4",
                                                            "int8",
                                                            "int4"};
  for (std::size_t r = 0; r < kTitles.size(); ++r) {
    if (!sheet.teraflops[r]) continue;
    const bool derived = std::ranges::find(sheet.derived, kRateNames[r]) != sheet.derived.end();
    table.row({std::string(kTitles[r]), format_rate(*sheet.teraflops[r]),
               std::string(r >= static_cast<std::size_t>(Rate::int8) ? "TOP/s" : "TFLOP/s") +
                   (derived ? ", SMs × rate × clock" : "")});
  }
}

std::string memory_note(const Gpu& gpu) {
  if (gpu.cuda_total_bytes) return "available to cudaMalloc";
  if (gpu.memory_assumed) return "assumed: 93 % of the nominal size, less 3 %; no reading is published";
  return "assumed: nvidia-smi's " + format_count(gpu.memory_bytes >> 20) + " MiB less 3 %, 763 MiB at most";
}

}  // namespace

std::string format_rate(double value) {
  if (value >= 1000) return format_count(std::llround(value));
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  return error == std::errc() ? std::string(text.data(), end) : std::string();
}

std::string gpu_list_text(std::span<const Gpu> gpus, const TextStyle& style) {
  const bool assumed = std::ranges::any_of(gpus, &Gpu::memory_assumed);
  return list_table(gpus, style.unicode ? "–" : "-").text() +
         "  fp32 to fp8: dense peaks in TFLOP/s, accumulated in fp32; NVLink: GB/s in both directions\n" +
         (assumed ? "  ~: no reading is published; derived from the nominal size\n" : "");
}

std::string gpu_text(const Gpu& gpu, const TextStyle& style) {
  const std::string dot = style.unicode ? " · " : " | ";
  std::string out = gpu.title + dot + gpu.architecture + dot + "compute capability " + capability(gpu) + dot +
                    std::to_string(gpu.sm_count) + " SMs\n";
  if (!gpu.aliases.empty()) out += wrapped("also " + joined(gpu.aliases), "  ", 118);
  TextTable table({left, right, left});
  table.row({"memory", format_count(usable_bytes(gpu) >> 20), "MiB, " + memory_note(gpu)});
  if (gpu.datasheet) {
    const Datasheet& sheet = *gpu.datasheet;
    table.row({"", format_rate(sheet.memory_gib), "GB nominal, " + sheet.memory_type});
    table.row({"bandwidth", format_rate(sheet.bandwidth_gb_s), "GB/s"});
    if (sheet.l2_mib) table.row({"L2 cache", format_rate(*sheet.l2_mib), "MiB"});
    rate_rows(sheet, table);
    if (sheet.host_link_gb_s)
      table.row({"host link", format_rate(*sheet.host_link_gb_s), "GB/s per direction, at most"});
    if (sheet.nvlink_gb_s) table.row({"NVLink", format_rate(*sheet.nvlink_gb_s), "GB/s in both directions"});
    if (sheet.tdp_w) table.row({"power", format_rate(*sheet.tdp_w), "W"});
    table.row({"year", std::to_string(sheet.year), ""});
  }
  out += "\n" + table.text() + "\n";
  out += wrapped("computes " + arithmetic_of(gpu), "  ", 118);
  if (!gpu.datasheet) return out + wrapped("source: " + gpu.source, "  ", 118);
  if (gpu.datasheet->fp32_accumulate == "half")
    out += "  16-bit matrix products with fp32 accumulation run at half the rate\n";
  if (gpu.datasheet->fp32_accumulate == "disputed")
    out += "  sources disagree on whether matrix products with fp32 accumulation run at half the rate\n";
  if (!gpu.datasheet->notes.empty()) out += wrapped("note: " + gpu.datasheet->notes, "  ", 118);
  return out + wrapped("source: " + gpu.source, "  ", 118) + wrapped("figures: " + gpu.datasheet->source, "  ", 118);
}

std::string gpu_list_json(std::span<const Gpu> gpus) {
  Json list = Json::array();
  for (const Gpu& gpu : gpus) list.push_back(gpu_json(gpu));
  return gpus::list_json(list);
}

std::string gpu_list_md(std::span<const Gpu> gpus) { return list_table(gpus, "").markdown(); }

std::string gpu_list_csv(std::span<const Gpu> gpus) {
  std::vector<Json> list;
  for (const Gpu& gpu : gpus) list.push_back(gpu_json(gpu));
  return gpus::list_csv(list);
}

}  // namespace gpuplan
