#include "absl/strings/str_cat.h"
#include "schedules/channels.h"
#include "schedules/check/validate_checks.h"

namespace sluice {
namespace {

class Progress {
 public:
  Progress(const Timetable& timetable, const Census& census)
      : table_(timetable),
        census_(census),
        channels_(timetable.placement),
        lowered_(timetable.lowered()),
        ran_(lowered_ ? 0 : census.cell.size(), 0),
        next_(timetable.rows.size(), 0),
        queued_(timetable.rows.size(), true) {}

  void Run() {
    for (int rank = static_cast<int>(next_.size()) - 1; rank >= 0; --rank) queue_.push_back(rank);
    while (!queue_.empty()) {
      const int rank = queue_.back();
      queue_.pop_back();
      queued_[rank] = false;
      while (Step(rank)) {
      }
    }
  }

  void Report(DefectList& defects) const {
    bool stuck = false;
    std::vector<int> visit(next_.size(), -1);
    for (int from = 0; from < static_cast<int>(next_.size()); ++from) {
      stuck |= !Finished(from);
      int rank = from;
      while (!Finished(rank) && visit[rank] == -1) {
        visit[rank] = from;
        rank = WaitsFor(rank);
      }
      // A rank that waits for itself has its row out of order, which CheckRows reports.
      if (!Finished(rank) && visit[rank] == from && WaitsFor(rank) != rank)
        ReportCycle(rank, defects);
    }
    if (!stuck || !defects.empty()) return;
    for (int rank = 0; rank < static_cast<int>(next_.size()); ++rank) {
      if (!Finished(rank)) defects.Add(rank, next_[rank], Head(rank), "is never able to run");
    }
  }

 private:
  bool Finished(int rank) const { return next_[rank] >= table_.rows[rank].size(); }
  const Action& Head(int rank) const { return table_.rows[rank][next_[rank]]; }

  void Wake(int rank) {
    if (queued_[rank]) return;
    queued_[rank] = true;
    queue_.push_back(rank);
  }

  // Runs the next action of `rank`, if it can run.
  bool Step(int rank) {
    if (Finished(rank)) return false;
    const Action& action = Head(rank);
    if (IsCommunication(action.op)) return Meet(rank, action);
    if (Awaited(rank) != kNoStage) return false;
    const size_t count = action.overlaps_next && next_[rank] + 1 < table_.rows[rank].size() ? 2 : 1;
    for (size_t i = 0; i < count; ++i, ++next_[rank]) Finish(rank, Head(rank));
    return true;
  }

  // A send and its receive run when both are next on their ranks.
  bool Meet(int rank, const Action& action) {
    const int channel = ChannelOf(channels_, table_.placement, rank, action);
    if (channel < 0) {
      ++next_[rank];
      return true;
    }
    const int peer = PeerRank(rank, channel);
    if (Finished(peer)) return false;
    const Action& other = Head(peer);
    if (!IsCommunication(other.op) || IsSend(other.op) == IsSend(action.op) ||
        ChannelOf(channels_, table_.placement, peer, other) != channel) {
      return false;
    }
    ++next_[rank];
    ++next_[peer];
    Wake(peer);
    return true;
  }

  int PeerRank(int rank, int channel) const {
    const auto& [from, to] = channels_.ranks(channel);
    return rank == from ? to : from;
  }

  // The stage, on another rank, that the next action (or pair) of `rank` still waits for. For data
  // that a lowered table receives, and for data from the same rank, CheckRows checks the order of
  // the row.
  int Awaited(int rank) const {
    const auto& row = table_.rows[rank];
    if (lowered_) return kNoStage;
    for (size_t i = next_[rank]; i < row.size(); ++i) {
      const int producer = AwaitedBy(rank, row[i]);
      if (producer != kNoStage || !row[i].overlaps_next) return producer;
    }
    return kNoStage;
  }

  int AwaitedBy(int rank, const Action& action) const {
    const Placement& placement = table_.placement;
    if (!IsCompute(action.op) || !Belongs(rank, action)) return kNoStage;
    const int producer = ProducerStage(placement, action.op, action.stage);
    if (producer == kNoStage || placement.rank(producer) == rank) return kNoStage;
    const OpMask makes = action.op == Op::kForward ? Bit(Op::kForward) : kMakesInputGrad;
    const size_t cell = census_.cell(producer, action.micro_batch);
    if (ran_[cell] & makes) return kNoStage;
    // CheckComplete reports an action that is absent; waiting for it would hide other defects.
    return census_.seen[cell] & makes ? producer : kNoStage;
  }

  // An action outside the table is reported by another check; here it neither waits nor wakes a
  // rank.
  bool Belongs(int rank, const Action& action) const {
    return action.stage < table_.placement.stages() && action.micro_batch >= 0 &&
           action.micro_batch < table_.micro_batches && table_.placement.rank(action.stage) == rank;
  }

  void Finish(int rank, const Action& action) {
    // In a lowered table, ranks wait for nothing but messages.
    if (lowered_ || !IsCompute(action.op) || !Belongs(rank, action)) return;
    ran_[census_.cell(action)] |= Bit(action.op);
    const int consumer = ConsumerStage(table_.placement, action.op, action.stage);
    if (consumer != kNoStage) Wake(table_.placement.rank(consumer));
  }

  int WaitsFor(int rank) const {
    const Action& action = Head(rank);
    if (IsCommunication(action.op))
      return PeerRank(rank, ChannelOf(channels_, table_.placement, rank, action));
    return table_.placement.rank(Awaited(rank));
  }

  void ReportCycle(int first, DefectList& defects) const {
    std::string text =
        lowered_ ? "deadlock: " : "the rows and the data dependencies form a cycle: ";
    int rank = first;
    do {
      absl::StrAppend(&text, rank == first ? "" : ", ", "rank ", rank, " waits at position ",
                      next_[rank], " (", ToString(Head(rank)), ") for rank ", WaitsFor(rank));
      rank = WaitsFor(rank);
    } while (rank != first);
    defects.Add(first, next_[first], Head(first), text);
  }

  const Timetable& table_;
  const Census& census_;
  const Channels channels_;
  const bool lowered_;
  std::vector<OpMask> ran_;
  std::vector<size_t> next_;
  std::vector<bool> queued_;
  std::vector<int> queue_;
};

}  // namespace

void CheckProgress(const Timetable& timetable, const Census& census, DefectList& defects) {
  Progress progress(timetable, census);
  progress.Run();
  progress.Report(defects);
}

}  // namespace sluice
