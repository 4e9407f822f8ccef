// Operations of each element, copies and losses.
#include <limits>

#include "tests/cuda/module_bench.h"

namespace gpuplan::module_test {

void pointwise(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {4, 8, 6, 10}), y = b.tensor(type, {4, 8, 6, 10}),
                     z = b.tensor(type, {4, 8, 6, 10});
  const KernelTensor row = b.tensor(type, {10}), last = b.tensor(type, {4, 8, 6, 10}, true);
  const KernelTensor mask = b.tensor(DType::boolean, {4, 8, 6, 10}), row_mask = b.tensor(DType::boolean, {6, 10});
  const KernelTensor channels = b.tensor(type, {1, 8, 1, 1});
  for (const char* name : {"aten::add", "aten::sub", "aten::mul", "aten::div"}) {
    run(device, {name, {x, y}, {}, {z}, {}});
    run(device, {name, {x, row}, {}, {z}, {}});
    run(device, {name, {x}, {}, {z}, {0.5}});
    run(device, {name, {x, last}, {}, {z}, {}});
    run(device, {std::string(name) + "_", {x, y}, {}, {}, {}});
  }
  run(device, {"aten::add_", {x, channels}, {}, {}, {}});
  for (const char* name : {"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::ge", "aten::gt"}) {
    run(device, {name, {x, y}, {}, {mask}, {}});
    run(device, {name, {x}, {}, {mask}, {3}});
  }
  for (const char* name : {"neg", "abs", "sgn", "exp", "log", "sin", "cos", "tanh", "relu", "silu", "sigmoid", "rsqrt",
                           "hardsigmoid", "hardswish"})
    run(device, {std::string("aten::") + name, {x}, {}, {z}, {}});
  run(device, {"aten::relu_", {x}, {}, {}, {}});
  run(device, {"aten::pow", {x}, {}, {z}, {2}});
  run(device, {"aten::pow", {x}, {}, {z}, {3}});
  run(device, {"aten::hardtanh_", {x}, {}, {}, {0, 6}});
  run(device, {"aten::leaky_relu", {x}, {}, {z}, {0.01}});
  run(device, {"aten::elu", {x}, {}, {z}, {1}});
  run(device, {"aten::elu_backward", {y, x}, {}, {z}, {1, 0}});
  run(device, {"aten::elu_backward", {y, x}, {}, {z}, {1, 1}});
  run(device, {"aten::min", {x, y}, {}, {z}, {}});
  run(device, {"aten::bernoulli_", {}, {}, {b.tensor(type, {4, 1, 1, 1})}, {0.8}});
  run(device, {"aten::mul", {x, b.tensor(type, {4, 1, 1, 1})}, {}, {z}, {}});
  for (const double form : {0.0, 1.0}) {
    run(device, {"aten::gelu", {x}, {}, {z}, {form}});
    run(device, {"aten::gelu_backward", {y, x}, {}, {z}, {form}});
  }
  for (const char* name : {"threshold_backward", "silu_backward", "tanh_backward", "sigmoid_backward"})
    run(device, {std::string("aten::") + name, {x, y}, {}, {z}, {}});
  run(device, {"aten::leaky_relu_backward", {x, y}, {}, {z}, {0.01}});
  run(device, {"aten::hardsigmoid_backward", {y, x}, {}, {z}, {}});
  run(device, {"aten::hardswish_backward", {y, x}, {}, {z}, {}});
  run(device, {"aten::hardtanh_backward", {y, x}, {}, {z}, {0, 6}});
  run(device, {"aten::masked_fill", {x, mask}, {}, {z}, {-1}});
  run(device, {"aten::masked_fill", {x, row_mask}, {}, {z}, {-1}});
  run(device, {"aten::where", {mask, x, y}, {}, {z}, {}});
  run(device, {"aten::where", {mask, x}, {}, {b.tensor(type, {}), z}, {1, 2}});
  run(device, {"aten::where", {mask}, {}, {z}, {0, -std::numeric_limits<double>::infinity()}});
  run(device, {"aten::native_dropout", {x}, {}, {mask, z}, {0.1}});
  run(device, {"aten::native_dropout_backward", {x, mask}, {}, {z}, {0.1}});
}

void copies(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {4, 8, 6, 10}), z = b.tensor(type, {4, 8, 6, 10});
  const KernelTensor last = b.tensor(type, {4, 8, 6, 10}, true);
  run(device, {"aten::clone", {x}, {}, {z}, {}});
  run(device, {"aten::contiguous", {last}, {}, {z}, {}});
  run(device, {"aten::clone", {x}, {}, {last}, {}});
  run(device, {"aten::clone", {transposed(b.tensor(type, {3, 5}))}, {}, {b.tensor(type, {5, 3})}, {}});
  for (const DType to : {DType::fp32, DType::fp16, DType::bf16, DType::fp64, DType::int64, DType::boolean})
    run(device, {"aten::to", {x}, {}, {b.tensor(to, {4, 8, 6, 10})}, {}});
  run(device, {"aten::copy_", {x, z}, {}, {}, {}});
  run(device, {"aten::copy_", {x, b.tensor(type, {4, 4, 6, 10})}, {}, {}, {1, 0, 2}});
  run(device, {"aten::copy_", {x, b.tensor(type, {4, 6, 10})}, {}, {}, {1, 3}});
  run(device, {"aten::cat", {x, z}, {}, {b.tensor(type, {4, 16, 6, 10})}, {1}});
  run(device, {"aten::stack", {x, z}, {}, {b.tensor(type, {2, 4, 8, 6, 10})}, {0}});
  run(device, {"aten::constant_pad_nd", {x}, {}, {b.tensor(type, {4, 8, 7, 12})}, {0, 0, 0, 1, 0, 0, 1, 1, 0}});
  run(device, {"aten::zeros", {}, {}, {x}, {}});
  run(device, {"aten::slice_backward", {}, {}, {x}, {}});
  run(device, {"aten::ones_like", {x}, {}, {z}, {}});
  run(device, {"aten::flip", {x}, {}, {z}, {0b10}});
  run(device, {"aten::roll", {x}, {}, {z}, {-3, 2}});
  run(device, {"aten::tril", {x}, {}, {z}, {}});
  run(device, {"aten::repeat", {b.tensor(type, {8})}, {}, {b.tensor(type, {32})}, {}});
  run(device, {"aten::fill_", {x}, {}, {}, {2}});
  run(device, {"aten::fill_", {b.tensor(type, {14, 14})}, {}, {}, {2, 0, 7, 4, 1, 0, 7}});
  run(device, {"aten::full_like", {x}, {}, {z}, {31}});
  run(device, {"aten::zeros_like", {x}, {}, {z}, {}});
}

void losses(Device& device, DType type) {
  Bench b(device);
  const KernelTensor x = b.tensor(type, {4, 3, 7, 5}), target = b.tensor(type, {4, 3, 7, 5});
  const KernelTensor dx = b.tensor(type, {4, 3, 7, 5}), scalar = b.tensor(type, {});
  for (const std::string name : {"mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"})
    for (const double mean : {0.0, 1.0}) {
      run(device, {"aten::" + name, {x, target}, {}, {scalar}, {mean, 1}});
      run(device, {"aten::" + name + "_backward", {scalar, x, target}, {}, {dx}, {mean, 1}});
    }
}

void integers(Device& device) {
  Bench b(device);
  const KernelTensor x = b.tensor(DType::int64, {4, 9}), y = b.tensor(DType::int64, {4, 9});
  const KernelTensor mask = b.tensor(DType::boolean, {4, 9}), scalar = b.tensor(DType::boolean, {});
  run(device, {"aten::add", {x}, {}, {y}, {1}});
  run(device, {"aten::rsub", {x}, {}, {y}, {1}});
  const KernelTensor ends = b.tensor(DType::int64, {2});
  run(device, {"from_host", {}, {}, {ends}, {8, 0}});
  run(device, {"aten::index", {x, ends}, {}, {b.tensor(DType::int64, {4, 2})}, {1}});
  run(device, {"aten::ne", {x}, {}, {mask}, {1}});
  run(device, {"aten::__and__", {mask, mask}, {}, {b.tensor(DType::boolean, {4, 9})}, {}});
  run(device, {"aten::cumsum", {x}, {}, {y}, {1}});
  run(device, {"aten::arange", {}, {}, {b.tensor(DType::int64, {9})}, {0}});
  run(device, {"aten::new_ones", {}, {}, {mask}, {}});
  run(device, {"aten::all", {mask}, {}, {scalar}, {}});
  run(device, {"aten::any", {mask}, {}, {scalar}, {}});
  run(device, {"aten::abs", {x}, {}, {y}, {}});
  run(device, {"aten::min", {x, y}, {}, {y}, {}});
  run(device, {"aten::floor_divide", {x}, {}, {y}, {2}});
  const KernelTensor row = b.tensor(DType::int64, {600}), order = b.tensor(DType::int64, {600});
  run(device, {"aten::sort", {row}, {}, {b.tensor(DType::int64, {600}), order}, {0}});
  run(device, {"aten::histc", {b.tensor(DType::int32, {600})}, {}, {b.tensor(DType::int32, {8})}, {0, 7}});
  run(device, {"aten::cumsum", {b.tensor(DType::int32, {8})}, {}, {b.tensor(DType::int32, {8})}, {0}});
  run(device, {"aten::empty_like", {row}, {}, {order}, {}});
  run(device, {"aten::index_put_", {order, row, b.tensor(DType::int64, {600})}, {}, {}, {}});
}

}  // namespace gpuplan::module_test
