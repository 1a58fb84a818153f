// What PyTorch's libraries look for and the stand-in does not have: graphs, memory pools, memory
// shared between processes or mapped at will, and code loaded while the program runs. Each is
// refused, so that no call reaches the real runtime, which would look for a real driver.
//
// Without NVIDIA's headers, whose declarations these definitions do not repeat.
#include "counts.h"

namespace stand_in {
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

namespace {
constexpr int kNotSupported = 801;  // cudaErrorNotSupported

int refuse(const char* name) {
  count("unsupported calls");
  note("%s is not in the stand-in", name);
  return kNotSupported;
}
}  // namespace
}  // namespace stand_in

#define NOT_HERE(name) \
  extern "C" int name() { return stand_in::refuse(#name); }

// The runtime's.

NOT_HERE(cudaDeviceGetDefaultMemPool)
NOT_HERE(cudaDeviceGetGraphMemAttribute)
NOT_HERE(cudaDeviceSetGraphMemAttribute)
NOT_HERE(cudaGetSymbolAddress)
NOT_HERE(cudaGraphAddNode)
NOT_HERE(cudaGraphConditionalHandleCreate)
NOT_HERE(cudaGraphDestroy)
NOT_HERE(cudaGraphExecDestroy)
NOT_HERE(cudaGraphGetNodes)
NOT_HERE(cudaGraphInstantiateWithFlags)
NOT_HERE(cudaGraphLaunch)
NOT_HERE(cudaGraphNodeGetDependencies)
NOT_HERE(cudaGraphRetainUserObject)
NOT_HERE(cudaIpcCloseMemHandle)
NOT_HERE(cudaIpcGetEventHandle)
NOT_HERE(cudaIpcGetMemHandle)
NOT_HERE(cudaIpcOpenEventHandle)
NOT_HERE(cudaIpcOpenMemHandle)
NOT_HERE(cudaKernelSetAttributeForDevice)
NOT_HERE(cudaLibraryGetKernel)
NOT_HERE(cudaLibraryLoadData)
NOT_HERE(cudaLibraryUnload)
NOT_HERE(cudaMemPoolGetAttribute)
NOT_HERE(cudaMemPoolSetAccess)
NOT_HERE(cudaMemPoolSetAttribute)
NOT_HERE(cudaMemPoolTrimTo)
NOT_HERE(cudaMemcpyToSymbol)
NOT_HERE(cudaStreamBeginCapture)
NOT_HERE(cudaStreamBeginCaptureToGraph)
NOT_HERE(cudaStreamEndCapture)
NOT_HERE(cudaStreamUpdateCaptureDependencies)
NOT_HERE(cudaUserObjectCreate)
NOT_HERE(cudaUserObjectRelease)

// The driver's.
NOT_HERE(cuCtxFromGreenCtx)
NOT_HERE(cuCtxGetCurrent)
NOT_HERE(cuCtxPopCurrent)
NOT_HERE(cuCtxPushCurrent)
NOT_HERE(cuCtxSetCurrent)
NOT_HERE(cuDevResourceGenerateDesc)
NOT_HERE(cuDevSmResourceSplitByCount)
NOT_HERE(cuDeviceGetDevResource)
NOT_HERE(cuDevicePrimaryCtxRetain)
NOT_HERE(cuFuncGetAttribute)
NOT_HERE(cuFuncSetAttribute)
NOT_HERE(cuFuncSetCacheConfig)
NOT_HERE(cuGetErrorString)
NOT_HERE(cuGreenCtxCreate)
NOT_HERE(cuGreenCtxDestroy)
NOT_HERE(cuGreenCtxStreamCreate)
NOT_HERE(cuLaunchCooperativeKernel)
NOT_HERE(cuLaunchKernel)
NOT_HERE(cuLinkAddData)
NOT_HERE(cuLinkAddData_v2)
NOT_HERE(cuLinkComplete)
NOT_HERE(cuLinkCreate)
NOT_HERE(cuLinkCreate_v2)
NOT_HERE(cuMemAddressFree)
NOT_HERE(cuMemAddressReserve)
NOT_HERE(cuMemCreate)
NOT_HERE(cuMemExportToShareableHandle)
NOT_HERE(cuMemGetAddressRange_v2)
NOT_HERE(cuMemGetAllocationGranularity)
NOT_HERE(cuMemImportFromShareableHandle)
NOT_HERE(cuMemMap)
NOT_HERE(cuMemRelease)
NOT_HERE(cuMemRetainAllocationHandle)
NOT_HERE(cuMemSetAccess)
NOT_HERE(cuMemUnmap)
NOT_HERE(cuMemsetD32Async)
NOT_HERE(cuModuleGetFunction)
NOT_HERE(cuModuleLoad)
NOT_HERE(cuModuleLoadData)
NOT_HERE(cuModuleLoadDataEx)
NOT_HERE(cuModuleUnload)
NOT_HERE(cuMulticastAddDevice)
NOT_HERE(cuMulticastBindMem)
NOT_HERE(cuMulticastCreate)
NOT_HERE(cuMulticastUnbind)
NOT_HERE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOT_HERE(cuPointerGetAttribute)
NOT_HERE(cuStreamWriteValue32_v2)
NOT_HERE(cuTensorMapEncodeTiled)

// NVML's, for which "not supported" is another number.
extern "C" int nvmlDeviceGetGpuFabricInfoV() { return 3; }
extern "C" int nvmlDeviceGetNvLinkRemoteDeviceType() { return 3; }
extern "C" int nvmlDeviceGetNvLinkRemotePciInfo_v2() { return 3; }
