// The machine that the stand-in makes up: its cards, this process's contexts, and what shall fail.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace stand_in {

constexpr int kMostCards = 16;

// Whose memory a card has, and what NVML reports of it.
enum class Layout {
  kOwn,       // a card of its own
  kCarveOut,  // the host's; NVML reports only the part that the firmware has set aside
  kNoAnswer,  // the host's; NVML does not support the question
  kMig,       // each card is divided into instances, of which a process has one
};
constexpr int kInstances = 2;  // of a card, with MIG

// From the environment, read when CUDA is first used: see README.md.
struct Settings {
  Layout layout;
  int cards;
  std::size_t card_bytes;  // of each of CUDA's devices: with MIG, of an instance
  std::size_t context_bytes;
  int driver_cuda;  // the newest CUDA version that the driver supports, as 13000 for 13.0
  int built_for;    // the version of the runtime that is stood in for
};
const Settings& settings();

// One of the machine's cards, by its index on the bus, as NVML counts.
struct Card {
  bool has_context = false;
  bool is_lost = false;
  std::size_t held = 0;             // device memory that this process holds, contexts apart
  cudaError_t fault = cudaSuccess;  // stays until the process ends, as on hardware
};
Card& card(int index);
std::size_t used_bytes(int index);
std::string uuid_of(int index);
std::string uuid_of_instance(int index, int instance);
bool shares_host_memory();
// 8.0, and that of a DGX Spark where the memory is the host's: torch warns of a Jetson's.
struct Capability {
  int major, minor;
};
Capability capability();

// What CUDA_VISIBLE_DEVICES leaves: the card behind each of the runtime's devices.
const std::vector<int>& visible_cards();
// With MIG, which instance of that card this process has; else 0.
int visible_instance();
Card& card_of_device(int device);

// Guards all of the stand-in's state.
std::recursive_mutex& machine_lock();
using Lock = std::lock_guard<std::recursive_mutex>;

// This thread's device and its last error.
int current_device();
void set_current_device(int device);
cudaError_t failed(cudaError_t error);  // keeps `error` for cudaGetLastError, and returns it
cudaError_t last_error(bool clear);

// Whether the driver can be used at all. A process that has asked is spoilt for fork.
cudaError_t initialise_driver();
// As nearly every call does first: makes the device's context if there is none.
cudaError_t enter(int device);
cudaError_t enter();

// "allocation", "pinned allocation", "copy" or "kernel": the nth from now on fails, and so many in
// all. Returns whether there is such a kind.
bool plan_failure(const std::string& kind, long nth, long times, cudaError_t error);
// What the failure planned for this call is, or cudaSuccess.
cudaError_t planned_failure(const char* kind);
void forget_failures();

bool is_logging();
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace stand_in
