#include "pipeline/run/host_state.h"

#include <cstddef>

namespace sluice {
namespace {

size_t Bytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

}  // namespace

float* HostState::Place(float* tensor, int64_t count) {
  if (!device_.queues()) return tensor;
  Copy& copy = copies_.emplace_back();
  copy.tensor = tensor;
  copy.values.resize(static_cast<size_t>(count));
  return copy.values.data();
}

void HostState::Upload() {
  for (const Copy& copy : copies_) {
    device_.Copy(stream_, copy.tensor, copy.values.data(),
                 Bytes(static_cast<int64_t>(copy.values.size())));
  }
  copies_.clear();
}

const float* HostReader::Read(const float* tensor, int64_t count) {
  if (!device_.queues()) return tensor;
  values_.resize(static_cast<size_t>(count));
  device_.Copy(stream_, values_.data(), tensor, Bytes(count));
  return values_.data();
}

}  // namespace sluice
