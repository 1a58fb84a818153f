// The driver, libcuda.so.1, as far as PyTorch and unidev ask it: what is there, and which devices
// have a context. Its other calls are answered with "not supported".
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "counts.h"
#include "machine.h"

using namespace stand_in;

namespace {

// The driver numbers its errors as the runtime does.
CUresult as_result(cudaError_t error) { return static_cast<CUresult>(error); }

bool exists(int device) { return device >= 0 && device < static_cast<int>(visible_cards().size()); }

CUresult not_supported() {
  count("unsupported calls");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int) {
  const cudaError_t error = initialise_driver();
  // An old driver is content with itself: it is the newer runtime that refuses it.
  return error == cudaErrorInsufficientDriver ? CUDA_SUCCESS : as_result(error);
}

CUresult cuDriverGetVersion(int* version) {
  *version = settings().driver_cuda;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* number) {
  *number = static_cast<int>(visible_cards().size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return exists(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  std::snprintf(name, length, "Stand-in GPU");
  return exists(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  *bytes = settings().card_bytes;
  return exists(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  // The runtime's attributes have the driver's numbers.
  return as_result(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(which), device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* is_active) {
  if (!exists(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  Lock lock(machine_lock());
  *flags = 0;
  *is_active = card_of_device(device).has_context ? 1 : 0;
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* outcome) {
  static const std::map<std::string, void*> table{
      {"cuInit", reinterpret_cast<void*>(cuInit)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(cuDriverGetVersion)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(cuDeviceGetCount)},
      {"cuDeviceGet", reinterpret_cast<void*>(cuDeviceGet)},
      {"cuDeviceGetName", reinterpret_cast<void*>(cuDeviceGetName)},
      {"cuDeviceTotalMem", reinterpret_cast<void*>(cuDeviceTotalMem_v2)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(cuDeviceGetAttribute)},
      {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(cuDevicePrimaryCtxGetState)},
  };
  const auto found = table.find(name);
  if (found == table.end()) {
    note("the driver's %s is not in the stand-in", name);
  }
  *function = found == table.end() ? reinterpret_cast<void*>(not_supported) : found->second;
  if (outcome != nullptr) {
    *outcome = cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

}  // extern "C"
