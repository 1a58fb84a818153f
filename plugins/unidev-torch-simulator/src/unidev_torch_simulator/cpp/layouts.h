// Tensors that are composed of others: sparse ones, of indices and values, and nested ones, which are
// a buffer with a table of sizes on the CPU.
#pragma once

#include "tensors.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace unidev_sim {

inline bool is_sparse(const at::Tensor& tensor) {
  return tensor.layout() != c10::kStrided && !tensor.is_mkldnn();
}

inline at::SparseTensorImpl* coo_of(const at::Tensor& tensor) {
  return static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

inline at::SparseCsrTensorImpl* compressed_of(const at::Tensor& tensor) {
  return static_cast<at::SparseCsrTensorImpl*>(tensor.unsafeGetTensorImpl());
}

// Indices and values, as they are stored.
inline std::vector<at::Tensor> parts_of(const at::Tensor& sparse) {
  if (sparse.is_sparse()) {
    return {coo_of(sparse)->indices(), coo_of(sparse)->values()};
  }
  const auto* impl = compressed_of(sparse);
  return {impl->compressed_indices(), impl->plain_indices(), impl->values()};
}

// Makes `sparse` the tensor that `like` is, of other parts.
inline void set_parts(
    const at::Tensor& sparse, const at::Tensor& like, const std::vector<at::Tensor>& parts) {
  if (like.is_sparse()) {
    const auto* model = coo_of(like);
    auto* impl = coo_of(sparse);
    impl->raw_resize_(model->sparse_dim(), model->dense_dim(), like.sizes());
    impl->set_indices_and_values_unsafe(parts[0], parts[1]);
    impl->set_coalesced(model->coalesced());
  } else {
    compressed_of(sparse)->set_layout(like.layout());
    compressed_of(sparse)->set_member_tensors(parts[0], parts[1], parts[2], like.sizes());
  }
}

// The word in the names of torch's wrappers.
constexpr const char* layout_of(c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::SparseCPU:
      return "Sparse";
    case c10::DispatchKey::SparseCsrCPU:
      return "SparseCsr";
    case c10::DispatchKey::NestedTensorCPU:
      return "NestedTensor";
    default:
      return "";
  }
}

// A tensor on `device` that is composed of `parts` as `like` is of its own.
inline at::Tensor composed(
    const at::Tensor& like, const std::vector<at::Tensor>& parts, c10::Device device) {
  using Key = c10::DispatchKey;
  const bool is_cpu = device.is_cpu();
  at::Tensor made = like.is_sparse()
      ? at::detail::make_tensor<at::SparseTensorImpl>(
            c10::DispatchKeySet(is_cpu ? Key::SparseCPU : Key::UNIDEV_SPARSE_KEY), like.dtype())
      : at::detail::make_tensor<at::SparseCsrTensorImpl>(
            c10::DispatchKeySet(is_cpu ? Key::SparseCsrCPU : Key::UNIDEV_COMPRESSED_KEY), device,
            like.layout(), like.dtype());
  set_parts(made, like, parts);
  return made;
}

// The nested tensor `like` in the memory of `buffer`, where its elements have the same places.
inline at::Tensor nested_in(const at::Tensor& like, c10::Storage buffer) {
  using Key = c10::DispatchKey;
  const auto* impl = at::native::get_nested_tensor_impl(like);
  const bool is_cpu = buffer.device().is_cpu();
  // Unlike other tensors, nested ones name the key by which autograd knows them.
  const c10::DispatchKeySet keys(
      {is_cpu ? Key::NestedTensorCPU : Key::UNIDEV_NESTED_KEY, Key::AutogradNestedTensor});
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      std::move(buffer), keys, like.dtype(), impl->get_nested_sizes(), impl->get_nested_strides(),
      impl->get_storage_offsets());
}

// Operators whose kernel for the CPU calls operators on the parts, on any device: those that view,
// make, copy and resize tensors. The others may call what is compiled for the CPU alone.
inline bool is_composed_of_operators(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> names = {
      "aten::_coalesced_", "aten::_sparse_coo_tensor_with_dims",
      "aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::_nested_tensor_size",
      "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets", "aten::_to_copy",
      "aten::clone", "aten::copy_", "aten::copy_sparse_to_sparse_", "aten::empty",
      "aten::empty_like", "aten::resize_", "aten::resize_as_sparse_", "aten::sparse_resize_",
      "aten::sparse_resize_and_clear_", "aten::zeros",
  };
  const auto& returns = op.schema().returns();
  const bool is_view = std::any_of(returns.begin(), returns.end(), [](const auto& each) {
    return each.alias_info() != nullptr && !each.alias_info()->isWrite();
  });
  return is_view || names.count(op.schema().name()) > 0;
}

} // namespace unidev_sim
