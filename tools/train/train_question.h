#ifndef SLUICE_TOOLS_TRAIN_TRAIN_QUESTION_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_QUESTION_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/data/data_request.h"
#include "models/spec/dtype.h"
#include "pipeline/compile/plan/run_request.h"
#include "pipeline/train/run.h"
#include "tools/train/kernel_choice.h"
#include "tools/train/model_choice.h"
#include "tools/train/replanning/measured_speeds.h"

namespace sluice {

// The timetable of a step.
struct TimetableChoice {
  static constexpr int kDefaultRanks = 1;
  static constexpr int kDefaultMicroBatches = 8;

  std::optional<int> stages;      // ranks of the pipeline
  bool auto_stages = false;       // instead: chosen for the ranks there are
  std::string schedule = "1f1b";  // a name, "auto" or a FILE.csv
  std::string timetable;          // instead of `schedule`: the CSV of a plan with a custom order
  std::string plan;               // the file that contains `timetable`
  int chunks = 0;                 // stages per rank; 0: the schedule's default
  std::string placement;          // "looped" or "v", for a file or auto; empty: the file's own
  std::optional<int> micro_batches;
  std::vector<int> stage_members;  // [stage] ranks that share it; empty: one each
};

// What `sluice train` is asked: typed values, made once from the flags (train_flags.h).
struct TrainQuestion {
  ModelChoice model;
  DataRequest data;           // its length and seed stand in `seq` and `options`
  std::string tokenizer;      // a file or a folder; empty: the model's, if it has one
  std::string chat_template;  // a file; empty: the one beside the tokenizer
  int seq = 0;                // tokens per sample; 0: the model's
  TimetableChoice timetable;
  std::string partition;  // layers of each stage, "0-3,4-7"; empty: balanced
  // Of all ranks there are: the layers are balanced by them, and schedule "auto" is made for them.
  MeasuredSpeeds speeds;
  int micro_batch_size = 4;
  std::optional<int> sum_groups;
  DType dtype = DType::kFloat32;
  Adaptation adaptation = {};  // what of the model is trained
  Recompute recompute = Recompute::kNone;
  bool recompute_ahead = false;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  KernelChoice kernels;
  std::optional<bool> cuda_graphs;  // usual: on a GPU
  int data_parallel = 1;
  // Instead: chosen for the ranks there are. `timetable.micro_batches` are then of all replicas.
  bool auto_data_parallel = false;
  int zero = 0;
  bool mirror = false;
  int audit_every = 0;  // steps; 0: never
  // Ranks that a launcher has started divide the work anew where they are not equally fast.
  bool replan = false;
  int threads_per_stage = 1;
  std::string trace;        // file to write; empty: none
  std::string log;          // likewise: of its steps
  std::string tensorboard;  // directory of TensorBoard's files; empty: none
  bool overwrite = false;   // replace another run's checkpoints in options.saving.directory
  bool json = false;
  bool commands = false;  // a program says on standard input what the run does
  std::string settings;   // how the run was started: the text of run.toml beside its checkpoints
  // Flags, without their dashes, that were given for this start, and that a plan must not replace.
  std::set<std::string> given = {};
  TrainOptions options;

  bool chooses_shape() const { return timetable.auto_stages || auto_data_parallel; }
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_QUESTION_H_
