// The runtime's calls about streams and events.
#include "counts.h"
#include "machine.h"
#include "queues.h"

using namespace stand_in;

namespace {

struct Event {
  Until recorded;
};

Event* event_behind(cudaEvent_t handle) { return reinterpret_cast<Event*>(handle); }

cudaError_t add_stream(cudaStream_t* stream, bool is_blocking, int priority) {
  const cudaError_t error = enter();
  if (error == cudaSuccess) {
    count("streams");
    *stream = add_queue(current_device(), is_blocking, priority);
  }
  return error;
}

cudaError_t nothing_to_do() { return cudaSuccess; }

// The queue of a stream, entered; or the error.
cudaError_t find(cudaStream_t stream, QueueRef& queue) {
  const cudaError_t error = enter();
  queue = queue_of(stream);
  return error == cudaSuccess && queue == nullptr ? failed(cudaErrorInvalidResourceHandle) : error;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return add_stream(stream, true, 0); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return add_stream(stream, (flags & cudaStreamNonBlocking) == 0, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return add_stream(stream, (flags & cudaStreamNonBlocking) == 0, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return remove_queue(stream) ? cudaSuccess : failed(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  if (error != cudaSuccess) {
    return error;
  }
  count("stream synchronisations");
  return failed(finish_queue(queue));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  if (error != cudaSuccess) {
    return error;
  }
  Lock lock(machine_lock());
  const bool is_empty = queue->operations.empty();
  return is_empty || is_done_when_asked({queue, queue->operations.back().order})
             ? cudaSuccess
             : cudaErrorNotReady;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  *priority = error == cudaSuccess ? queue->priority : 0;
  return error;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned int) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  if (error != cudaSuccess) {
    return error;
  }
  count("stream waits");
  enqueue(queue, nothing_to_do, {event_behind(handle)->recorded});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  if (error == cudaSuccess) {
    enqueue(queue, [function, data] {
      function(data);
      return cudaSuccess;
    });
  }
  return error;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                  unsigned int) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  if (error == cudaSuccess) {
    enqueue(queue, [stream, function, data] {
      function(stream, cudaSuccess, data);
      return cudaSuccess;
    });
  }
  return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned int) {
  const cudaError_t error = enter();
  if (error == cudaSuccess) {
    *handle = reinterpret_cast<cudaEvent_t>(new Event);
  }
  return error;
}

cudaError_t cudaEventCreate(cudaEvent_t* handle) { return cudaEventCreateWithFlags(handle, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  delete event_behind(handle);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  QueueRef queue;
  const cudaError_t error = find(stream, queue);
  if (error == cudaSuccess) {
    event_behind(handle)->recorded = {queue, enqueue(queue, nothing_to_do)};
  }
  return error;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned int) {
  return cudaEventRecord(handle, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return is_done_when_asked(event_behind(handle)->recorded) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  count("event synchronisations");
  return failed(finish(event_behind(handle)->recorded));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = 1;  // nothing here takes a time that means anything
  const bool is_ready =
      is_done(event_behind(start)->recorded) && is_done(event_behind(end)->recorded);
  return is_ready ? cudaSuccess : cudaErrorNotReady;
}

}  // extern "C"
