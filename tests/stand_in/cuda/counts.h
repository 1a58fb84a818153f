// What the process has asked of the stand-in, by name. README.md lists the names.
#pragma once

#include <string>

namespace stand_in {

void count(const char* name, long long more = 1);
long long counted(const std::string& name);  // -1: there is no such name
const char* names_of_counts();               // one a line
void reset_counts();

}  // namespace stand_in
