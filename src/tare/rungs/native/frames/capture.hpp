// Stacks at the entry of a vendor library, taken only while the user's call runs. See docs/frames.md.
#pragma once

#include <cstdint>

namespace tare::frames {

enum class Kind { convolution, product, recurrent, graph, other };

// Whether the calling thread's stack should be taken now.
bool wanted();

// Takes the stack of the calling thread from the caller of the vendor's function `entry` on. `pc` is the address to which
// `entry` returns, or the address inside `entry` at which a breakpoint stopped it.
void take(const char* entry, Kind kind, uintptr_t pc, bool is_caller);

// Adds to the report why an entry cannot be hooked in this process.
void report_unwatched(const char* entry, const char* why);

// Sets the breakpoints of trap.cpp in the libraries loaded so far.
void plant_traps();

}  // namespace tare::frames
