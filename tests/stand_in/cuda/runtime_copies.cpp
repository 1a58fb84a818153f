// The runtime's calls that copy and fill.
//
// What returns before it is done, and what does not, as "API synchronization behavior" in the
// manual of the CUDA runtime allows: a copy between a device and pinned memory, or between devices,
// has only been queued when an asynchronous call returns; one from ordinary memory has read its
// source, and may still have to reach the device; one to ordinary memory is done.
#include <cstring>
#include <string>

#include "blocks.h"
#include "counts.h"
#include "machine.h"
#include "queues.h"

using namespace stand_in;

namespace {

// Equal rows at equal distances; a plain copy is one row.
struct Rows {
  const char* from;
  std::size_t from_step;
  char* to;
  std::size_t to_step;
  std::size_t width;
  std::size_t number;

  std::size_t from_span() const { return number == 0 ? 0 : from_step * (number - 1) + width; }
  std::size_t to_span() const { return number == 0 ? 0 : to_step * (number - 1) + width; }
};

cudaError_t carry_out(const Rows& rows) {
  char* to = bytes_behind(rows.to, rows.to_span());
  const char* from = bytes_behind(rows.from, rows.from_span());
  if (to == nullptr || from == nullptr) {
    return cudaErrorIllegalAddress;
  }
  for (std::size_t row = 0; row < rows.number; ++row) {
    std::memmove(to + row * rows.to_step, from + row * rows.from_step, rows.width);
  }
  return cudaSuccess;
}

bool is_on_device(const Block* block) { return block != nullptr && !block->is_pinned; }

bool contradicts(cudaMemcpyKind kind, bool from_device, bool to_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return from_device || to_device;
    case cudaMemcpyHostToDevice:
      return from_device || !to_device;
    case cudaMemcpyDeviceToHost:
      return !from_device || to_device;
    case cudaMemcpyDeviceToDevice:
      return !from_device || !to_device;
    default:
      return false;
  }
}

void count_copy(const Block* from, const Block* to, std::size_t bytes) {
  if (!is_on_device(from) && !is_on_device(to)) {
    return;
  }
  const std::string name = !is_on_device(from)          ? "host to device"
                           : !is_on_device(to)          ? "device to host"
                           : from->device == to->device ? "device to device"
                                                        : "between devices";
  count(name.c_str());
  count((name + " bytes").c_str(), static_cast<long long>(bytes));
  note("%s, %zu bytes", name.c_str(), bytes);
}

// The values that pageable memory holds now: the driver has them before the call returns.
Work from_staging(const Rows& rows) {
  auto staged = std::make_shared<std::string>(rows.from, rows.from_span());
  Rows later = rows;
  return [staged, later]() mutable {
    later.from = staged->data();
    return carry_out(later);
  };
}

cudaError_t copy(const Rows& rows, cudaMemcpyKind kind, cudaStream_t stream, bool is_async) {
  Lock lock(machine_lock());
  cudaError_t error = enter();
  const QueueRef queue = queue_of(stream);
  if (error != cudaSuccess || queue == nullptr) {
    return error != cudaSuccess ? error : failed(cudaErrorInvalidResourceHandle);
  }
  const std::size_t bytes = rows.width * rows.number;
  if (bytes == 0) {
    return cudaSuccess;
  }
  const Block* from = block_of(rows.from);
  const Block* to = block_of(rows.to);
  if (contradicts(kind, is_on_device(from), is_on_device(to)) ||
      bytes_behind(rows.from, rows.from_span()) == nullptr ||
      bytes_behind(rows.to, rows.to_span()) == nullptr) {
    return failed(cudaErrorInvalidValue);
  }
  count_copy(from, to, bytes);
  error = planned_failure("copy");
  if (error != cudaSuccess) {
    return failed(error);
  }
  const bool within_host = !is_on_device(from) && !is_on_device(to);
  if (from == nullptr && !within_host) {
    enqueue(queue, from_staging(rows));
    return cudaSuccess;
  }
  const Order order = enqueue(queue, [rows] { return carry_out(rows); });
  const bool within_device = is_on_device(from) && is_on_device(to);
  if (to == nullptr || within_host || !(is_async || within_device)) {
    return failed(finish({queue, order}));
  }
  count("asynchronous copies");
  return cudaSuccess;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, bool is_async) {
  const Rows rows{static_cast<const char*>(from), bytes, static_cast<char*>(to), bytes, bytes, 1};
  return copy(rows, kind, stream, is_async);
}

cudaError_t fill(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  Lock lock(machine_lock());
  const cudaError_t error = enter();
  const QueueRef queue = queue_of(stream);
  if (error != cudaSuccess || queue == nullptr) {
    return error != cudaSuccess ? error : failed(cudaErrorInvalidResourceHandle);
  }
  if (bytes_behind(at, bytes) == nullptr) {
    return failed(cudaErrorInvalidValue);
  }
  count("memsets");
  enqueue(queue, [at, value, bytes] {
    char* start = bytes_behind(at, bytes);
    if (start == nullptr) {
      return cudaErrorIllegalAddress;
    }
    std::memset(start, value, bytes);
    return cudaSuccess;
  });
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind, nullptr, false);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, kind, stream, true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, true);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_step, const void* from, size_t from_step,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const Rows rows{
      static_cast<const char*>(from), from_step, static_cast<char*>(to), to_step, width, height};
  return copy(rows, kind, stream, true);
}

cudaError_t cudaMemset(void* at, int value, size_t bytes) {
  return fill(at, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* at, int value, size_t bytes, cudaStream_t stream) {
  return fill(at, value, bytes, stream);
}

}  // extern "C"
