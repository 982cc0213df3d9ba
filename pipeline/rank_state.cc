#include "pipeline/rank_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool SameTensors(const LayerDecl& a, const LayerDecl& b) {
  return a.packed_bytes == b.packed_bytes &&
         std::equal(
             a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
             [](const TensorDecl& x, const TensorDecl& y) { return x.bytes() == y.bytes(); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankState>> RankState::Create(const RunPlan& plan, int rank) {
  const auto index = static_cast<size_t>(rank);
  absl::StatusOr<Arena> arena = Arena::Allocate(plan.arenas[index].memory.total);
  if (!arena.ok()) return arena.status();
  std::unique_ptr<RankState> state(new RankState(plan, rank, *std::move(arena)));
  for (int global : plan.train[index].layers) {
    absl::StatusOr<std::unique_ptr<Layer>> layer = plan.request.MakeLayerAt(global);
    if (!layer.ok()) return layer.status();
    if (!SameTensors((*layer)->decl(), plan.layers[static_cast<size_t>(global)])) {
      return absl::InternalError(absl::StrCat(
          "layer ", global, " needs other memory here than where the run was planned; ",
          "were they planned with another number of kernel threads?"));
    }
    state->layers_.push_back(*std::move(layer));
  }
  state->BindParameters();
  return state;
}

void RankState::BindParameters() {
  const ArenaLayout& layout = plan_.arenas[static_cast<size_t>(rank_)];
  std::vector<int> first_index;  // [global layer]
  int count = 0;
  for (const LayerDecl& layer : plan_.layers) {
    first_index.push_back(count);
    count += static_cast<int>(layer.parameters.size());
  }
  for (size_t local = 0; local < layers_.size(); ++local) {
    const auto global = static_cast<size_t>(plan_.train[static_cast<size_t>(rank_)].layers[local]);
    const std::vector<ParameterDecl>& decls = plan_.layers[global].parameters;
    weights_.emplace_back();
    gradients_.emplace_back();
    for (size_t p = 0; p < decls.size(); ++p) {
      ParameterView view;
      view.global_index = first_index[global] + static_cast<int>(p);
      view.decl = &decls[p];
      view.elements = ElementCount(decls[p].shape);
      view.weight = arena_.at<float>(layout.weights[local][p]);
      view.gradient = arena_.at<float>(layout.gradients[local][p]);
      view.moment1 = arena_.at<float>(layout.moments1[local][p]);
      if (!layout.moments2.empty()) view.moment2 = arena_.at<float>(layout.moments2[local][p]);
      weights_.back().push_back(view.weight);
      gradients_.back().push_back(view.gradient);
      parameters_.push_back(view);
    }
  }
}

void RankState::Initialize(uint64_t seed) {
  for (const ParameterView& view : parameters_) {
    ParameterDecl source = *view.decl;
    if (!source.tied_to.empty())
      source.name = source.tied_to;  // equal from the start, wherever the two live
    InitializeParameter(source, seed, view.weight);
    std::fill_n(view.moment1, view.elements, 0.0f);
    if (view.moment2 != nullptr) std::fill_n(view.moment2, view.elements, 0.0f);
  }
}

void RankState::Pack() {
  for (int local = 0; local < layer_count(); ++local) layer(local).Pack(CallOf(local));
}

LayerCall RankState::CallOf(int local) const {
  const auto index = static_cast<size_t>(local);
  LayerCall call;
  call.parameters = weights_[index];
  call.gradients = gradients_[index];
  call.packed = arena_.at(plan_.arenas[static_cast<size_t>(rank_)].packed[index]);
  return call;
}

std::vector<const ParameterDecl*> CanonicalParameters(const RunPlan& plan) {
  std::vector<const ParameterDecl*> parameters;
  for (const LayerDecl& layer : plan.layers) {
    for (const ParameterDecl& parameter : layer.parameters) parameters.push_back(&parameter);
  }
  return parameters;
}

}  // namespace sluice
