// The runtime's calls that allocate and free, on devices and in pinned memory.
#include "blocks.h"
#include "counts.h"
#include "machine.h"
#include "queues.h"

using namespace stand_in;

namespace {

// Freeing waits for what is queued, which may still use the memory.
cudaError_t give_back(void* address, bool is_pinned) {
  const cudaError_t error = enter();
  if (error != cudaSuccess || address == nullptr) {
    return error;
  }
  finish_everything();
  return release(address, is_pinned) ? cudaSuccess : failed(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = nullptr;
  const cudaError_t error = enter();
  if (error != cudaSuccess || bytes == 0) {
    return error;
  }
  return failed(allocate(address, bytes, current_device()));
}

cudaError_t cudaFree(void* address) { return give_back(address, false); }

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) {
  return cudaMalloc(address, bytes);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  const cudaError_t error = enter();
  const QueueRef queue = queue_of(stream);
  if (error != cudaSuccess || queue == nullptr) {
    return error != cudaSuccess ? error : failed(cudaErrorInvalidResourceHandle);
  }
  enqueue(queue, [address] {
    release(address, false);
    return cudaSuccess;
  });
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned int) {
  *address = nullptr;
  const cudaError_t error = enter();
  if (error != cudaSuccess || bytes == 0) {
    return error;
  }
  return failed(allocate_pinned(address, bytes, current_device()));
}

cudaError_t cudaFreeHost(void* address) { return give_back(address, true); }

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int) {
  const cudaError_t error = enter();
  return error == cudaSuccess ? failed(pin(address, bytes, current_device())) : error;
}

cudaError_t cudaHostUnregister(void* address) { return give_back(address, true); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const cudaError_t error = enter();
  if (error != cudaSuccess) {
    return error;
  }
  *total = settings().card_bytes;
  *free = *total - used_bytes(visible_cards()[current_device()]);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* address) {
  const cudaError_t error = enter();  // also for ordinary memory, which is nobody's
  if (error != cudaSuccess) {
    return error;
  }
  *found = {};
  const Block* block = block_of(address);
  found->type = block == nullptr   ? cudaMemoryTypeUnregistered
                : block->is_pinned ? cudaMemoryTypeHost
                                   : cudaMemoryTypeDevice;
  found->device = block == nullptr ? -2 : block->device;
  if (block != nullptr) {
    found->devicePointer = const_cast<void*>(address);
    found->hostPointer = block->is_pinned ? const_cast<void*>(address) : nullptr;
  }
  return cudaSuccess;
}

}  // extern "C"
