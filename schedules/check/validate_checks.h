#ifndef SLUICE_SCHEDULES_CHECK_VALIDATE_CHECKS_H_
#define SLUICE_SCHEDULES_CHECK_VALIDATE_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedules/check/defect.h"
#include "schedules/dependency.h"

// The parts of FindDefects. Each proves one property and adds the defects that contradict it.
namespace sluice {

// Collects defects up to a limit.
class DefectList {
 public:
  explicit DefectList(int limit) : limit_(limit) {}
  bool full() const { return static_cast<int>(defects_.size()) >= limit_; }
  bool empty() const { return defects_.empty(); }
  void Add(int rank, size_t position, const Action& action, std::string message) {
    Append({rank, static_cast<int>(position), ToString(action), std::move(message)});
  }
  // Adds a defect about an action that the table lacks.
  void AddAbsent(int rank, const Action& action, std::string message) {
    Append({rank, -1, ToString(action), std::move(message)});
  }
  std::vector<Defect> Take() { return std::move(defects_); }

 private:
  void Append(Defect defect) {
    if (!full()) defects_.push_back(std::move(defect));
  }
  const int limit_;
  std::vector<Defect> defects_;
};

using OpMask = uint16_t;
constexpr OpMask Bit(Op op) { return static_cast<OpMask>(1u << static_cast<unsigned>(op)); }
constexpr OpMask kMakesInputGrad = Bit(Op::kBackward) | Bit(Op::kInputGrad);
constexpr OpMask kMakesWeightGrad = Bit(Op::kBackward) | Bit(Op::kWeightGrad);

// Which ops of each (stage, micro-batch) the table holds, on the rank that holds the stage.
struct Census {
  explicit Census(const Timetable& timetable) : cell(timetable), seen(cell.size(), 0) {}
  const CellIndex cell;
  std::vector<OpMask> seen;
};

// False (and a defect) when the table is too misshapen for the other checks.
bool CheckShape(const Timetable& timetable, DefectList& defects);
// Every action is on a rank and a stage where it may be, occurs once, and is in order along its
// rank; fills `census`.
void CheckRows(const Timetable& timetable, Census& census, DefectList& defects);
// No action is absent.
void CheckComplete(const Timetable& timetable, const Census& census, DefectList& defects);
// Both ends of every directed rank pair name the same messages in the same order.
void CheckChannels(const Timetable& timetable, DefectList& defects);
// Weights change where the table's kind of update says, and a micro-batch's backward uses the
// weights of its forward.
void CheckVersions(const Timetable& timetable, DefectList& defects);
// The ranks, each running its row in order, reach their ends; sends and receives block until both
// ends are there.
void CheckProgress(const Timetable& timetable, const Census& census, DefectList& defects);

// A stage whose actions of one kind are those of most stages but numbered too high or too low: one
// cause of many defects. Only for a timetable that is not sound.
std::optional<Defect> FindMisnumbered(const Timetable& timetable);

// All of these checks but CheckShape, which must come before, and CheckProgress.
void CheckAllButProgress(const Timetable& timetable, Census& census, DefectList& defects);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CHECK_VALIDATE_CHECKS_H_
