#ifndef SLUICE_TOOLS_TRAIN_REPLANNING_REPLANNER_H_
#define SLUICE_TOOLS_TRAIN_REPLANNING_REPLANNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/link_probe.h"
#include "models/data/dataset.h"
#include "pipeline/compile/plan/run_plan.h"
#include "pipeline/train/run.h"
#include "pipeline/train/stage_blocks.h"
#include "tools/train/replanning/measured_speeds.h"
#include "tools/train/train_question.h"

namespace sluice {

// Another division of the work, which the ranks should agree on after this step.
struct Replan {
  MeasuredSpeeds speeds = {};  // what it is made for, by the ranks' new numbers
  // [new number of a rank] the one that it has: where the last ones have no work, or a link is to be
  // left out. Empty: all keep theirs.
  std::vector<int> order = {};
  std::string why = {};
  double step_seconds = 0;      // of late
  double expected_seconds = 0;  // of a step afterwards
  // No division of the work among these ranks, with this timetable, is expected to take less; 0: that
  // is not known.
  double bound_seconds = 0;
};

// What a replan has turned out to bring.
struct ReplanGain {
  int64_t step = 0;
  double step_seconds = 0;  // since then
  double before_seconds = 0;
  double expected_seconds = 0;
};

// Whether the question leaves it open which rank does what.
bool MayReplan(const TrainQuestion& question);

// Whether ranks may get other numbers, and be left without work.
enum class RankNumbers : uint8_t {
  kFree,   // by who brings them together again
  kFixed,  // they keep what their launcher has given them, and each has a part of the work
};

// Notices that ranks are not as fast as the plan takes them to be, and finds a better one. A rank is
// compared with the others by what its layers should take. What these should take is the layers'
// FLOPs at first, times a factor that the first blocks of steps show; a rank that takes 1.5 times as
// long as the fastest by the FLOPs alone is taken to be slow, not its layers. Time is that of the
// steps: it reads no clock.
class Replanner {
 public:
  // Requires MayReplan(). `data`: of the run.
  Replanner(const TrainQuestion& question, std::shared_ptr<const Dataset> data,
            RankNumbers numbers = RankNumbers::kFree);

  // A group of `processes` begins, whose `plan` was compiled for `speeds`; `replan`: it is what was
  // proposed.
  void Begin(std::shared_ptr<const RunPlan> plan, int processes, const MeasuredSpeeds& speeds,
             std::optional<Replan> replan);

  // After each step. Proposes a plan whose step is at least a tenth shorter, where that saves twice the
  // time that it takes to go over to it. After one, it waits; longer each time that it brought less
  // than half of what it was to bring.
  std::optional<Replan> Observe(const StageTimes& times);
  // What was proposed could not be done: there is no other proposal for a while.
  void WaitLonger();
  // Whether the ways between ranks should be measured after this step; they are then to be handed over.
  bool WantsLinks() const;
  void TakeLinks(const std::vector<MeasuredLink>& links);
  // Of the replan that the group began with; once, as soon as it is known.
  std::optional<ReplanGain> TakeGain();

 private:
  // What a plan is expected to take per step, in any one unit.
  struct Expected {
    double seconds = 0;
    double lower_bound = 0;
  };

  std::vector<double> StageSeconds() const;
  std::vector<double> RankRatios() const;
  // [rank of the next group] what a stage's output takes to the next one. Requires links.
  std::vector<double> LinkSeconds(const std::vector<int>& order) const;
  MeasuredSpeeds Reordered(const MeasuredSpeeds& speeds, const std::vector<int>& order) const;
  std::vector<std::vector<int>> OrdersToTry(const MeasuredSpeeds& speeds) const;
  void LearnLayers();
  MeasuredSpeeds Measure();
  bool Deviates(const MeasuredSpeeds& speeds, const MeasuredSpeeds& from) const;
  bool LinksDeviate(const MeasuredSpeeds& speeds, const MeasuredSpeeds& from) const;
  double LongestStage() const;
  std::optional<Replan> Propose(const StageTimes& times, const MeasuredSpeeds& speeds) const;
  absl::StatusOr<Expected> Try(const MeasuredSpeeds& speeds) const;
  absl::StatusOr<double> SecondsOf(const RunRequest& request, const MeasuredSpeeds& speeds) const;
  bool Pays(const StageTimes& times, double gain) const;
  std::string Why(const MeasuredSpeeds& speeds) const;

  const TrainQuestion question_;
  const std::shared_ptr<const Dataset> data_;
  const RankNumbers numbers_;
  std::shared_ptr<const RunPlan> plan_;
  int processes_ = 0;
  MeasuredSpeeds planned_;      // what plan_ was compiled for
  std::vector<double> layers_;  // factors, once they are known
  std::vector<StageOnRank> stages_;
  // [of these] what a micro-batch should take there, on a rank of speed 1, with those factors.
  std::vector<double> stage_seconds_;
  std::optional<StageBlocks> blocks_;
  int blocks_to_look_ = 0;
  std::optional<MeasuredSpeeds> looked_;  // for which a plan was searched for last
  double group_seconds_ = 0;              // of its steps so far
  std::vector<MeasuredLink> links_;       // [a * processes_ + b] of late, where twice measured
  std::vector<MeasuredLink> last_links_;  // measured last
  double probe_at_ = 0;                   // of group_seconds_
  double unit_ = 0;                       // seconds of one that the FLOPs say; 0: not known
  double wait_seconds_ = 0;               // of a group, before its plan may change
  std::optional<Replan> made_;
  std::optional<ReplanGain> gain_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_REPLANNING_REPLANNER_H_
