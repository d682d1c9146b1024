// A device through LibTorch's own API, so that no CUDA header is needed: synchronisation, events, memory.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include "../native/worker/program.hpp"

namespace tare {

class Device {
 public:
  explicit Device(const std::string& name) : device(name) {
    if (device.is_cpu()) return;
    if (!device.has_index()) device = torch::Device(device.type(), 0);
    guard_.emplace(device.type());
    guard_->setDevice(device);
    start_.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);
    end_.emplace(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  }

  bool overlaps() const { return guard_.has_value(); }

  void synchronize() const {
    if (guard_) guard_->synchronizeDevice(device.index());
  }

  void mark_start() {
    if (start_) start_->record(guard_->getStream(device));
  }

  void mark_end() {
    if (end_) end_->record(guard_->getStream(device));
  }

  std::optional<int64_t> elapsed_ns() const {
    if (!start_) return std::nullopt;
    return static_cast<int64_t>(start_->elapsedTime(*end_) * 1e6);
  }

  void forget_peaks() const {
    if (!guard_) return;
    auto* allocator = at::getDeviceAllocator(device.type());
    allocator->emptyCache();
    allocator->resetPeakStats(device.index());
  }

  std::optional<DeviceMemory> memory() const {
    if (!guard_) return std::nullopt;
    auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    return DeviceMemory{stats.allocated_bytes[0].peak, stats.reserved_bytes[0].peak};
  }

  torch::Device device;

 private:
  std::optional<c10::impl::VirtualGuardImpl> guard_;
  std::optional<c10::Event> start_, end_;
};

}  // namespace tare
