#include "pipeline/run/instruction_clock.h"

#include <algorithm>

namespace sluice {
namespace {

// Whether a device that queues work marks the instruction, too.
bool HasEvents(Step step) {
  switch (step) {
    case Step::kBeginAction:
    case Step::kEndAction:
    case Step::kWaitReceive:
    case Step::kPostSend:
    case Step::kWaitSend:
    case Step::kReduceGradients:
    case Step::kUpdateWeights:
      return true;
    case Step::kPostReceive:
    case Step::kLoadInput:
    case Step::kLoadTargets:
    case Step::kLoadStarts:
    case Step::kForward:
    case Step::kRestore:
    case Step::kBackwardInput:
    case Step::kBackwardWeight:
    case Step::kAddGroup:
      return false;
  }
  return false;
}

constexpr int64_t kNoMark = -1;

// [instruction] where its two marks begin, or kNoMark; then the number of all marks.
std::vector<int64_t> FirstMarks(const RankProgram& program, bool queues) {
  std::vector<int64_t> first;
  int64_t marks = 0;
  for (const Instruction& instruction : program.instructions) {
    const bool has_marks = !queues || HasEvents(instruction.step);
    first.push_back(has_marks ? marks : kNoMark);
    if (has_marks) marks += 2;
  }
  first.push_back(marks);
  return first;
}

}  // namespace

InstructionClock::InstructionClock(Device* device, Stream stream, const RankProgram& program)
    : first_mark_(FirstMarks(program, device->queues())),
      marks_(device, stream, static_cast<size_t>(first_mark_.back())),
      ran_(program.instructions.size()),
      times_(program.instructions.size()) {}

void InstructionClock::Start() {
  std::fill(ran_.begin(), ran_.end(), false);
  std::fill(times_.begin(), times_.end(), InstructionTime{});
  marks_.Start();
}

void InstructionClock::Begin(size_t instruction) {
  Ran(instruction);
  if (first_mark_[instruction] != kNoMark)
    marks_.Set(static_cast<size_t>(first_mark_[instruction]));
}

void InstructionClock::End(size_t instruction) {
  if (first_mark_[instruction] != kNoMark)
    marks_.Set(static_cast<size_t>(first_mark_[instruction]) + 1);
}

void InstructionClock::Finish() {
  marks_.Finish();
  for (size_t i = 0; i < times_.size(); ++i) {
    if (!ran_[i] || first_mark_[i] == kNoMark) continue;
    const auto mark = static_cast<size_t>(first_mark_[i]);
    times_[i] = {.start = marks_[mark], .end = marks_[mark + 1]};
  }
  SpreadOut();
}

void InstructionClock::SpreadOut() {
  std::vector<size_t> unknown;  // that ran since `last`
  int64_t last = 0;             // the end of the newest instruction with marks
  const auto spread = [&](int64_t from, int64_t to) {
    const auto parts = static_cast<int64_t>(unknown.size());
    for (int64_t k = 0; k < parts; ++k) {
      times_[unknown[static_cast<size_t>(k)]] = {.start = from + (to - from) * k / parts,
                                                 .end = from + (to - from) * (k + 1) / parts};
    }
    unknown.clear();
  };
  for (size_t i = 0; i < times_.size(); ++i) {
    if (!ran_[i]) continue;
    if (first_mark_[i] == kNoMark) {
      unknown.push_back(i);
      continue;
    }
    // What comes before all marks has the time of the first.
    spread(last == 0 ? times_[i].start : last, times_[i].start);
    last = times_[i].end;
  }
  spread(last, last);
}

}  // namespace sluice
