// Which kernel CUDA would choose for scaled_dot_product_attention, by torch's own checks; all are
// computed by the formula.
#pragma once

#include "names.h"

#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <vector>

namespace unidev_sim {

using sdp::SDPBackend;
using sdp::sdp_params;

inline std::atomic<int> capability{80};  // 75, 80, 89 or 90: of the model that is simulated

// Those of torch's aten/src/ATen/native/transformers/cuda/sdp_utils.cpp that no header has (2.13).
inline bool check_is_on_gpu(const sdp_params& params, bool) {
  return params.query.is_cuda() && params.key.is_cuda() && params.value.is_cuda() &&
      sdp::has_only_dense_inputs(params);
}

inline bool check_flash_hardware(const sdp_params&, bool debug) {
  if (capability < 80 && debug) {
    TORCH_WARN(
        "Flash attention only supports gpu architectures in the range [sm80, sm121]. Attempting to "
        "run on a sm ", capability / 10, ".", capability % 10, " gpu.");
  }
  return capability >= 80;
}

inline bool check_flash_head_dim(const sdp_params& params, bool debug) {
  const auto query = params.query.sym_size(-1);
  const bool is_same = query == params.key.sym_size(-1) && query == params.value.sym_size(-1);
  if ((!is_same || query > 256) && debug) {
    TORCH_WARN(
        "Flash attention requires q,k,v to have the same last dimension and to be less than or "
        "equal to 256. Got Query.size(-1): ", query, ", Key.size(-1): ", params.key.sym_size(-1),
        ", Value.size(-1): ", params.value.sym_size(-1), " instead.");
  }
  return is_same && query <= 256;
}

inline bool check_flash_causal(const sdp_params& params, bool debug) {
  const bool is_wrong =
      params.is_causal && params.query.sym_size(-2) != params.key.sym_size(-2);
  if (is_wrong && debug) {
    TORCH_WARN(
        "Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. Got "
        "seqlen_q: ", params.query.sym_size(-2), " seqlen_k: ", params.key.sym_size(-2), ".");
  }
  return !is_wrong;
}

inline bool check_flash_dtype(const sdp_params& params, bool debug) {
  const std::vector<at::ScalarType> allowed = {at::kHalf, at::kBFloat16};
  return sdp::check_tensor_dtype(params, allowed, debug);
}

inline bool check_efficient_dtype(const sdp_params& params, bool debug) {
  std::vector<at::ScalarType> allowed = {at::kHalf, at::kFloat};
  if (capability >= 80) {
    allowed.push_back(at::kBFloat16);
  }
  return sdp::check_tensor_dtype(params, allowed, debug);
}

inline bool check_efficient_head_dim(const sdp_params& params, bool debug) {
  const bool is_half = params.query.scalar_type() != at::kFloat;
  const int alignment = is_half ? 8 : capability >= 80 ? 4 : 1;
  const auto query = params.query.sym_size(-1), value = params.value.sym_size(-1);
  const bool is_right = query == params.key.sym_size(-1) && query % alignment == 0 && query > 0 &&
      value % alignment == 0 && value > 0;
  if (!is_right && debug) {
    TORCH_WARN(
        "Mem efficient attention requires last dimension of inputs to be divisible by ", alignment,
        ". Got Query.size(-1): ", query, ", Key.size(-1): ", params.key.sym_size(-1),
        ", Value.size(-1): ", value, " instead.");
  }
  return is_right;
}

using Check = bool (*)(const sdp_params&, bool);

template <size_t count>
bool pass(const std::array<Check, count>& checks, const sdp_params& params, bool debug) {
  return std::all_of(
      checks.begin(), checks.end(), [&](Check check) { return check(params, debug); });
}

inline bool can_use_flash(const sdp_params& params, bool debug) {
  static const auto checks = std::to_array<Check>(
      {sdp::check_runtime_disabled_flash, check_is_on_gpu, sdp::check_tensor_shapes,
       sdp::check_for_attn_mask, check_flash_head_dim, check_flash_hardware, check_flash_causal,
       check_flash_dtype, sdp::check_batch_size_and_num_heads_dense<true>,
       sdp::check_nonzero_sequence_lengths_dense,
       sdp::check_last_dim_stride_equals_1_dense<true>});
  return pass(checks, params, debug);
}

inline bool can_use_efficient(const sdp_params& params, bool debug) {
  static const auto checks = std::to_array<Check>(
      {sdp::check_runtime_disabled_mem_efficient, check_is_on_gpu, sdp::check_tensor_shapes,
       check_efficient_head_dim, check_efficient_dtype,
       sdp::check_batch_size_and_num_heads_dense<false>,
       sdp::check_nonzero_sequence_lengths_dense,
       sdp::check_last_dim_stride_equals_1_dense<false>});
  return pass(checks, params, debug);
}

inline SDPBackend choose_attention(const sdp_params& params) {
  if (can_use_flash(params, false)) {
    return SDPBackend::flash_attention;
  }
  if (can_use_efficient(params, false)) {
    return SDPBackend::efficient_attention;
  }
  if (at::globalContext().userEnabledMathSDP()) {
    return SDPBackend::math;
  }
  TORCH_WARN("Memory efficient kernel not used because:");
  can_use_efficient(params, true);
  TORCH_WARN("Flash attention kernel not used because:");
  can_use_flash(params, true);
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

inline int64_t choice_of_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, double dropout, bool is_causal, std::optional<double>,
    bool enable_gqa) {
  return static_cast<int64_t>(
      choose_attention({query, key, value, mask, dropout, is_causal, enable_gqa}));
}

// What torch then calls: whatever CUDA would choose is not there.
inline int64_t attention_by_formula(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, double dropout, bool is_causal,
    std::optional<double> scale, bool enable_gqa) {
  choice_of_attention(query, key, value, mask, dropout, is_causal, scale, enable_gqa);
  return static_cast<int64_t>(SDPBackend::math);
}

} // namespace unidev_sim
