#ifndef SLUICE_PIPELINE_RUN_INSTRUCTION_CLOCK_H_
#define SLUICE_PIPELINE_RUN_INSTRUCTION_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "models/device/device.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/run/marks.h"

namespace sluice {

// When an instruction ran, on the steady clock, in nanoseconds; end is 0 where it did not.
struct InstructionTime {
  int64_t start = 0;
  int64_t end = 0;
};

// Notes when each instruction of a pass runs, for a trace. Where a device queues work, it notes the
// ends of actions, messages, sums of gradients and updates: the calls of layers, which may be
// replayed together, are taken to be spread evenly between those.
class InstructionClock {
 public:
  // `program` must outlive this.
  InstructionClock(Device* device, Stream stream, const RankProgram& program);

  // Not OK where the device has no events left.
  absl::Status status() const { return marks_.status(); }

  // As ActionClock's.
  void Start();
  void Begin(size_t instruction);
  // That an instruction runs without Begin and End, as part of work that a device repeats.
  void Ran(size_t instruction) { ran_[instruction] = true; }
  void End(size_t instruction);
  void Finish();

  // [instruction], after Finish, in ascending order but for those that did not run.
  const std::vector<InstructionTime>& times() const { return times_; }

 private:
  // Gives the instructions that ran without marks times between those of their neighbours.
  void SpreadOut();

  const std::vector<int64_t> first_mark_;  // [instruction] its two marks, then their number
  Marks marks_;
  std::vector<bool> ran_;  // [instruction]
  std::vector<InstructionTime> times_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_INSTRUCTION_CLOCK_H_
