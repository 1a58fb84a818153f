#include "queues.h"

#include <map>

#include "machine.h"

namespace stand_in {
namespace {

// About as many as CUDA holds; the host then waits until there is room.
constexpr std::size_t kLongest = 1024;
// A program may spin until an event is done, and must come to an end.
constexpr int kMostQuestions = 10000;

Order last_order = 0;
int questions_in_vain = 0;

std::map<cudaStream_t, QueueRef>& queues() {
  static auto* table = new std::map<cudaStream_t, QueueRef>;
  return *table;
}

std::vector<QueueRef> queues_on(int device) {
  std::vector<QueueRef> found{default_queue(device)};
  for (const auto& [handle, queue] : queues()) {
    if (queue->device == device) {
      found.push_back(queue);
    }
  }
  return found;
}

// The default stream begins when all blocking streams are done, and they wait for it.
void add_turns(const QueueRef& queue, std::vector<Until>& after) {
  if (queue->is_legacy) {
    for (const QueueRef& other : queues_on(queue->device)) {
      if (other->is_blocking && !other->operations.empty()) {
        after.push_back({other, last_order});
      }
    }
  } else if (queue->is_blocking) {
    after.push_back({default_queue(queue->device), last_order});
  }
}

void run_first(const QueueRef& queue) {
  const Operation operation = std::move(queue->operations.front());
  queue->operations.pop_front();
  for (const Until& until : operation.after) {
    finish(until);
  }
  Card& on = card_of_device(queue->device);
  const cudaError_t error = on.fault == cudaSuccess && !on.is_lost ? operation.work() : on.fault;
  if (error != cudaSuccess) {
    on.fault = error;
  }
}

}  // namespace

QueueRef default_queue(int device) {
  static auto* defaults = new std::vector<QueueRef>;
  Lock lock(machine_lock());
  while (defaults->size() <= static_cast<std::size_t>(device)) {
    const int next = static_cast<int>(defaults->size());
    defaults->push_back(std::make_shared<Queue>(Queue{next, true, false, 0, {}}));
  }
  return (*defaults)[device];
}

QueueRef queue_of(cudaStream_t stream) {
  Lock lock(machine_lock());
  if (stream == nullptr || stream == cudaStreamLegacy) {
    return default_queue(current_device());
  }
  if (stream == cudaStreamPerThread) {
    static thread_local std::map<int, QueueRef> own;
    QueueRef& queue = own[current_device()];
    if (queue == nullptr) {
      const cudaStream_t handle = add_queue(current_device(), true, 0);
      queue = queues().at(handle);
    }
    return queue;
  }
  const auto found = queues().find(stream);
  return found == queues().end() ? nullptr : found->second;
}

cudaStream_t add_queue(int device, bool is_blocking, int priority) {
  Lock lock(machine_lock());
  auto queue = std::make_shared<Queue>(Queue{device, false, is_blocking, priority, {}});
  const auto handle = reinterpret_cast<cudaStream_t>(queue.get());
  queues()[handle] = std::move(queue);
  return handle;
}

bool remove_queue(cudaStream_t stream) {
  Lock lock(machine_lock());
  const QueueRef queue = queue_of(stream);
  if (queue == nullptr || queue->is_legacy) {
    return false;
  }
  // Its work is still done; nothing could wait for it by name any more, so it is done now.
  finish_queue(queue);
  return queues().erase(stream) == 1;
}

Order enqueue(const QueueRef& queue, Work work, std::vector<Until> after) {
  Lock lock(machine_lock());
  add_turns(queue, after);
  while (queue->operations.size() >= kLongest) {
    run_first(queue);
  }
  questions_in_vain = 0;
  queue->operations.push_back({++last_order, std::move(after), std::move(work)});
  return last_order;
}

cudaError_t finish(const Until& until) {
  Lock lock(machine_lock());
  while (!is_done(until)) {
    run_first(until.queue);
  }
  return until.queue == nullptr ? cudaSuccess : card_of_device(until.queue->device).fault;
}

cudaError_t finish_queue(const QueueRef& queue) {
  Lock lock(machine_lock());
  return finish({queue, last_order});
}

cudaError_t finish_device(int device) {
  Lock lock(machine_lock());
  for (const QueueRef& queue : queues_on(device)) {
    finish({queue, last_order});
  }
  return card_of_device(device).fault;
}

void finish_everything() {
  for (std::size_t device = 0; device < visible_cards().size(); ++device) {
    finish_device(static_cast<int>(device));
  }
}

bool is_done(const Until& until) {
  Lock lock(machine_lock());
  return until.queue == nullptr || until.queue->operations.empty() ||
         until.queue->operations.front().order > until.order;
}

bool is_done_when_asked(const Until& until) {
  Lock lock(machine_lock());
  if (!is_done(until) && ++questions_in_vain > kMostQuestions) {
    questions_in_vain = 0;
    finish(until);
  }
  return is_done(until);
}

long queued_on(int device) {
  Lock lock(machine_lock());
  long number = 0;
  for (const QueueRef& queue : queues_on(device)) {
    number += static_cast<long>(queue->operations.size());
  }
  return number;
}

}  // namespace stand_in
