// Time of a matrix product by tile and wave quantization. The library is assumed to choose the fastest tile and split
// of the contracted dimension. Each multiprocessor computes one block at a time, so a last wave that fills few of them
// takes as long as a full one. See NVIDIA's "Matrix Multiplication Background User's Guide".
#pragma once

#include <cstdint>

#include "estimator/operators/primitive.h"
#include "estimator/time/time_model.h"

namespace gpuplan {

/// batch products of [m, k] and [k, n].
struct ProductShape {
  double batch = 1, m = 1, n = 1, k = 1;
};
/// Of the matrix product that the pass computes implicitly; a group each is one of the batch.
ProductShape implicit_product(const Convolution& convolution);

/// What products run on.
struct ProductUnits {
  int multiprocessors = 0;
  double flops = 0;  // a second, of all of them; 0: not known
  double bytes = 0;  // a second that memory achieves
  bool tensor_cores = false;
};

/// Seconds in the main kernel, without its launch and without traffic that `flops` hides: never less than a share of
/// the peak. `share` scales the tiles' (1 for matrix products).
double product_seconds(const ProductShape& shape, const ProductUnits& units, double share, const TimeModel& model);

}  // namespace gpuplan
