// Device memory and pinned memory.
//
// The address of device memory cannot be read or written: a program that takes it for host memory
// crashes, as on hardware. The bytes lie elsewhere, where only the stand-in looks for them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace stand_in {

struct Block {
  char* address;
  std::size_t bytes;
  char* bytes_at;  // where the bytes really are; the address itself for pinned memory
  int device;
  bool is_pinned;
  bool is_registered;  // pinned by cudaHostRegister: the memory is the program's own
};

cudaError_t allocate(void** address, std::size_t bytes, int device);
cudaError_t allocate_pinned(void** address, std::size_t bytes, int device);
cudaError_t pin(void* address, std::size_t bytes, int device);
// Of the kind named; false: there is no such block.
bool release(void* address, bool is_pinned);

// The block that `address` points into, or none: ordinary memory of the host.
const Block* block_of(const void* address);
// Where the `bytes` at `address` are, or nothing if they reach beyond the block's end.
char* bytes_behind(const void* address, std::size_t bytes);

}  // namespace stand_in
