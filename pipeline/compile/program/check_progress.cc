#include "pipeline/compile/program/check_progress.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// How far each rank has come, and what it has posted on each edge.
class Race {
 public:
  explicit Race(const std::vector<RankProgram>& programs)
      : programs_(programs),
        ranks_(programs.size()),
        position_(ranks_, 0),
        sent_(ranks_ * ranks_, 0),
        received_(ranks_ * ranks_, 0),
        reduced_(ranks_, 0),
        at_reduction_(ranks_, false) {}

  // Runs every rank as far as it can go, again and again, until nobody moves. Each instruction runs
  // once; a rank is tried again only when some rank has moved.
  void Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_; ++rank) moved = Advance(rank) || moved;
    }
  }

  bool Finished(size_t rank) const {
    return position_[rank] == programs_[rank].instructions.size();
  }
  const Instruction& Blocked(size_t rank) const {
    return programs_[rank].instructions[position_[rank]];
  }

 private:
  bool Advance(size_t rank) {
    const size_t start = position_[rank];
    while (!Finished(rank) && Step1(rank, Blocked(rank))) ++position_[rank];
    return position_[rank] != start;
  }

  // False when the instruction has to wait for another rank.
  bool Step1(size_t rank, const Instruction& instruction) {
    const auto peer = static_cast<size_t>(instruction.index);
    switch (instruction.step) {
      case Step::kPostSend:
        ++sent_[rank * ranks_ + peer];
        return true;
      case Step::kPostReceive:
        ++received_[peer * ranks_ + rank];
        return true;
      case Step::kWaitSend:
        return received_[rank * ranks_ + peer] > instruction.message;
      case Step::kWaitReceive:
        return sent_[peer * ranks_ + rank] > instruction.message;
      case Step::kReduceGradients:
        return Reduce(rank);
      default:
        return true;
    }
  }

  // A sum ends on every rank of its group once all of them have come to it.
  bool Reduce(size_t rank) {
    if (!at_reduction_[rank]) ++reduced_[rank];
    at_reduction_[rank] = true;
    for (const int other : programs_[rank].reduces_with) {
      if (reduced_[static_cast<size_t>(other)] < reduced_[rank]) return false;
    }
    at_reduction_[rank] = false;
    return true;
  }

  const std::vector<RankProgram>& programs_;
  const size_t ranks_;
  std::vector<size_t> position_;
  std::vector<int> sent_;      // [from * ranks + to]
  std::vector<int> received_;  // likewise
  std::vector<int> reduced_;   // [rank] sums that it has come to
  std::vector<bool> at_reduction_;
};

std::string Describe(const RankProgram& program, const Instruction& at) {
  if (at.step == Step::kReduceGradients) {
    return absl::StrCat("rank ", program.rank, " waits for the ranks that sum gradients with it, ",
                        "up to micro-batch ", at.micro_batch);
  }
  return absl::StrCat("rank ", program.rank, " waits for message ", at.message,
                      at.step == Step::kWaitSend ? " to be taken by rank " : " from rank ",
                      at.index, " (micro-batch ", at.micro_batch, ")");
}

}  // namespace

ProgramProgress CheckProgress(const std::vector<RankProgram>& programs) {
  Race race(programs);
  race.Run();
  ProgramProgress progress;
  std::string stuck;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    if (race.Finished(rank)) continue;
    const Instruction& at = race.Blocked(rank);
    absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", Describe(programs[rank], at));
    if (at.step == Step::kWaitSend) progress.cannot_send.push_back(static_cast<int>(rank));
  }
  if (!stuck.empty()) {
    progress.status = absl::InternalError(
        absl::StrCat("the programs would wait for each other for ever: ", stuck));
  }
  return progress;
}

}  // namespace sluice
