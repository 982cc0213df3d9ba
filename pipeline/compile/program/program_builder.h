#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_PROGRAM_BUILDER_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_PROGRAM_BUILDER_H_

#include <cstdint>
#include <utility>

#include "pipeline/compile/plan/program.h"

namespace sluice {

// Appends instructions to a rank's program and keeps the lifetime of every buffer: from the
// instruction that is next when it is made to the last one that names it.
class ProgramBuilder {
 public:
  RankProgram& program() { return program_; }
  const RankProgram& program() const { return program_; }

  // A buffer whose life begins with the instruction that is appended next.
  BufferId New(int64_t bytes);
  void Append(const Instruction& instruction);
  // Appends a layer's call; every buffer in it is in use.
  void AppendCall(Step step, CallBuffers call, int micro_batch);
  // Opens and closes an action of the timetable.
  void Begin(const Action& action);
  void End();
  // Appends a sum of gradients over the rank's group, which lasts as long as its work memory.
  void Reduce(GradientReduction reduction, int micro_batch);
  // A new buffer, filled by `step` (kLoadInput, kLoadTargets, kLoadStarts).
  BufferId Load(Step step, int64_t bytes, int micro_batch);

 private:
  int32_t next() const { return static_cast<int32_t>(program_.instructions.size()); }
  void Use(BufferId id);

  RankProgram program_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_PROGRAM_BUILDER_H_
