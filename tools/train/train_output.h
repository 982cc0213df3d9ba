#ifndef SLUICE_TOOLS_TRAIN_TRAIN_OUTPUT_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/lying_rank.h"
#include "pipeline/train/trainer.h"
#include "tools/text_writer.h"
#include "tools/train/replanning/replanner.h"

namespace sluice {

// A group of ranks that goes on where another one has ended.
struct ContinuedRun {
  int64_t step = 0;                    // steps already taken
  std::optional<double> seconds = {};  // since a process was lost, if one was
  int ranks = 0;
  int stages = 0, replicas = 0;
  std::string partition;
  std::string source;  // of the state: memory, checkpoint or start
  // Why the ranks do other work than those before them did; "": they do the same.
  std::string replanned;
  double bound_seconds = 0;  // Replan's; 0: not known
};

// A group of ranks that goes on from before what a rank that computes wrong may have spoilt.
struct CorrectedRun {
  LyingRank lie;
  int64_t step = 0;                  // the steps after this one are shown again
  std::string source;                // of the state: memory, checkpoint or start
  std::vector<std::string> removed;  // the paths of checkpoints after lie.good_step
};

// The output of a run. Called from one thread.
class TrainOutput {
 public:
  virtual ~TrainOutput() = default;
  virtual void Start(const RunPlan& plan, const Dataset& data, int64_t steps) = 0;
  // Instead of Start where another process has begun the output of this run.
  virtual void TakeOver(const RunPlan& plan, int64_t steps) = 0;
  // Called when a run was resumed; it may then have another number of steps than Start was told.
  virtual void Resumed(const ResumedRun& run) = 0;
  virtual void Continued(const ContinuedRun& run) = 0;
  virtual void Corrected(const CorrectedRun& run) = 0;
  virtual void Step(const StepMetrics& metrics) = 0;
  virtual void Evaluated(const Evaluation& evaluation) = 0;
  virtual void Saved(const SaveOutcome& saved) = 0;
  virtual void Slow(const SlowStage& slow) = 0;
  virtual void Gained(const ReplanGain& gain) = 0;
  virtual void Done(const TrainSummary& summary) = 0;
};

// Whether the timetable has overlapped pairs, whose halves a rank on a CPU runs one after the
// other: predictions add up their times.
bool HasOverlappedPairs(const Timetable& timetable);

// One JSON object per step to `writer`, which must outlive it, then the summary.
std::unique_ptr<TrainOutput> MakeJsonOutput(TextWriter* writer);
// A table, with a progress bar on stderr where that is a terminal.
std::unique_ptr<TrainOutput> MakeTableOutput(TextWriter* writer);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_OUTPUT_H_
