#include <algorithm>
#include <map>
#include <vector>

#include "naive.h"

namespace sluice {
namespace {

constexpr int kNowhere = -1;

class Naive {
 public:
  explicit Naive(const Timetable& table) : table_(table), lowered_(table.lowered()) {}

  bool Sound() const {
    if (static_cast<int>(table_.rows.size()) != table_.placement.ranks() ||
        table_.micro_batches < 1)
      return false;
    return PairsAreSound() && InRange() && CellsAreSound() && GradientsInOrder() &&
           ChannelsAgree() && !HasCycle();
  }

 private:
  bool PairsAreSound() const {
    for (const auto& row : table_.rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        if (!row[i].overlaps_next) continue;
        if (i + 1 == row.size() || row[i + 1].overlaps_next || row[i].op != Op::kForward)
          return false;
        const Op op = row[i + 1].op;
        if (op != Op::kBackward && op != Op::kInputGrad && op != Op::kWeightGrad) return false;
        if (row[i].stage == row[i + 1].stage && row[i].micro_batch == row[i + 1].micro_batch)
          return false;
      }
    }
    return true;
  }

  bool InRange() const {
    for (int rank = 0; rank < table_.placement.ranks(); ++rank) {
      for (const Action& a : table_.rows[rank]) {
        if (RunsNothing(a.op)) continue;
        if (a.stage >= table_.placement.stages() || table_.placement.rank(a.stage) != rank)
          return false;
        if (a.micro_batch < 0 || a.micro_batch >= table_.micro_batches) return false;
        if (!Visits(a.micro_batch, a.stage)) return false;
        if (IsCommunication(a.op) && !Crosses(a.stage, Peer(a))) return false;
      }
    }
    return true;
  }

  static int Peer(const Action& a) {
    return a.op == Op::kSendForward || a.op == Op::kRecvBackward ? a.stage + 1 : a.stage - 1;
  }
  int CopyStages() const { return table_.placement.stages() / table_.placement.copies(); }
  // Each copy of the model gets a contiguous block of micro-batches.
  bool Visits(int b, int stage) const {
    return b * table_.placement.copies() / table_.micro_batches == stage / CopyStages();
  }
  bool Crosses(int stage, int peer) const {
    return peer >= 0 && peer < table_.placement.stages() &&
           stage / CopyStages() == peer / CopyStages() &&
           table_.placement.rank(peer) != table_.placement.rank(stage);
  }
  int Count(Op op, int stage, int b) const {
    const auto& row = table_.rows[table_.placement.rank(stage)];
    return static_cast<int>(std::count_if(row.begin(), row.end(), [&](const Action& a) {
      return a.op == op && a.stage == stage && a.micro_batch == b;
    }));
  }
  int Position(Op op, int stage, int b) const {
    const auto& row = table_.rows[table_.placement.rank(stage)];
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].op == op && row[i].stage == stage && row[i].micro_batch == b)
        return static_cast<int>(i);
    }
    return kNowhere;
  }
  // Actions that are absent have no order.
  bool Before(Op first, int stage, Op second, int second_stage, int b) const {
    const int at = Position(first, stage, b);
    const int then = Position(second, second_stage, b);
    return at == kNowhere || then == kNowhere || at < then;
  }

  bool CellsAreSound() const {
    for (int s = 0; s < table_.placement.stages(); ++s) {
      for (int b = 0; b < table_.micro_batches; ++b) {
        if (Visits(b, s) && !CellIsSound(s, b)) return false;
      }
    }
    return true;
  }

  bool CellIsSound(int s, int b) const {
    const int whole = Count(Op::kBackward, s, b);
    const int input = Count(Op::kInputGrad, s, b);
    const int weight = Count(Op::kWeightGrad, s, b);
    const bool once =
        (whole == 1 && input == 0 && weight == 0) || (whole == 0 && input == 1 && weight == 1);
    if (Count(Op::kForward, s, b) != 1 || !once) return false;
    const Op grad = whole == 1 ? Op::kBackward : Op::kInputGrad;
    if (!Before(Op::kForward, s, grad, s, b) || !Before(Op::kInputGrad, s, Op::kWeightGrad, s, b))
      return false;
    if (!Before(Op::kForward, s, Op::kSendForward, s, b) ||
        !Before(grad, s, Op::kSendBackward, s, b))
      return false;
    if (!Before(Op::kRecvForward, s, Op::kForward, s, b) ||
        !Before(Op::kRecvBackward, s, grad, s, b))
      return false;
    const bool same_rank =
        s % CopyStages() > 0 && table_.placement.rank(s - 1) == table_.placement.rank(s);
    if (same_rank) {
      const Op below = Count(Op::kBackward, s - 1, b) == 1 ? Op::kBackward : Op::kInputGrad;
      if (!Before(Op::kForward, s - 1, Op::kForward, s, b) || !Before(grad, s, below, s - 1, b))
        return false;
    }
    const int down = lowered_ && Crosses(s, s + 1);
    const int up = lowered_ && Crosses(s, s - 1);
    return Count(Op::kSendForward, s, b) == down && Count(Op::kRecvBackward, s, b) == down &&
           Count(Op::kRecvForward, s, b) == up && Count(Op::kSendBackward, s, b) == up;
  }

  // All ascending, or, of one copy of the model, all the same.
  bool GradientsInOrder() const {
    bool ascending = true;
    bool same = table_.placement.copies() == 1 && table_.updates == WeightUpdates::kFlush;
    std::vector<int> first;
    for (int s = 0; s < table_.placement.stages(); ++s) {
      std::vector<int> order;
      for (const Action& a : table_.rows[table_.placement.rank(s)]) {
        if (a.stage == s && (a.op == Op::kBackward || a.op == Op::kWeightGrad))
          order.push_back(a.micro_batch);
      }
      ascending &= std::is_sorted(order.begin(), order.end());
      if (s == 0) first = order;
      same &= order == first;
    }
    return ascending || same;
  }

  struct Message {
    bool forward;
    int from_stage, b;
    int rank, position;
    bool operator==(const Message& o) const {
      return forward == o.forward && from_stage == o.from_stage && b == o.b;
    }
  };

  // [from rank, to rank] -> messages in row order, at the sending or the receiving end.
  std::map<std::pair<int, int>, std::vector<Message>> Messages(bool sending) const {
    std::map<std::pair<int, int>, std::vector<Message>> result;
    for (int rank = 0; rank < table_.placement.ranks(); ++rank) {
      for (size_t i = 0; i < table_.rows[rank].size(); ++i) {
        const Action& a = table_.rows[rank][i];
        const bool send = a.op == Op::kSendForward || a.op == Op::kSendBackward;
        if (!IsCommunication(a.op) || send != sending) continue;
        const bool forward = a.op == Op::kSendForward || a.op == Op::kRecvForward;
        const int other = table_.placement.rank(Peer(a));
        const std::pair<int, int> channel = send ? std::pair(rank, other) : std::pair(other, rank);
        result[channel].push_back(
            {forward, send ? a.stage : Peer(a), a.micro_batch, rank, static_cast<int>(i)});
      }
    }
    return result;
  }

  bool ChannelsAgree() const { return Messages(true) == Messages(false); }

  // A graph with one node per action, where both halves of a pair are one node, and so are a send
  // and its receive (blocking rendezvous). Edges follow rows and data. The execution cannot finish
  // exactly if the graph has a cycle.
  bool HasCycle() const {
    std::map<std::pair<int, int>, int> node;
    int nodes = 0;
    for (int rank = 0; rank < table_.placement.ranks(); ++rank) {
      for (size_t i = 0; i < table_.rows[rank].size(); ++i) {
        const bool second = i > 0 && table_.rows[rank][i - 1].overlaps_next;
        node[{rank, static_cast<int>(i)}] = second ? nodes - 1 : nodes++;
      }
    }
    const auto sent = Messages(true);
    const auto received = Messages(false);
    for (const auto& [channel, list] : sent) {
      for (size_t k = 0; k < list.size(); ++k) {
        const Message& other = received.at(channel)[k];
        node[{list[k].rank, list[k].position}] = node[{other.rank, other.position}];
      }
    }
    std::vector<std::pair<int, int>> edges;
    for (int rank = 0; rank < table_.placement.ranks(); ++rank) {
      for (int i = 1; i < static_cast<int>(table_.rows[rank].size()); ++i) {
        const int from = node[{rank, i - 1}];
        if (from != node[{rank, i}]) edges.emplace_back(from, node[{rank, i}]);
      }
    }
    for (int s = 0; s + 1 < table_.placement.stages() && !lowered_; ++s) {
      const int here = table_.placement.rank(s);
      const int there = table_.placement.rank(s + 1);
      for (int b = 0; b < table_.micro_batches; ++b) {
        if (!Visits(b, s) || !Visits(b, s + 1)) continue;
        edges.emplace_back(node[{here, Position(Op::kForward, s, b)}],
                           node[{there, Position(Op::kForward, s + 1, b)}]);
        edges.emplace_back(node[{there, Gradient(s + 1, b)}], node[{here, Gradient(s, b)}]);
      }
    }
    // Remove nodes without a predecessor until there are none.
    std::vector<bool> gone(nodes, false);
    for (bool peeled = true; peeled;) {
      peeled = false;
      std::vector<bool> blocked(nodes, false);
      for (const auto& [from, to] : edges) blocked[to] = blocked[to] || !gone[from];
      for (int n = 0; n < nodes; ++n) {
        if (gone[n] || blocked[n]) continue;
        gone[n] = peeled = true;
      }
    }
    return std::find(gone.begin(), gone.end(), false) != gone.end();
  }
  int Gradient(int s, int b) const {
    const int whole = Position(Op::kBackward, s, b);
    return whole == kNowhere ? Position(Op::kInputGrad, s, b) : whole;
  }

  const Timetable& table_;
  const bool lowered_;
};

}  // namespace

bool NaiveIsSound(const Timetable& table) { return Naive(table).Sound(); }

}  // namespace sluice
