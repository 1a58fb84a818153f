// The runtime's calls about devices, errors and versions.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "counts.h"
#include "machine.h"
#include "queues.h"

using namespace stand_in;

namespace {

bool exists(int device) { return device >= 0 && device < static_cast<int>(visible_cards().size()); }

// A question that needs the driver and makes no context.
cudaError_t ask(int device) {
  const cudaError_t error = initialise_driver();
  if (error != cudaSuccess) {
    return failed(error);
  }
  return exists(device) ? cudaSuccess : failed(cudaErrorInvalidDevice);
}

// What an error is called stands in the real runtime, which answers without using the driver.
template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int attribute(cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor:
      return capability().major;
    case cudaDevAttrComputeCapabilityMinor:
      return capability().minor;
    case cudaDevAttrIntegrated:
      return shares_host_memory() ? 1 : 0;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return 4;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 49152;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrConcurrentKernels:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* number) {
  *number = 0;
  const cudaError_t error = initialise_driver();
  if (error != cudaSuccess) {
    return failed(error);
  }
  *number = static_cast<int>(visible_cards().size());
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return failed(initialise_driver());
}

cudaError_t cudaSetDevice(int device) {
  const cudaError_t error = ask(device);
  if (error != cudaSuccess) {
    return error;
  }
  set_current_device(device);
  return enter();
}

cudaError_t cudaDeviceSynchronize() {
  const cudaError_t error = enter();
  if (error != cudaSuccess) {
    return error;
  }
  count("device synchronisations");
  return failed(finish_device(current_device()));
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = settings().driver_cuda;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = settings().built_for;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int device) {
  const cudaError_t error = ask(device);
  if (error != cudaSuccess) {
    return error;
  }
  *found = {};
  const int index = visible_cards()[device];
  const bool is_instance = settings().layout == Layout::kMig;
  std::snprintf(found->name, sizeof found->name, is_instance ? "Stand-in GPU MIG" : "Stand-in GPU");
  unsigned char* uuid = reinterpret_cast<unsigned char*>(found->uuid.bytes);
  unsigned int parts[5];
  unsigned long long last = 0;
  const std::string text =
      is_instance ? uuid_of_instance(index, visible_instance()) : uuid_of(index);
  std::sscanf(text.c_str() + std::strlen("GPU-"), "%8x-%4x-%4x-%4x-%12llx", parts, parts + 1,
              parts + 2, parts + 3, &last);
  const unsigned char bytes[] = {
      static_cast<unsigned char>(parts[0] >> 24), static_cast<unsigned char>(parts[0] >> 16),
      static_cast<unsigned char>(parts[0] >> 8),  static_cast<unsigned char>(parts[0]),
      static_cast<unsigned char>(parts[1] >> 8),  static_cast<unsigned char>(parts[1]),
      static_cast<unsigned char>(parts[2] >> 8),  static_cast<unsigned char>(parts[2]),
      static_cast<unsigned char>(parts[3] >> 8),  static_cast<unsigned char>(parts[3]),
      static_cast<unsigned char>(last >> 40),     static_cast<unsigned char>(last >> 32),
      static_cast<unsigned char>(last >> 24),     static_cast<unsigned char>(last >> 16),
      static_cast<unsigned char>(last >> 8),      static_cast<unsigned char>(last)};
  std::memcpy(uuid, bytes, sizeof bytes);
  found->totalGlobalMem = settings().card_bytes;
  found->major = attribute(cudaDevAttrComputeCapabilityMajor);
  found->minor = attribute(cudaDevAttrComputeCapabilityMinor);
  found->warpSize = 32;
  found->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  found->maxThreadsPerBlock = 1024;
  found->maxThreadsPerMultiProcessor = 2048;
  found->sharedMemPerBlock = found->sharedMemPerBlockOptin = 49152;
  found->sharedMemPerMultiprocessor = 65536;
  found->regsPerBlock = found->regsPerMultiprocessor = 65536;
  found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024;
  found->maxThreadsDim[2] = 64;
  found->maxGridSize[0] = 2147483647;
  found->maxGridSize[1] = found->maxGridSize[2] = 65535;
  found->textureAlignment = 512;
  found->unifiedAddressing = 1;
  found->integrated = attribute(cudaDevAttrIntegrated);
  found->asyncEngineCount = 1;
  found->pciBusID = index + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  const cudaError_t error = ask(device);
  *value = error == cudaSuccess ? attribute(which) : 0;
  return error;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const cudaError_t error = ask(device);
  if (error == cudaSuccess) {
    std::snprintf(text, length, "0000:%02x:00.0", visible_cards()[device] + 1);
  }
  return error;
}

cudaError_t cudaDeviceCanAccessPeer(int* answer, int device, int peer) {
  const cudaError_t error = ask(device);
  *answer = error == cudaSuccess && exists(peer) && device != peer;
  return error;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int) {
  if (!exists(peer) || peer == current_device()) {
    return failed(cudaErrorInvalidDevice);
  }
  const cudaError_t error = enter(peer);
  return error == cudaSuccess ? enter() : error;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return enter();
}

cudaError_t cudaGetLastError() { return last_error(true); }
cudaError_t cudaPeekAtLastError() { return last_error(false); }

const char* cudaGetErrorName(cudaError_t error) {
  return real<const char*(cudaError_t)>("cudaGetErrorName")(error);
}

const char* cudaGetErrorString(cudaError_t error) {
  return real<const char*(cudaError_t)>("cudaGetErrorString")(error);
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
