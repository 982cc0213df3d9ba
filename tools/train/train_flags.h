#ifndef SLUICE_TOOLS_TRAIN_TRAIN_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tools/train/adaptation_flags.h"
#include "tools/train/kernel_flags.h"
#include "tools/train/train_question.h"
#include "tools/train/train_world.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// `sluice train` as it was typed: the values that are still text, beside the values that the
// options write directly into the question.
struct TrainFlags {
  TrainQuestion question;
  std::string stages;  // a number, or auto
  std::string data_parallel = "1";
  std::string stage_replicas;  // "3,1"
  AdaptationFlags adaptation;
  std::string dtype = "fp32";
  std::string recompute = "none";
  std::string optimizer = "adamw";
  std::optional<std::string> lr_schedule;
  std::string validation;
  std::string loss_on = "assistant";
  bool bytes = false;
  KernelFlags kernels;
  std::string timeout = "30s";
  std::string keep;
  std::string trace_steps;  // "10-20"
  std::string resume_or_start;
  std::optional<bool> pin;
  bool no_save = false;  // no --save is taken from a file
  WorldFlags world;
};

void AddTrainFlags(CLI::App& command, TrainFlags* flags);

// InvalidArgument says which flag is wrong, and what it takes.
absl::StatusOr<TrainQuestion> QuestionOf(const TrainFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_FLAGS_H_
