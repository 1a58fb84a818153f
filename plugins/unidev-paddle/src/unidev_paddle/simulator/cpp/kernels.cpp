// The kernels that a simulated device provides. Paddle runs all others on the CPU and moves the
// bytes there and back.
//
// - contiguous and strided_copy are required: the fallback itself calls them, to make strided
//   tensors dense, and without them `x[:, 1].clone()` and `x.T.cpu()` fail.
// - assign (`clone`) is here so that a copy on one device is made on that device, as on real ones,
//   and not out of two more on the host.
// - embedding_grad is here because Paddle would leave the result of its fallback on the CPU.
// - fill is what the gradient of a slice starts from (`x[0]`, `diagonal`, `as_strided`).
//
// The others move whole elements and never look inside, so one function serves every dtype.

#include <algorithm>
#include <cstring>
#include <vector>

#include "paddle/phi/capi/all.h"

// In fill.cpp.
void fill_memory(void* to, int64_t count, PD_DataType dtype, const void* scalar);

namespace {

using Extents = std::vector<int64_t>;

size_t element_bytes(PD_DataType dtype) {
  switch (dtype) {
    case BOOL: case UINT8: case INT8: return 1;
    case UINT16: case INT16: case FLOAT16: case BFLOAT16: return 2;
    case UINT32: case INT32: case FLOAT32: return 4;
    case UINT64: case INT64: case FLOAT64: case COMPLEX64: return 8;
    case COMPLEX128: return 16;
    default: return 0;
  }
}

// Paddle checks its own arguments before it calls a kernel; a status could only say that the
// tensor pointer is null, which these callers never pass.
Extents shape_of(const PD_Tensor* tensor) {
  PD_Status status;
  Extents shape(PD_TensorGetNumDims(tensor, &status));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    shape[axis] = PD_TensorGetDim(tensor, axis, &status);
  }
  return shape;
}

Extents strides_of(const PD_Tensor* tensor) {
  PD_Status status;
  Extents strides(PD_TensorGetNumStrides(tensor, &status));
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    strides[axis] = PD_TensorGetStride(tensor, axis, &status);
  }
  return strides;
}

Extents dense_strides(const Extents& shape) {
  Extents strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

void copy_elements(char* to, const Extents& to_strides, const char* from,
                   const Extents& from_strides, const Extents& shape, size_t bytes) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  if (count == 0) return;
  if (from_strides == to_strides && to_strides == dense_strides(shape)) {
    memcpy(to, from, count * bytes);
    return;
  }
  const size_t rank = shape.size();
  const int64_t row = rank ? shape[rank - 1] : 1;
  const int64_t to_step = rank ? to_strides[rank - 1] : 1;
  const int64_t from_step = rank ? from_strides[rank - 1] : 1;
  Extents position(rank, 0);
  for (int64_t done = 0; done < count; done += row) {
    int64_t to_offset = 0, from_offset = 0;
    for (size_t axis = 0; axis + 1 < rank; ++axis) {
      to_offset += position[axis] * to_strides[axis];
      from_offset += position[axis] * from_strides[axis];
    }
    for (int64_t column = 0; column < row; ++column) {
      memcpy(to + (to_offset + column * to_step) * bytes,
             from + (from_offset + column * from_step) * bytes, bytes);
    }
    for (size_t axis = rank ? rank - 1 : 0; axis-- > 0;) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
}

// Paddle calls a kernel through this pointer with its own references, which are pointers at this
// boundary (as the wrappers in paddle/phi/capi/include/kernel_utils.h have it).

void contiguous(const PD_DeviceContext* context, const PD_Tensor* input, PD_Tensor* output) {
  PD_Status status;
  const Extents shape = shape_of(input), from_strides = strides_of(input);
  const Extents to_strides = dense_strides(shape);
  const PD_DataType dtype = PD_TensorGetPDDataType(input, &status);
  PD_TensorSetStrides(output, to_strides.size(), to_strides.data(), &status);
  PD_TensorSetOffset(output, 0, &status);
  void* to = PD_DeviceContextAllocateTensor(context, output, 0, dtype, &status);
  const void* from = PD_TensorGetDataPointer(input, &status);
  copy_elements(static_cast<char*>(to), to_strides, static_cast<const char*>(from), from_strides,
                shape, element_bytes(dtype));
}

void strided_copy(const PD_DeviceContext*, const PD_Tensor* input, const Extents* shape,
                  const Extents* strides, int64_t offset, PD_Tensor* output) {
  PD_Status status;
  PD_TensorSetDims(output, shape->size(), shape->data(), &status);
  PD_TensorSetStrides(output, strides->size(), strides->data(), &status);
  PD_TensorSetOffset(output, offset, &status);
  const PD_DataType dtype = PD_TensorGetPDDataType(input, &status);
  void* to = PD_TensorGetDataPointer(output, &status);
  const void* from = PD_TensorGetDataPointer(input, &status);
  copy_elements(static_cast<char*>(to), *strides, static_cast<const char*>(from),
                strides_of(input), *shape, element_bytes(dtype));
}

void fill(const PD_DeviceContext* context, const PD_Tensor*, const PD_Scalar* value,
          PD_Tensor* output) {
  PD_Status status;
  const PD_DataType dtype = PD_TensorGetPDDataType(output, &status);
  void* to = PD_DeviceContextAllocateTensor(context, output, 0, dtype, &status);
  fill_memory(to, PD_TensorGetElementCount(output, &status), dtype, value);
}

void fill_in_graph(PD_KernelContext* context) {
  fill(PD_KernelContextGetDeviceContext(context), PD_KernelContextInputAt(context, 0),
       PD_KernelContextScalarAttrAt(context, 0), PD_KernelContextOutputAt(context, 0));
}

void contiguous_in_graph(PD_KernelContext* context) {
  contiguous(PD_KernelContextGetDeviceContext(context), PD_KernelContextInputAt(context, 0),
             PD_KernelContextOutputAt(context, 0));
}

Extents int64_list(PD_KernelContext* context, size_t index) {
  PD_List list = PD_KernelContextListInt64AttrAt(context, index);
  const int64_t* values = static_cast<int64_t*>(list.data);
  Extents copied(values, values + list.size);
  PD_DeleteInt64List(list);
  return copied;
}

void strided_copy_in_graph(PD_KernelContext* context) {
  const Extents shape = int64_list(context, 0), strides = int64_list(context, 1);
  strided_copy(PD_KernelContextGetDeviceContext(context), PD_KernelContextInputAt(context, 0),
               &shape, &strides, PD_KernelContextInt64AttrAt(context, 2),
               PD_KernelContextOutputAt(context, 0));
}

std::vector<char> dense_elements(const PD_Tensor* tensor, size_t bytes) {
  PD_Status status;
  const Extents shape = shape_of(tensor);
  std::vector<char> elements(PD_TensorGetElementCount(tensor, &status) * bytes);
  copy_elements(elements.data(), dense_strides(shape),
                static_cast<const char*>(PD_TensorGetDataPointer(tensor, &status)),
                strides_of(tensor), shape, bytes);
  return elements;
}

// Adds each row of `gradient` to the row of the weight that was looked up, in the order of `ids`.
template <typename T>
void embedding_grad(const PD_DeviceContext* context, const PD_Tensor* ids, const PD_Tensor* weight,
                    const PD_Tensor* gradient, int64_t padding, PD_Tensor* output) {
  PD_Status status;
  const Extents shape = shape_of(weight);
  const PD_DataType dtype = PD_TensorGetPDDataType(weight, &status);
  PD_TensorSetDims(output, shape.size(), shape.data(), &status);
  T* to = static_cast<T*>(PD_DeviceContextAllocateTensor(context, output, 0, dtype, &status));
  std::fill(to, to + shape[0] * shape[1], static_cast<T>(0));
  const std::vector<char> rows = dense_elements(gradient, sizeof(T));
  const bool is_wide = PD_TensorGetPDDataType(ids, &status) == INT64;
  const std::vector<char> chosen = dense_elements(ids, is_wide ? 8 : 4);
  const T* from = reinterpret_cast<const T*>(rows.data());
  const int64_t count = PD_TensorGetElementCount(ids, &status);
  for (int64_t i = 0; i < count; ++i, from += shape[1]) {
    const int64_t row = is_wide ? reinterpret_cast<const int64_t*>(chosen.data())[i]
                                : reinterpret_cast<const int32_t*>(chosen.data())[i];
    if (row == padding) continue;
    for (int64_t column = 0; column < shape[1]; ++column) {
      to[row * shape[1] + column] = static_cast<T>(to[row * shape[1] + column] + from[column]);
    }
  }
}

template <typename T>
void embedding_grad_in_graph(PD_KernelContext* context) {
  embedding_grad<T>(PD_KernelContextGetDeviceContext(context),
                    PD_KernelContextInputAt(context, 0), PD_KernelContextInputAt(context, 1),
                    PD_KernelContextInputAt(context, 2), PD_KernelContextInt64AttrAt(context, 0),
                    PD_KernelContextOutputAt(context, 0));
}

void leave_definition(const PD_KernelKey*, PD_Kernel*) {}

template <typename T>
void register_embedding_grad(const char* device_type, PD_DataType dtype) {
  PD_KernelArgumentType inputs[] = {PD_ARG_TYPE_CONTEXT, PD_ARG_TYPE_TENSOR, PD_ARG_TYPE_TENSOR,
                                    PD_ARG_TYPE_TENSOR};
  PD_KernelArgumentType outputs[] = {PD_ARG_TYPE_TENSOR}, attributes[] = {PD_ARG_TYPE_INT64};
  PD_RegisterPhiKernel("embedding_grad", device_type, dtype, ALL_LAYOUT, 4, inputs, 1, attributes,
                       1, outputs, leave_definition, embedding_grad_in_graph<T>,
                       reinterpret_cast<void*>(embedding_grad<T>));
}

}  // namespace

void register_kernels(const char* device_type) {
  PD_KernelArgumentType inputs[] = {PD_ARG_TYPE_CONTEXT, PD_ARG_TYPE_TENSOR};
  PD_KernelArgumentType outputs[] = {PD_ARG_TYPE_TENSOR};
  PD_KernelArgumentType attributes[] = {
      PD_ARG_TYPE_LIST_INT64, PD_ARG_TYPE_LIST_INT64, PD_ARG_TYPE_INT64};
  PD_KernelArgumentType number[] = {PD_ARG_TYPE_SCALAR};
  for (PD_DataType dtype : {BOOL, UINT8, INT8, INT16, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32,
                            FLOAT64, COMPLEX64, COMPLEX128}) {
    for (const char* name : {"contiguous", "assign"}) {
      PD_RegisterPhiKernel(name, device_type, dtype, ALL_LAYOUT, 2, inputs, 0, nullptr, 1, outputs,
                           leave_definition, contiguous_in_graph,
                           reinterpret_cast<void*>(contiguous));
    }
    PD_RegisterPhiKernel("fill", device_type, dtype, ALL_LAYOUT, 2, inputs, 1, number, 1, outputs,
                         leave_definition, fill_in_graph, reinterpret_cast<void*>(fill));
    PD_RegisterPhiKernel("strided_copy", device_type, dtype, ALL_LAYOUT, 2, inputs, 3, attributes,
                         1, outputs, leave_definition, strided_copy_in_graph,
                         reinterpret_cast<void*>(strided_copy));
  }  register_embedding_grad<float>(device_type, FLOAT32);
  register_embedding_grad<double>(device_type, FLOAT64);
  register_embedding_grad<phi::dtype::float16>(device_type, FLOAT16);
  register_embedding_grad<phi::dtype::bfloat16>(device_type, BFLOAT16);
}
