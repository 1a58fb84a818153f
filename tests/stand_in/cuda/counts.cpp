#include "counts.h"

#include <map>

#include "machine.h"

namespace stand_in {
namespace {

std::map<std::string, long long>& table() {
  static auto* counts = new std::map<std::string, long long>{
      {"initialisations", 0},
      {"contexts", 0},
      {"allocations", 0},
      {"allocated bytes", 0},
      {"pinned allocations", 0},
      {"pinned bytes", 0},
      {"host to device", 0},
      {"host to device bytes", 0},
      {"device to host", 0},
      {"device to host bytes", 0},
      {"device to device", 0},
      {"device to device bytes", 0},
      {"between devices", 0},
      {"between devices bytes", 0},
      {"asynchronous copies", 0},
      {"memsets", 0},
      {"kernels", 0},
      {"device synchronisations", 0},
      {"stream synchronisations", 0},
      {"event synchronisations", 0},
      {"stream waits", 0},
      {"streams", 0},
      {"unsupported calls", 0},
  };
  return *counts;
}

}  // namespace

void count(const char* name, long long more) {
  Lock lock(machine_lock());
  table().at(name) += more;
}

long long counted(const std::string& name) {
  Lock lock(machine_lock());
  const auto found = table().find(name);
  return found == table().end() ? -1 : found->second;
}

const char* names_of_counts() {
  static const std::string names = [] {
    std::string lines;
    for (const auto& [name, number] : table()) {
      lines += name + "\n";
    }
    return lines;
  }();
  return names.c_str();
}

void reset_counts() {
  Lock lock(machine_lock());
  for (auto& [name, number] : table()) {
    number = 0;
  }
}

}  // namespace stand_in
