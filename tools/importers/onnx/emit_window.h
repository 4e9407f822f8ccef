// Windows that slide over the last dimensions, as convolutions and pooling have them.
#pragma once

#include <string>
#include <vector>

#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {

/// What is added before and after each dimension.
struct Paddings {
  std::vector<std::int64_t> before, after;
  bool symmetric() const { return before == after; }
  bool none() const;
};

struct Windows {
  std::vector<std::int64_t> kernel, strides, dilations;
  Paddings pads;  // of SAME as ONNX says
};

/// The node's windows of these sizes. Throws Error: SAME of a size that depends on the batch.
Windows windows_of(const Emission& e, std::vector<std::int64_t> kernel);

/// The input's name, behind a Pad() where sides are padded differently, which torch.nn's layers cannot; the paddings
/// are none then.
std::string padded_input(Emission& e, Windows& w);

/// ", stride=2, padding=1", without what is torch.nn's default for convolutions.
std::string window_arguments(const Windows& w);

}  // namespace gpuplan::onnx_import
