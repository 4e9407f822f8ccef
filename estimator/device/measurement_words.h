// The words that files and tables have for a measurement's kind, in their order there.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "estimator/device/measurements.h"

namespace gpuplan {

inline constexpr std::array kProductTypes{
    std::pair{ProductType::fp32, std::string_view("fp32")}, std::pair{ProductType::tf32, std::string_view("tf32")},
    std::pair{ProductType::fp16, std::string_view("fp16")}, std::pair{ProductType::bf16, std::string_view("bf16")}};
inline constexpr std::array kLayouts{std::pair{MemoryFormat::contiguous, std::string_view("nchw")},
                                     std::pair{MemoryFormat::channels_last, std::string_view("nhwc")}};
inline constexpr std::array kPasses{std::pair{ConvolutionPass::forward, std::string_view("forward")},
                                    std::pair{ConvolutionPass::backward_data, std::string_view("backward_data")},
                                    std::pair{ConvolutionPass::backward_filter, std::string_view("backward_filter")}};

}  // namespace gpuplan
