// The machine that the stand-in makes up: its cards, this process's contexts, and what shall fail.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

namespace stand_in {

constexpr int kMostCards = 16;

// From the environment, read when CUDA is first used: see README.md.
struct Settings {
  int cards;
  std::size_t card_bytes;
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

// What CUDA_VISIBLE_DEVICES leaves: the card behind each of the runtime's devices.
const std::vector<int>& visible_cards();
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
