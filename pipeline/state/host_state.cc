#include "pipeline/state/host_state.h"

#include <algorithm>
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

LowHalves HostState::Place(const LowHalves& low_halves) {
  LowHalves placed = low_halves;
  const int64_t bytes = low_halves.count * static_cast<int64_t>(sizeof(uint16_t));
  if (low_halves.values != nullptr)
    placed.values = static_cast<uint16_t*>(Place(low_halves.values, bytes));
  return placed;
}

void HostState::Upload() {
  for (const Copy& copy : copies_)
    device_.Copy(stream_, copy.tensor, copy.values.data(), copy.values.size());
  copies_.clear();
}

template <class T>
const T* HostReader::Fetch(const void* tensor, int64_t first, int64_t count,
                           std::vector<T>* buffer) {
  const T* const from = static_cast<const T*>(tensor) + first;
  if (!device_.queues()) return from;
  buffer->resize(static_cast<size_t>(count));
  device_.Copy(stream_, buffer->data(), from, static_cast<size_t>(count) * sizeof(T));
  return buffer->data();
}

absl::Status HostReader::Check(absl::Duration timeout) {
  if (!device_.queues()) return absl::OkStatus();
  return device_.Synchronize(stream_, Instant::Now() + timeout);
}

const float* HostReader::Read(const HeldTensor& tensor, int64_t first, int64_t count) {
  if (tensor.dtype != DType::kBFloat16) return Fetch(tensor.data, first, count, &values_);
  const uint16_t* const high = Fetch(tensor.data, first, count, &halves_);
  values_.resize(static_cast<size_t>(count));
  const LowHalves& kept = tensor.low_halves;
  if (kept.values == nullptr) {
    FromBFloat16(count, high, values_.data());
    return values_.data();
  }
  const uint16_t* const low = Fetch(kept.values, first - kept.first, count, &low_halves_);
  for (int64_t i = 0; i < count; ++i)
    values_[static_cast<size_t>(i)] = SplitFloat{high[i], low[i]}.value();
  return values_.data();
}

void HostWriter::Write(DType dtype, void* tensor, const LowHalves& low_halves, const float* values,
                       int64_t first, int64_t count) {
  const auto size = static_cast<size_t>(count);
  if (dtype != DType::kBFloat16)
    return Bring(static_cast<float*>(tensor) + first, values, size * sizeof(float));
  halves_.resize(size);
  auto* const high = static_cast<uint16_t*>(tensor) + first;
  if (low_halves.values == nullptr) {
    ToBFloat16(count, values, halves_.data());
    return Bring(high, halves_.data(), size * sizeof(uint16_t));
  }
  // Of a part of the elements, maybe none.
  const int64_t begin = std::clamp(low_halves.first, first, first + count);
  const int64_t end = std::clamp(low_halves.first + low_halves.count, begin, first + count);
  low_halves_.resize(static_cast<size_t>(end - begin));
  SplitFloats(0, count, values, halves_.data(),
              {.values = low_halves_.data(), .first = begin - first, .count = end - begin});
  Bring(high, halves_.data(), size * sizeof(uint16_t));
  if (begin == end) return;
  Bring(low_halves.values + (begin - low_halves.first), low_halves_.data(),
        low_halves_.size() * sizeof(uint16_t));
}

}  // namespace sluice
