// What each operation that can be executed is given, beside what its Primitive says. Names and order are PyTorch's
// where they exist. [x] is one that may be absent; a number in braces is of Kernel::numbers.
//
//   pointwise, operands broadcast to the result (right-aligned), computed in fp32 or fp64, rounded to the result's type
//     add sub mul div (and add_ ... in place)   reads a, b, or a alone with {b}
//     eq ne le gt __and__                       reads a, b, or a alone with {b} -> bool
//     neg exp sin cos tanh relu silu sigmoid rsqrt to   reads a
//     pow {exponent} · hardtanh_ {min, max} · leaky_relu {slope} · elu {alpha} · gelu {1: tanh's approximation}
//     threshold_backward                        reads result, grad
//     hardtanh_backward {min, max}, gelu_backward {tanh}, silu_backward   reads grad, x
//     tanh_backward, sigmoid_backward           reads grad, result
//     masked_fill {value}                       reads x, mask
//     where                                     reads condition, x, y; or condition, x {value, 1 or 2}: writes also the
//                                               number (first), which is the argument of that position; or condition
//                                               alone {value where true, value where false}
//     native_dropout {p}                        reads x; writes mask, y
//     native_dropout_backward {p}               reads grad, mask
//   whole tensors
//     arange {first} · new_ones, ones, zeros, new_zeros, slice_backward, select_backward: writes only
//     ones_like {1} · mul of the loss by {scale} under a GradScaler
//     clone, contiguous, copy_ (reads to, from)  copies between any strides and types; copy_ of a slice's gradient has
//                                               {dim, start, step} and of a selection's {dim, position}: where in `to`
//     cat, stack {dim} · constant_pad_nd {before each dimension's first element ..., after ..., value}
//     sum, mean {bits of the dimensions} · all, any: of everything
//     cumsum {dim} · gather {dim} reads table, index · index reads table, row index, column index; writes copies of the
//                                               indices, then the result
//   products
//     mm, bmm reads a, b · addmm reads a, b, bias (operands of any strides)
//     convolution, _conv_depthwise2d            reads input, weight
//     convolution_backward                      by Convolution::pass: data reads grad, weight; filter grad, input
//                                               {1 for a transposed convolution, whose grad is the image}
//   normalisation
//     batch_norm {momentum or NaN, eps}         reads x; beside [weight], [bias], [running mean], [running variance];
//                                               writes y, [mean, invstd]
//     cudnn_batch_norm_backward {eps}           reads x, grad, weight; writes dx, dweight, dbias
//     native_batch_norm_backward {eps}          reads grad, x; writes dx, dweight, dbias, or dweight, dbias, dx where
//                                               BatchNorm::native_rows. Both beside [weight], [mean], [invstd],
//                                               [running mean], [running variance]
//     native_layer_norm {eps}                   reads x; beside [weight], [bias]; writes y, mean, rstd
//     native_layer_norm_backward                reads grad, x, mean, rstd, [weight]; beside the results [dx],
//     [dweight],
//                                               [dbias], which aten::empty allocated
//     _fused_rms_norm {eps}                     reads x; beside [weight]; writes y, rstd; its backward as layer norm's
//   pooling, images as [N, C, H, W] of any strides
//     max_pool2d_with_indices {kernel h, w, stride h, w, padding h, w, dilation h, w}   reads x; writes y, indices
//     max_pool2d_with_indices_backward {the same}   reads grad, x, indices
//     _adaptive_avg_pool2d and _backward        reads x; grad, x
//   attention
//     _scaled_dot_product_{flash,efficient,cudnn}_attention[_backward] {scale, causal, p}
//                                               reads query, key, value, [mask]; writes as PyTorch's: the result is
//                                               the first of four dimensions, log-sum-exp the fp32 after it.
//                                               Backward reads grad; beside query, key, value, [mask], result,
//                                               log-sum-exp; writes the gradients of query, key, value, [mask]; its
//                                               seed is that of the forward operation
//     slice_backward that reads a part          zeros with that part first in every dimension (padded heads)
//   losses and lookups
//     _log_softmax, _softmax, _safe_softmax {dim}  reads x · _..._backward_data {dim} reads grad, result
//     nll_loss[2d]_forward {ignored index}      reads log p, target; writes loss, total weight
//     nll_loss[2d]_backward {ignored index}     reads grad, log p, target, total weight
//     embedding                                 reads table, indices
//     embedding_dense_backward                  reads grad, indices
#pragma once
