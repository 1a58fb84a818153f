// Devices that lose every race (UNIDEV_SIMULATE_LATE). Kernels still run at once; what is kept is the
// order that CUDA would give them: a clock for each stream and event, and one for the process's host.
// Who reads what nothing has ordered gets the bytes from before, or poison.
#pragma once

#include "memory.h"
#include "waiting.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/Stream.h>
#include <torch/csrc/autograd/function.h>

#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace unidev_sim {

inline thread_local std::array<c10::StreamId, kMaxDevices> current_streams{};
// As in c10/cuda/CUDAStream.cpp: 32 of each priority, 0 to -3, on each device, given out in turn.
constexpr int kStreams = 32, kPriorities = 4;

inline int late_mode = 0;  // 0: off; 1: values are late; 2: values stay right, races have lines
inline int64_t (*late_line)() = nullptr;  // of the program, by a number of Python's; 0: none
extern "C" inline unsigned char unidev_late_poison = 0xFF;  // NaN, -1; a test changes both of these
extern "C" inline bool unidev_late_by_storage = false;  // overlap, in place of by bytes
extern "C" inline int64_t unidev_late_marked = 0;  // how often bytes were compared one by one
constexpr int64_t kSavedBytes = 256 << 20;

using Clock = c10::SmallVector<uint64_t, 8>;
inline void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) {
    clock.resize(other.size());
  }
  for (size_t i = 0; i < other.size(); ++i) {
    clock[i] = std::max(clock[i], other[i]);
  }
}

using Image = std::shared_ptr<std::vector<char>>;

// The bytes of a tensor: runs of `width` without a gap, at strides.
struct Bytes {
  char *begin = nullptr, *end = nullptr;
  int64_t width = 0;
  std::vector<std::pair<int64_t, int64_t>> dims;  // size and stride in bytes; empty: one run

  template <typename See>
  void each_run(const See& see, size_t dim = 0, int64_t offset = 0) const {
    if (dim == dims.size()) {
      return see(begin + offset);
    }
    for (int64_t i = 0; i < dims[dim].first; ++i) {
      each_run(see, dim + 1, offset + i * dims[dim].second);
    }
  }
  bool meets(const Bytes& other) const {
    if (begin >= other.end || other.begin >= end) {
      return false;
    }
    if ((dims.empty() && other.dims.empty()) || covers(other)) {
      return true;
    }
    int64_t period = 0;  // with it both repeat: columns of one matrix, say
    for (const Bytes* each : {this, &other}) {
      for (const auto& [size, stride] : each->dims) {
        period = std::gcd(period, stride);
      }
    }
    const int64_t gap = ((other.begin - begin) % period + period) % period;
    if (gap >= width && gap + other.width <= period) {
      return false;
    }
    ++unidev_late_marked;
    char* const first = std::max(begin, other.begin);
    std::vector<bool> marks(std::min(end, other.end) - first);
    const auto part = [&](char* run, int64_t of) {
      const int64_t size = marks.size();
      const auto at = [&](char* byte) { return marks.begin() + std::clamp<int64_t>(byte - first, 0, size); };
      return std::pair(at(run), at(run + of));
    };
    each_run([&](char* run) {
      const auto [from, to] = part(run, width);
      std::fill(from, to, true);
    });
    bool is_met = false;
    other.each_run([&](char* run) {
      const auto [from, to] = part(run, other.width);
      is_met = is_met || std::find(from, to, true) != to;
    });
    return is_met;
  }
  bool covers(const Bytes& other) const {
    return begin <= other.begin && other.end <= end &&
        (dims.empty() || (begin == other.begin && width == other.width && dims == other.dims));
  }
  int64_t size() const {
    int64_t found = width;
    for (const auto& [size, stride] : dims) {
      found *= size;
    }
    return found;
  }
  Image copied() const {
    auto image = std::make_shared<std::vector<char>>();
    image->reserve(size());
    each_run([&](char* run) { image->insert(image->end(), run, run + width); });
    return image;
  }
  // The bytes from before, or poison.
  void put(const Image& image) const {
    const char* from = image ? image->data() : nullptr;
    each_run([&](char* run) {
      from ? std::memcpy(run, from, width) : std::memset(run, unidev_late_poison, width);
      from += from ? width : 0;
    });
  }
  bool are(const Image& image) const {
    return image && *copied() == *image;
  }
};

inline Bytes bytes_of(const at::Tensor& tensor) {
  char* base = static_cast<char*>(const_cast<void*>(tensor.storage().data()));
  if (tensor.is_nested() || unidev_late_by_storage) {
    const auto size = static_cast<int64_t>(tensor.storage().nbytes());
    return {base, base + size, size, {}};
  }
  const int64_t item = tensor.itemsize();
  int64_t extent = item, width = item;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    const int64_t size = tensor.size(dim), stride = tensor.stride(dim) * item;
    if (size == 0) {
      return {};
    }
    extent += (size - 1) * stride;
    if (dims.empty() && stride == width) {
      width *= size;
    } else if (size > 1) {
      dims.emplace_back(size, stride);
    }
  }
  std::reverse(dims.begin(), dims.end());
  char* begin = base + tensor.storage_offset() * item;
  if (extent <= tensor.numel() * item) {
    return {begin, begin + extent, extent, {}};
  }
  return {begin, begin + extent, width, std::move(dims)};
}

struct Launch {
  uint32_t slot;
  uint64_t number;
  int64_t line;
  const char* name;
};

enum class Kind { kRead, kOverwrite, kWriteTwice, kReuse, kPinnedSource, kHostRead };

struct Race {
  Kind kind;
  Launch first, second;
  int64_t allocated, count;
};

class Late {
 public:
  struct Access {
    Launch launch;
    Bytes bytes;
    Image before = nullptr;  // none: poison
  };
  struct Block {
    std::vector<Access> writes, reads;
    std::vector<uint32_t> recorded;  // by record_stream
    uint32_t home = 0;
    size_t size = 0;
    int64_t line = 0;
  };
  // A copy between pinned memory and a device that the host has not waited for.
  struct Pending {
    Launch launch;
    c10::Storage pinned;
    Bytes bytes;
    std::vector<char> staged;
    bool is_source;
    bool is_seen = false;
  };
  struct Moment {
    std::chrono::steady_clock::time_point time;
    Clock clock;
    bool was_asked = false;
  };

  std::recursive_mutex mutex;

  // Leaked on purpose, as tensors may be freed at exit.
  static Late& get() {
    static auto* instance = new Late();
    return *instance;
  }
  static bool is_on() {
    return C10_UNLIKELY(late_mode != 0) && quiet == 0;
  }
  static inline thread_local int quiet = 0;

  // -- order ---------------------------------------------------------------------------------------

  uint32_t slot_of(int device, c10::StreamId stream) {
    const auto [found, is_new] = slots_.try_emplace({device, stream}, clocks_.size());
    if (is_new) {
      clocks_.emplace_back();
      clocks_.back().resize(found->second + 1);
      names_.emplace_back(device, stream);
      asked_.push_back(0);
    }
    return found->second;
  }
  uint32_t current(int device) {
    return slot_of(device, current_streams[device]);
  }
  Launch launch(uint32_t slot, const char* name, int64_t line) {
    Clock& clock = clocks_[slot];
    join(clock, host_);
    if (clock.size() <= slot) {
      clock.resize(slot + 1);
    }
    return {slot, clock[slot] = ++last_, line, name};
  }
  bool is_before(const Launch& launch, const Clock& clock) const {
    return launch.slot < clock.size() && launch.number <= clock[launch.slot];
  }
  // One stream waits for all that another has been given.
  void wait(uint32_t waiting, uint32_t other) {
    join(clocks_[waiting], Clock(clocks_[other]));
  }
  void synchronize(uint32_t slot) {
    host_joins(Clock(clocks_[slot]));
  }
  void synchronize_device(int device) {
    Clock all;
    for (size_t slot = 0; slot < names_.size(); ++slot) {
      if (names_[slot].first == device) {
        join(all, clocks_[slot]);
      }
    }
    host_joins(all);
  }
  // False once, then True: a program that does not ask again has not waited.
  bool query(uint32_t slot) {
    const Clock clock = clocks_[slot];
    const uint64_t number = slot < clock.size() ? clock[slot] : 0;
    if (is_before({slot, number, 0, ""}, host_) || asked_[slot] == number) {
      host_joins(clock);
      return true;
    }
    asked_[slot] = number;
    return false;
  }
  void record(Moment& moment, uint32_t slot) {
    moment.clock = clocks_[slot];
    join(moment.clock, host_);
    moment.was_asked = false;
  }
  bool query(Moment& moment) {
    if (!is_done(moment) && !std::exchange(moment.was_asked, true)) {
      return false;
    }
    host_joins(moment.clock);
    return true;
  }
  bool is_done(const Moment& moment) const {
    for (size_t slot = 0; slot < moment.clock.size(); ++slot) {
      if (moment.clock[slot] > (slot < host_.size() ? host_[slot] : 0)) {
        return false;
      }
    }
    return true;
  }
  void wait(uint32_t slot, const Moment& moment) {
    join(clocks_[slot], moment.clock);
  }
  void host_joins(const Clock& clock) {
    join(host_, clock);
    for (auto at = pending_.begin(); at != pending_.end();) {
      at = is_before(at->launch, host_) ? land(at) : std::next(at);
    }
  }

  // -- accesses of devices' memory -----------------------------------------------------------------

  // One kernel or copy: `read` and `write` before it runs, `born` and `end` after.
  struct Call {
    explicit Call(Launch of) : launch(of) {}
    Call(const Call&) = delete;
    Launch launch;
    struct Written {
      const void* base;
      Bytes bytes;
      Image before;
      std::vector<std::pair<Kind, Access>> losers;
    };
    std::vector<Written> written;
    std::vector<const void*> read;
    std::vector<std::pair<Bytes, Image>> swapped;  // to be put back

    ~Call() {
      for (auto at = swapped.rbegin(); at != swapped.rend(); ++at) {
        at->first.put(at->second);
      }
    }
  };

  void read(Call& call, const void* base, const Bytes& bytes, bool is_written) {
    Block& block = blocks_[base];
    const Clock& clock = clocks_[call.launch.slot];
    call.read.push_back(base);
    bool is_racing = false;
    for (auto write = block.writes.rbegin(); write != block.writes.rend(); ++write) {
      if (is_before(write->launch, clock) || !write->bytes.meets(bytes)) {
        continue;
      }
      if (write->bytes.are(write->before)) {
        continue;
      }
      is_racing = true;
      add({Kind::kRead, write->launch, call.launch, block.line, 1});
      if (late_mode == 1) {
        if (!is_written) {
          call.swapped.emplace_back(write->bytes, write->bytes.copied());
        }
        write->bytes.put(write->before);
      }
    }
    if (is_racing) {
      return;
    }
    for (Access& other : block.reads) {
      if (other.launch.slot == call.launch.slot && bytes.covers(other.bytes)) {
        other = {call.launch, bytes};
        return;
      }
    }
    push(block.reads, {call.launch, bytes});
  }

  void write(Call& call, const void* base, const Bytes& bytes, bool is_read) {
    Block& block = blocks_[base];
    if (is_read) {
      read(call, base, bytes, true);
    }
    Call::Written written{base, bytes, nullptr, {}};
    if (clocks_.size() > 1 && !block.writes.empty()) {
      written.before = saved(bytes);
    }
    const Clock& clock = clocks_[call.launch.slot];
    for (auto* list : {&block.reads, &block.writes}) {
      const bool are_reads = list == &block.reads;
      std::erase_if(*list, [&](const Access& other) {
        if (other.launch.number == call.launch.number) {
          return false;
        }
        if (is_before(other.launch, clock)) {
          return is_before(other.launch, host_) || bytes.covers(other.bytes);
        }
        const bool is_racing = other.bytes.meets(bytes);
        if (is_racing && (are_reads || !is_read)) {
          written.losers.emplace_back(are_reads ? Kind::kOverwrite : Kind::kWriteTwice, other);
        }
        return is_racing;
      });
    }
    call.written.push_back(std::move(written));
  }

  // A result in memory of its own.
  void born(Call& call, const void* base, const Bytes& bytes, size_t size) {
    Block& block = allocated(call.launch.slot, base, size, call.launch.line);
    block.writes = {{call.launch, bytes}};
    block.reads.clear();
    log(call.launch.number).out.emplace_back(base, bytes);
  }

  void end(Call& call) {
    for (auto& written : call.written) {
      const auto found = blocks_.find(written.base);
      if (found == blocks_.end()) {  // the kernel needed more memory than there was
        continue;
      }
      Block& block = found->second;
      log(call.launch.number).out.emplace_back(written.base, written.bytes);
      if (!written.losers.empty() && written.bytes.are(written.before)) {  // nobody can lose
        written.losers.clear();
      }
      for (const auto& [kind, loser] : written.losers) {
        add({kind, loser.launch, call.launch, block.line, 1});
        if (late_mode == 1 && kind == Kind::kOverwrite) {
          spoil(loser.launch.number);
        } else if (late_mode == 1) {
          written.bytes.put(nullptr);
        }
      }
      push(block.writes, {call.launch, written.bytes, std::move(written.before)});
    }
    auto& in = log(call.launch.number).in;
    in.insert(in.end(), call.read.begin(), call.read.end());
  }

  // -- collectives ---------------------------------------------------------------------------------

  // One of NCCL's, on its own stream of a device, which waits for the current one (ProcessGroupNCCL.cpp,
  // syncStream); or on the current one, where the program waits at once. The number that ends it.
  int64_t begin_collective(
      const std::vector<at::Tensor>& read_by_it, const std::vector<at::Tensor>& written_by_it, int device,
      bool is_async, const char* name, int64_t line) {
    const uint32_t current_slot = current(device);
    const uint32_t slot = is_async ? slot_of(device, kCollectives) : current_slot;
    join(clocks_[current_slot], host_);
    wait(slot, current_slot);
    auto call = std::make_unique<Call>(launch(slot, name, line));
    for (const at::Tensor& each : read_by_it) {
      read(*call, each.storage().data(), bytes_of(each), false);
    }
    for (const at::Tensor& each : written_by_it) {
      write(*call, each.storage().data(), bytes_of(each), false);
    }
    const auto number = static_cast<int64_t>(call->launch.number);
    collectives_.emplace(number, std::pair{std::move(call), clocks_[slot]});
    return number;
  }
  void end_collective(int64_t number) {
    const auto found = collectives_.find(number);
    end(*found->second.first);
    found->second.first.reset();
  }
  void wait_for_collective(int64_t number, int device) {
    const auto found = collectives_.find(number);
    join(clocks_[current(device)], found->second.second);
  }
  void forget_collective(int64_t number) {
    collectives_.erase(number);
  }

  // -- memory --------------------------------------------------------------------------------------

  Block& allocated(uint32_t slot, const void* base, size_t size, int64_t line) {
    join(clocks_[slot], host_);
    for (auto freed = freed_.begin(); freed != freed_.end();) {
      std::erase_if(freed->reads, [&](const Access& one) { return is_before(one.launch, clocks_[slot]); });
      const bool fits = freed->home == slot && size <= freed->size &&
          (size > (1 << 20)) == (freed->size > (1 << 20));  // CUDA's small and large pools
      if (fits) {
        for (const Access& access : freed->reads) {
          add({Kind::kReuse, access.launch, {slot, last_, line, "allocation"}, freed->line, 1});
          if (late_mode == 1) {
            spoil(access.launch.number);
          }
        }
      }
      freed = fits || freed->reads.empty() ? freed_.erase(freed) : std::next(freed);
    }
    Block& block = blocks_[base];
    block = {{}, {}, {}, slot, size, line};
    return block;
  }

  void freed(const void* base) {
    const auto found = blocks_.find(base);
    if (found == blocks_.end()) {
      return;
    }
    Block block = std::move(found->second);
    blocks_.erase(found);
    if (clocks_.size() < 2) {
      return;
    }
    block.reads.insert(block.reads.end(), block.writes.begin(), block.writes.end());
    block.writes.clear();
    Clock clock = clocks_[block.home];
    join(clock, host_);
    std::erase_if(block.reads, [&](const Access& access) {
      const auto& safe = block.recorded;
      return access.launch.slot == block.home || is_before(access.launch, clock) ||
          std::find(safe.begin(), safe.end(), access.launch.slot) != safe.end();
    });
    if (!block.reads.empty()) {
      for (Access& access : block.reads) {
        access.before = nullptr;
      }
      freed_.push_back(std::move(block));
      if (freed_.size() > 256) {
        freed_.pop_front();
      }
    }
  }

  void record_stream(const void* base, uint32_t slot) {
    const auto found = blocks_.find(base);
    if (found != blocks_.end()) {
      found->second.recorded.push_back(slot);
    }
  }

  // -- pinned memory -------------------------------------------------------------------------------

  // What a copy queued on `slot` reads of pinned memory: results that are on their way there, too.
  void settle_source(const Bytes& bytes, uint32_t slot) {
    for (auto at = pending_.begin(); at != pending_.end();) {
      const bool is_ordered = !at->is_source && is_before(at->launch, clocks_[slot]);
      at = is_ordered && at->bytes.meets(bytes) ? land(at) : std::next(at);
    }
  }

  void stage(
      const Launch& launch, const at::Tensor& pinned, std::vector<char> staged, bool is_source) {
    pending_bytes_ += static_cast<int64_t>(staged.size());
    pending_.push_back({launch, pinned.storage(), bytes_of(pinned), std::move(staged), is_source});
    ++pending_count_;
    while (pending_bytes_ > kSavedBytes && !pending_.empty()) {
      land(pending_.begin());  // its value is not late any more; its order is as it was
    }
  }

  // In the mode that keeps values right: the host reads or writes `bytes`, by an operator of torch.
  void host_uses(const Bytes& bytes, bool is_written, const char* name, int64_t line) {
    for (Pending& each : pending_) {
      if (!each.is_seen && (is_written || !each.is_source) && each.bytes.meets(bytes)) {
        each.is_seen = true;
        add({each.is_source ? Kind::kPinnedSource : Kind::kHostRead, each.launch,
             {kHost, 0, line, name}, 0, 1});
      }
    }
  }
  bool has_pending() const {
    return pending_count_.load(std::memory_order_relaxed) > 0;
  }

  static constexpr uint32_t kHost = UINT32_MAX;
  static constexpr c10::StreamId kCollectives = 1 + kStreams * kPriorities;
  std::vector<Race> races;
  std::vector<c10::Storage> landed;  // pinned memory for which nothing waits any more
  std::pair<int, c10::StreamId> name_of(uint32_t slot) const {
    return slot == kHost ? std::pair<int, c10::StreamId>{-1, -1} : names_[slot];
  }

 private:
  struct Entry {
    uint64_t number = 0;
    c10::SmallVector<const void*, 4> in;
    c10::SmallVector<std::pair<const void*, Bytes>, 2> out;
  };

  void add(Race race) {
    for (Race& known : races) {
      if (known.kind == race.kind && known.first.line == race.first.line &&
          known.second.line == race.second.line &&
          (race.second.line != 0 || std::strcmp(known.second.name, race.second.name) == 0)) {
        ++known.count;
        return;
      }
    }
    if (races.size() < 1000) {
      races.push_back(race);
    }
  }

  void push(std::vector<Access>& list, Access access) {
    if (list.size() >= 128) {  // without any synchronisation: the oldest are not looked at any more
      list.erase(list.begin(), list.begin() + 64);
    }
    list.push_back(std::move(access));
  }

  // The bytes, while there is room for them; else poison will stand for them.
  Image saved(const Bytes& bytes) {
    const int64_t size = bytes.size();
    if (saved_bytes_ + size > kSavedBytes) {
      return nullptr;
    }
    saved_bytes_ += size;
    Image made = bytes.copied();
    return Image(made.get(), [this, size, made](auto*) { saved_bytes_ -= size; });
  }
  Entry& log(uint64_t number) {
    if (log_.empty() || log_.back().number != number) {
      log_.push_back({number, {}, {}});
      if (log_.size() > 4096) {
        log_.pop_front();
      }
    }
    return log_.back();
  }

  // Poisons what a launch wrote, and what was computed of that since.
  void spoil(uint64_t number) {
    std::map<const void*, std::vector<Bytes>> bad;
    for (const Entry& entry : log_) {
      if (entry.number < number) {
        continue;
      }
      const bool is_bad = entry.number == number ||
          std::any_of(entry.in.begin(), entry.in.end(), [&](const void* in) { return bad.count(in) > 0; });
      for (const auto& [base, bytes] : entry.out) {
        if (is_bad) {
          bad[base].push_back(bytes);
        } else if (const auto found = bad.find(base); found != bad.end()) {
          std::erase_if(found->second, [&](const Bytes& old) { return bytes.covers(old); });
          if (found->second.empty()) {
            bad.erase(found);
          }
        }
      }
    }
    for (const auto& [base, parts] : bad) {
      const auto block = blocks_.find(base);
      for (const Bytes& bytes : parts) {
        if (block != blocks_.end() && bytes.end <= static_cast<const char*>(base) + block->second.size) {
          bytes.put(nullptr);
        }
      }
    }
  }

  std::list<Pending>::iterator land(std::list<Pending>::iterator at) {
    Pending pending = std::move(*at);
    const auto next = pending_.erase(at);
    --pending_count_;
    pending_bytes_ -= static_cast<int64_t>(pending.staged.size());
    if (!pending.is_source) {
      std::memcpy(pending.bytes.begin, pending.staged.data(), pending.staged.size());
    } else if (std::memcmp(pending.bytes.begin, pending.staged.data(), pending.staged.size()) != 0) {
      if (!pending.is_seen) {
        add({Kind::kPinnedSource, pending.launch, {kHost, 0, 0, "found when the copy was done"}, 0, 1});
      }
      if (late_mode == 1) {
        spoil(pending.launch.number);
      }
    }
    landed.push_back(std::move(pending.pinned));
    return next;
  }

  std::map<std::pair<int, c10::StreamId>, uint32_t> slots_;
  std::vector<std::pair<int, c10::StreamId>> names_;
  std::vector<Clock> clocks_;
  std::vector<uint64_t> asked_;
  Clock host_;
  uint64_t last_ = 0;
  std::unordered_map<const void*, Block> blocks_;
  std::list<Block> freed_;
  std::list<Pending> pending_;
  std::deque<Entry> log_;
  std::unordered_map<int64_t, std::pair<std::unique_ptr<Call>, Clock>> collectives_;
  std::atomic<int64_t> saved_bytes_{0};
  int64_t pending_bytes_ = 0;
  std::atomic<int64_t> pending_count_{0};
};

// Under it nothing may take Python's lock, for which others wait while they hold this one: no tensor is
// copied, since torch counts those that Python has with it, and storages end after it.
class LateLock {
 public:
  explicit LateLock(Late& late) : late_(late) {
    late_.mutex.lock();
  }
  LateLock(const LateLock&) = delete;
  ~LateLock() {
    const std::vector<c10::Storage> ended = std::exchange(late_.landed, {});
    late_.mutex.unlock();
  }

 private:
  Late& late_;
};

template <typename Do>
auto with_late(const Do& act) {
  Late& late = Late::get();
  const LateLock lock(late);
  return act(late);
}

// The program's line that called the kernel; in a backward pass the forward's. Before the lock is
// taken: it takes Python's.
inline int64_t line_of_call() {
  static auto* lines = new std::array<std::atomic<int64_t>, 1 << 16>();
  if (late_line == nullptr) {
    return 0;
  }
  if (const auto node = torch::autograd::get_current_node()) {
    if (const int64_t line = (*lines)[node->sequence_nr() % lines->size()]) {
      return line;
    }
  }
  const int64_t line = late_line();
  const uint64_t next = at::sequence_number::peek();
  (*lines)[(next == 0 ? 0 : next - 1) % lines->size()] = line;
  return line;
}

inline bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kSim && !tensor._is_zerotensor() &&
      (tensor.layout() == c10::kStrided || tensor.is_nested()) && tensor.has_storage() &&
      tensor.storage().data() != nullptr && tensor.numel() > 0;
}

inline void host_uses(const at::Tensor& tensor, bool is_written, const char* name) {
  if (!Late::get().has_pending() || !tensor.defined() || !tensor.is_cpu() || !tensor.has_storage() ||
      tensor.layout() != c10::kStrided || tensor.numel() == 0) {
    return;
  }
  const int64_t line = line_of_call();
  with_late([&](Late& late) { late.host_uses(bytes_of(tensor), is_written, name, line); });
}

// Calls of torch's operators on the host's own tensors, which are seen where values stay right. Those
// that only view them, or are composed of others, use no bytes.
inline void watch_host() {
  at::addGlobalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        const auto name = call.operator_name();
        if (!Late::get().has_pending() || !name) {
          return nullptr;
        }
        const auto op = c10::Dispatcher::singleton().findOp(*name);
        if (!op || !op->hasSchema() ||
            !(op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || name->name == "aten::copy_")) {
          return nullptr;
        }
        for (const auto& each : op->schema().returns()) {
          if (each.alias_info() != nullptr && !each.alias_info()->isWrite()) {
            return nullptr;
          }
        }
        const auto inputs = call.inputs();
        const auto& arguments = op->schema().arguments();
        const auto on_gpu = [](const c10::IValue& value) {  // a copy, which is the stream's
          return value.isTensor() && value.toTensor().defined() && value.toTensor().device().type() == kSim;
        };
        if (std::any_of(inputs.begin(), inputs.end(), on_gpu)) {
          return nullptr;
        }
        for (size_t i = 0; i < std::min(inputs.size(), arguments.size()); ++i) {
          const auto* alias = arguments[i].alias_info();
          const bool is_written = alias != nullptr && alias->isWrite();
          if (inputs[i].isTensor()) {
            host_uses(inputs[i].toTensor(), is_written, op->schema().name().c_str());
          } else if (inputs[i].isTensorList()) {
            for (const at::Tensor& each : inputs[i].toTensorVector()) {
              host_uses(each, is_written, op->schema().name().c_str());
            }
          }
        }
        return nullptr;
      }).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

// Operators in place that read nothing of what they fill.
inline bool only_writes(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::fill_",   "aten::zero_",      "aten::uniform_",     "aten::normal_",     "aten::random_",
      "aten::cauchy_", "aten::bernoulli_", "aten::exponential_", "aten::geometric_",  "aten::log_normal_",
  };
  return names.count(name) > 0;
}

} // namespace unidev_sim
