// What every backend must implement: make tensors, move bytes, view and resize memory.
#pragma once

#include "hooks.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include <optional>

namespace unidev_sim {

inline const c10::DispatchKeySet kSimKeys(kKey);

inline void check_pinning(std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "only dense CPU tensors can be pinned");
}

inline at::Tensor on_host(const at::Tensor& tensor);

inline bool is_filling() {
  const at::Context& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms()) && context.deterministicFillUninitializedMemory();
}

// use_deterministic_algorithms fills new memory, by NaN or the largest integer.
inline at::Tensor filled(at::Tensor made) {
  if (is_filling() && made.numel() > 0) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor host = on_host(made);
    at::native::fill_empty_deterministic_(host);
  }
  return made;
}

inline at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout>,
    std::optional<c10::Device> device, std::optional<bool> pin_memory,
    std::optional<c10::MemoryFormat> memory_format) {
  check_pinning(pin_memory);
  c10::OptionalDeviceGuard guard(device);
  return filled(at::detail::empty_generic(
      size, allocator(), kSimKeys, checked_dtype(c10::dtype_or_default(dtype)), memory_format));
}

inline at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<c10::Layout>, std::optional<c10::Device> device,
    std::optional<bool> pin_memory) {
  check_pinning(pin_memory);
  c10::OptionalDeviceGuard guard(device);
  return filled(at::detail::empty_strided_generic(
      size, stride, allocator(), kSimKeys, checked_dtype(c10::dtype_or_default(dtype))));
}

// Zeros without memory, which autograd takes for a gradient that is zero everywhere.
inline at::Tensor efficient_zero(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<c10::Layout>,
    std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_pinning(pin_memory);
  c10::OptionalDeviceGuard guard(device);
  const auto type = c10::scalarTypeToTypeMeta(checked_dtype(c10::dtype_or_default(dtype)));
  const size_t bytes = at::detail::computeStorageNbytesContiguous(size, type.itemsize());
  c10::Storage nothing(
      c10::Storage::use_byte_size_t(), bytes,
      c10::DataPtr(nullptr, c10::Device(kSim, checked_index(current_device))), allocator(),
      /*resizable=*/true);
  at::Tensor zero = at::detail::make_tensor<c10::TensorImpl>(
      std::move(nothing), kSimKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor), type);
  zero.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return zero;
}

// The memory of a simulated tensor as a storage of the CPU. It must not outlive that tensor.
// Where a kernel may make it larger, it gets memory of the CPU's then, and says so by its address.
inline c10::Storage storage_on_host(const at::Tensor& tensor, bool can_grow) {
  const c10::Storage& storage = tensor.storage();
  return c10::Storage(
      c10::Storage::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(storage.mutable_data(), c10::Device(c10::kCPU)),
      can_grow ? c10::GetAllocator(c10::kCPU) : nullptr, can_grow);
}

inline at::Tensor view_on_host(const at::Tensor& tensor, c10::Storage storage) {
  at::Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* impl = host.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  if (tensor.is_conj()) {
    host._set_conj(true);
  }
  if (tensor.is_neg()) {
    host._set_neg(true);
  }
  return host;
}

inline void require_dense(const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.device().type() == kSim && tensor.layout() == c10::kStrided && !tensor.is_quantized(),
      "a simulated GPU exchanges dense (strided) tensors with the CPU and other simulated GPUs, not ",
      tensor.is_quantized() ? "quantized" : c10::str(tensor.layout()), " ones on ", tensor.device());
}

// The same memory, seen as a CPU tensor. It must not outlive `tensor`.
inline at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) {
    return tensor;
  }
  require_dense(tensor);
  if (tensor._is_zerotensor()) {
    return at::zeros({}, tensor.options().device(c10::kCPU)).expand(tensor.sizes());
  }
  return view_on_host(tensor, storage_on_host(tensor, /*can_grow=*/false));
}

inline bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.is_contiguous() && !tensor.is_conj() &&
      !tensor.is_neg() && !tensor._is_zerotensor() &&
      (tensor.device().type() == kSim || tensor.is_cpu()) &&
      !tensor.is_quantized();
}

inline at::Tensor& copy_now(at::Tensor& self, const at::Tensor& source) {
  refuse_after_fork();
  TORCH_CHECK(
      !self._is_zerotensor(), "ZeroTensors are immutable. Please materialize the tensor using "
      "`.clone()`, if you want a mutable zero tensor.");
  if (self.dtype() == source.dtype() && self.sizes() == source.sizes() && is_plain(self) &&
      is_plain(source)) {
    at::assert_no_partial_overlap(self, source);  // as copy_impl does on any device, CUDA too
    if (self.numel() > 0) {
      std::memmove(self.mutable_data_ptr(), source.const_data_ptr(), source.nbytes());
    }
  } else if (!self.is_same(source)) {
    // In one storage if they are: torch then sees where they overlap.
    const at::Tensor target = on_host(self);
    target.copy_(
        self.is_alias_of(source) ? view_on_host(source, target.storage()) : on_host(source));
  }
  return self;
}

inline bool is_dense(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && !tensor.is_conj() && !tensor.is_neg();
}

// In the order of torch's copy_kernel_cuda (aten/src/ATen/native/cuda/Copy.cu).
inline at::Tensor& copy_late(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const bool is_up = has_memory(self), is_down = has_memory(source);
  if (!is_up && !is_down) {
    return copy_now(self, source);
  }
  const int64_t line = line_of_call();
  // Otherwise it goes by a temporary tensor, which is the source, or for which the host waits.
  const at::Tensor& on_cpu = is_up ? source : self;
  const bool is_direct = self.dtype() == source.dtype() && self.sizes() == source.sizes() &&
      self.strides() == source.strides() && is_dense(self) && is_dense(source);
  const bool is_async = non_blocking && is_up != is_down && on_cpu.is_cpu() &&
      PinnedAllocator::holds(on_cpu.const_data_ptr()) &&
      (is_direct || (is_down && self.is_contiguous() && is_dense(self)));
  const bool is_peer = is_up && is_down && self.device() != source.device();
  std::optional<Late::Call> call;
  uint32_t slot = 0, target_slot = 0;
  with_late([&](Late& late) {
    slot = late.current((is_down ? source : self).device().index());
    target_slot = is_peer ? late.current(self.device().index()) : slot;
    if (is_peer) {
      late.wait(slot, target_slot);
    }
    call.emplace(late.launch(slot, "copy_", line));
    if (is_up != is_down && (!non_blocking || (is_down && !is_async))) {
      late.synchronize(slot);
    } else if (!is_down && source.is_cpu() && source.layout() == c10::kStrided && source.numel() > 0) {
      late.settle_source(bytes_of(source), slot);
    }
    if (is_down) {
      late.read(*call, source.storage().data(), bytes_of(source), false);
    }
    if (is_up) {
      late.write(*call, self.storage().data(), bytes_of(self), false);
    }
  });
  const bool is_landing = is_async && is_down && late_mode == 1;
  at::Tensor target = is_landing
      ? at::empty_strided(self.sizes(), self.strides(), self.options().pinned_memory(false))
      : self;
  copy_now(target, source);  // not under the lock
  std::vector<char> staged;
  if (is_async && (is_up || is_landing)) {
    const Bytes bytes = bytes_of(is_up ? source : target);
    staged.assign(bytes.begin, bytes.end);
  }
  with_late([&](Late& late) {
    if (is_async) {
      late.stage(call->launch, on_cpu, std::move(staged), is_up);
    }
    late.end(*call);
    if (is_peer) {
      late.wait(target_slot, slot);
    }
  });
  return self;
}

// All work is done when it returns: `non_blocking` changes nothing, unless devices are late.
inline at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (!non_blocking && self.numel() > 0 && self.is_cpu() != source.is_cpu()) {
    host_waits();
  }
  return Late::is_on() ? copy_late(self, source, non_blocking) : copy_now(self, source);
}

inline at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  at::Tensor written = target;
  return copy(written, self, non_blocking);
}

inline at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  if (self.sizes() != target.sizes()) {
    target.resize_(self.sizes());
  }
  return copy_from(self, target, false);
}

inline at::Scalar local_scalar_dense(const at::Tensor& self) {
  refuse_after_fork();
  host_waits();
  if (Late::is_on() && has_memory(self)) {
    const int64_t line = line_of_call();
    std::optional<Late::Call> call;
    with_late([&](Late& late) {
      const uint32_t slot = late.current(self.device().index());
      call.emplace(late.launch(slot, "item", line));
      late.synchronize(slot);
      late.read(*call, self.storage().data(), bytes_of(self), false);
    });
    return at::native::_local_scalar_dense_cpu(on_host(self));
  }
  return at::native::_local_scalar_dense_cpu(on_host(self));
}

// torch's own would look for a kernel of CUDA's that resizes a storage.
inline const at::Tensor& resize(
    const at::Tensor& self, at::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
    const size_t needed = (self.storage_offset() + self.numel()) * self.dtype().itemsize();
    if (self.numel() > 0 && needed > self.storage().nbytes()) {
      TORCH_CHECK(self.storage().resizable(), "Trying to resize storage that is not resizable");
      const size_t before = self.storage().nbytes();
      resize_storage(self.storage(), needed);
      if (is_filling()) {
        const at::AutoDispatchBelowADInplaceOrView guard;
        at::native::fill_resize_deterministic_(on_host(self), static_cast<int64_t>(before));
      }
    }
  }
  if (memory_format) {
    TORCH_CHECK(
        *memory_format != at::MemoryFormat::Preserve, "Unsupported memory format ", *memory_format);
    impl->empty_tensor_restride(*memory_format);
  }
  return self;
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

inline void record_stream(at::Tensor& self, c10::Stream stream) {
  allocator()->recordStream(self.storage().data_ptr(), stream);
}

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
