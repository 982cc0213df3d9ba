#include "pipeline/run/host_state.h"

#include <iterator>

#include "models/spec/bfloat16.h"

namespace sluice {

void* HostState::Place(void* tensor, int64_t bytes) {
  if (!device_.queues()) return tensor;
  for (Copy& placed : copies_) {
    // An empty array lies where the next one begins.
    const bool same = placed.tensor == tensor && std::ssize(placed.values) == bytes;
    if (same) return placed.values.data();
  }
  Copy& copy = copies_.emplace_back();
  copy.tensor = tensor;
  copy.values.resize(static_cast<size_t>(bytes));
  return copy.values.data();
}

void HostState::Upload() {
  for (const Copy& copy : copies_)
    device_.Copy(stream_, copy.tensor, copy.values.data(), copy.values.size());
  copies_.clear();
}

const float* HostReader::Read(DType dtype, const void* tensor, int64_t first, int64_t count) {
  const bool halves = dtype == DType::kBFloat16;
  const void* from = static_cast<const std::byte*>(tensor) + first * SizeOf(dtype);
  if (!halves && !device_.queues()) return static_cast<const float*>(from);
  values_.resize(static_cast<size_t>(count));
  if (device_.queues()) {
    if (halves) halves_.resize(static_cast<size_t>(count));
    void* const to = halves ? static_cast<void*>(halves_.data()) : values_.data();
    device_.Copy(stream_, to, from, static_cast<size_t>(count * SizeOf(dtype)));
    from = to;
  }
  if (halves) FromBFloat16(count, static_cast<const uint16_t*>(from), values_.data());
  return values_.data();
}

}  // namespace sluice
