// What tests call through ctypes: ../runtime.py is the other side.
#include "counts.h"
#include "machine.h"
#include "queues.h"

using namespace stand_in;

extern "C" {

const char* stand_in_names() { return names_of_counts(); }
long long stand_in_counted(const char* name) { return counted(name); }

void stand_in_reset() {
  reset_counts();
  forget_failures();
}

int stand_in_fail(const char* kind, long nth, long times, int error) {
  return plan_failure(kind, nth, times, static_cast<cudaError_t>(error)) ? 1 : 0;
}

void stand_in_lose(int index) {
  Lock lock(machine_lock());
  card(index).is_lost = true;
  note("card %d is lost", index);
}

int stand_in_has_context(int device) { return card_of_device(device).has_context ? 1 : 0; }
long stand_in_queued(int device) { return queued_on(device); }

// Time passes: whatever is queued is done.
void stand_in_finish() { finish_everything(); }

}  // extern "C"
