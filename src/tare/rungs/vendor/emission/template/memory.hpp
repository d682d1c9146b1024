// Where the buffers of the step lie, and what its calls share.
#pragma once

#include <cstdint>

#include "ops/scratch.hpp"

// The regions of memory are listed in buffers.hpp. Each is allocated once, in main.cpp.
enum class Region : int;
inline char* memory[16] = {};

// A place in a region, which calls take as a pointer.
template <class T>
struct Buffer {
  Region region;
  int64_t offset;

  operator T*() const { return reinterpret_cast<T*>(memory[static_cast<int>(region)] + offset); }
};

template <class T>
char* bytes(const Buffer<T>& buffer) {
  return reinterpret_cast<char*>(static_cast<T*>(buffer));
}

// Memory of calls that need some only while they run.
inline tare::ops::Scratch scratch;
