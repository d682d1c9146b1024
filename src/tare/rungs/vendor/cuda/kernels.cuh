// The ops that are kernels of our own. They take most of the compile time, so each data type has a source file of its own
// (kernels_f32.cu, ...), and the files are compiled in parallel.
#pragma once

#include "adam.cuh"
#include "rows.cuh"
#include "space_to_depth.cuh"
#include "losses.cuh"
#include "normalization_backward.cuh"
#include "copies.cuh"
#include "pooling.cuh"

namespace tare::vendor {

// The calls of an op; empty for ops of a library.
template <class T>
std::vector<Call> kernel_calls(Device& device, Partials& partials, const Op& op) {
  std::vector<Call> calls;
  const std::string& kind = op.kind;
  if (kind == "batch_norm") batch_norm<T>(device, partials, op, calls);
  else if (kind == "batch_norm_backward") batch_norm_backward<T>(device, partials, op, calls);
  else if (kind == "bias_gradient") calls = {bias_gradient<T>(device, partials, op)};
  else if (kind == "add" || kind == "activation" || kind == "affine") calls = {epilogue<T>(device, op, op["x"].as<T>())};
  else if (kind == "activation_backward") calls = {activation_backward<T>(device, op)};
  else if (kind == "cast") calls = {cast<T>(device, op)};
  else if (kind == "space_to_depth") calls = {space_to_depth<T>(device, op)};
  else if (kind == "depth_to_space") calls = {depth_to_space<T>(device, op)};
  else if (kind == "multiply") calls = {multiply<T>(device, op)};
  else if (kind == "scale_channels") calls = {scale_channels<T>(device, op)};
  else if (kind == "scale_channels_backward") calls = {scale_channels_backward<T>(device, op)};
  else if (kind == "copy_block") calls = {copy_block<T>(device, op)};
  else if (kind == "permute") calls = {permute<T>(device, op)};
  else if (kind == "max_pool") calls = {pool<T, true>(device, op)};
  else if (kind == "average_pool") calls = {pool<T, false>(device, op)};
  else if (kind == "max_pool_backward") calls = {pool_backward<T, true>(device, op)};
  else if (kind == "average_pool_backward") calls = {pool_backward<T, false>(device, op)};
  else if (kind == "log_softmax") calls = {log_softmax<T>(device, op)};
  else if (kind == "cross_entropy") calls = {cross_entropy<T>(device, op)};
  else if (kind == "mean_square") calls = {mean_square<T>(device, op)};
  else if (kind == "sgd") calls = {sgd<T>(device, op)};
  else if (kind == "adam") calls = {adam<T>(device, op)};
  else if (kind == "add_rows") calls = {scatter_rows<T, true>(device, op)};
  else if (kind == "put_rows") calls = {scatter_rows<T, false>(device, op)};
  else if (kind == "scatter") calls = {scatter<T>(device, op)};
  else if (kind == "bag_rows") calls = {bag_rows<T>(device, op)};
  else if (kind == "order") calls = {order<T>(device, op)};
  else if (kind == "place_of_extreme") calls = {op["x"].dtype == "i64" ? place_of_extreme<int64_t>(device, op) : place_of_extreme<T>(device, op)};
  else if (kind == "cumulate") calls = {op["x"].dtype == "i64" ? cumulate<int64_t>(device, op) : cumulate<T>(device, op)};
  return calls;
}

}  // namespace tare::vendor

// Explicit instantiation; with `extern` only a declaration.
#define TARE_KERNELS(keyword, T)                                                   \
  namespace tare::vendor {                                                         \
  keyword template std::vector<Call> kernel_calls<T>(Device&, Partials&, const Op&);  \
  keyword template Call epilogue<T>(Device&, const Op&, const T*, bool);           \
  }
