// Packing many tensors into one, adding to it, and writing to many, in the memory that simulated devices share with
// the host: the fallback would copy every tensor both ways.
#pragma once

#include "fallback.h"

#include <ATen/ops/empty.h>

#include <cstring>

namespace unidev_sim {

inline bool is_plain(const at::Tensor& tensor) {
  return tensor.device().type() == kSim && tensor.layout() == c10::kStrided &&
      tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// Whether the bytes of their concatenation are theirs, one after the other.
inline bool can_be_joined(const std::vector<at::Tensor>& tensors, int64_t dim) {
  for (const at::Tensor& tensor : tensors) {
    if (dim != 0 || !is_plain(tensor) || tensor.dim() == 0 ||
        tensor.scalar_type() != tensors[0].scalar_type() ||
        tensor.sizes().slice(1) != tensors[0].sizes().slice(1)) {
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
  sizes[0] = 0;
  for (const at::Tensor& tensor : tensors) {
    sizes[0] += tensor.size(0);
  }
  at::Tensor joined = at::empty(sizes, tensors[0].options());
  char* target = static_cast<char*>(joined.mutable_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    std::memcpy(target, tensor.const_data_ptr(), tensor.nbytes());
    target += tensor.nbytes();
  }
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
