#include "pipeline/train/finite_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/state/rounds.h"

namespace sluice {
namespace {

// Values between two meetings of the ranks: 1 MiB.
constexpr int64_t kPiece = int64_t{1} << 18U;
constexpr int kKinds = 3;

// One rank's look at its own state.
class Look {
 public:
  // `finite`: memory that host and device share.
  Look(const RankState& state, Rounds* rounds, bool* finite)
      : state_(state), rounds_(*rounds), finite_(*finite) {}

  absl::Status At(const ParameterView& view) {
    constexpr DType kFloat = DType::kFloat32;
    absl::Status status =
        At(view, StateKind::kWeight, view.decl->dtype, view.weight, view.elements);
    if (status.ok()) status = At(view, StateKind::kMoment1, kFloat, view.moment1, view.count);
    if (status.ok() && view.moment2 != nullptr) {
      status = At(view, StateKind::kMoment2, kFloat, view.moment2, view.count);
    }
    return status;
  }

  // 0: all is finite; else greater the later the tensor comes.
  double word() const { return word_; }

 private:
  absl::Status At(const ParameterView& view, StateKind kind, DType dtype, const void* values,
                  int64_t count) {
    for (int64_t first = 0; first < count; first += kPiece) {
      const int64_t size = std::min(kPiece, count - first);
      const void* const piece = static_cast<const std::byte*>(values) + first * SizeOf(dtype);
      state_.kernels().all_finite(state_.stream(), dtype, size, piece, &finite_);
      absl::Status status = state_.device().Synchronize(state_.stream(), Instant::InfiniteFuture());
      if (!status.ok()) return status;
      if (!finite_) {
        Note({view.global_index, kind, view.stage, state_.world_rank()});
        return absl::OkStatus();
      }
      if (status = rounds_.Tick(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void Note(const StateTensor& tensor) {
    const int stages = state_.plan().lowered.placement.stages();
    const double word =
        1 +
        (static_cast<double>(tensor.parameter) * kKinds + static_cast<int>(tensor.kind)) * stages +
        tensor.stage;
    word_ = word_ == 0 ? word : std::min(word_, word);
  }

  const RankState& state_;
  Rounds& rounds_;
  bool& finite_;
  double word_ = 0;
};

StateTensor FromWord(double word, int rank, const RunPlan& plan) {
  const int stages = plan.lowered.placement.stages();
  const int64_t number = static_cast<int64_t>(word) - 1;
  const int64_t tensor = number / stages;
  return {.parameter = static_cast<int>(tensor / kKinds),
          .kind = static_cast<StateKind>(tensor % kKinds),
          .stage = static_cast<int>(number % stages),
          .rank = rank};
}

}  // namespace

std::string Describe(const StateTensor& tensor, const RunPlan& plan) {
  const char* of = tensor.kind == StateKind::kWeight    ? ""
                   : tensor.kind == StateKind::kMoment1 ? "the first moment of "
                                                        : "the second moment of ";
  const ParameterDecl& parameter =
      *CanonicalParameters(plan)[static_cast<size_t>(tensor.parameter)];
  return absl::StrCat(of, parameter.name, " (rank ", tensor.rank, ", stage ", tensor.stage, ")");
}

absl::StatusOr<std::optional<StateTensor>> FindNotFinite(const RankState& state,
                                                         Communicator& world,
                                                         absl::Duration timeout) {
  const absl::StatusOr<DeviceMemory> finite = state.device().AllocateShared(sizeof(bool));
  if (!finite.ok()) return finite.status();
  Rounds rounds(&world, timeout);
  Look look(state, &rounds, reinterpret_cast<bool*>(finite->data()));
  for (const ParameterView& view : state.parameters()) {
    if (view.shared) continue;
    if (absl::Status status = look.At(view); !status.ok()) return status;
  }
  std::vector<double> words;
  if (absl::Status status = rounds.Finish(look.word(), &words); !status.ok()) return status;
  std::optional<StateTensor> first;
  double least = 0;
  for (size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank] == 0 || (first.has_value() && words[rank] >= least)) continue;
    least = words[rank];
    first = FromWord(words[rank], static_cast<int>(rank), state.plan());
  }
  return first;
}

}  // namespace sluice
