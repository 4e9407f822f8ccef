#include "tools/importers/onnx/emit_window.h"

#include <algorithm>

namespace gpuplan::onnx_import {
namespace {

bool all_are(const std::vector<std::int64_t>& list, std::int64_t n) {
  return std::all_of(list.begin(), list.end(), [n](std::int64_t i) { return i == n; });
}

std::vector<std::int64_t> or_ones(std::vector<std::int64_t> given, std::size_t count) {
  if (given.empty()) given.assign(count, 1);
  return given;
}

Paddings paddings(const Emission& e, const Windows& w) {
  Paddings p;
  const std::size_t count = w.kernel.size();
  std::vector<std::int64_t> pads = e.integers("pads");
  if (pads.empty()) pads.assign(2 * count, 0);
  p.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(count));
  p.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(count), pads.end());
  const std::string_view automatic = e.text("auto_pad", "NOTSET");
  if (!automatic.starts_with("SAME")) return p;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t size = e.fixed(e.shape()[i + 2], "a padded size");
    const std::int64_t last_start = (ceil_div(size, w.strides[i]) - 1) * w.strides[i];
    const std::int64_t all =
        std::max<std::int64_t>(0, last_start - size + checked_mul(w.dilations[i], w.kernel[i] - 1) + 1);
    p.before[i] = automatic == "SAME_LOWER" ? all - all / 2 : all / 2;
    p.after[i] = all - p.before[i];
  }
  return p;
}

}  // namespace

bool Paddings::none() const { return all_are(before, 0) && all_are(after, 0); }

Windows windows_of(const Emission& e, std::vector<std::int64_t> kernel) {
  Windows w;
  const std::size_t count = kernel.size();
  w.kernel = std::move(kernel);
  w.strides = or_ones(e.integers("strides"), count);
  w.dilations = or_ones(e.integers("dilations"), count);
  w.pads = paddings(e, w);
  return w;
}

std::string padded_input(Emission& e, Windows& w) {
  Paddings& p = w.pads;
  if (p.symmetric()) return e.input(0);
  std::vector<std::int64_t> pad;
  for (std::size_t i = p.before.size(); i-- > 0;) pad.insert(pad.end(), {p.before[i], p.after[i]});
  p.before.assign(p.before.size(), 0);
  p.after = p.before;
  return e.writer().add(e.wish() + "_pad", "Pad(" + list_text(pad) + ")", {e.input(0)});
}

std::string window_arguments(const Windows& w) {
  std::string text;
  if (!all_are(w.strides, 1)) text += ", stride=" + pair_text(w.strides);
  if (!w.pads.none()) text += ", padding=" + pair_text(w.pads.before);
  if (!all_are(w.dilations, 1)) text += ", dilation=" + pair_text(w.dilations);
  return text;
}

}  // namespace gpuplan::onnx_import
