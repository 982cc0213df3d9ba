#include "schedules/optimise/problem/one_rank.h"

#include <utility>
#include <vector>

namespace sluice::optimise {

Problem OneRankOf(const Relaxation& whole, int rank) {
  const Problem& all = whole.problem();
  const std::vector<int>& stages = all.stages_of[rank];
  Problem one;
  one.placement = Placement::Looped(1, static_cast<int>(stages.size()));
  one.ranks = 1;
  one.stages = static_cast<int>(stages.size());
  one.micro_batches = all.micro_batches;
  one.stages_of = {{}};
  one.head = {all.head[rank]};
  one.grace = {all.grace[rank]};
  for (size_t i = 0; i < stages.size(); ++i) {
    const int s = stages[i];
    one.stages_of[0].push_back(static_cast<int>(i));
    one.forward.push_back(all.forward[s]);
    one.input_grad.push_back(all.input_grad[s]);
    one.weight_grad.push_back(all.weight_grad[s]);
    one.backward.push_back(all.backward[s]);
    one.fused.push_back(0);
    // What lies between this stage and the rank's next one, or the end of the model, on other
    // ranks.
    const bool last = i + 1 == stages.size();
    const int end = last ? all.stages : stages[i + 1];
    double there = 0, back = 0;
    for (int between = s; between < end; ++between) {
      if (between > s) {
        there += all.forward[between];
        back += all.input_grad[between];
      }
      if (between + 1 == all.stages) continue;
      there += all.hop[between];
      back += all.way_back[between];
    }
    if (last) {
      one.turn = there + back;
    } else {
      one.hop.push_back(there);
      one.way_back.push_back(back);
    }
  }
  for (const MemoryRule& rule : all.memory) {
    MemoryRule own{{}, {}, {rule.limit[rank]}, {rule.reserve[rank]}};
    for (int s : stages) {
      own.held.push_back(rule.held[s]);
      own.kept.push_back(rule.kept[s]);
    }
    one.memory.push_back(std::move(own));
  }
  const int first = stages.front();
  for (int k = 0; k < all.micro_batches; ++k) {
    one.arrival.push_back(whole.heads().forward[all.cell(first, k)]);
    one.after.push_back(whole.tails().input_grad[all.cell(first, k)]);
  }
  return one;
}

}  // namespace sluice::optimise
