// Packing many tensors into one, adding to it, and writing to many, in the memory that simulated devices share with
// the host: the fallback would copy every tensor both ways.
#pragma once

#include "fallback.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstring>

namespace unidev_sim {

inline bool is_plain(const at::Tensor& tensor) {
  return tensor.device().type() == kSim && tensor.layout() == c10::kStrided &&
      tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// Whether the result of concatenating them is contiguous, with the first one's shape but for `dim`.
inline bool can_be_joined(const std::vector<at::Tensor>& tensors, int64_t dim) {
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor) || tensor.scalar_type() != tensors[0].scalar_type() ||
        tensor.dim() != tensors[0].dim() || dim < 0 || dim >= tensor.dim()) {
      return false;
    }
  }
  return !tensors.empty();
}

inline void cat(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::optional<c10::Device> device = device_of_call(op, *stack);
  const int64_t dim = stack->back().toInt();
  const std::vector<at::Tensor> tensors = (*stack)[stack->size() - 2].toTensorVector();
  if (!device || !can_be_joined(tensors, dim)) {
    fallback(op, stack);
    return;
  }
  std::vector<int64_t> sizes = tensors[0].sizes().vec();
  std::vector<at::Tensor> hosts;
  sizes[dim] = 0;
  for (const at::Tensor& tensor : tensors) {
    sizes[dim] += tensor.size(dim);
    hosts.push_back(on_host(tensor));
  }
  at::Tensor joined = at::empty(sizes, tensors[0].options());
  at::Tensor host = on_host(joined);
  at::cat_out(host, hosts, dim);
  torch::jit::drop(*stack, 2);
  stack->emplace_back(std::move(joined));
}

inline void foreach_copy(at::TensorList targets, at::TensorList sources, bool non_blocking) {
  TORCH_CHECK(
      targets.size() == sources.size(),
      "Tensor lists must have the same number of tensors, got ", targets.size(), " and ",
      sources.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    const at::Tensor &target = targets[i], &source = sources[i];
    if (is_plain(target) && is_plain(source) && target.sizes() == source.sizes() &&
        target.scalar_type() == source.scalar_type()) {
      std::memmove(target.mutable_data_ptr(), source.const_data_ptr(), source.nbytes());
      if (!target.is_inference()) {
        target.unsafeGetTensorImpl()->bump_version();  // as copy_ does
      }
    } else {
      target.copy_(source, non_blocking);
    }
  }
}

// In place on both operands' own memory; anything else goes through the fallback.
inline void add(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - 3;
  at::Tensor target = (*stack)[begin].toTensor();
  const at::Tensor other = (*stack)[begin + 1].toTensor();
  if (!is_plain(target) || !is_plain(other) || target.device() != other.device()) {
    fallback(op, stack);
    return;
  }
  on_host(target).add_(on_host(other), (*stack)[begin + 2].toScalar());
  torch::jit::drop(*stack, 3);
  stack->emplace_back(std::move(target));
}

} // namespace unidev_sim
