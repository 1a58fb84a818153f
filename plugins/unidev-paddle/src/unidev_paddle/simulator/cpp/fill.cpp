// Filling memory with one of Paddle's scalars, of any dtype. In a file of its own: the C++ headers of
// Paddle's scalars do not go together with those of its C interface.

#include <algorithm>

#include "paddle/phi/capi/include/c_data_type.h"
#include "paddle/phi/common/scalar.h"

namespace {

template <typename T>
void fill(void* to, int64_t count, const phi::Scalar& value) {
  std::fill_n(static_cast<T*>(to), count, value.to<T>());
}

}  // namespace

void fill_memory(void* to, int64_t count, PD_DataType dtype, const void* scalar) {
  const auto& value = *static_cast<const phi::Scalar*>(scalar);
  switch (dtype) {
    case BOOL: return fill<bool>(to, count, value);
    case UINT8: return fill<uint8_t>(to, count, value);
    case INT8: return fill<int8_t>(to, count, value);
    case INT16: return fill<int16_t>(to, count, value);
    case INT32: return fill<int32_t>(to, count, value);
    case INT64: return fill<int64_t>(to, count, value);
    case FLOAT16: return fill<phi::dtype::float16>(to, count, value);
    case BFLOAT16: return fill<phi::dtype::bfloat16>(to, count, value);
    case FLOAT32: return fill<float>(to, count, value);
    case FLOAT64: return fill<double>(to, count, value);
    case COMPLEX64: return fill<phi::dtype::complex<float>>(to, count, value);
    case COMPLEX128: return fill<phi::dtype::complex<double>>(to, count, value);
    default: return;  // kernels.cpp registers no other
  }
}
