#include "pipeline/recover/recovery.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "comm/collectives/collectives.h"
#include "pipeline/recover/moves.h"
#include "pipeline/recover/state_access.h"
#include "pipeline/recover/state_ranges.h"
#include "pipeline/state/rounds.h"
#include "pipeline/state/state_pieces.h"

namespace sluice {
namespace {

// What every process says of itself first.
struct Offer {
  bool has_state = false;
  AgreedStep last;
  int64_t shown_step = -1;
  int64_t history_last = 0;
  size_t history_steps = 0;
  int64_t saved = -1;
  int64_t evaluated = -1;
};
constexpr size_t kNumbers = 13;  // of an offer on its way

absl::StatusOr<std::vector<Offer>> GatherOffers(const HeldState& held, Communicator& world,
                                                absl::Duration timeout) {
  const AgreedStep& last = held.last;
  const double mine[kNumbers] = {held.state != nullptr && held.whole ? 1.0 : 0.0,
                                 static_cast<double>(last.step),
                                 last.loss,
                                 last.loss_sum,
                                 last.targets,
                                 last.correct,
                                 last.grad_norm,
                                 static_cast<double>(held.shown_step),
                                 last.known ? 1.0 : 0.0,
                                 static_cast<double>(held.history.last),
                                 static_cast<double>(held.history.steps.size()),
                                 static_cast<double>(held.history.saved),
                                 static_cast<double>(held.history.evaluated)};
  std::vector<double> all(kNumbers * static_cast<size_t>(world.size()));
  absl::Status status = world.AllGather(mine, absl::MakeSpan(all), Instant::Now() + timeout);
  if (!status.ok()) return status;
  std::vector<Offer> offers;
  for (const double* at = all.data(); at != all.data() + all.size(); at += kNumbers) {
    offers.push_back({.has_state = at[0] != 0,
                      .last = {.step = std::llround(at[1]),
                               .known = at[8] != 0,
                               .loss = at[2],
                               .loss_sum = at[3],
                               .targets = at[4],
                               .correct = at[5],
                               .grad_norm = at[6]},
                      .shown_step = std::llround(at[7]),
                      .history_last = std::llround(at[9]),
                      .history_steps = static_cast<size_t>(at[10]),
                      .saved = std::llround(at[11]),
                      .evaluated = std::llround(at[12])});
  }
  return offers;
}

// The newest step that anybody holds; the ranks that show something may be gone.
std::optional<Recovered> Newest(const std::vector<Offer>& offers) {
  std::optional<Recovered> newest;
  for (const Offer& offer : offers) {
    if (!offer.has_state) continue;
    if (!newest) newest.emplace();
    const AgreedStep& last = newest->last;
    if (offer.last.step > last.step || (offer.last.step == last.step && !last.known))
      newest->last = offer.last;
    newest->shown_step = std::max(newest->shown_step, offer.shown_step);
  }
  return newest;
}

// Brings the hash that any process knows to all.
absl::Status ShareHash(std::string* hash, Communicator& world, absl::Duration timeout) {
  const auto size = static_cast<double>(hash->size());
  std::vector<double> sizes(static_cast<size_t>(world.size()));
  absl::Status status =
      world.AllGather({&size, 1}, absl::MakeSpan(sizes), Instant::Now() + timeout);
  if (!status.ok()) return status;
  const auto owner = std::find_if(sizes.begin(), sizes.end(), [](double of) { return of > 0; });
  if (owner == sizes.end()) return status;
  hash->resize(static_cast<size_t>(*owner));
  std::vector<int64_t> bounds(sizes.size() + 1, 0);
  std::fill(bounds.begin() + (owner - sizes.begin()) + 1, bounds.end(), std::llround(*owner));
  const SlicedBytes text = {.data = hash->data(), .bounds = bounds};
  return AllGatherSlices(world, {&text, 1}, timeout);
}

// Brings the longest history to all.
absl::Status ShareHistory(const std::vector<Offer>& offers, RunHistory* history,
                          Communicator& world, absl::Duration timeout) {
  const auto longest = std::max_element(
      offers.begin(), offers.end(),
      [](const Offer& a, const Offer& b) { return a.history_steps < b.history_steps; });
  const auto owner = longest - offers.begin();
  if (world.rank() != owner) {
    std::string frozen_hash = std::move(history->frozen_hash);
    *history = {};
    history->frozen_hash = std::move(frozen_hash);
  }
  history->last = longest->history_last;
  history->steps.resize(longest->history_steps);
  for (const Offer& offer : offers) {
    history->saved = std::max(history->saved, offer.saved);
    history->evaluated = std::max(history->evaluated, offer.evaluated);
  }
  std::vector<int64_t> bounds(offers.size() + 1, 0);
  std::fill(bounds.begin() + owner + 1, bounds.end(), static_cast<int64_t>(longest->history_steps));
  const SlicedBytes steps = {
      .data = history->steps.data(), .bounds = bounds, .element_bytes = sizeof(PastStep)};
  if (absl::Status status = AllGatherSlices(world, {&steps, 1}, timeout); !status.ok())
    return status;
  return ShareHash(&history->frozen_hash, world, timeout);
}

// Brings what this process holds to step `to`, if it can. Returns whether it holds that step now.
absl::StatusOr<bool> CatchUp(HeldState& held, const AgreedStep& to, absl::Duration timeout) {
  if (held.state == nullptr || !held.whole) return false;
  if (held.last.step == to.step) return true;
  if (held.last.step + 1 != to.step || !held.has_next_gradients) return false;
  absl::Status status = UpdateWeights(
      *held.state, held.optimizer, LearningRate(held.optimizer, to.step, held.steps),
      GradientScale(held.optimizer, to.grad_norm), to.step, /*group=*/nullptr, timeout);
  if (!status.ok()) return status;
  held.last = to;
  held.has_next_gradients = false;
  return true;
}

// Either of `held` and `into` may be null.
absl::Status Move(const std::vector<StateMove>& moves, RankState* held, RankState* into,
                  absl::Duration timeout, Communicator& world, Rounds* rounds) {
  StatePieces pieces(&world, rounds);
  std::optional<StateAccess> from, to;
  if (held != nullptr) from.emplace(*held);
  if (into != nullptr) to.emplace(*into);
  const bool in_place = into == held;
  const int here = world.rank();
  for (const StateMove& move : moves) {
    const StateRange& what = move.what;
    const auto read = [&](int64_t first, int64_t count) {
      return from->Read(what, what.first + first, count);
    };
    const auto write = [&](const float* values, int64_t first, int64_t count) {
      to->Write(what, values, what.first + first, count);
      return absl::OkStatus();
    };
    absl::Status status = absl::OkStatus();
    if (move.from == here && move.to == here) {
      if (!in_place) status = pieces.ForEach(what.count, read, write);
    } else if (move.from == here) {
      status = pieces.Send(move.to, what.count, read);
    } else if (move.to == here) {
      status = pieces.Receive(move.from, what.count, write);
    }
    if (!status.ok()) {
      world.Abort(status);  // messages use the memory of `pieces` until then
      return status;
    }
  }
  // Before anybody takes what was moved for a state.
  absl::Status status = from ? from->CheckRead(timeout) : absl::OkStatus();
  if (!status.ok()) {
    world.Abort(status);
    return status;
  }
  return rounds->Finish();
}

}  // namespace

void RunHistory::CutAfter(int64_t step) {
  const int64_t more = std::clamp<int64_t>(last - step, 0, static_cast<int64_t>(steps.size()));
  steps.resize(steps.size() - static_cast<size_t>(more));
  last = std::min(last, step);
  saved = std::min(saved, step);
  evaluated = std::min(evaluated, step);
}

absl::StatusOr<std::optional<Recovered>> Recover(const Recovery& recovery, Communicator& world) {
  const absl::StatusOr<std::vector<Offer>> offers =
      GatherOffers(*recovery.held, world, recovery.timeout);
  if (!offers.ok()) return offers.status();
  absl::Status shared = ShareHistory(*offers, &recovery.held->history, world, recovery.timeout);
  if (!shared.ok()) return shared;
  std::optional<Recovered> newest = Newest(*offers);
  if (!newest) return std::optional<Recovered>();
  HeldState& own = *recovery.held;
  const absl::StatusOr<bool> holds = CatchUp(own, newest->last, recovery.timeout);
  if (!holds.ok()) return holds.status();
  RankState* into = nullptr;
  if (recovery.into != nullptr) {
    const absl::StatusOr<RankState*> state = recovery.into();
    if (!state.ok()) return state.status();
    into = *state;
  }
  const auto held =
      GatherRanges(*holds ? RangesHeld(*own.state, own.has_mirror) : std::vector<StateRange>(),
                   world, recovery.timeout);
  if (!held.ok()) return held.status();
  const auto needed = GatherRanges(
      into != nullptr ? RangesNeeded(*into) : std::vector<StateRange>(), world, recovery.timeout);
  if (!needed.ok()) return needed.status();
  const StateMoves plan = PlanMoves(*held, *needed);
  if (plan.loses_training()) return std::optional<Recovered>();
  newest->reads_frozen =
      std::any_of(plan.missing.begin(), plan.missing.end(),
                  [](const std::vector<StateRange>& of_rank) { return !of_rank.empty(); });
  // Loading may take longer than the time-out, and only some ranks load.
  Rounds rounds(&world, recovery.timeout);
  if (!plan.missing[static_cast<size_t>(world.rank())].empty()) {
    if (absl::Status status = rounds.Do(recovery.load_frozen); !status.ok()) return status;
  }
  const bool in_place = into != nullptr && into == own.state.get();
  if (in_place && !*holds) own.whole = own.has_mirror = false;
  absl::Status moved = Move(plan.moves, own.state.get(), into, recovery.timeout, world, &rounds);
  if (!moved.ok()) return moved;
  if (in_place && !*holds) {
    own.whole = true;
    own.last = newest->last;
    own.has_next_gradients = false;
  }
  return newest;
}

}  // namespace sluice
