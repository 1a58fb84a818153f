// A TensorFlow device plugin whose GPUs are host memory with counters: real allocators, real
// transfers and real mirrors, without hardware. TensorFlow cannot tell that memory from a card's:
// it reaches it by the functions below only, which count what they move.
//
// https://github.com/tensorflow/community/blob/master/rfcs/20200624-pluggable-device-for-tensorflow.md

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/tf_tensor.h"

namespace {

constexpr int kMostDevices = 8;

int64_t asked(const char* variable, int64_t otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoll(value);
}

// Of each card; taken from the host as it is used.
const int64_t kTotalBytes = asked("STAND_IN_BYTES", int64_t{2} << 30);

struct Counts {
  std::atomic<int64_t> copies{0};
  std::atomic<int64_t> bytes{0};
};

struct Card {
  std::mutex lock;
  std::unordered_map<void*, uint64_t> held;
  int64_t used = 0;
  Counts to_device, to_host;
  std::atomic<int64_t> streams{0};
};

Card cards[kMostDevices];

Card& card_of(const SP_Device* device) { return cards[device->ordinal]; }

void move(Counts& counts, void* to, const void* from, uint64_t size) {
  ++counts.copies;
  counts.bytes += static_cast<int64_t>(size);
  std::memcpy(to, from, size);
}

// ---- memory ---------------------------------------------------------------------------------

void allocate(const SP_Device* device, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  Card& card = card_of(device);
  std::lock_guard<std::mutex> guard(card.lock);
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = nullptr;
  memory->size = 0;
  if (card.used + static_cast<int64_t>(size) > kTotalBytes) return;  // full
  memory->opaque = std::aligned_alloc(256, (size + 255) / 256 * 256);
  memory->size = size;
  card.held[memory->opaque] = size;
  card.used += static_cast<int64_t>(size);
}

void deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  Card& card = card_of(device);
  std::lock_guard<std::mutex> guard(card.lock);
  auto found = card.held.find(memory->opaque);
  if (found != card.held.end()) {
    card.used -= static_cast<int64_t>(found->second);
    card.held.erase(found);
    std::free(memory->opaque);
  }
  memory->opaque = nullptr;
  memory->size = 0;
}

void* host_allocate(const SP_Device*, uint64_t size) {
  return std::aligned_alloc(64, (size + 63) / 64 * 64);
}
void host_deallocate(const SP_Device*, void* memory) { std::free(memory); }

TF_Bool allocator_stats(const SP_Device* device, SP_AllocatorStats* stats) {
  Card& card = card_of(device);
  std::lock_guard<std::mutex> guard(card.lock);
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  stats->bytes_in_use = card.used;
  stats->has_bytes_limit = 1;
  stats->bytes_limit = kTotalBytes;
  return 1;
}

TF_Bool memory_usage(const SP_Device* device, int64_t* free, int64_t* total) {
  Card& card = card_of(device);
  std::lock_guard<std::mutex> guard(card.lock);
  *free = kTotalBytes - card.used;
  *total = kTotalBytes;
  return 1;
}

// ---- streams, events, timers: all work is done when it is queued ----------------------------

void done(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

template <typename T>
T some() {
  return reinterpret_cast<T>(new char);
}
template <typename T>
void drop(T made) {
  delete reinterpret_cast<char*>(made);
}

void create_stream(const SP_Device* device, SP_Stream* stream, TF_Status* status) {
  ++card_of(device).streams;
  *stream = some<SP_Stream>();
  done(status);
}
void destroy_stream(const SP_Device*, SP_Stream stream) { drop(stream); }
void stream_dependency(const SP_Device*, SP_Stream, SP_Stream, TF_Status* status) { done(status); }
void stream_status(const SP_Device*, SP_Stream, TF_Status* status) { done(status); }
void create_event(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = some<SP_Event>();
  done(status);
}
void destroy_event(const SP_Device*, SP_Event event) { drop(event); }
SE_EventStatus event_status(const SP_Device*, SP_Event) { return SE_EVENT_COMPLETE; }
void record_event(const SP_Device*, SP_Stream, SP_Event, TF_Status* status) { done(status); }
void wait_for_event(const SP_Device* const, SP_Stream, SP_Event, TF_Status* const status) {
  done(status);
}
void create_timer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = some<SP_Timer>();
  done(status);
}
void destroy_timer(const SP_Device*, SP_Timer timer) { drop(timer); }
void use_timer(const SP_Device*, SP_Stream, SP_Timer, TF_Status* status) { done(status); }
uint64_t nanoseconds(SP_Timer) { return 0; }
void block_for_event(const SP_Device*, SP_Event, TF_Status* status) { done(status); }
void block_for_stream(const SP_Device*, SP_Stream, TF_Status* status) { done(status); }
void synchronize_all(const SP_Device*, TF_Status* status) { done(status); }

// ---- copies ---------------------------------------------------------------------------------

void dtoh(const SP_Device* device, SP_Stream, void* to, const SP_DeviceMemoryBase* from,
          uint64_t size, TF_Status* status) {
  move(card_of(device).to_host, to, from->opaque, size);
  done(status);
}
void htod(const SP_Device* device, SP_Stream, SP_DeviceMemoryBase* to, const void* from,
          uint64_t size, TF_Status* status) {
  move(card_of(device).to_device, to->opaque, from, size);
  done(status);
}
void dtod(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to,
          const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status) {
  std::memcpy(to->opaque, from->opaque, size);
  done(status);
}
void sync_dtoh(const SP_Device* device, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
               TF_Status* status) {
  dtoh(device, nullptr, to, from, size, status);
}
void sync_htod(const SP_Device* device, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
               TF_Status* status) {
  htod(device, nullptr, to, from, size, status);
}
void sync_dtod(const SP_Device* device, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
               uint64_t size, TF_Status* status) {
  dtod(device, nullptr, to, from, size, status);
}
void mem_zero(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint64_t size,
              TF_Status* status) {
  std::memset(at->opaque, 0, size);
  done(status);
}
void mem_set(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint8_t pattern, uint64_t size,
             TF_Status* status) {
  std::memset(at->opaque, pattern, size);
  done(status);
}
void mem_set32(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint32_t pattern,
               uint64_t size, TF_Status* status) {
  auto* words = static_cast<uint32_t*>(at->opaque);
  for (uint64_t i = 0; i < size / sizeof(pattern); ++i) words[i] = pattern;
  done(status);
}
TF_Bool host_callback(const SP_Device*, SP_Stream, SE_StatusCallbackFn call, void* argument) {
  TF_Status* status = TF_NewStatus();
  call(argument, status);
  const bool fine = TF_GetCode(status) == TF_OK;
  TF_DeleteStatus(status);
  return fine;
}

// ---- the platform ---------------------------------------------------------------------------

void get_device_count(const SP_Platform*, int* count, TF_Status* status) {
  *count = static_cast<int>(asked("STAND_IN_GPUS", 2));
  done(status);
}
void create_device(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* status) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->ordinal = params->ordinal;
  params->device->device_handle = &cards[params->ordinal];
  params->device->hardware_name = "stand-in";
  params->device->device_vendor = "unidev";
  params->device->pci_bus_id = "0000:00:00.0";
  done(status);
}
void destroy_device(const SP_Platform*, SP_Device*) {}
void create_device_fns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* status) {
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
  done(status);
}
void destroy_device_fns(const SP_Platform*, SP_DeviceFns*) {}
void create_timer_fns(const SP_Platform*, SP_TimerFns* fns, TF_Status* status) {
  fns->nanoseconds = nanoseconds;
  done(status);
}
void destroy_timer_fns(const SP_Platform*, SP_TimerFns*) {}

void create_stream_executor(const SP_Platform*, SE_CreateStreamExecutorParams* params,
                            TF_Status* status) {
  SP_StreamExecutor* made = params->stream_executor;
  made->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  made->allocate = allocate;
  made->deallocate = deallocate;
  made->host_memory_allocate = host_allocate;
  made->host_memory_deallocate = host_deallocate;
  made->get_allocator_stats = allocator_stats;
  made->device_memory_usage = memory_usage;
  made->create_stream = create_stream;
  made->destroy_stream = destroy_stream;
  made->create_stream_dependency = stream_dependency;
  made->get_stream_status = stream_status;
  made->create_event = create_event;
  made->destroy_event = destroy_event;
  made->get_event_status = event_status;
  made->record_event = record_event;
  made->wait_for_event = wait_for_event;
  made->create_timer = create_timer;
  made->destroy_timer = destroy_timer;
  made->start_timer = use_timer;
  made->stop_timer = use_timer;
  made->memcpy_dtoh = dtoh;
  made->memcpy_htod = htod;
  made->memcpy_dtod = dtod;
  made->sync_memcpy_dtoh = sync_dtoh;
  made->sync_memcpy_htod = sync_htod;
  made->sync_memcpy_dtod = sync_dtod;
  made->block_host_for_event = block_for_event;
  made->block_host_until_done = block_for_stream;
  made->synchronize_all_activity = synchronize_all;
  made->mem_zero = mem_zero;
  made->memset = mem_set;
  made->memset32 = mem_set32;
  made->host_callback = host_callback;
  done(status);
}
void destroy_stream_executor(const SP_Platform*, SP_StreamExecutor*) {}
void destroy_platform(SP_Platform*) {}
void destroy_platform_fns(SP_PlatformFns*) {}

// ---- the kernels of GPUs that unidev uses, which TensorFlow's CPU build lacks ----------------

struct Nothing {};
void* create_kernel(TF_OpKernelConstruction*) { return new Nothing; }
void delete_kernel(void* kernel) { delete static_cast<Nothing*>(kernel); }

// The output of a kernel, whose rows are those of its inputs, one after the other.
void join(TF_OpKernelContext* context, int inputs) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* found[16];
  int64_t shape[16] = {0};
  size_t size = 0;
  int rank = 0;
  for (int i = 0; i < inputs; ++i) {
    TF_GetInput(context, i, &found[i], status);
    rank = TF_NumDims(found[i]);
    size += TF_TensorByteSize(found[i]);
    for (int axis = 1; axis < rank; ++axis) shape[axis] = TF_Dim(found[i], axis);
    if (rank > 0) shape[0] += TF_Dim(found[i], 0);
  }
  TF_Tensor* made = TF_AllocateOutput(context, 0, TF_ExpectedOutputDataType(context, 0), shape,
                                      rank, size, status);
  if (TF_GetCode(status) == TF_OK) {
    char* to = static_cast<char*>(TF_TensorData(made));
    for (int i = 0; i < inputs; ++i) {
      std::memcpy(to, TF_TensorData(found[i]), TF_TensorByteSize(found[i]));
      to += TF_TensorByteSize(found[i]);
    }
    TF_DeleteTensor(made);
  } else {
    TF_OpKernelContext_Failure(context, status);
  }
  for (int i = 0; i < inputs; ++i) TF_DeleteTensor(found[i]);
  TF_DeleteStatus(status);
}

void deep_copy(void*, TF_OpKernelContext* context) { join(context, 1); }

// Along the first axis, as unidev uses it.
void concatenate(void*, TF_OpKernelContext* context) { join(context, TF_NumInputs(context) - 1); }

void add_kernel(const char* name, const char* attribute, TF_DataType dtype,
                void (*compute)(void*, TF_OpKernelContext*), const char* on_host) {
  TF_Status* status = TF_NewStatus();
  TF_KernelBuilder* builder =
      TF_NewKernelBuilder(name, "GPU", create_kernel, compute, delete_kernel);
  TF_KernelBuilder_TypeConstraint(builder, attribute, dtype, status);
  if (on_host != nullptr) TF_KernelBuilder_HostMemory(builder, on_host);
  TF_RegisterKernelBuilder(name, builder, status);
  TF_DeleteStatus(status);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void SE_InitPlugin(SE_PlatformRegistrationParams* params,
                                                          TF_Status* status) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "STAND_IN";
  params->platform->type = "GPU";
  params->platform->use_bfc_allocator = 1;
  params->platform->force_memory_growth = 1;
  params->platform->supports_unified_memory = 0;
  params->platform_fns->get_device_count = get_device_count;
  params->platform_fns->create_device = create_device;
  params->platform_fns->destroy_device = destroy_device;
  params->platform_fns->create_device_fns = create_device_fns;
  params->platform_fns->destroy_device_fns = destroy_device_fns;
  params->platform_fns->create_stream_executor = create_stream_executor;
  params->platform_fns->destroy_stream_executor = destroy_stream_executor;
  params->platform_fns->create_timer_fns = create_timer_fns;
  params->platform_fns->destroy_timer_fns = destroy_timer_fns;
  params->destroy_platform = destroy_platform;
  params->destroy_platform_fns = destroy_platform_fns;
  done(status);
}

__attribute__((visibility("default"))) void TF_InitKernel() {
  // The dtypes for which TensorFlow has DeepCopy on GPUs; int32, on the host, it has itself.
  const TF_DataType dtypes[] = {TF_HALF, TF_BFLOAT16, TF_FLOAT, TF_DOUBLE,
                                TF_INT8, TF_UINT8,    TF_INT64, TF_UINT64};
  for (TF_DataType dtype : dtypes) add_kernel("DeepCopy", "T", dtype, deep_copy, nullptr);
  add_kernel("ConcatV2", "T", TF_FLOAT, concatenate, "axis");
}

// What the tests read.
__attribute__((visibility("default"))) int64_t stand_in_moved_bytes(int device) {
  return cards[device].to_device.bytes + cards[device].to_host.bytes;
}
// More than none once TensorFlow has made a device of the card: on hardware, a context.
__attribute__((visibility("default"))) int64_t stand_in_streams(int device) {
  return cards[device].streams;
}
__attribute__((visibility("default"))) int64_t stand_in_transfers(int device) {
  return cards[device].to_device.copies + cards[device].to_host.copies;
}
}
