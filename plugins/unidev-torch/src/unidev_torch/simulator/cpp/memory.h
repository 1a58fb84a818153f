// How many simulated devices there are, which one a thread works on, and their memory.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#if UNIDEV_TORCH_VERSION >= 2009
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unistd.h>
#include <utility>

namespace unidev_sim {

constexpr c10::DeviceType kSim = c10::DeviceType::PrivateUse1;
constexpr int kMaxDevices = 64;

inline std::atomic<int> device_count{0};

// A new thread starts on device 0, as it does on CUDA.
inline thread_local c10::DeviceIndex current_device = 0;

inline c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  const int count = device_count.load(std::memory_order_relaxed);
  TORCH_CHECK(
      index >= 0 && index < count,
      "sim:", static_cast<int>(index), " does not exist: this process simulates ", count,
      " device(s), sim:0 to sim:", count - 1);
  return index;
}

struct Counter {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void add(int64_t amount) {
    current += amount;
    allocated += amount;
    peak = std::max(peak, current);
  }
  void remove(int64_t amount) {
    current -= amount;
    freed += amount;
  }
};

struct Usage {
  std::mutex mutex;
  Counter bytes, blocks;
};

// Leaked on purpose: tensors may be freed while static objects are destroyed at exit.
inline Usage& usage_of(c10::DeviceIndex index) {
  static auto* usages = new std::array<Usage, kMaxDevices>();
  return (*usages)[checked_index(index)];
}

// Precedes each block, so that a block can be freed by its address alone. Its size is the alignment
// that torch's CPU kernels expect, so the block that follows is aligned.
struct alignas(64) Header {
  int64_t size;
  c10::DeviceIndex device;
};

inline void free_block(void* data) {
  if (data == nullptr) {
    return;
  }
  Header* header = static_cast<Header*>(data) - 1;
  {
    Usage& usage = usage_of(header->device);
    std::lock_guard<std::mutex> lock(usage.mutex);
    usage.bytes.remove(header->size);
    usage.blocks.remove(1);
  }
  std::free(header);
}

inline void* allocate_block(size_t size, c10::DeviceIndex device) {
  if (size == 0) {
    return nullptr;
  }
  void* base = nullptr;
  const bool ok = size <= SIZE_MAX - sizeof(Header) &&
      posix_memalign(&base, alignof(Header), size + sizeof(Header)) == 0;
  TORCH_CHECK_WITH(
      OutOfMemoryError, ok, "sim:", static_cast<int>(device), " is out of memory: the host has no ",
      size, " bytes");
  auto* header = static_cast<Header*>(base);
  header->size = static_cast<int64_t>(size);
  header->device = device;
  Usage& usage = usage_of(device);
  std::lock_guard<std::mutex> lock(usage.mutex);
  usage.bytes.add(header->size);
  usage.blocks.add(1);
  return header + 1;
}

inline int64_t total_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

// Simulated devices share the host's memory: what one takes is gone for all.
inline int64_t free_bytes() {
  int64_t used = 0;
  for (int index = 0; index < device_count.load(); ++index) {
    Usage& usage = usage_of(static_cast<c10::DeviceIndex>(index));
    std::lock_guard<std::mutex> lock(usage.mutex);
    used += usage.bytes.current;
  }
  return std::max<int64_t>(0, total_bytes() - used);
}

// Since 2.9 torch has a common interface for statistics, which torch.accelerator reads.
#if UNIDEV_TORCH_VERSION >= 2009
using AllocatorBase = c10::DeviceAllocator;
#else
using AllocatorBase = c10::Allocator;
#endif

struct SimAllocator final : AllocatorBase {
  c10::DataPtr allocate(size_t size) override {
    const c10::DeviceIndex device = checked_index(current_device);
    void* data = allocate_block(size, device);
    return {data, data, &free_block, c10::Device(kSim, device)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_block;
  }
  void copy_data(void* target, const void* source, size_t size) const override {
    default_copy_data(target, source, size);
  }

#if UNIDEV_TORCH_VERSION >= 2009
  bool initialized() override {
    return device_count.load() > 0;
  }
  // Nothing is cached, and everything is done when a call returns.
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    Usage& usage = usage_of(index);
    std::lock_guard<std::mutex> lock(usage.mutex);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* of_bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                           &stats.requested_bytes}) {
      report(usage.bytes, *of_bytes);
    }
    for (auto* of_blocks : {&stats.allocation, &stats.segment, &stats.active}) {
      report(usage.blocks, *of_blocks);
    }
    stats.num_device_alloc = usage.blocks.allocated;
    stats.num_device_free = usage.blocks.freed;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    Usage& usage = usage_of(index);
    std::lock_guard<std::mutex> lock(usage.mutex);
    usage.bytes.allocated = usage.bytes.freed = 0;
    usage.blocks.allocated = usage.blocks.freed = 0;
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    Usage& usage = usage_of(index);
    std::lock_guard<std::mutex> lock(usage.mutex);
    usage.bytes.peak = usage.bytes.current;
    usage.blocks.peak = usage.blocks.current;
  }
  // Without `override`: torch 2.9 does not declare it yet.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) {
    checked_index(index);
    return {static_cast<size_t>(free_bytes()), static_cast<size_t>(total_bytes())};
  }

 private:
  static void report(const Counter& counter, c10::CachingAllocator::StatArray& target) {
    auto& all = target[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    all.current = counter.current;
    all.peak = counter.peak;
    all.allocated = counter.allocated;
    all.freed = counter.freed;
  }
#endif
};

inline SimAllocator* allocator() {
  static auto* instance = new SimAllocator();
  return instance;
}

} // namespace unidev_sim
