// A step's layers on the roofline of a GPU (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009): what each one
// computes a second beside what its arithmetic intensity and the GPU allow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/plan/report.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// Layers that do the same: of one type, with equal arithmetic, traffic and time.
struct RooflinePoint {
  std::string name;  // "h.*.mlp.c_fc": with * for what they differ in
  std::string_view type;
  std::int64_t layers = 1;
  double intensity = 0;         // FLOP a byte
  double flops_per_second = 0;  // while its kernels run, waiting left out
  std::int64_t busy_ns = 0;     // of all of its layers
  std::int64_t per_mille = 0;   // of the busy time of every layer of the step
};

struct Roofline {
  std::string model, gpu;
  std::string run;                    // "train, batch 64, fp32"
  std::vector<Roof> roofs;            // highest first
  double peak_bytes = 0;              // a second
  std::vector<RooflinePoint> points;  // most time first
  std::int64_t without = 0;           // layers that compute nothing

  double roof(double intensity) const;  // FLOP/s
  double ridge(const Roof& roof) const { return roof.flops_per_second / peak_bytes; }
};

/// Report::time must be known.
Roofline roofline(const Report& report);

/// "a" to "z", then "A" to "Z"; "" beyond.
std::string point_mark(std::size_t place);

/// For a terminal: both axes logarithmic, the `marked` points with the most time by letter, all others as dots, and a
/// table of the marked ones. ASCII where the style has no Unicode.
std::string roofline_text(const Roofline& roofline, const TextStyle& style, std::size_t marked);

/// A file of its own, readable on light and on dark ground; points as large as their share of the time, named in
/// tooltips. Nothing is fetched, and no script runs.
std::string roofline_svg(const Roofline& roofline, std::size_t marked);

}  // namespace gpuplan
