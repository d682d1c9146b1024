// Memory that a call needs only while it runs. It grows in the first step and is kept; calls run one after the other, so
// that they share it.
#pragma once

#include <cstdint>
#include <memory>

namespace tare::ops {

class Scratch {
 public:
  // Room for `count` numbers, whatever is in it. What an earlier call took is overwritten.
  template <class T>
  T* take(int64_t count) {
    size_t bytes = static_cast<size_t>(count) * sizeof(T);
    if (bytes > size_) {
      memory_ = std::make_unique<char[]>(bytes);
      size_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  std::unique_ptr<char[]> memory_;
  size_t size_ = 0;
};

}  // namespace tare::ops
