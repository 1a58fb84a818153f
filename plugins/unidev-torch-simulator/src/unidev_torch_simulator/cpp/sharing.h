// Memory of simulated GPUs that other processes have, too, as by CUDA's IPC: it lies in memory of the
// CPU's, which torch shares between processes.
#pragma once

#include "tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/set.h>

namespace unidev_sim {

struct Shared {
  c10::Storage host;
  int64_t counted;  // bytes of this process's device; 0: another process has made it
  c10::DeviceIndex device;
};

inline void free_shared(void* context) {
  std::unique_ptr<Shared> shared(static_cast<Shared*>(context));
  if (C10_UNLIKELY(on_block != nullptr)) {
    on_block(shared->host.mutable_data(), 0, 0);
  }
  if (shared->counted > 0) {
    give_back(static_cast<size_t>(shared->counted), shared->device);
  }
}

inline c10::DataPtr shared_memory(const at::Tensor& host, int64_t counted, c10::DeviceIndex device) {
  void* data = host.storage().mutable_data();
  return {data, new Shared{host.storage(), counted, device}, &free_shared, c10::Device(kSim, device)};
}

// The memory of `holder` moves to that of `host`, of the same size, and so do all of its views.
// What the device counts stays as it is.
inline void share(const at::Tensor& holder, const at::Tensor& host) {
  c10::StorageImpl* storage = holder.storage().unsafeGetStorageImpl();
  TORCH_CHECK(
      storage->data_ptr().get_deleter() == &free_block && host.storage().nbytes() == storage->nbytes(),
      "this memory cannot be shared");
  auto* header = static_cast<Header*>(storage->mutable_data()) - 1;
  std::memcpy(host.storage().mutable_data(), header + 1, storage->nbytes());
  storage->set_data_ptr(shared_memory(host, static_cast<int64_t>(header->size), header->device))
      .release_context();
  if (C10_UNLIKELY(on_block != nullptr)) {
    on_block(header + 1, 0, 0);
  }
  std::free(header);
}

inline const Shared* shared_of(const at::Tensor& holder) {
  const c10::DataPtr& memory = holder.storage().data_ptr();
  const bool is_shared = memory.get_deleter() == &free_shared;
  return is_shared ? static_cast<const Shared*>(memory.get_context()) : nullptr;
}

// The CPU's bytes that `holder` has since `share`; without an element: it is not shared.
inline at::Tensor shared_host(const at::Tensor& holder) {
  at::Tensor host = at::empty({0}, at::kByte);
  if (const Shared* shared = shared_of(holder)) {
    host.set_(shared->host);
  }
  return host;
}

inline bool is_received(const at::Tensor& holder) {
  const Shared* shared = shared_of(holder);
  return shared != nullptr && shared->counted == 0;
}

// Memory that another process has shared, as a tensor of bytes on a device.
inline at::Tensor received(const at::Tensor& host, int64_t index) {
  const c10::DeviceIndex device = checked_index(static_cast<c10::DeviceIndex>(index));
  is_used.store(true, std::memory_order_relaxed);
  const size_t size = host.storage().nbytes();
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), size, shared_memory(host, 0, device), allocator(),
      /*resizable=*/true);
  at::Tensor bytes = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), kSimKeys, c10::scalarTypeToTypeMeta(at::kByte));
  bytes.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(size)});
  return bytes;
}

} // namespace unidev_sim
