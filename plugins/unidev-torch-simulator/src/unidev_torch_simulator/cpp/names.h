// The name that the devices bear: `sim`, torch's PrivateUse1, or `cuda`, for which torch's CPU build
// has no kernels. Compiled for one of them: with both in one process, backward fails an assertion of
// torch (autograd/engine.cpp, opt_ready_stream && opt_parent_stream; seen in 2.13).
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>

#if UNIDEV_AS_CUDA
#define UNIDEV_KEY CUDA
#define UNIDEV_AUTOGRAD_KEY AutogradCUDA
#define UNIDEV_SPARSE_KEY SparseCUDA
#define UNIDEV_COMPRESSED_KEY SparseCsrCUDA
#define UNIDEV_QUANTIZED_KEY QuantizedCUDA
#define UNIDEV_NESTED_KEY NestedTensorCUDA
#define UNIDEV_NAME "cuda"
#else
#define UNIDEV_KEY PrivateUse1
#define UNIDEV_AUTOGRAD_KEY AutogradPrivateUse1
#define UNIDEV_SPARSE_KEY SparsePrivateUse1
#define UNIDEV_COMPRESSED_KEY SparseCsrPrivateUse1
#define UNIDEV_QUANTIZED_KEY QuantizedPrivateUse1
#define UNIDEV_NESTED_KEY NestedTensorPrivateUse1
#define UNIDEV_NAME "sim"
#endif

namespace unidev_sim {

constexpr c10::DispatchKey kKey = c10::DispatchKey::UNIDEV_KEY;
#if UNIDEV_AS_CUDA
constexpr c10::DeviceType kSim = c10::DeviceType::CUDA;
#else
constexpr c10::DeviceType kSim = c10::DeviceType::PrivateUse1;
#endif
constexpr bool kAsCuda = UNIDEV_AS_CUDA;

} // namespace unidev_sim
