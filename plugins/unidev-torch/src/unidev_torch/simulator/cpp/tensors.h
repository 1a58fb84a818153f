// What every backend must implement: make tensors, move bytes, view and resize memory.
#pragma once

#include "hooks.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include <optional>

namespace unidev_sim {

inline const c10::DispatchKeySet kSimKeys(c10::DispatchKey::PrivateUse1);

inline void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(c10::kStrided) == c10::kStrided,
      "simulated devices hold dense (strided) tensors only, not ", layout.value_or(c10::kStrided));
  TORCH_CHECK(!pin_memory.value_or(false), "only dense CPU tensors can be pinned");
}

inline at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout,
    std::optional<c10::Device> device, std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(
      size, allocator(), kSimKeys, c10::dtype_or_default(dtype), memory_format);
}

inline at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<c10::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(
      size, stride, allocator(), kSimKeys, c10::dtype_or_default(dtype));
}

// The same memory, seen as a CPU tensor. It must not outlive `tensor`.
inline at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    return tensor;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.device().type() == kSim && tensor.layout() == c10::kStrided,
      "a simulated device exchanges dense tensors with the CPU and other simulated devices, not ",
      tensor.layout(), " ones on ", tensor.device());
  at::Tensor host = at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(),
      at::TensorOptions().dtype(tensor.dtype()).device(c10::kCPU));
  host._set_conj(tensor.is_conj());
  host._set_neg(tensor.is_neg());
  return host;
}

// All work is done when it returns: `non_blocking` changes nothing.
inline at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool) {
  at::Tensor host = on_host(target);
  host.copy_(on_host(self));
  return target;
}

inline at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) {
    target.resize_(self.sizes());
  }
  return copy_from(self, target, false);
}

inline at::Scalar local_scalar_dense(const at::Tensor& self) {
  return at::native::_local_scalar_dense_cpu(on_host(self));
}

// The fallback would copy, both ways, bytes that are only overwritten.
inline at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  on_host(self).fill_(value);
  return self;
}

inline at::Tensor& zero(at::Tensor& self) {
  on_host(self).zero_();
  return self;
}

inline const at::Tensor& resize(
    const at::Tensor& self, at::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  c10::DeviceGuard guard(self.device());
  return at::native::resize_(self, size, memory_format);
}

inline at::Tensor& set_storage(
    at::Tensor& self, c10::Storage source, int64_t offset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  c10::DeviceGuard guard(self.device());
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

inline at::Tensor& set_nothing(at::Tensor& self) {
  c10::DeviceGuard guard(self.device());
  c10::Storage none(
      c10::Storage::use_byte_size_t(), 0, allocator()->allocate(0), allocator(), true);
  return at::native::set_storage_cpu_(self, std::move(none), 0, {0}, {});
}

inline void record_stream(at::Tensor&, c10::Stream) {}

// torch calls this before `x.data = y` and in Module.to. Its default is true between the CPU and the
// accelerators that it knows (c10/core/TensorImpl.h), and false for these: Module.to would then
// create new parameters, untie tied ones and orphan optimizers, which it does on no real GPU. Dense
// tensors here are plain TensorImpls like the CPU's, so true is right.
inline bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && (tensor.is_cpu() || tensor.device().type() == kSim);
  };
  return is_dense(self) && is_dense(from);
}

} // namespace unidev_sim
