#include "estimator/device/write_gpu.h"

#include <initializer_list>
#include <span>

#include "estimator/device/measurement_words.h"
#include "estimator/device/read_datasheet.h"

namespace gpuplan {
namespace {

std::string line(std::string_view key, const std::string& value) { return std::string(key) + ": " + value + "\n"; }

template <class Number>
std::string optional_line(std::string_view key, const std::optional<Number>& value) {
  return value ? line(key, std::to_string(*value)) : "";
}

std::string row(std::initializer_list<std::int64_t> numbers) {
  std::string out;
  for (const std::int64_t n : numbers) out += (out.empty() ? "[" : ", ") + std::to_string(n);
  return out + "]";
}

// A table of which nothing was measured is an empty list.
std::string table(const std::string& indent, std::string_view key, const std::vector<std::string>& rows) {
  std::string out = indent + std::string(key) + ":" + (rows.empty() ? " []\n" : "\n");
  for (const std::string& r : rows) out.append(indent).append("  - ").append(r).append("\n");
  return out;
}

std::string bytes_table(const std::string& indent, std::string_view key, const std::vector<TimedBytes>& times) {
  std::vector<std::string> rows;
  for (const TimedBytes& t : times) rows.push_back(row({t.bytes, t.nanoseconds}));
  return table(indent, key, rows);
}

std::string gemm(const std::vector<TimedGemm>& times) {
  std::string out;
  for (const auto& [type, word] : kProductTypes) {
    std::vector<std::string> rows;
    for (const TimedGemm& t : times)
      if (t.type == type) rows.push_back(row({t.m, t.n, t.k, t.nanoseconds}));
    if (!rows.empty()) out += table("    ", word, rows);
  }
  return out.empty() ? "  gemm: {}\n" : "  gemm:  # m, n, k of out[m, n] = x[m, k] w[n, k]^T, nanoseconds\n" + out;
}

std::string passes(std::span<const TimedConvolution> times, ProductType type, MemoryFormat layout) {
  std::string out;
  for (const auto& [pass, word] : kPasses) {
    std::vector<std::string> rows;
    for (const TimedConvolution& t : times)
      if (t.type == type && t.layout == layout && t.pass == pass)
        rows.push_back(row({t.n, t.c, t.h, t.w, t.k, t.r, t.s, t.stride, t.padding, t.nanoseconds}));
    if (!rows.empty()) out += table("        ", word, rows);
  }
  return out;
}

std::string convolution(std::span<const TimedConvolution> times) {
  std::string out;
  for (const auto& [type, type_word] : kProductTypes) {
    std::string layouts;
    for (const auto& [layout, word] : kLayouts) {
      const std::string rows = passes(times, type, layout);
      if (!rows.empty()) layouts += "      " + std::string(word) + ":\n" + rows;
    }
    if (!layouts.empty()) out += "    " + std::string(type_word) + ":\n" + layouts;
  }
  return out.empty() ? "  convolution: {}\n"
                     : "  convolution:  # n, c, h, w, k, r, s, stride, padding, nanoseconds\n" + out;
}

std::string measurements(const Measurements& m) {
  return "measured:  # times in nanoseconds\n" + line("  date", m.date) + line("  with", quoted_yaml(m.with)) +
         "  launch_ns: " + std::to_string(m.launch_ns) + "  # from one small kernel to the next\n" +
         bytes_table("  ", "copy", m.copy) + "  host_link:\n" +
         bytes_table("    ", "to_device_pageable", m.to_device_pageable) +
         bytes_table("    ", "to_device_pinned", m.to_device_pinned) +
         bytes_table("    ", "to_host_pageable", m.to_host_pageable) +
         bytes_table("    ", "to_host_pinned", m.to_host_pinned) + gemm(m.gemm) + convolution(m.convolution);
}

}  // namespace

// Control characters are in no file that was read.
std::string quoted_yaml(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

std::string gpu_yaml(const Gpu& gpu) {
  std::string aliases;
  for (const std::string& alias : gpu.aliases) aliases += (aliases.empty() ? "" : ", ") + quoted_yaml(alias);
  std::string out = line("title", quoted_yaml(gpu.title));
  if (!aliases.empty()) out += line("aliases", "[" + aliases + "]");
  out += line("architecture", quoted_yaml(gpu.architecture));
  out += line("compute_capability", std::to_string(gpu.capability_major) + "." + std::to_string(gpu.capability_minor));
  out += line("sm_count", std::to_string(gpu.sm_count));
  out += line("max_threads_per_sm", std::to_string(gpu.max_threads_per_sm));
  if (!gpu.memory_assumed) out += line("memory_mib", std::to_string(gpu.memory_bytes >> 20));
  out += optional_line("cuda_total_bytes", gpu.cuda_total_bytes) + optional_line("context_bytes", gpu.context_bytes);
  if (!gpu.cuda_name.empty()) out += line("cuda_name", quoted_yaml(gpu.cuda_name));
  out += optional_line("l2_cache_bytes", gpu.l2_cache_bytes) + optional_line("memory_bus_bits", gpu.memory_bus_bits);
  out += optional_line("sm_clock_khz", gpu.sm_clock_khz) + optional_line("memory_clock_khz", gpu.memory_clock_khz);
  out += line("source", quoted_yaml(gpu.source));
  if (gpu.datasheet) out += datasheet_yaml(*gpu.datasheet);
  return gpu.measured ? out + measurements(*gpu.measured) : out;
}

}  // namespace gpuplan
