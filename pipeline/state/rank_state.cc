#include "pipeline/state/rank_state.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/device/host_limits.h"
#include "models/kernels/on_threads.h"
#include "pipeline/state/host_state.h"

namespace sluice {
namespace {

bool SameTensors(const LayerDecl& a, const LayerDecl& b) {
  return a.packed_bytes == b.packed_bytes &&
         std::equal(
             a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
             [](const TensorDecl& x, const TensorDecl& y) { return x.bytes() == y.bytes(); });
}

// [global layer]: its first parameter in canonical order.
std::vector<int> FirstIndices(const RunPlan& plan) {
  std::vector<int> first = {0};
  for (const LayerDecl& layer : plan.layers)
    first.push_back(first.back() + static_cast<int>(layer.parameters.size()));
  return first;
}

// A parameter's first values, which are still to be drawn.
struct Drawn {
  ParameterDecl decl;
  void* values = nullptr;
  LowHalves low_halves;
};
// Bytes of parameters that are drawn at the same time, in the host's memory.
constexpr int64_t kDrawnTogether = int64_t{1} << 30;
constexpr int64_t kZerosBrought = int64_t{32} << 20;  // bytes

// A rank on a CPU has one core; the host of a device's rank has nothing else to do.
int DrawingThreads(const Device& device, int ranks) {
  if (!device.queues()) return 1;
  return std::max(1, CoresToUse() / ranks);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankState>> RankState::Create(const RunPlan& plan, int world_rank,
                                                             Device& device) {
  return Create(plan, world_rank, device,
                plan.arenas[static_cast<size_t>(world_rank)].memory.total);
}

absl::StatusOr<std::unique_ptr<RankState>> RankState::CopyOnHost() const {
  absl::StatusOr<std::unique_ptr<RankState>> copy =
      Create(plan_, world_rank_, CpuDevice(), step_region());
  if (!copy.ok()) return copy;
  device_.Copy(stream_, (*copy)->arena_.at(0), arena_.at(0), static_cast<size_t>(step_region()));
  return copy;
}

absl::StatusOr<std::unique_ptr<RankState>> RankState::Create(const RunPlan& plan, int world_rank,
                                                             Device& device, int64_t bytes) {
  absl::StatusOr<Arena> arena = Arena::Allocate(device, bytes);
  if (!arena.ok()) {
    return absl::Status(
        arena.status().code(),
        absl::StrCat("rank ", world_rank, "'s arena of ",
                     DescribeArena(plan.arenas[static_cast<size_t>(world_rank)].memory), ": ",
                     arena.status().message()));
  }
  absl::StatusOr<Stream> stream = device.NewStream();
  if (!stream.ok()) return stream.status();
  std::unique_ptr<RankState> state(
      new RankState(plan, world_rank, device, *stream, *std::move(arena)));
  for (int global : state->train_program().layers) {
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

template <class T>
RankState::PointersTo<T> RankState::Point(const ParameterOffsets& offsets) const {
  PointersTo<T> pointers;
  for (const std::vector<int64_t>& of_layer : offsets) {
    pointers.emplace_back();
    for (int64_t offset : of_layer)
      pointers.back().push_back(offset == kNoOffset ? nullptr : arena_.at<T>(offset));
  }
  return pointers;
}

void RankState::BindParameters() {
  const RankProgram& program = train_program();
  weights_.push_back(Point<void>(layout().own.weights));
  for (const ParameterOffsets& slot : layout().stashed_weights)
    weights_.push_back(Point<void>(slot));
  gradients_ = Point<float>(layout().own.gradients);
  if (zero() >= 2) {
    for (std::vector<float*>& of_layer : gradients_)
      std::fill(of_layer.begin(), of_layer.end(), nullptr);
  }
  second_gradients_ = Point<float>(layout().second_gradients);
  newest_.assign(program.stages.size(), 0);
  const std::vector<int> first_index = FirstIndices(plan_);
  for (const RankStage& stage : program.stages) {
    for (int local = stage.first; local <= stage.last; ++local) {
      first_view_.push_back(parameters_.size());
      BindLayer(stage, local,
                first_index[static_cast<size_t>(program.layers[static_cast<size_t>(local)])]);
    }
  }
  first_view_.push_back(parameters_.size());
  if (plan_.mirrors()) BindMirror();
}

ParameterView RankState::Identify(const StateOffsets& offsets, const RankStage& stage, int local,
                                  size_t p, const ParameterDecl& decl,
                                  const std::vector<ParameterView>& before) const {
  ParameterView view;
  view.stage = stage.stage;
  view.model_copy = plan_.lowered.placement.copy(stage.stage);
  view.local = local;
  view.decl = &decl;
  view.elements = ElementCount(decl.shape);
  view.weight = arena_.at(offsets.weights[static_cast<size_t>(local)][p]);
  view.shared = !decl.tied_to.empty() &&
                std::any_of(before.begin(), before.end(),
                            [&](const auto& other) { return other.weight == view.weight; });
  return view;
}

void RankState::BindState(const StateOffsets& offsets, size_t p, ParameterView* view) const {
  const auto at = static_cast<size_t>(view->local);
  view->gradient = arena_.at<float>(offsets.gradients[at][p]);
  view->moment1 = arena_.at<float>(offsets.moments1[at][p]);
  if (!offsets.moments2.empty()) view->moment2 = arena_.at<float>(offsets.moments2[at][p]);
  if (view->decl->is_split()) {
    view->low_halves = {.values = arena_.at<uint16_t>(offsets.low_halves[at][p]),
                        .first = view->first,
                        .count = view->count};
  }
}

void RankState::BindLayer(const RankStage& stage, int local, int first_index) {
  const auto own = static_cast<size_t>(plan_.GroupOf(world_rank_).index);
  const std::vector<ParameterDecl>& decls = layers_[static_cast<size_t>(local)]->decl().parameters;
  for (size_t p = 0; p < decls.size(); ++p) {
    ParameterView view = Identify(layout().own, stage, local, p, decls[p], parameters_);
    view.global_index = first_index + static_cast<int>(p);
    if (decls[p].frozen) {
      parameters_.push_back(view);
      continue;
    }
    const std::vector<int64_t>& bounds = plan_.shards[static_cast<size_t>(view.global_index)];
    view.slice_first = bounds[own];
    view.slice_count = bounds[own + 1] - bounds[own];
    view.first = zero() >= 1 ? view.slice_first : 0;
    view.count = zero() >= 1 ? view.slice_count : view.elements;
    BindState(layout().own, p, &view);
    // Of gradients that are sharded, the arena holds the slice alone.
    if (zero() < 2) view.gradient += view.first;
    parameters_.push_back(view);
  }
}

void RankState::BindMirror() {
  const RankProgram& program = plan_.train[static_cast<size_t>(plan_.MirroredRank(rank()))];
  const std::vector<int> first_index = FirstIndices(plan_);
  for (const RankStage& stage : program.stages) {
    for (int local = stage.first; local <= stage.last; ++local) {
      const auto layer = static_cast<size_t>(program.layers[static_cast<size_t>(local)]);
      const std::vector<ParameterDecl>& decls = plan_.layers[layer].parameters;
      for (size_t p = 0; p < decls.size(); ++p) {
        if (decls[p].frozen) continue;
        ParameterView view = Identify(layout().mirror, stage, local, p, decls[p], mirrored_);
        view.global_index = first_index[layer] + static_cast<int>(p);
        view.count = view.slice_count = view.elements;
        BindState(layout().mirror, p, &view);
        mirrored_.push_back(view);
      }
    }
  }
}

void RankState::Initialize(uint64_t seed, const std::function<bool(const ParameterDecl&)>& draws) {
  HostState host(&device_, stream_);
  std::vector<Drawn> drawn;
  int64_t bytes = 0;
  const auto draw = [&] {
    OnThreads(DrawingThreads(device_, plan_.world_size()), drawn.size(), [&](int, size_t i) {
      InitializeParameter(drawn[i].decl, seed, drawn[i].values, drawn[i].low_halves);
    });
    host.Upload();
    drawn.clear();
    bytes = 0;
  };
  for (const ParameterView& view : parameters_) {
    if (view.shared) continue;
    ParameterDecl source = *view.decl;
    if (!source.tied_to.empty())
      source.name = source.tied_to;  // equal from the start, wherever the two live
    if (draws != nullptr && !draws(source)) continue;
    bytes += source.bytes();
    void* const values = host.Place(view.weight, source.bytes());
    drawn.push_back({std::move(source), values, host.Place(view.low_halves)});
    if (bytes >= kDrawnTogether) draw();
  }
  draw();
  ZeroMoments();
}

void RankState::ZeroMoments() {
  struct Moment {
    std::byte* data;
    int64_t bytes;  // 0 of an empty slice
  };
  std::vector<Moment> moments;
  for (const ParameterView& view : parameters_) {
    if (view.shared) continue;
    for (float* moment : {view.moment1, view.moment2}) {
      if (moment == nullptr) continue;
      moments.push_back({static_cast<std::byte*>(static_cast<void*>(moment)),
                         view.count * SizeOf(DType::kFloat32)});
    }
  }
  if (moments.empty()) return;
  if (!device_.queues()) {
    for (const Moment& moment : moments) std::fill_n(moment.data, moment.bytes, std::byte{0});
    return;
  }
  // Zeros go to the device once, and from there everywhere.
  const auto by_bytes = [](const Moment& a, const Moment& b) { return a.bytes < b.bytes; };
  const Moment& most = *std::max_element(moments.begin(), moments.end(), by_bytes);
  const std::vector<std::byte> zeros(
      static_cast<size_t>(std::min<int64_t>(most.bytes, kZerosBrought)));
  device_.Copy(stream_, most.data, zeros.data(), zeros.size());
  for (const Moment& moment : moments) {
    const bool has_zeros = moment.data == most.data;
    int64_t at = has_zeros ? std::ssize(zeros) : 0;
    while (at < moment.bytes) {
      const int64_t count = std::min(moment.bytes - at, std::ssize(zeros));
      device_.Copy(stream_, moment.data + at, most.data, static_cast<size_t>(count));
      at += count;
    }
  }
}

void RankState::Pack() {
  for (int local = 0; local < layer_count(); ++local) layer(local).Pack(CallOf(local));
}

LayerCall RankState::CallOf(int local, int slot, bool second_gradient) const {
  const auto index = static_cast<size_t>(local);
  LayerCall call;
  call.stream = stream_;
  call.parameters = weights_[static_cast<size_t>(slot)][index];
  // With sharded gradients those in `gradients_` are null, too.
  const bool second = second_gradient && !second_gradients_.empty();
  const Pointers& gradients = second ? second_gradients_ : gradients_;
  if (!gradients.empty()) call.gradients = gradients[index];
  call.packed =
      arena_.at(slot == 0 ? layout().packed[index]
                          : layout().stashed_packed[static_cast<size_t>(slot) - 1][index]);
  return call;
}

float* RankState::WholeGradient(const ParameterView& view, bool second_gradient) const {
  const Pointers& gradients = second_gradient ? second_gradients_ : gradients_;
  return gradients.empty() ? nullptr
                           : gradients[static_cast<size_t>(view.local)][IndexInLayer(view)];
}

absl::Span<const ParameterView> RankState::ParametersOf(int local) const {
  const auto at = static_cast<size_t>(local);
  return absl::MakeConstSpan(parameters_)
      .subspan(first_view_[at], first_view_[at + 1] - first_view_[at]);
}

void RankState::AddGroup(int stage) {
  std::vector<AddedTensor> sums;
  for (const ParameterView& view : parameters_) {
    if (view.stage != StageAt(stage).stage || view.decl->frozen) continue;
    const auto local = static_cast<size_t>(view.local);
    sums.push_back({.n = view.elements,
                    .values = second_gradients_[local][IndexInLayer(view)],
                    .sums = view.gradient});
  }
  kernels().accumulate(stream_, sums, true);
}

void RankState::OpenSlot(int stage, int from, int to) {
  for (ParameterView& view : parameters_) {
    if (view.stage != StageAt(stage).stage) continue;
    const size_t p = IndexInLayer(view);
    view.weight = Weight(view.local, p, to);
    // All slots share what is frozen.
    if (from == to || view.decl->frozen || view.shared) continue;
    kernels().copy(stream_, view.weight, Weight(view.local, p, from),
                   static_cast<size_t>(view.decl->bytes()));
  }
  newest_[static_cast<size_t>(stage)] = to;
}

void RankState::PackStage(int stage, int slot) {
  for (int local = StageAt(stage).first; local <= StageAt(stage).last; ++local)
    layer(local).Pack(CallOf(local, slot));
}

void RankState::Settle() {
  for (size_t stage = 0; stage < newest_.size(); ++stage) {
    if (newest_[stage] == 0) continue;
    OpenSlot(static_cast<int>(stage), newest_[stage], 0);
    PackStage(static_cast<int>(stage), 0);
  }
}

const RankStage& RankState::StageAt(int stage) const {
  return train_program().stages[static_cast<size_t>(stage)];
}

size_t RankState::IndexInLayer(const ParameterView& view) const {
  return static_cast<size_t>(view.decl -
                             layers_[static_cast<size_t>(view.local)]->decl().parameters.data());
}

std::vector<const ParameterDecl*> CanonicalParameters(const RunPlan& plan) {
  std::vector<const ParameterDecl*> parameters;
  for (const LayerDecl& layer : plan.layers) {
    for (const ParameterDecl& parameter : layer.parameters) parameters.push_back(&parameter);
  }
  return parameters;
}

}  // namespace sluice
