// Streams and events: what is queued is done as late as CUDA allows.
//
// Nothing runs by itself. The work of a stream is done when the host waits for it, when work that
// the host waits for was queued behind it, or when the queue is as long as CUDA lets it grow.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace stand_in {

using Order = std::uint64_t;  // of all work of the process, counted from 1
struct Queue;
using QueueRef = std::shared_ptr<Queue>;
using Work = std::function<cudaError_t()>;

// A place in a queue: all that was queued there up to `order`.
struct Until {
  QueueRef queue;
  Order order = 0;
};

struct Operation {
  Order order;
  std::vector<Until> after;
  Work work;
};

struct Queue {
  int device;
  bool is_legacy;    // the default stream, which takes its turn with all that are blocking
  bool is_blocking;  // created without cudaStreamNonBlocking
  int priority;
  std::deque<Operation> operations;
};

// The queue behind a stream's handle on this thread's device; nothing for an unknown handle.
QueueRef queue_of(cudaStream_t stream);
QueueRef default_queue(int device);
cudaStream_t add_queue(int device, bool is_blocking, int priority);
bool remove_queue(cudaStream_t stream);

Order enqueue(const QueueRef& queue, Work work, std::vector<Until> after = {});

// The host waits. Each returns the fault of the device if the work ended in one.
cudaError_t finish(const Until& until);
cudaError_t finish_queue(const QueueRef& queue);
cudaError_t finish_device(int device);
void finish_everything();

bool is_done(const Until& until);
// Whether a program that asks again and again shall see it done: after many questions, it does.
bool is_done_when_asked(const Until& until);
long queued_on(int device);

}  // namespace stand_in
