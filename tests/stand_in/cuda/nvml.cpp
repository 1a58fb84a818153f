// NVML, libnvidia-ml.so.1, as far as nvidia-ml-py is asked by unidev and PyTorch. A function that
// is not here is "not found" to nvidia-ml-py. A lost card answers nothing but its handle.
//
// NVIDIA's header nvml.h is not among those that PyTorch brings, so its types are repeated.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "machine.h"

using namespace stand_in;

namespace {

enum Result {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kGpuIsLost = 15,
};

struct Memory {
  unsigned long long total, free, used;
};

struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};

struct Process {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int instance, compute_instance;
};

struct ProcessV1 {
  unsigned int pid;
  unsigned long long used_bytes;
};

struct Pci {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

using Handle = void*;

// The numbers after those of all cards are of the first instance (MIG) of each, and so on.
Handle handle_of(int index, int instance = -1) {
  return reinterpret_cast<Handle>(static_cast<std::intptr_t>(index + 1 +
                                                             kMostCards * (instance + 1)));
}

int index_of(Handle handle) {
  const int number = static_cast<int>(reinterpret_cast<std::intptr_t>(handle)) - 1;
  return number < 0 ? -1 : number % kMostCards;
}

// -1 of a card as a whole.
int instance_of(Handle handle) {
  return (static_cast<int>(reinterpret_cast<std::intptr_t>(handle)) - 1) / kMostCards - 1;
}

bool is_divided() { return settings().layout == Layout::kMig; }

// Whether what this process uses is of that card or instance.
bool is_in_use(Handle handle) {
  if (instance_of(handle) < 0) {
    return true;
  }
  return !visible_cards().empty() && visible_cards()[0] == index_of(handle) &&
         instance_of(handle) == visible_instance();
}

constexpr unsigned int kMostInstances = 7;  // places for them on a card

constexpr unsigned long long kMebibyte = 1ULL << 20;
// What the firmware of a machine with 46,477 MiB had set aside, and what of it was free.
constexpr unsigned long long kCarveOutTotal = 8128 * kMebibyte;
constexpr unsigned long long kCarveOutFree = 28 * kMebibyte;

Result ask(Handle handle) {
  const int index = index_of(handle);
  if (index < 0 || index >= settings().cards) {
    return kInvalidArgument;
  }
  return card(index).is_lost ? kGpuIsLost : kSuccess;
}

Result text(const char* value, char* to, unsigned int length) {
  std::snprintf(to, length, "%s", value);
  return kSuccess;
}

}  // namespace

extern "C" {

Result nvmlInit() { return kSuccess; }
Result nvmlInit_v2() { return kSuccess; }
Result nvmlInitWithFlags(unsigned int) { return kSuccess; }
Result nvmlShutdown() { return kSuccess; }

const char* nvmlErrorString(Result result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kGpuIsLost:
      return "GPU is lost";
  }
  return "Unknown Error";
}

Result nvmlSystemGetDriverVersion(char* to, unsigned int length) {
  char version[32];  // with the number of NVIDIA's own driver of that CUDA version
  std::snprintf(
      version, sizeof version, "%d.00",
      settings().driver_cuda >= 13000 ? 580 : 510 + settings().driver_cuda % 1000 / 10 * 10);
  return text(version, to, length);
}

Result nvmlSystemGetNVMLVersion(char* to, unsigned int length) { return text("0", to, length); }

Result nvmlSystemGetCudaDriverVersion(int* version) {
  *version = settings().driver_cuda;
  return kSuccess;
}

Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

Result nvmlDeviceGetCount_v2(unsigned int* number) {
  *number = static_cast<unsigned int>(settings().cards);
  return kSuccess;
}

Result nvmlDeviceGetHandleByIndex_v2(unsigned int index, Handle* handle) {
  if (index >= static_cast<unsigned int>(settings().cards)) {
    return kInvalidArgument;
  }
  *handle = handle_of(static_cast<int>(index));
  return ask(*handle);
}

Result nvmlDeviceGetHandleByUUID(const char* uuid, Handle* handle) {
  for (int index = 0; index < settings().cards; ++index) {
    for (int instance = -1; instance < (is_divided() ? kInstances : 0); ++instance) {
      if ((instance < 0 ? uuid_of(index) : uuid_of_instance(index, instance)) == uuid) {
        *handle = handle_of(index, instance);
        return ask(*handle);
      }
    }
  }
  return kInvalidArgument;
}

Result nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Handle* handle) {
  unsigned int domain = 0;
  unsigned int bus = 0;
  if (std::sscanf(bus_id, "%x:%x:", &domain, &bus) != 2 || bus == 0) {
    return kInvalidArgument;
  }
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, handle);
}

Result nvmlDeviceGetIndex(Handle handle, unsigned int* index) {
  *index = static_cast<unsigned int>(index_of(handle));
  return ask(handle);
}

Result nvmlDeviceGetName(Handle handle, char* to, unsigned int length) {
  text(instance_of(handle) < 0 ? "Stand-in GPU" : "Stand-in GPU MIG", to, length);
  return ask(handle);
}

Result nvmlDeviceGetUUID(Handle handle, char* to, unsigned int length) {
  const Result result = ask(handle);
  if (result != kSuccess) {
    return result;
  }
  const int index = index_of(handle);
  const int instance = instance_of(handle);
  const std::string uuid = instance < 0 ? uuid_of(index) : uuid_of_instance(index, instance);
  return text(uuid.c_str(), to, length);
}

Result nvmlDeviceGetPciInfo_v3(Handle handle, Pci* found) {
  const Result result = ask(handle);
  if (result == kSuccess) {
    *found = {};
    found->bus = static_cast<unsigned int>(index_of(handle)) + 1;
    std::snprintf(found->bus_id, sizeof found->bus_id, "00000000:%02X:00.0", found->bus);
    std::snprintf(found->bus_id_legacy, sizeof found->bus_id_legacy, "0000:%02X:00.0", found->bus);
  }
  return result;
}

Result nvmlDeviceGetCudaComputeCapability(Handle handle, int* major, int* minor) {
  *major = capability().major;
  *minor = capability().minor;
  return ask(handle);
}

Result nvmlDeviceGetMemoryInfo(Handle handle, Memory* found) {
  const Result result = ask(handle);
  if (result != kSuccess) {
    return result;
  }
  if (settings().layout == Layout::kNoAnswer) {
    return kNotSupported;
  }
  if (settings().layout == Layout::kCarveOut) {
    *found = {kCarveOutTotal, kCarveOutFree, kCarveOutTotal - kCarveOutFree};
    return kSuccess;
  }
  Lock lock(machine_lock());
  const bool is_whole = is_divided() && instance_of(handle) < 0;
  const std::size_t total = settings().card_bytes * (is_whole ? kInstances : 1);
  const std::size_t used = is_in_use(handle) ? used_bytes(index_of(handle)) : 0;
  *found = {total, total - used, used};
  return kSuccess;
}

Result nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2* found) {
  Memory plain{};
  const Result result = nvmlDeviceGetMemoryInfo(handle, &plain);
  if (result == kSuccess) {
    *found = {found->version, plain.total, 0, plain.free, plain.used};
  }
  return result;
}

// This process, if it has a context on the card; the stand-in does not know of other processes.
Result nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned int* number,
                                               Process* found) {
  const Result result = ask(handle);
  if (result != kSuccess) {
    return result;
  }
  Lock lock(machine_lock());
  const unsigned int room = *number;
  *number = card(index_of(handle)).has_context && is_in_use(handle) ? 1 : 0;
  if (*number > room) {
    return kInsufficientSize;
  }
  if (*number == 1) {
    *found = {static_cast<unsigned int>(getpid()), used_bytes(index_of(handle)), ~0U, ~0U};
  }
  return kSuccess;
}

Result nvmlDeviceGetComputeRunningProcesses_v2(Handle handle, unsigned int* number,
                                               Process* found) {
  return nvmlDeviceGetComputeRunningProcesses_v3(handle, number, found);
}

Result nvmlDeviceGetComputeRunningProcesses(Handle handle, unsigned int* number, ProcessV1* found) {
  Process newer{};
  const Result result = nvmlDeviceGetComputeRunningProcesses_v3(handle, number, &newer);
  if (result == kSuccess && *number == 1) {
    *found = {newer.pid, newer.used_bytes};
  }
  return result;
}

Result nvmlDeviceGetMigMode(Handle handle, unsigned int* now, unsigned int* next) {
  if (!is_divided() || instance_of(handle) >= 0) {
    return kNotSupported;
  }
  *now = *next = 1;
  return ask(handle);
}

Result nvmlDeviceGetMaxMigDeviceCount(Handle handle, unsigned int* number) {
  *number = kMostInstances;
  return ask(handle);
}

// Of the places there are, the first is empty, as where an instance has been removed.
Result nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, unsigned int index, Handle* found) {
  if (!is_divided() || instance_of(handle) >= 0) {
    return kNotSupported;
  }
  if (index < 1 || index > kInstances) {
    return kNotFound;
  }
  *found = handle_of(index_of(handle), static_cast<int>(index) - 1);
  return ask(handle);
}

}  // extern "C"
