#include "partitioner/planning/plan/candidates.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/planning/question/other_trainers.h"
#include "schedules/counted.h"
#include "schedules/generators/catalogue.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice {
namespace {

// More chunks shorten the warm-up by less and less, and send more and more.
constexpr int kMostChunksTried = 8;

// Micro-batches in flight on the fullest rank, in units of a whole rank's layers.
double Fullness(const InFlight& in_flight) {
  double fullest = 0;
  for (int rank = 0; rank < in_flight.ranks(); ++rank) {
    for (const InFlight::Moment& moment : in_flight.moments(rank)) {
      double held = 0;
      for (int count : moment.activations) held += count;
      for (int count : moment.weight_grads) held += count;
      fullest = std::max(fullest, held / static_cast<double>(in_flight.stages(rank).size()));
    }
  }
  return fullest;
}

// The numbers of chunks worth trying with `entry`.
std::vector<int> ChunksToTry(const PlanRequest& request, const CatalogueEntry& entry) {
  if (request.chunks > 0) return {request.chunks};
  if (request.partition) {
    return {static_cast<int>(request.partition->size()) / request.devices};
  }
  if (entry.chunk_step == 0) return {entry.default_chunks};
  std::vector<int> chunks;
  const int most =
      std::min(kMostChunksTried, request.machines.costs->layer_count() / request.devices);
  // With one chunk, interleaved is eager-1f1b, interleaved-zb is zb-h1 and bfs is gpipe.
  for (int count = 2; count <= most; count += entry.chunk_step) {
    chunks.push_back(count);
  }
  // Of a schedule that was asked for, what it needs at least says why it cannot be had.
  if (chunks.empty() && request.schedule) chunks.push_back(entry.default_chunks);
  return chunks;
}

absl::Status CheckStages(const PlanRequest& request, int chunks) {
  const int64_t stages = int64_t{request.devices} * chunks;
  const int layers = request.machines.costs->layer_count();
  if (stages > layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(Counted(request.devices, "device"), " x ", Counted(chunks, "chunk"), " are ",
                     Counted(stages, "stage"), ", more than the ", Counted(layers, "layer"),
                     "; every stage needs at least one"));
  }
  if (request.partition && static_cast<int>(request.partition->size()) != stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the partition has ", Counted(request.partition->size(), "stage"), ", but ",
        Counted(request.devices, "device"), " x ", Counted(chunks, "chunk"), " take ", stages));
  }
  return absl::OkStatus();
}

absl::StatusOr<Candidate> Generate(const PlanRequest& request, const std::string& schedule,
                                   int chunks) {
  if (request.for_megatron) {
    absl::Status known = CheckForMegatron(schedule, request.devices, request.micro_batches);
    if (!known.ok()) return known;
  }
  if (absl::Status status = CheckStages(request, chunks); !status.ok()) return status;
  absl::StatusOr<Timetable> timetable = GenerateSchedule(
      schedule,
      {.ranks = request.devices, .micro_batches = request.micro_batches, .chunks = chunks});
  if (!timetable.ok()) return timetable.status();
  Candidate candidate{schedule, chunks, *std::move(timetable), nullptr};
  candidate.in_flight = std::make_shared<const InFlight>(candidate.timetable);
  return candidate;
}

absl::StatusOr<std::vector<const CatalogueEntry*>> EntriesAskedFor(const PlanRequest& request) {
  std::vector<const CatalogueEntry*> entries;
  if (request.schedule) {
    // What leaves the schedule open is called auto, wherever a question is asked.
    absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(*request.schedule, {"auto"});
    if (!entry.ok()) return absl::InvalidArgumentError(entry.status().message());
    entries.push_back(*entry);
    return entries;
  }
  // Only what computes the same as one device would, from one copy of the weights.
  for (const CatalogueEntry& entry : Catalogue()) {
    if (entry.updates == WeightUpdates::kFlush && entry.copies == 1) entries.push_back(&entry);
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::vector<Candidate>> ListCandidates(const PlanRequest& request,
                                                      std::vector<RejectedPlan>* rejected,
                                                      bool* stopped) {
  *stopped = false;
  absl::StatusOr<std::vector<const CatalogueEntry*>> entries = EntriesAskedFor(request);
  if (!entries.ok()) return entries.status();
  struct Wanted {
    const CatalogueEntry* entry;
    int chunks;
    absl::StatusOr<Candidate> candidate = absl::UnknownError("not generated");
  };
  std::vector<Wanted> wanted;
  for (const CatalogueEntry* entry : *entries) {
    for (int chunks : ChunksToTry(request, *entry)) wanted.push_back({entry, chunks});
  }
  ParallelFor(wanted.size(), [&](size_t i) {
    if (request.stop && request.stop()) {
      wanted[i].candidate = absl::DeadlineExceededError("not tried in the time");
      return;
    }
    wanted[i].candidate = Generate(request, wanted[i].entry->name, wanted[i].chunks);
  });
  std::vector<std::pair<double, Candidate>> found;
  absl::Status first_failure;
  for (Wanted& each : wanted) {
    if (each.candidate.ok()) {
      const double fullness = Fullness(*each.candidate->in_flight);
      found.emplace_back(fullness, *std::move(each.candidate));
      continue;
    }
    if (first_failure.ok() || absl::IsDeadlineExceeded(each.candidate.status())) {
      first_failure = each.candidate.status();
    }
    if (absl::IsDeadlineExceeded(each.candidate.status())) *stopped = true;
    const Candidate failed{each.entry->name, each.chunks, {}, nullptr};
    rejected->push_back({failed.Describe(), std::string(each.candidate.status().message())});
  }
  if (found.empty()) return first_failure;
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Candidate> candidates;
  candidates.reserve(found.size());
  for (auto& [fullness, candidate] : found) candidates.push_back(std::move(candidate));
  return candidates;
}

bool AllowsCustomOrder(const PlanRequest& request) {
  return !request.schedule && request.chunks == 0 && !request.for_megatron && !request.partition &&
         request.objective == PlanObjective::kStep;
}

}  // namespace sluice
