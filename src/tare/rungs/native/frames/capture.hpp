// Stacks at the entry of a vendor library, taken only while the user's call runs. See docs/frames.md.
#pragma once

#include <cstdint>

namespace tare::frames {

enum class Kind { convolution, product, recurrent, graph, other };

// Whether the calling thread's stack is wanted now.
bool wanted();

// Takes the stack of the calling thread from the caller of the vendor's function `entry` on. `pc` says where in it that
// is: the address to which `entry` returns, or the address inside `entry` at which a trap stopped it.
void take(const char* entry, Kind kind, uintptr_t pc, bool is_caller);

// Why some entry cannot be hooked in this process; goes into the report.
void report_unwatched(const char* entry, const char* why);

// Plants the traps of trap.cpp in what is loaded by now.
void plant_traps();

}  // namespace tare::frames
