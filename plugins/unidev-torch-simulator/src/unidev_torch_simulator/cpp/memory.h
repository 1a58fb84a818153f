// How many simulated devices there are, which one a thread works on, and their memory.
#pragma once

#include "names.h"

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace unidev_sim {

constexpr int kMaxDevices = 64;
// CUDA's allocator rounds each request up to this; the numbers that programs print depend on it.
constexpr int64_t kRound = kAsCuda ? 512 : 1;

inline std::atomic<int> device_count{0};
inline std::atomic<int64_t> memory_limit{0};  // bytes of each device; 0: the host's, for all together
constexpr int64_t kUnlimited = -1;

// One bit for each dtype that the devices lack, and the words of torch for MPS.
inline std::atomic<uint64_t> lacking{0};

inline at::ScalarType checked_dtype(at::ScalarType dtype) {
  if (C10_UNLIKELY(lacking.load(std::memory_order_relaxed) >> static_cast<int>(dtype) & 1)) {
    const std::string name(c10::getDtypeNames(dtype).first);
    const std::string narrow = name == "complex128" ? "complex64" : name.substr(0, name.size() - 2) + "32";
    TORCH_CHECK_TYPE(
        false, "Cannot convert a SIM Tensor to ", name, " dtype as the SIM framework doesn't support ", name,
        ". Please use ", narrow, " instead. (UNIDEV_SIMULATE_LIKE)");
  }
  return dtype;
}

// A new thread starts on device 0, as it does on CUDA.
inline thread_local c10::DeviceIndex current_device = 0;

// CUDA does not survive a fork of a process that has used it, so a child must not seem to work.
inline std::atomic<bool> is_used{false}, is_forked{false};

[[noreturn]] inline void refuse_index(c10::DeviceIndex index) {
#if UNIDEV_AS_CUDA
  // The runtime's words and numbers, and torch's class for its errors.
  const bool is_child = is_forked.load();
  const std::string message = is_child
      ? "CUDA error: initialization error\nThis process is a fork of one that has used CUDA "
        "(here: GPUs simulated by unidev). Use the start method 'spawn'.\n"
      : "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough "
        "GPUs?\n(simulated by unidev: " + std::to_string(device_count.load()) + ")\n";
  throw c10::AcceleratorError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, is_child ? 3 : 101, message);
#else
  const int count = device_count.load();
  TORCH_CHECK(
      false, "sim:", static_cast<int>(index), " does not exist: this process simulates ", count,
      " device(s), sim:0 to sim:", count - 1);
#endif
}

inline c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  const bool is_there = index >= 0 && index < device_count.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(!is_there || is_forked.load(std::memory_order_relaxed))) {
    refuse_index(index);
  }
  return index;
}

inline void refuse_after_fork() {
  if (C10_UNLIKELY(is_forked.load(std::memory_order_relaxed))) {
    refuse_index(0);
  }
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
  Counter bytes, requested, blocks;
  int64_t ooms = 0;
  double fraction = 1;  // of the device's memory, that this process may use
};

// Leaked on purpose: tensors may be freed while static objects are destroyed at exit.
inline Usage& usage_at(c10::DeviceIndex index) {
  static auto* usages = new std::array<Usage, kMaxDevices>();
  return (*usages)[index];
}

// A forked child uses the devices, or frees what it inherited. A lock that another thread of its
// parent held at the fork would stay locked in it for ever, as in a worker of a loader.
inline void hold_locks_over_forks() {
  constexpr auto unlock = [] {
    for (int index = 0; index < kMaxDevices; ++index) {
      usage_at(static_cast<c10::DeviceIndex>(index)).mutex.unlock();
    }
  };
  constexpr auto lock = [] {
    for (int index = 0; index < kMaxDevices; ++index) {
      usage_at(static_cast<c10::DeviceIndex>(index)).mutex.lock();
    }
  };
  pthread_atfork(lock, unlock, unlock);
}

inline Usage& usage_of(c10::DeviceIndex index) {
  return usage_at(checked_index(index));
}

inline int64_t host_bytes() {
  static const int64_t bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return bytes;
}

inline std::atomic<int64_t> used_by_all{0};

inline int64_t total_bytes() {
  const int64_t limit = memory_limit.load(std::memory_order_relaxed);
  return limit > 0 ? limit : host_bytes();
}

// What one device without a limit takes of the host's memory is gone for all.
inline int64_t free_bytes(const Usage& usage) {
  const int64_t used = memory_limit.load(std::memory_order_relaxed) > 0
      ? usage.bytes.current
      : used_by_all.load(std::memory_order_relaxed);
  return std::max<int64_t>(0, total_bytes() - used);
}

// Free and total bytes.
inline std::pair<size_t, size_t> memory_info(c10::DeviceIndex index) {
  Usage& usage = usage_of(index);
  std::lock_guard<std::mutex> lock(usage.mutex);
  return {static_cast<size_t>(free_bytes(usage)), static_cast<size_t>(total_bytes())};
}

inline std::string size_text(int64_t size) {
  constexpr const char* units[] = {" KiB", " MiB", " GiB"};
  double value = static_cast<double>(size);
  int unit = -1;
  while (value > 1024 && unit < 2) {
    value /= 1024;
    ++unit;
  }
  if (unit < 0) {
    return std::to_string(size) + " bytes";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return std::string(text) + units[unit];
}

inline std::string device_text(c10::DeviceIndex index) {
  return (kAsCuda ? "GPU " : "sim:") + std::to_string(index);
}

inline int64_t rounded(size_t size) {
  const auto most = static_cast<size_t>(INT64_MAX - kRound);
  return (static_cast<int64_t>(std::min(size, most)) + kRound - 1) / kRound * kRound;
}

// In the words of CUDA's allocator: programs read the numbers out of them.
[[noreturn]] inline void refuse_memory(
    int64_t bytes, c10::DeviceIndex index, Usage& usage, const char* why = "") {
  TORCH_CHECK_WITH(
      OutOfMemoryError, !kAsCuda || bytes < int64_t{1} << 60,
      "CUDA out of memory. Tried to allocate more than 1EB memory.");
  ++usage.ooms;
  const std::string used = size_text(usage.bytes.current);
  std::string text = (kAsCuda ? "CUDA out of memory. Tried to allocate " : "out of memory: tried to allocate ") +
      size_text(bytes) + ". " + device_text(index) + " has a total capacity of " +
      size_text(total_bytes()) + " of which " + size_text(free_bytes(usage)) +
      " is free. Including non-PyTorch memory, this process has " + used + " memory in use. ";
  if (usage.fraction < 1) {
    text += size_text(static_cast<int64_t>(total_bytes() * usage.fraction)) + " allowed; ";
  }
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, text, "Of the allocated memory ", used,
      " is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. "
      "(A GPU simulated by unidev", why, ".)");
}

// Where the host's allocator has no room, whatever the device's limit.
[[noreturn]] inline void refuse_memory_of_host(int64_t bytes, c10::DeviceIndex index) {
  Usage& usage = usage_of(index);
  std::lock_guard<std::mutex> lock(usage.mutex);
  const bool would_fit = bytes <= free_bytes(usage);
  refuse_memory(bytes, index, usage, would_fit ? ": its host has no room for this" : "");
}

// Counts bytes on a device that its limit allows.
inline void take(size_t size, c10::DeviceIndex index) {
  const int64_t bytes = rounded(size);
  is_used.store(true, std::memory_order_relaxed);
  Usage& usage = usage_of(index);
  std::lock_guard<std::mutex> lock(usage.mutex);
  if (memory_limit.load(std::memory_order_relaxed) != kUnlimited) {
    const auto allowed = static_cast<int64_t>(total_bytes() * usage.fraction);
    if (bytes > std::min(free_bytes(usage), allowed - usage.bytes.current)) {
      refuse_memory(bytes, index, usage);
    }
  }
  used_by_all.fetch_add(bytes, std::memory_order_relaxed);
  usage.bytes.add(bytes);
  usage.requested.add(static_cast<int64_t>(size));
  usage.blocks.add(1);
}

// Without a check of the index: a forked child frees what it inherited.
inline void give_back(size_t size, c10::DeviceIndex index) {
  Usage& usage = usage_at(index);
  std::lock_guard<std::mutex> lock(usage.mutex);
  used_by_all.fetch_sub(rounded(size), std::memory_order_relaxed);
  usage.bytes.remove(rounded(size));
  usage.requested.remove(static_cast<int64_t>(size));
  usage.blocks.remove(1);
}

// Precedes each block, so that a block can be freed by its address alone. Its size is the alignment
// that torch's CPU kernels expect, so the block that follows is aligned.
struct alignas(64) Header {
  size_t size;
  c10::DeviceIndex device;
};

// To torch.profiler, where it looks at memory: bytes of a block that begin, or, below 0, end.
inline void report_memory(void* data, int64_t bytes, c10::DeviceIndex index) {
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
    const auto used = static_cast<size_t>(usage_at(index).bytes.current);
    c10::reportMemoryUsageToProfiler(data, bytes, used, used, c10::Device(kSim, index));
  }
}

// Where devices are late (late.h): told of each block, and with a size of 0 that it is freed.
inline void (*on_block)(void* data, size_t size, c10::DeviceIndex device) = nullptr;

inline void free_block(void* data) {
  if (data == nullptr) {
    return;
  }
  if (C10_UNLIKELY(on_block != nullptr)) {
    on_block(data, 0, 0);
  }
  Header* header = static_cast<Header*>(data) - 1;
  give_back(header->size, header->device);
  report_memory(data, -rounded(header->size), header->device);
  std::free(header);
}

inline void* allocate_block(size_t size, c10::DeviceIndex device) {
  if (size == 0) {
    return nullptr;
  }
  void* base = nullptr;
  if (size > SIZE_MAX - sizeof(Header) ||
      posix_memalign(&base, alignof(Header), size + sizeof(Header)) != 0) {
    refuse_memory_of_host(rounded(size), device);
  }
  std::unique_ptr<void, decltype(&std::free)> kept(base, &std::free);
  take(size, device);
  auto* header = static_cast<Header*>(kept.release());
  header->size = size;
  header->device = device;
  report_memory(header + 1, rounded(size), device);
  if (C10_UNLIKELY(on_block != nullptr)) {
    on_block(header + 1, size, device);
  }
  return header + 1;
}

inline void (*on_stream)(const void* data, c10::Stream stream) = nullptr;  // as `on_block`

struct SimAllocator final : c10::DeviceAllocator {
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

  bool initialized() override {
    return device_count.load() > 0;
  }
  // Nothing is cached.
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (C10_UNLIKELY(on_stream != nullptr)) {
      on_stream(data.get(), stream);
    }
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    Usage& usage = usage_of(index);
    std::lock_guard<std::mutex> lock(usage.mutex);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* of_bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes}) {
      report(usage.bytes, *of_bytes);
    }
    report(usage.requested, stats.requested_bytes);
    for (auto* of_blocks : {&stats.allocation, &stats.segment, &stats.active}) {
      report(usage.blocks, *of_blocks);
    }
    stats.num_device_alloc = usage.blocks.allocated;
    stats.num_device_free = usage.blocks.freed;
    stats.num_ooms = usage.ooms;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    Usage& usage = usage_of(index);
    std::lock_guard<std::mutex> lock(usage.mutex);
    for (Counter* counter : {&usage.bytes, &usage.requested, &usage.blocks}) {
      counter->allocated = counter->freed = 0;
    }
    usage.ooms = 0;
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    Usage& usage = usage_of(index);
    std::lock_guard<std::mutex> lock(usage.mutex);
    for (Counter* counter : {&usage.bytes, &usage.requested, &usage.blocks}) {
      counter->peak = counter->current;
    }
  }
  // Without `override`: torch 2.9 does not declare it yet.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) {
    return memory_info(index);
  }

 private:
  static void report(const Counter& counter, c10::CachingAllocator::StatArray& target) {
    auto& all = target[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    all.current = counter.current;
    all.peak = counter.peak;
    all.allocated = counter.allocated;
    all.freed = counter.freed;
  }
};

inline SimAllocator* allocator() {
  static auto* instance = new SimAllocator();
  return instance;
}

} // namespace unidev_sim
