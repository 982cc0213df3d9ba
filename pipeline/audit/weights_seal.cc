#include "pipeline/audit/weights_seal.h"

#include <cstddef>

namespace sluice {

absl::Status WeightsSeal::Open() {
  const size_t most = 2 * state_.parameters().size();
  absl::Status status = sealed_.Open(state_, most);
  return status.ok() ? now_.Open(state_, most) : status;
}

void WeightsSeal::Add(TensorHashes* hashes) const {
  hashes->Clear();
  for (const ParameterView& view : state_.parameters()) {
    const int64_t low_bytes =
        view.low_halves.values == nullptr
            ? 0
            : view.low_halves.count * static_cast<int64_t>(sizeof(*view.low_halves.values));
    hashes->Add(view.weight, view.decl->bytes());
    hashes->Add(view.low_halves.values, low_bytes);
  }
  hashes->Queue();
}

void WeightsSeal::Take() { Add(&sealed_); }

absl::StatusOr<int> WeightsSeal::Broken(Instant deadline) {
  Add(&now_);
  absl::Status status = state_.device().Synchronize(state_.stream(), deadline);
  if (!status.ok()) return status;
  int broken = -1;
  const std::vector<ParameterView>& views = state_.parameters();
  for (size_t i = 0; i < views.size(); ++i) {
    const bool first = broken < 0 || views[i].global_index < broken;
    const bool kept = now_[2 * i] == sealed_[2 * i] && now_[2 * i + 1] == sealed_[2 * i + 1];
    if (first && !kept) broken = views[i].global_index;
  }
  return broken;
}

uint64_t WeightsSeal::OfStage(int stage) const {
  std::vector<uint64_t> hashes;
  const std::vector<ParameterView>& views = state_.parameters();
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].stage == stage) hashes.push_back(sealed_[2 * i]);
  }
  return HashAll(hashes);
}

}  // namespace sluice
