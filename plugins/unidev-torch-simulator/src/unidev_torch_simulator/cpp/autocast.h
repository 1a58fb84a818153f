// torch.autocast: the operations that run in the lower precision, and those that stay in float32,
// by torch's own lists.
#pragma once

// For CUDA torch has registered them itself, and a second time is an error.
#if !UNIDEV_AS_CUDA

#include <ATen/autocast_mode.h>
#include <torch/library.h>

#define UNIDEV_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define UNIDEV_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(UNIDEV_LOWER_PRECISION)
  AT_FORALL_FP32(UNIDEV_FLOAT32)
}

#undef UNIDEV_LOWER_PRECISION
#undef UNIDEV_FLOAT32
#endif
