// What each operation that can be executed is given, beside what its Primitive says. Names and order are PyTorch's
// where they exist. [x] is one that may be absent; a number in braces is of Kernel::numbers.
//
//   pointwise, operands broadcast to the result (right-aligned), computed in fp32 or fp64, rounded to the result's type
//     add sub mul div (and add_ ... in place)   reads a, b, or a alone with {b}
//     eq ne lt le ge gt __and__                 reads a, b, or a alone with {b} -> bool
//     floor_divide, rsub (b - a)                reads a, b, or a alone with {b} · min reads a, b
//     neg abs sgn exp log sin cos tanh relu silu sigmoid hardsigmoid hardswish rsqrt to   reads a
//     pow {exponent} · hardtanh_ {min, max} · leaky_relu {slope} · elu {alpha, 1: in place} · gelu {1: tanh's
//                                               approximation}
//     threshold_backward                        reads result, grad
//     hardtanh_backward {min, max}, gelu_backward {tanh}, silu_backward   reads grad, x
//     hardsigmoid_backward, hardswish_backward  reads grad, x
//     elu_backward {alpha, 1: of the result}    reads grad, and x or the result
//     leaky_relu_backward {slope}               reads x or the result, grad
//     tanh_backward, sigmoid_backward           reads grad, result
//     masked_fill {value}                       reads x, mask
//     where                                     reads condition, x, y; or condition, x {value, 1 or 2}: writes also the
//                                               number (first), which is the argument of that position; or condition
//                                               alone {value where true, value where false}
//     bernoulli_ {probability of a 1}           writes only
//     native_dropout {p}                        reads x; writes mask, y
//     native_dropout_backward {p}               reads grad, mask
//   whole tensors
//     arange {first} · new_ones, ones, zeros, new_zeros, zeros_like, slice_backward, select_backward: writes only
//     full_like, ones_like {value} · empty_like: nothing · fill_ {value, then of each dimension that is not filled
//                                               whole dim, start, count} reads what it fills
//     flip {dim} · roll {shift, dim} reads x and what only lives as long · repeat reads x of one dimension
//     mul of the loss, and of its gradient, by the scale that a GradScaler has on the device
//     tril reads x · to without an operand      {its numbers}
//     clone, contiguous, copy_ (reads to, from)  copies between any strides and types; copy_ of a slice's gradient has
//                                               {dim, start, step} and of a selection's {dim, position}: where in `to`
//     cat, stack {dim} · constant_pad_nd {before each dimension's first element ..., after ..., value}
//     sum, mean {bits of the dimensions} · all, any: of everything
//     cumsum {dim} · gather, index_select {dim} reads table, index · index reads table, row index; with {dim} as
//                                               index_select; or table, row index, column index: writes copies of the
//                                               indices, then the result
//     scatter_, scatter_add_, index_add_ {dim}  reads table, values, index · index_put_ reads table, index, values ·
//                                               _index_put_impl_ reads table, values, index: added row by row
//     topk {last dim}, sort {0} reads x; writes values, places · histc {least, most} reads x
//   products
//     _grouped_mm {0}                           reads x [pairs, m], weight [experts, n, m], ends; {1}: reads grad,
//     weight,
//                                               ends, writes dx; {2}: reads grad, x, ends, writes dweight
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
//     batch_norm_backward {eps, 1 or 0: is dx wanted, dweight, dbias}   reads grad, x, mean, invstd, [weight]
//     native_group_norm {eps}                   reads x; beside [weight], [bias]; writes y, mean, rstd
//     native_group_norm_backward {1 or 0: is dx wanted, dweight, dbias}   reads grad, x, mean, rstd, [weight]
//     _fused_rms_norm {eps}                     reads x; beside [weight]; writes y, rstd; its backward as layer norm's
//   pooling, images as [N, C, H, W] of any strides
//     max_pool2d_with_indices {kernel h, w, stride h, w, padding h, w, dilation h, w}   reads x; writes y, indices
//     max_pool2d_with_indices_backward {the same}   reads grad, x, indices
//     _adaptive_avg_pool2d and _backward        reads x; grad, x
//     avg_pool2d {kernel h, w, stride h, w, padding h, w, 1: padding counts, divisor or 0} and _backward
//     upsample_nearest2d, upsample_bilinear2d {input elements from one output element to the next, h, w, 1:
//                                               align_corners}   reads x · _backward reads grad
//   attention
//     _scaled_dot_product_{flash,efficient,cudnn}_attention[_backward] {scale, causal, p}
//                                               reads query, key, value, [mask]; writes as PyTorch's: the result is
//                                               the first of four dimensions, log-sum-exp the fp32 after it.
//                                               Backward reads grad; beside query, key, value, [mask], result,
//                                               log-sum-exp; writes the gradients of query, key, value, [mask]; its
//                                               seed is that of the forward operation
//     FusedAttention {scale, causal, 0}         reads query, key, value; writes the result and log-sum-exp
//     FusedAttentionBackward                    reads query, key, value, result, log-sum-exp, grad
//     slice_backward that reads a part          zeros with that part first in every dimension (padded heads)
//   recurrent layers, by cuDNN; [T] tensors lie with time first, {probability of dropout between layers}
//     _cudnn_init_dropout_state                 scratch: the random states, when they are made
//     _cudnn_rnn                                reads x [T], the weights, the first states; writes y [T], the last
//                                               states, [the weights packed in cuDNN's space], [the reserve, in
//                                               training]
//     _cudnn_rnn_backward_input                 reads x [T], grad [T], gradients of the last states, y [T], the first
//                                               states, then packed weights and reserve, or reserve and the first of
//                                               weights that lie in cuDNN's space; writes dx [T], those of the states
//     _cudnn_rnn_backward_weight                reads x [T], y [T], the first states, as above, then cuDNN's space for
//                                               the gradients; writes copies of them where there are no biases
//   losses and lookups
//     _log_softmax, _softmax, _safe_softmax {dim}  reads x · _..._backward_data {dim} reads grad, result
//     nll_loss[2d]_forward {ignored index}      reads log p, target; writes loss, total weight
//     nll_loss[2d]_backward {ignored index}     reads grad, log p, target, total weight
//     mse_loss, smooth_l1_loss, huber_loss, binary_cross_entropy_with_logits {1: mean, beta or delta}
//                                               reads x, target; _backward reads grad, x, target
//     embedding                                 reads table, indices
//     embedding_dense_backward                  reads grad, indices
#pragma once
