#include "machine.h"

#include <pthread.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <sstream>

#include "counts.h"

namespace stand_in {
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* found = std::getenv(name);
  return found == nullptr || *found == 0 ? otherwise : found;
}

// "13.0" as 13000
int version_number(const std::string& text) {
  const std::size_t dot = text.find('.');
  const int minor = dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1);
  return std::atoi(text.c_str()) * 1000 + minor * 10;
}

std::size_t mebibytes(const char* name, const char* otherwise) {
  return std::strtoull(from_environment(name, otherwise).c_str(), nullptr, 10) << 20;
}

Layout read_layout() {
  static const std::map<std::string, Layout> known{{"own", Layout::kOwn},
                                                   {"carve-out", Layout::kCarveOut},
                                                   {"no answer", Layout::kNoAnswer},
                                                   {"MIG", Layout::kMig}};
  const auto found = known.find(from_environment("STAND_IN_LAYOUT", "own"));
  if (found == known.end()) {
    std::fputs("STAND_IN_LAYOUT is none of own, carve-out, no answer, MIG\n", stderr);
    std::abort();
  }
  return found->second;
}

Card cards[kMostCards];
thread_local int device_of_thread = 0;
thread_local cudaError_t error_of_thread = cudaSuccess;
bool driver_is_initialised = false;
bool is_spoilt_by_fork = false;

struct Failure {
  long first = 0;  // how many calls there are up to the first that fails, itself included
  long times = 0;
  cudaError_t error = cudaSuccess;
};
std::map<std::string, Failure>& failures() {
  static auto* table = new std::map<std::string, Failure>{
      {"allocation", {}}, {"pinned allocation", {}}, {"copy", {}}, {"kernel", {}}};
  return *table;
}

void before_fork() { machine_lock().lock(); }
void in_parent() { machine_lock().unlock(); }
void in_child() {
  is_spoilt_by_fork = driver_is_initialised;
  new (&machine_lock()) std::recursive_mutex;  // its owner was a thread of the parent
}
[[maybe_unused]] const int registered = pthread_atfork(before_fork, in_parent, in_child);

struct Visible {
  std::vector<int> cards;
  int instance = 0;
};

// The card, and with MIG its instance, that an entry of CUDA_VISIBLE_DEVICES names; -1: none.
struct Named {
  int index = -1;
  int instance = 0;
};

// By a UUID or the start of one, if it is the start of no other.
Named named_by_uuid(const std::string& entry) {
  Named found;
  int number = 0;
  const bool is_instance = entry.rfind("MIG-", 0) == 0;
  const int instances = !is_instance ? 1 : settings().layout == Layout::kMig ? kInstances : 0;
  for (int index = 0; index < settings().cards; ++index) {
    for (int instance = 0; instance < instances; ++instance) {
      const std::string uuid = is_instance ? uuid_of_instance(index, instance) : uuid_of(index);
      if (uuid.rfind(entry, 0) == 0) {
        found = {index, instance};
        ++number;
      }
    }
  }
  return number == 1 ? found : Named{};
}

Named named(const std::string& entry) {
  if (entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0) {
    return named_by_uuid(entry);
  }
  char* end = nullptr;
  const long index = std::strtol(entry.c_str(), &end, 10);
  if (end == entry.c_str() || index < 0 || index >= settings().cards) {
    return {};
  }
  return {static_cast<int>(index), 0};
}

std::string without_spaces_before(const std::string& text) {
  const std::size_t start = text.find_first_not_of(' ');
  return start == std::string::npos ? "" : text.substr(start);
}

Visible chosen() {
  Visible found;
  const char* variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (variable == nullptr) {
    for (int index = 0; index < settings().cards; ++index) {
      found.cards.push_back(index);
    }
    return found;
  }
  std::istringstream entries(variable);
  std::string entry;
  while (std::getline(entries, entry, ',')) {
    const Named each = named(without_spaces_before(entry));
    if (each.index < 0) {
      break;  // CUDA ignores whatever follows the first that does not exist
    }
    for (const int before : found.cards) {
      if (before == each.index) {
        return {};  // the same card twice: none
      }
    }
    if (found.cards.empty()) {
      found.instance = each.instance;
    }
    found.cards.push_back(each.index);
  }
  return found;
}

const Visible& visible() {
  static const Visible found = [] {
    Visible read = chosen();
    if (settings().layout == Layout::kMig && read.cards.size() > 1) {
      read.cards.resize(1);  // a process has one instance, whatever else it names
    }
    return read;
  }();
  return found;
}

}  // namespace

const Settings& settings() {
  static const Settings read{
      read_layout(),
      std::min(std::atoi(from_environment("STAND_IN_GPUS", "2").c_str()), kMostCards),
      mebibytes("STAND_IN_MIB", "1024"),
      mebibytes("STAND_IN_CONTEXT_MIB", "128"),
      version_number(from_environment("STAND_IN_DRIVER_CUDA", "13.0")),
      CUDART_VERSION,
  };
  return read;
}

Card& card(int index) { return cards[index]; }

std::size_t used_bytes(int index) {
  return cards[index].held + (cards[index].has_context ? settings().context_bytes : 0);
}

std::string uuid_of(int index) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-%08x-57a4-d141-c0da-000000000000", 0xa0 + index);
  return text;
}

std::string uuid_of_instance(int index, int instance) {
  char text[64];
  std::snprintf(text, sizeof text, "MIG-%08x-57a4-d141-c0da-%012x", 0xa0 + index, instance + 1);
  return text;
}

bool shares_host_memory() {
  return settings().layout == Layout::kCarveOut || settings().layout == Layout::kNoAnswer;
}

Capability capability() {
  return shares_host_memory() ? Capability{12, 1} : Capability{8, 0};
}

const std::vector<int>& visible_cards() { return visible().cards; }
int visible_instance() { return visible().instance; }

Card& card_of_device(int device) { return cards[visible_cards()[device]]; }

std::recursive_mutex& machine_lock() {
  static auto* lock = new std::recursive_mutex;  // never destroyed: others exit later
  return *lock;
}

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

cudaError_t failed(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) {
    error_of_thread = error;
  }
  return error;
}

cudaError_t last_error(bool clear) {
  const cudaError_t found = error_of_thread;
  if (clear) {
    error_of_thread = cudaSuccess;
  }
  return found;
}

cudaError_t initialise_driver() {
  Lock lock(machine_lock());
  if (!driver_is_initialised) {
    driver_is_initialised = true;
    count("initialisations");
    note("the driver is initialised");
  }
  if (is_spoilt_by_fork) {
    return cudaErrorInitializationError;
  }
  if (settings().driver_cuda / 1000 < settings().built_for / 1000) {
    return cudaErrorInsufficientDriver;
  }
  return visible_cards().empty() ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t enter(int device) {
  Lock lock(machine_lock());
  const cudaError_t error = initialise_driver();
  if (error != cudaSuccess) {
    return failed(error);
  }
  Card& entered = card_of_device(device);
  if (entered.is_lost) {
    return failed(cudaErrorUnknown);
  }
  if (!entered.has_context) {
    if (used_bytes(visible_cards()[device]) + settings().context_bytes > settings().card_bytes) {
      return failed(cudaErrorMemoryAllocation);
    }
    entered.has_context = true;
    count("contexts");
    note("a context is created on device %d", device);
  }
  return failed(entered.fault);
}

cudaError_t enter() { return enter(current_device()); }

bool plan_failure(const std::string& kind, long nth, long times, cudaError_t error) {
  Lock lock(machine_lock());
  const auto found = failures().find(kind);
  if (found == failures().end()) {
    return false;
  }
  found->second = {nth, times, error};
  return true;
}

cudaError_t planned_failure(const char* kind) {
  Lock lock(machine_lock());
  Failure& planned = failures().at(kind);
  if (planned.times == 0 || --planned.first > 0) {
    return cudaSuccess;
  }
  --planned.times;
  note("%s fails, as planned", kind);
  return planned.error;
}

void forget_failures() {
  Lock lock(machine_lock());
  for (auto& [kind, planned] : failures()) {
    planned = {};
  }
}

bool is_logging() {
  static const bool answer = !from_environment("STAND_IN_LOG", "").empty();
  return answer;
}

void note(const char* format, ...) {
  if (!is_logging()) {
    return;
  }
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("[stand-in] ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
}

}  // namespace stand_in
