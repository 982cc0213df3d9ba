#include "tools/train/train_shape.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/layers/adapted_layers.h"
#include "partitioner/planning/answer/default_partition.h"
#include "schedules/counted.h"
#include "schedules/partition.h"
#include "tools/train/train_timetable.h"

namespace sluice {
namespace {

// Beside the rates of default_partition.cc, with which a step is simulated: what replicas send to
// each other, of one core.
constexpr double kBytesPerSecond = 2e9;

struct WorldShape {
  int stages = 1;
  int replicas = 1;
  double seconds = std::numeric_limits<double>::infinity();
  Partition partition = {};

  int ranks() const { return stages * replicas; }
};

// The best of two shapes that take the same time has less to exchange, then fewer ranks.
bool IsBetter(const WorldShape& a, const WorldShape& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  if (a.replicas != b.replicas) return a.replicas < b.replicas;
  return a.ranks() < b.ranks();
}

class ShapeSearch {
 public:
  ShapeSearch(const ModelSpec& spec, const TrainQuestion& question)
      : spec_(spec),
        question_(question),
        micro_batches_(
            question.timetable.micro_batches.value_or(TimetableChoice::kDefaultMicroBatches)),
        groups_(question.auto_data_parallel ? question.sum_groups.value_or(micro_batches_) : 0) {}

  absl::StatusOr<WorldShape> Best(int ranks) {
    WorldShape best;
    for (int stages = 1; stages <= std::min(ranks, spec_.layer_count()); ++stages) {
      if (!question_.timetable.auto_stages && stages != question_.timetable.stages.value_or(1))
        continue;
      for (int replicas = 1; replicas <= ranks / stages; ++replicas) {
        if (!question_.auto_data_parallel && replicas != question_.data_parallel) continue;
        WorldShape shape = Try(stages, replicas);
        if (shape.seconds < std::numeric_limits<double>::infinity() && IsBetter(shape, best))
          best = std::move(shape);
      }
    }
    if (best.seconds < std::numeric_limits<double>::infinity()) return best;
    return absl::InvalidArgumentError(
        absl::StrCat("no number of stages and replicas fits ", Counted(ranks, "rank"),
                     why_not_.empty() ? "" : absl::StrCat(": ", why_not_)));
  }

  int micro_batches() const { return micro_batches_; }
  int groups() const { return groups_; }

 private:
  WorldShape Try(int stages, int replicas) {
    WorldShape shape{.stages = stages, .replicas = replicas};
    const bool divides = question_.auto_data_parallel;  // the step among its replicas
    if (divides && (micro_batches_ % replicas != 0 || groups_ % replicas != 0)) {
      why_not_ =
          absl::StrCat(replicas, " replicas do not divide ", Counted(micro_batches_, "micro-batch"),
                       " in ", Counted(groups_, "group"));
      return shape;
    }
    TimetableChoice choice = question_.timetable;
    choice.stages = stages;
    choice.micro_batches = divides ? micro_batches_ / replicas : micro_batches_;
    const absl::StatusOr<Timetable> step = StepTimetable(choice);
    if (replicas > 1 && step.ok() &&
        (step->placement.copies() > 1 || step->updates != WeightUpdates::kFlush)) {
      why_not_ = absl::StrCat("schedule '", step->name, "' has no replicas");
      return shape;
    }
    absl::StatusOr<DefaultStages> answer =
        step.ok() ? DefaultPartition(LayersOf(question_, spec_, stages, replicas), *step)
                  : absl::StatusOr<DefaultStages>(step.status());
    if (!answer.ok()) {
      why_not_ = std::string(answer.status().message());
      return shape;
    }
    shape.seconds = std::min(answer->seconds, std::numeric_limits<double>::max()) +
                    ExchangeSeconds(question_, spec_, stages, replicas);
    shape.partition = std::move(answer->partition);
    return shape;
  }

  const ModelSpec& spec_;
  const TrainQuestion& question_;
  const int micro_batches_;
  const int groups_;
  std::string why_not_;
};

}  // namespace

BatchShape BatchOf(const TrainQuestion& question, const ModelSpec& spec) {
  return {.size = question.micro_batch_size, .seq = spec.seq_or_usual(question.seq)};
}

TrainedLayers LayersOf(const TrainQuestion& question, const ModelSpec& spec, int stages,
                       int replicas) {
  TrainedLayers layers = {.spec = &spec,
                          .batch = BatchOf(question, spec),
                          .adaptation = question.adaptation,
                          .head = question.kernels.cuda ? kGpuHead : kProcessorHead,
                          .layer_factors = question.speeds.layers};
  for (const int members : question.timetable.stage_members) layers.rank_speeds.push_back(members);
  const std::vector<double>& speeds = question.speeds.ranks;
  if (static_cast<int>(speeds.size()) < stages * replicas) return layers;
  // All replicas have the same stages, so the slowest counts.
  layers.rank_speeds.assign(speeds.begin(), speeds.begin() + stages);
  for (int rank = stages; rank < stages * replicas; ++rank) {
    double& slowest = layers.rank_speeds[static_cast<size_t>(rank % stages)];
    slowest = std::min(slowest, speeds[static_cast<size_t>(rank)]);
  }
  const std::vector<double>& links = question.speeds.links;
  if (links.empty() || stages < 2) return layers;
  // Likewise; what leads from a replica's last rank to its first one is not known but for one pipeline.
  layers.link_seconds.assign(static_cast<size_t>(stages), 0);
  for (int rank = 0; rank < stages * replicas; ++rank) {
    double& slowest = layers.link_seconds[static_cast<size_t>(rank % stages)];
    slowest = std::max(slowest, links[static_cast<size_t>(rank)]);
  }
  return layers;
}

double ExchangeSeconds(const TrainQuestion& question, const ModelSpec& spec, int stages,
                       int replicas) {
  if (replicas == 1) return 0;
  double parameters = 0;
  for (const LayerSpec& layer : DescribeAdapted(spec, BatchOf(question, spec), question.adaptation))
    parameters += static_cast<double>(layer.parameters);
  // Every replica sends its share of the sums, and receives the others'.
  const double shares = 2.0 * (replicas - 1) / replicas;
  return shares * parameters * sizeof(float) / stages / kBytesPerSecond;
}

absl::Status ChooseShape(const ModelSpec& spec, int ranks, TrainQuestion* question) {
  for (const auto& [given, flag] :
       {std::pair<bool, const char*>{!question->partition.empty(), "--partition"},
        {!question->timetable.plan.empty(), "--plan"},
        {!question->timetable.stage_members.empty(), "--stage-replicas"}}) {
    if (given) {
      return absl::InvalidArgumentError(absl::StrCat(
          flag,
          " says what each rank does, and --stages auto or --data-parallel auto asks for it; ",
          "give one of them"));
    }
  }
  ShapeSearch search(spec, *question);
  const absl::StatusOr<WorldShape> best = search.Best(ranks);
  if (!best.ok()) return best.status();
  question->timetable.stages = best->stages;
  question->data_parallel = best->replicas;
  question->partition = FormatPartition(best->partition);  // so that it is not searched for again
  if (best->ranks() == 1) {                                // there is no other rank
    question->mirror = false;
    question->audit_every = 0;
  }
  if (question->auto_data_parallel) {
    question->timetable.micro_batches = search.micro_batches() / best->replicas;
    question->sum_groups = search.groups();
  }
  return absl::OkStatus();
}

}  // namespace sluice
