#include "rendezvous.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// The data of a rank: (is activation, stage that made it, micro-batch).
using Tensor = std::tuple<bool, int, int>;

class Machine {
 public:
  explicit Machine(const Timetable& table)
      : table_(table), next_(table.rows.size(), 0), has_(table.rows.size()) {}

  // Ranks that may move next.
  std::vector<int> Able() const {
    std::vector<int> able;
    for (int rank = 0; rank < static_cast<int>(next_.size()); ++rank) {
      if (CanMove(rank)) able.push_back(rank);
    }
    return able;
  }
  bool Finished() const {
    for (int rank = 0; rank < static_cast<int>(next_.size()); ++rank) {
      if (!Done(rank)) return false;
    }
    return true;
  }
  // What `rank` makes of it.
  Machine After(int rank) const {
    Machine after = *this;
    after.Move(rank);
    return after;
  }
  const std::vector<size_t>& positions() const { return next_; }
  const std::string& error() const { return error_; }

  std::string Run(Random& random, bool greedy) {
    while (true) {
      const std::vector<int> able = Able();
      if (!error_.empty() || Finished()) return error_;
      if (able.empty()) return "deadlock";
      const auto furthest = [&](int a, int b) { return next_[a] < next_[b]; };
      Move(greedy ? *std::max_element(able.begin(), able.end(), furthest)
                  : able[Draw(random, 0, static_cast<int>(able.size()) - 1)]);
    }
  }

 private:
  bool Done(int rank) const { return next_[rank] == table_.rows[rank].size(); }
  const Action& Head(int rank) const { return table_.rows[rank][next_[rank]]; }
  static bool Sends(const Action& a) {
    return a.op == Op::kSendForward || a.op == Op::kSendBackward;
  }
  static bool Forwards(const Action& a) {
    return a.op == Op::kSendForward || a.op == Op::kRecvForward || a.op == Op::kForward;
  }
  int Peer(const Action& a) const {
    return Sends(a) == Forwards(a) ? table_.placement.NextStage(a.stage)
                                   : table_.placement.PreviousStage(a.stage);
  }

  // A message moves when its sender moves, which requires the receiver to be at a receive from it.
  bool CanMove(int rank) const {
    if (Done(rank)) return false;
    const Action& head = Head(rank);
    if (!IsCommunication(head.op)) return true;
    if (!Sends(head)) return false;
    const int to = table_.placement.rank(Peer(head));
    if (Done(to)) return false;
    const Action& other = Head(to);
    return IsCommunication(other.op) && !Sends(other) && table_.placement.rank(Peer(other)) == rank;
  }

  void Move(int rank) {
    const Action& head = Head(rank);
    if (Sends(head)) {
      const int to = table_.placement.rank(Peer(head));
      const Action& other = Head(to);
      const bool same = Forwards(head) == Forwards(other) && Peer(head) == other.stage &&
                        head.micro_batch == other.micro_batch;
      if (!same) error_ = ToString(head) + " meets " + ToString(other);
      Use(rank, {Forwards(head), head.stage, head.micro_batch}, head);
      has_[to].insert({Forwards(head), head.stage, head.micro_batch});
      ++next_[to];
      ++next_[rank];
      return;
    }
    const size_t last = next_[rank] + (head.overlaps_next ? 1 : 0);
    for (size_t i = next_[rank]; i <= last; ++i) Compute(rank, table_.rows[rank][i]);
    next_[rank] = last + 1;
  }

  void Compute(int rank, const Action& a) {
    const bool gradient = a.op == Op::kBackward || a.op == Op::kInputGrad;
    if (a.op != Op::kForward && !gradient) return;
    const int from =
        Forwards(a) ? table_.placement.PreviousStage(a.stage) : table_.placement.NextStage(a.stage);
    if (from != kNoStage) Use(rank, {Forwards(a), from, a.micro_batch}, a);
    has_[rank].insert({Forwards(a), a.stage, a.micro_batch});
  }

  void Use(int rank, const Tensor& tensor, const Action& by) {
    if (has_[rank].count(tensor) == 0) error_ = ToString(by) + " lacks its data";
  }

  const Timetable& table_;
  std::vector<size_t> next_;
  std::vector<std::set<Tensor>> has_;
  std::string error_;
};

}  // namespace

std::string RunWithRendezvous(const Timetable& lowered, Random& random, bool greedy) {
  return Machine(lowered).Run(random, greedy);
}

EveryWay RunEveryWay(const Timetable& lowered) {
  EveryWay all;
  std::set<std::vector<size_t>> seen;
  std::vector<Machine> open = {Machine(lowered)};
  seen.insert(open.back().positions());
  while (!open.empty()) {
    const Machine machine = std::move(open.back());
    open.pop_back();
    ++all.states;
    const std::vector<int> able = machine.Able();
    if (!machine.error().empty()) {
      all.wrong = machine.error();
    } else if (able.empty() && !machine.Finished()) {
      all.wrong = "deadlock";
    }
    if (!all.wrong.empty()) return all;
    for (const int rank : able) {
      Machine after = machine.After(rank);
      if (seen.insert(after.positions()).second) open.push_back(std::move(after));
    }
  }
  return all;
}

}  // namespace sluice
