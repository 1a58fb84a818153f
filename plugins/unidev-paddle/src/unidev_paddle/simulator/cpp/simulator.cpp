// Simulated GPUs for PaddlePaddle: a custom-device runtime whose devices live in host memory.
//
// Paddle opens this library from CUSTOM_DEVICE_ROOT while it is imported and gets a table of
// functions from InitPlugin. Its kernels do not run on the device, so Paddle computes on the CPU and
// moves the bytes there and back itself; the few kernels that the device needs are in kernels.cpp.
//
// Any thread may call everything here, concurrently. All of it is synchronous: work is done when the
// call returns, so streams and events have no state.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "paddle/phi/backends/device_ext.h"

// In kernels.cpp.
void register_kernels(const char* device_type);

namespace {

// Paddle's allocator refuses a device index above 15 (it has counters for 16 devices), so more
// devices are spread over banks, each with its own device type: sim:0 to sim:15, then
// sim16:0 and so on. Paddle calls InitPlugin once for each file name that it finds: a file a bank.
constexpr size_t kBanks = 4;
constexpr size_t kDevicesOfBank = 16;
const char* const kBankNames[kBanks] = {"sim", "sim16", "sim32", "sim48"};

// Paddle rounds each request up to this, and real GPUs align to it.
constexpr size_t kAlignment = 256;

std::atomic<size_t> allocated_bytes[kBanks * kDevicesOfBank];

size_t device_count() {
  const char* text = getenv("UNIDEV_PADDLE_SIMULATED_GPUS");
  const long count = text ? strtol(text, nullptr, 10) : 0;
  return std::clamp<long>(count, 0, kBanks * kDevicesOfBank);
}

// Read once: Paddle reads the statistics at every allocation.
size_t host_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
                              static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Devices and their memory: what depends on the bank.

template <size_t bank>
struct Bank {
  // The current device is a thread's own, as it is on real hardware.
  static inline thread_local int current = 0;

  static bool is_there(const C_Device device) {
    return device && device->id >= 0 && static_cast<size_t>(device->id) < count();
  }

  static size_t count() {
    // Read once, as Paddle does: the environment is restored after its import.
    static const size_t devices = std::clamp<long>(
        static_cast<long>(device_count()) - static_cast<long>(bank * kDevicesOfBank), 0,
        kDevicesOfBank);
    return devices;
  }

  static std::atomic<size_t>& bytes_of(const C_Device device) {
    return allocated_bytes[bank * kDevicesOfBank + static_cast<size_t>(device->id)];
  }

  static C_Status get_device_count(size_t* devices) {
    *devices = count();
    return C_SUCCESS;
  }

  static C_Status get_device_list(size_t* devices) {
    for (size_t index = 0; index < count(); ++index) devices[index] = index;
    return C_SUCCESS;
  }

  static C_Status set_device(const C_Device device) {
    if (!is_there(device)) return C_ERROR;
    current = device->id;
    return C_SUCCESS;
  }

  static C_Status get_device(const C_Device device) {
    device->id = current;
    return C_SUCCESS;
  }

  static C_Status allocate(const C_Device device, void** pointer, size_t size) {
    *pointer = nullptr;
    if (!is_there(device)) return C_ERROR;
    // Success without a pointer is what Paddle takes for "out of memory"; a failure would reach the
    // user as an OSError with a number.
    if (posix_memalign(pointer, kAlignment, size ? size : 1)) *pointer = nullptr;
    if (*pointer) bytes_of(device) += size;
    return C_SUCCESS;
  }

  static C_Status deallocate(const C_Device device, void* pointer, size_t size) {
    if (!is_there(device)) return C_ERROR;
    free(pointer);
    bytes_of(device) -= size;
    return C_SUCCESS;
  }

  static C_Status memory_stats(const C_Device device, size_t* total, size_t* unused) {
    if (!is_there(device)) return C_ERROR;
    *total = host_bytes();
    *unused = *total - std::min(bytes_of(device).load(), *total);
    return C_SUCCESS;
  }

  static void fill(C_DeviceInterface* runtime) {
    runtime->get_device_count = get_device_count;
    runtime->get_device_list = get_device_list;
    runtime->set_device = set_device;
    runtime->get_device = get_device;
    runtime->device_memory_allocate = allocate;
    runtime->device_memory_deallocate = deallocate;
    runtime->device_memory_stats = memory_stats;
  }
};

// Streams and events: Paddle wants distinct handles, and nothing is ever pending on them.

C_Status succeed(const C_Device) { return C_SUCCESS; }

C_Status create_stream(const C_Device, C_Stream* stream) {
  *stream = static_cast<C_Stream>(malloc(1));
  return *stream ? C_SUCCESS : C_FAILED;
}

C_Status destroy_stream(const C_Device, C_Stream stream) {
  free(stream);
  return C_SUCCESS;
}

C_Status on_stream(const C_Device, C_Stream) { return C_SUCCESS; }

C_Status call_back(const C_Device device, C_Stream stream, C_Callback callback, void* data) {
  C_Status status = C_SUCCESS;
  callback(device, stream, data, &status);
  return status;
}

C_Status create_event(const C_Device, C_Event* event) {
  *event = static_cast<C_Event>(malloc(1));
  return *event ? C_SUCCESS : C_FAILED;
}

C_Status destroy_event(const C_Device, C_Event event) {
  free(event);
  return C_SUCCESS;
}

C_Status on_event(const C_Device, C_Event) { return C_SUCCESS; }

C_Status on_stream_and_event(const C_Device, C_Stream, C_Event) { return C_SUCCESS; }

// Memory is the host's, so all directions of a copy are the same.

C_Status allocate_host(const C_Device, void** pointer, size_t size) {
  *pointer = nullptr;
  return posix_memalign(pointer, kAlignment, size ? size : 1) ? C_FAILED : C_SUCCESS;
}

C_Status deallocate_host(const C_Device, void* pointer, size_t) {
  free(pointer);
  return C_SUCCESS;
}

C_Status set(const C_Device, void* pointer, unsigned char value, size_t size) {
  memset(pointer, value, size);
  return C_SUCCESS;
}

C_Status copy(const C_Device, void* to, const void* from, size_t size) {
  memmove(to, from, size);
  return C_SUCCESS;
}

C_Status copy_on_stream(const C_Device, C_Stream, void* to, const void* from, size_t size) {
  memmove(to, from, size);
  return C_SUCCESS;
}

C_Status copy_peer(const C_Device, const C_Device, void* to, const void* from, size_t size) {
  memmove(to, from, size);
  return C_SUCCESS;
}

C_Status copy_peer_on_stream(
    const C_Device, const C_Device, C_Stream, void* to, const void* from, size_t size) {
  memmove(to, from, size);
  return C_SUCCESS;
}

C_Status min_chunk_size(const C_Device, size_t* size) {
  *size = kAlignment;
  return C_SUCCESS;
}

}  // namespace

// Bytes that Paddle currently has allocated on gpu:`index`; called by ctypes.
extern "C" size_t unidev_simulated_bytes(size_t index) {
  return index < kBanks * kDevicesOfBank ? allocated_bytes[index].load() : 0;
}

extern "C" void InitPlugin(CustomRuntimeParams* params) {
  static std::atomic<size_t> next_bank{0};
  const size_t bank = next_bank++;
  if (bank >= kBanks) return;

  PADDLE_CUSTOM_RUNTIME_CHECK_VERSION(params);
  params->device_type = const_cast<char*>(kBankNames[bank]);
  params->sub_device_type = const_cast<char*>("unidev");

  C_DeviceInterface* runtime = params->interface;
  runtime->init_device = succeed;
  runtime->deinit_device = succeed;

  runtime->create_stream = create_stream;
  runtime->destroy_stream = destroy_stream;
  runtime->query_stream = on_stream;
  runtime->stream_add_callback = call_back;
  runtime->create_event = create_event;
  runtime->record_event = on_stream_and_event;
  runtime->destroy_event = destroy_event;
  runtime->query_event = on_event;
  runtime->synchronize_device = succeed;
  runtime->synchronize_stream = on_stream;
  runtime->synchronize_event = on_event;
  runtime->stream_wait_event = on_stream_and_event;

  runtime->host_memory_allocate = allocate_host;
  runtime->host_memory_deallocate = deallocate_host;
  runtime->device_memory_set = set;
  runtime->memory_copy_h2d = copy;
  runtime->memory_copy_d2h = copy;
  runtime->memory_copy_d2d = copy;
  runtime->memory_copy_p2p = copy_peer;
  runtime->async_memory_copy_h2d = copy_on_stream;
  runtime->async_memory_copy_d2h = copy_on_stream;
  runtime->async_memory_copy_d2d = copy_on_stream;
  runtime->async_memory_copy_p2p = copy_peer_on_stream;
  runtime->device_min_chunk_size = min_chunk_size;

  void (*const fill_bank[kBanks])(C_DeviceInterface*) = {
      Bank<0>::fill, Bank<1>::fill, Bank<2>::fill, Bank<3>::fill};
  fill_bank[bank](runtime);
  register_kernels(kBankNames[bank]);
}
