#include "pipeline/recover/state_ranges.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "comm/collectives/collectives.h"

namespace sluice {
namespace {

constexpr size_t kWords = 5;  // of a range on its way

std::vector<StateRange> Ranges(const RankState& state, const std::vector<ParameterView>& views,
                               bool exact) {
  const std::vector<int> stored = StoredIndices(state.plan());
  std::vector<StateRange> ranges;
  for (const ParameterView& view : views) {
    if (view.shared) continue;
    StateRange range{.parameter = stored[static_cast<size_t>(view.global_index)],
                     .frozen = view.decl->frozen,
                     .first = 0,
                     .count = view.elements};
    if (exact && view.decl->is_split()) {
      range.first = view.low_halves.first;
      range.count = view.low_halves.count;
    }
    ranges.push_back(range);
    if (view.decl->frozen) continue;
    range.first = view.first;
    range.count = view.count;
    range.kind = StateKind::kMoment1;
    ranges.push_back(range);
    range.kind = StateKind::kMoment2;
    if (view.moment2 != nullptr) ranges.push_back(range);
  }
  return ranges;
}

absl::StatusOr<StateRange> Decode(const int64_t* words) {
  if (words[0] < 0 || words[0] > INT32_MAX || words[1] < 0 || words[1] > 2 || words[3] < 0 ||
      words[4] < 0) {
    return absl::InternalError("a rank has sent a range of state that makes no sense");
  }
  return StateRange{.parameter = static_cast<int>(words[0]),
                    .kind = static_cast<StateKind>(words[1]),
                    .frozen = words[2] != 0,
                    .first = words[3],
                    .count = words[4]};
}

}  // namespace

std::vector<int> StoredIndices(const RunPlan& plan) {
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  absl::flat_hash_map<std::string, int> index_of;
  for (size_t p = 0; p < parameters.size(); ++p)
    index_of[parameters[p]->name] = static_cast<int>(p);
  std::vector<int> stored;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const std::string& tied_to = parameters[p]->tied_to;
    const auto original = index_of.find(tied_to);
    stored.push_back(original == index_of.end() ? static_cast<int>(p) : original->second);
  }
  return stored;
}

std::vector<StateRange> RangesHeld(const RankState& state, bool mirror) {
  std::vector<StateRange> held = Ranges(state, state.parameters(), /*exact=*/true);
  if (!mirror) return held;
  const std::vector<StateRange> mirrored = Ranges(state, state.mirrored(), /*exact=*/true);
  held.insert(held.end(), mirrored.begin(), mirrored.end());
  return held;
}

std::vector<StateRange> RangesNeeded(const RankState& state) {
  return Ranges(state, state.parameters(), /*exact=*/false);
}

absl::StatusOr<std::vector<std::vector<StateRange>>> GatherRanges(
    const std::vector<StateRange>& mine, Communicator& world, absl::Duration timeout) {
  const auto ranks = static_cast<size_t>(world.size());
  const auto count = static_cast<double>(mine.size());
  std::vector<double> counts(ranks);
  absl::Status status =
      world.AllGather({&count, 1}, absl::MakeSpan(counts), Instant::Now() + timeout);
  if (!status.ok()) return status;
  std::vector<int64_t> bounds = {0};
  for (const double of_rank : counts) bounds.push_back(bounds.back() + std::llround(of_rank));
  std::vector<int64_t> words(static_cast<size_t>(bounds.back()) * kWords);
  int64_t* to = words.data() + bounds[static_cast<size_t>(world.rank())] * int64_t{kWords};
  for (const StateRange& range : mine) {
    *to++ = range.parameter;
    *to++ = static_cast<int64_t>(range.kind);
    *to++ = range.frozen ? 1 : 0;
    *to++ = range.first;
    *to++ = range.count;
  }
  const SlicedBytes all = {
      .data = words.data(), .bounds = bounds, .element_bytes = kWords * sizeof(int64_t)};
  status = AllGatherSlices(world, {&all, 1}, timeout);
  if (!status.ok()) {
    world.Abort(status);  // messages use `words` until then
    return status;
  }
  std::vector<std::vector<StateRange>> ranges(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (int64_t at = bounds[rank]; at < bounds[rank + 1]; ++at) {
      const absl::StatusOr<StateRange> range = Decode(&words[static_cast<size_t>(at) * kWords]);
      if (!range.ok()) return range.status();
      ranges[rank].push_back(*range);
    }
  }
  return ranges;
}

}  // namespace sluice
