#include "blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "counts.h"
#include "machine.h"

namespace stand_in {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kMostDirty = 32 << 20;  // the rest of a large block is as the system gives it

std::map<const char*, Block>& blocks() {
  static auto* table = new std::map<const char*, Block>;
  return *table;
}

void add(const Block& block) { blocks()[block.address] = block; }

}  // namespace

cudaError_t allocate(void** address, std::size_t bytes, int device) {
  Lock lock(machine_lock());
  count("allocations");
  const cudaError_t planned = planned_failure("allocation");
  if (planned != cudaSuccess) {
    return planned;
  }
  const int index = visible_cards()[device];
  if (used_bytes(index) + bytes > settings().card_bytes) {
    return cudaErrorMemoryAllocation;
  }
  void* reserved =
      mmap(nullptr, bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* bytes_at = static_cast<char*>(std::malloc(bytes + 1));
  if (reserved == MAP_FAILED || bytes_at == nullptr) {
    std::free(bytes_at);
    return cudaErrorMemoryAllocation;
  }
  // What was there before: nothing that a program should read.
  std::memset(bytes_at, 0xAB, std::min(bytes, kMostDirty));
  add({static_cast<char*>(reserved), bytes, bytes_at, device, false, false});
  card(index).held += bytes;
  count("allocated bytes", static_cast<long long>(bytes));
  *address = reserved;
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** address, std::size_t bytes, int device) {
  Lock lock(machine_lock());
  count("pinned allocations");
  const cudaError_t planned = planned_failure("pinned allocation");
  if (planned != cudaSuccess) {
    return planned;
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, bytes + 1) != 0) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(memory, 0xCD, std::min(bytes, kMostDirty));
  auto* start = static_cast<char*>(memory);
  add({start, bytes, start, device, true, false});
  count("pinned bytes", static_cast<long long>(bytes));
  *address = memory;
  return cudaSuccess;
}

cudaError_t pin(void* address, std::size_t bytes, int device) {
  Lock lock(machine_lock());
  if (block_of(address) != nullptr) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  auto* start = static_cast<char*>(address);
  add({start, bytes, start, device, true, true});
  count("pinned allocations");
  count("pinned bytes", static_cast<long long>(bytes));
  return cudaSuccess;
}

bool release(void* address, bool is_pinned) {
  Lock lock(machine_lock());
  const auto found = blocks().find(static_cast<const char*>(address));
  if (found == blocks().end() || found->second.is_pinned != is_pinned) {
    return false;
  }
  const Block block = found->second;
  blocks().erase(found);
  if (!block.is_pinned) {
    card_of_device(block.device).held -= block.bytes;
    munmap(block.address, block.bytes + 1);
  }
  if (!block.is_registered) {
    std::free(block.bytes_at);
  }
  return true;
}

const Block* block_of(const void* address) {
  Lock lock(machine_lock());
  const auto* wanted = static_cast<const char*>(address);
  auto next = blocks().upper_bound(wanted);
  if (next == blocks().begin()) {
    return nullptr;
  }
  const Block& before = std::prev(next)->second;
  return wanted < before.address + before.bytes ? &before : nullptr;
}

char* bytes_behind(const void* address, std::size_t bytes) {
  Lock lock(machine_lock());
  auto* start = static_cast<char*>(const_cast<void*>(address));
  const Block* block = block_of(address);
  if (block == nullptr) {
    return start;
  }
  const auto offset = static_cast<std::size_t>(start - block->address);
  return offset + bytes > block->bytes ? nullptr : block->bytes_at + offset;
}

}  // namespace stand_in
