// What torch.use_deterministic_algorithms refuses on CUDA: its kernels there add in no fixed order,
// the CPU's do. torch's words name CUDA's functions, so these are for `cuda` alone.
#pragma once

#include "names.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace unidev_sim {

struct Alert {
  const char* name;
  const char* caller;
  // Else only where an argument has such a value.
  const char* argument = nullptr;
  bool (*applies)(const c10::IValue&) = nullptr;
};

template <char first>
bool begins_with(const c10::IValue& word) {
  return word.toStringRef()[0] == first;
}

// As torch 2.14.1's kernels for CUDA call alertNotDeterministic, measured without a GPU; not where the
// CPU's kernel does so itself (max_unpool2d, put_ without a sum).
inline const std::vector<Alert> kAlerts = {
    {"_adaptive_avg_pool2d_backward", "adaptive_avg_pool2d_backward_cuda"},
    {"_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward_cuda"},
    {"_ctc_loss_backward", "ctc_loss_backward_gpu"},
    {"_ctc_loss_backward.Tensor", "ctc_loss_backward_gpu"},
    {"_embedding_bag_backward", "embedding_bag_backward_cuda_max", "mode",
     [](const c10::IValue& mode) { return mode.toInt() == 2; }},
    {"_embedding_bag_dense_backward", "embedding_bag_backward_cuda_max", "mode",
     [](const c10::IValue& mode) { return mode.toInt() == 2; }},
    {"_upsample_bicubic2d_aa_backward", "upsample_bicubic2d_aa_backward_out_cuda"},
    {"_upsample_bicubic2d_aa_backward.grad_input", "upsample_bicubic2d_aa_backward_out_cuda"},
    {"_upsample_bilinear2d_aa_backward", "upsample_bilinear2d_aa_backward_out_cuda"},
    {"_upsample_bilinear2d_aa_backward.grad_input", "upsample_bilinear2d_aa_backward_out_cuda"},
    {"adaptive_max_pool2d_backward", "adaptive_max_pool2d_backward_cuda"},
    {"adaptive_max_pool2d_backward.grad_input", "adaptive_max_pool2d_backward_cuda"},
    {"avg_pool3d_backward", "avg_pool3d_backward_cuda"},
    {"avg_pool3d_backward.grad_input", "avg_pool3d_backward_cuda"},
    {"bincount", "_bincount_cuda", "weights",
     [](const c10::IValue& weights) { return weights.isTensor() && weights.toTensor().defined(); }},
    {"fractional_max_pool2d_backward", "fractional_max_pool2d_backward_cuda"},
    {"fractional_max_pool2d_backward.grad_input", "fractional_max_pool2d_backward_cuda"},
    {"fractional_max_pool3d_backward", "fractional_max_pool3d_backward_cuda"},
    {"fractional_max_pool3d_backward.grad_input", "fractional_max_pool3d_backward_cuda"},
    {"grid_sampler_2d_backward", "grid_sampler_2d_backward_cuda"},
    {"grid_sampler_3d_backward", "grid_sampler_3d_backward_cuda"},
    {"histc.out", "_histc_cuda with floating point input", "self",
     [](const c10::IValue& self) { return self.toTensor().is_floating_point(); }},
    {"index_reduce", "index_reduce_cuda"},
    {"index_reduce.out", "index_reduce_cuda"},
    {"index_reduce_", "index_reduce_cuda"},
    {"max_pool3d_with_indices_backward", "max_pool3d_with_indices_backward_cuda"},
    {"max_pool3d_with_indices_backward.grad_input", "max_pool3d_with_indices_backward_cuda"},
    {"median.dim_values", "median CUDA with indices output"},
    {"nanmedian.dim_values", "median CUDA with indices output"},
    {"nll_loss2d_forward", "nll_loss2d_forward_out_cuda_template", "reduction",
     [](const c10::IValue& reduction) { return reduction.toInt() != 0; }},
    {"nll_loss2d_forward.output", "nll_loss2d_forward_out_cuda_template", "reduction",
     [](const c10::IValue& reduction) { return reduction.toInt() != 0; }},
    {"put_", "put_", "accumulate", [](const c10::IValue& is_sum) { return is_sum.toBool(); }},
    {"reflection_pad1d_backward", "reflection_pad1d_backward_out_cuda"},
    {"reflection_pad1d_backward.grad_input", "reflection_pad1d_backward_out_cuda"},
    {"reflection_pad3d_backward", "reflection_pad3d_backward_out_cuda"},
    {"reflection_pad3d_backward.grad_input", "reflection_pad3d_backward_out_cuda"},
    {"replication_pad1d_backward", "replication_pad1d_backward_cuda"},
    {"replication_pad1d_backward.grad_input", "replication_pad1d_backward_cuda"},
    {"replication_pad2d_backward", "replication_pad2d_backward_cuda"},
    {"replication_pad2d_backward.grad_input", "replication_pad2d_backward_cuda"},
    {"replication_pad3d_backward", "replication_pad3d_backward_cuda"},
    {"replication_pad3d_backward.grad_input", "replication_pad3d_backward_cuda"},
    {"scatter.reduce", "scatter_reduce_cuda_kernel", "reduce", &begins_with<'m'>},  // multiply
    {"scatter.reduce_out", "scatter_reduce_cuda_kernel", "reduce", &begins_with<'m'>},
    {"scatter_.reduce", "scatter_reduce_cuda_kernel", "reduce", &begins_with<'m'>},
    {"scatter_reduce.two", "scatter_reduce_cuda_prod_", "reduce", &begins_with<'p'>},  // prod
    {"scatter_reduce.two_out", "scatter_reduce_cuda_prod_", "reduce", &begins_with<'p'>},
    {"scatter_reduce_.two", "scatter_reduce_cuda_prod_", "reduce", &begins_with<'p'>},
    {"upsample_bicubic2d_backward", "upsample_bicubic2d_backward_out_cuda"},
    {"upsample_bicubic2d_backward.grad_input", "upsample_bicubic2d_backward_out_cuda"},
    {"upsample_bilinear2d_backward", "upsample_bilinear2d_backward_out_cuda"},
    {"upsample_bilinear2d_backward.grad_input", "upsample_bilinear2d_backward_out_cuda"},
    {"upsample_linear1d_backward", "upsample_linear1d_backward_out_cuda"},
    {"upsample_linear1d_backward.grad_input", "upsample_linear1d_backward_out_cuda"},
    {"upsample_trilinear3d_backward", "upsample_trilinear3d_backward_out_cuda"},
    {"upsample_trilinear3d_backward.grad_input", "upsample_trilinear3d_backward_out_cuda"},
};

// Raises or warns, as the program has chosen.
inline void alert_if_refused(
    const Alert& alert, const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!at::globalContext().deterministicAlgorithms()) {
    return;
  }
  if (alert.applies != nullptr) {
    const std::optional<int> index = op.schema().argumentIndexWithName(alert.argument);
    const size_t begin = stack.size() - op.schema().arguments().size();
    if (!index || !alert.applies(stack[begin + *index])) {
      return;
    }
  }
  at::globalContext().alertNotDeterministic(alert.caller);
}

} // namespace unidev_sim
