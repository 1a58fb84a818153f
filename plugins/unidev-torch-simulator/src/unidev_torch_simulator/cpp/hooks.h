// What torch requires of an accelerator outside the dispatcher: generators, pinned memory, storages.
#pragma once

#include "guard.h"
#include "random.h"

#if UNIDEV_AS_CUDA
#include <ATen/detail/CUDAHooksInterface.h>
#else
#include <ATen/detail/PrivateUse1HooksInterface.h>
#endif
#include <c10/core/DeviceGuard.h>
#include <c10/core/Storage.h>

#include <map>

namespace unidev_sim {

// Host memory that `tensor.is_pinned()` recognises. On a simulated device pinning gains nothing; it
// exists so that a program written for a GPU runs.
struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) {
      return {nullptr, c10::Device(c10::kCPU)};
    }
    void* data = nullptr;
    TORCH_CHECK_WITH(
        OutOfMemoryError, posix_memalign(&data, 64, size) == 0, "the host has no ", size,
        " bytes of pinned memory");
    if (late_mode == 1) {
      std::memset(data, unidev_late_poison, size);  // until something is written there
    }
    std::lock_guard<std::mutex> lock(mutex());
    blocks()[data] = size;
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* target, const void* source, size_t size) const override {
    default_copy_data(target, source, size);
  }

  // cudaHostRegister of memory that somebody else owns; false if a part of it is pinned.
  static bool add(void* data, size_t size) {
    if (holds(data) || holds(static_cast<char*>(data) + size - 1)) {
      return false;
    }
    std::lock_guard<std::mutex> lock(mutex());
    return blocks().emplace(data, size).second;
  }
  static bool remove(void* data) {
    std::lock_guard<std::mutex> lock(mutex());
    return blocks().erase(data) > 0;
  }

  static bool holds(const void* data) {
    std::lock_guard<std::mutex> lock(mutex());
    auto after = blocks().upper_bound(data);
    if (after == blocks().begin()) {
      return false;
    }
    const auto& [start, size] = *std::prev(after);
    return data < static_cast<const char*>(start) + size;
  }

 private:
  static void release(void* data) {
    if (data == nullptr) {
      return;
    }
    remove(data);
    std::free(data);
  }
  static std::mutex& mutex() {
    static auto* instance = new std::mutex();
    return *instance;
  }
  static std::map<const void*, size_t>& blocks() {
    static auto* instance = new std::map<const void*, size_t>();
    return *instance;
  }
};

// UntypedStorage.resize_ and Tensor.resize_
inline void resize_storage(const c10::Storage& storage, size_t size) {
  c10::DeviceGuard guard(storage.device());
  c10::DataPtr memory = allocator()->allocate(size);
  const size_t kept = std::min(size, storage.nbytes());
  if (kept > 0) {
    std::memcpy(memory.get(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(std::move(memory));
  storage.unsafeGetStorageImpl()->set_nbytes(size);
}

#if UNIDEV_AS_CUDA
using HooksBase = at::CUDAHooksInterface;
#else
using HooksBase = at::PrivateUse1HooksInterface;
#endif

struct SimHooks final : HooksBase {
  SimHooks() = default;

  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return device_count.load() > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count.load());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    unidev_sim::current_device = checked_index(index);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return unidev_sim::current_device;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(unidev_sim::current_device, checked_index(index));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index < 0 ? unidev_sim::current_device : index);
  }

  bool isPinnedPtr(const void* data) const override {
    return PinnedAllocator::holds(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static auto* instance = new PinnedAllocator();
    return instance;
  }

#if UNIDEV_AS_CUDA
  explicit SimHooks(at::CUDAHooksArgs) {}
  bool hasCUDA() const override {
    return device_count.load() > 0;
  }
  int getNumGPUs() const override {
    return device_count.load();
  }
  c10::DeviceIndex current_device() const override {
    return unidev_sim::current_device;
  }
  c10::Allocator* getCUDADeviceAllocator() const override {
    return allocator();
  }
  void deviceSynchronize(c10::DeviceIndex index) const override {
    SimGuard().synchronizeDevice(index);
  }
  std::string showConfig() const override {
    return "  - GPUs simulated by unidev: no CUDA\n";
  }
#else
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t size) const override {
    resize_storage(storage, size);
  }
#endif
};

} // namespace unidev_sim
