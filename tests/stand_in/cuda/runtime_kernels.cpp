// Kernels: they are queued and counted, and compute nothing.
//
// Also what the compiler's own code calls to register and launch them. Its declarations come with
// the compiler, and are repeated here.
#include <cxxabi.h>

#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "counts.h"
#include "machine.h"
#include "queues.h"

using namespace stand_in;

namespace {

// By the address of the function on the host that launches it.
std::unordered_map<const void*, const char*>& kernel_names() {
  static auto* table = new std::unordered_map<const void*, const char*>;
  return *table;
}

void note_launch(const void* function) {
  if (!is_logging()) {
    return;
  }
  const auto found = kernel_names().find(function);
  if (found != kernel_names().end()) {
    char* readable = abi::__cxa_demangle(found->second, nullptr, nullptr, nullptr);
    note("kernel %.200s", readable == nullptr ? found->second : readable);
    std::free(readable);
  }
}

cudaError_t launch(const void* function, cudaStream_t stream) {
  const cudaError_t error = enter();
  const QueueRef queue = queue_of(stream);
  if (error != cudaSuccess || queue == nullptr) {
    return error != cudaSuccess ? error : failed(cudaErrorInvalidResourceHandle);
  }
  count("kernels");
  note_launch(function);
  // A kernel fails when it runs, and whoever waits for it is given the error.
  const cudaError_t outcome = planned_failure("kernel");
  enqueue(queue, [outcome] { return outcome; });
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t,
                             cudaStream_t stream) {
  return launch(function, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3, dim3, void**, size_t,
                                        cudaStream_t stream) {
  return launch(function, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* function,
                                void**) {
  return launch(function, configuration->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void*) {
  *found = {};
  found->binaryVersion = found->ptxVersion = 80;
  found->maxThreadsPerBlock = 1024;
  return enter();
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return enter(); }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* number, const void*, int, size_t) {
  *number = 4;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* number, const void*, int,
                                                                   size_t, unsigned int) {
  *number = 4;
  return cudaSuccess;
}

// -- called by code that NVIDIA's compiler writes ------------------------------------------------

void** __cudaRegisterFatBinary(void* binary) { return static_cast<void**>(binary); }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* on_host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  if (is_logging()) {
    Lock lock(machine_lock());
    kernel_names()[on_host] = name;
  }
}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  if (configurations.empty()) {
    return failed(cudaErrorMissingConfiguration);
  }
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return launch(reinterpret_cast<const void*>(kernel), stream);
}

}  // extern "C"
