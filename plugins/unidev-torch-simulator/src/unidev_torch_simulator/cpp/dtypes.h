// Operations on dtypes for which torch has a kernel for CUDA, but not for the CPU.
#pragma once

#include "memory.h"

#include <ATen/Context.h>
#include <ATen/ops/histc.h>

namespace unidev_sim {

// Of integers: counted exactly in double, as every bin's edge is.
inline at::Tensor histc(
    const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  const at::Tensor values = self.cpu();
  const bool is_integer = c10::isIntegralType(values.scalar_type(), /*includeBool=*/false);
  if (kAsCuda && !is_integer) {
    at::globalContext().alertNotDeterministic("_histc_cuda with floating point input");
  }
  return at::histc(is_integer ? values.to(at::kDouble) : values, bins, min, max)
      .to(self.device(), self.scalar_type());
}

} // namespace unidev_sim
