#include "pipeline/compile/program/messages.h"

#include <algorithm>
#include <utility>

#include "schedules/dependency.h"

namespace sluice {

MessageScheduler::MessageScheduler(const Timetable& lowered, const StageDeal& deal, int rank,
                                   const MessageWindow& window,
                                   std::function<int64_t(const Action&)> bytes,
                                   ProgramBuilder* builder)
    : placement_(lowered.placement),
      deal_(deal),
      micro_batches_(static_cast<size_t>(lowered.micro_batches)),
      window_(window),
      bytes_(std::move(bytes)),
      builder_(*builder),
      edges_(static_cast<size_t>(deal.ranks())),
      numbers_(2 * static_cast<size_t>(placement_.stages()) * micro_batches_, -1) {
  // Each peer sends as soon as it has computed, so its row says in which order.
  for (const int row : NeighbourRows(rank)) {
    for (const Action& action : lowered.rows[static_cast<size_t>(row)]) {
      const int consumer = ConsumerStage(placement_, action.op, action.stage);
      if (consumer == kNoStage || deal_.rank(consumer, action.micro_batch) != rank) continue;
      if (deal_.rank(action.stage, action.micro_batch) != rank) Expect(action, consumer);
    }
  }
}

std::set<int> MessageScheduler::NeighbourRows(int rank) const {
  std::set<int> rows;
  for (const int stage : deal_.StagesOf(rank)) {
    for (const int neighbour : {placement_.PreviousStage(stage), placement_.NextStage(stage)}) {
      if (neighbour != kNoStage) rows.insert(placement_.rank(neighbour));
    }
  }
  return rows;
}

void MessageScheduler::Expect(const Action& producer, int consumer) {
  const Action receive{producer.op == Op::kForward ? Op::kRecvForward : Op::kRecvBackward, false,
                       static_cast<uint16_t>(consumer), producer.micro_batch};
  Edge& edge = edges_[static_cast<size_t>(PeerOf(receive))];
  numbers_[Key(receive)] = static_cast<int>(edge.expected.size());
  edge.expected.push_back(receive);
}

size_t MessageScheduler::Key(const Action& receive) const {
  const size_t direction = receive.op == Op::kRecvForward ? 0 : 1;
  return (direction * static_cast<size_t>(placement_.stages()) + receive.stage) * micro_batches_ +
         static_cast<size_t>(receive.micro_batch);
}

int MessageScheduler::PeerOf(const Action& receive) const {
  return deal_.rank(PeerStage(placement_, receive.op, receive.stage), receive.micro_batch);
}

void MessageScheduler::Open() {
  for (int peer = 0; peer < deal_.ranks(); ++peer) PostUpTo(peer, window_.receives);
}

BufferId MessageScheduler::Receive(const Action& receive) {
  const int peer = PeerOf(receive);
  const int number = numbers_[Key(receive)];
  Edge& edge = edges_[static_cast<size_t>(peer)];
  PostUpTo(peer, number + 1);
  const BufferId buffer = edge.arrivals[static_cast<size_t>(number)];
  builder_.Append({.step = Step::kWaitReceive,
                   .micro_batch = receive.micro_batch,
                   .index = peer,
                   .message = number,
                   .buffer = buffer});
  PostUpTo(peer, ++edge.waited + window_.receives);
  return buffer;
}

void MessageScheduler::PostUpTo(int peer, int count) {
  Edge& edge = edges_[static_cast<size_t>(peer)];
  const size_t wanted = std::min(static_cast<size_t>(count), edge.expected.size());
  while (edge.arrivals.size() < wanted) {
    const Action& next = edge.expected[edge.arrivals.size()];
    const auto number = static_cast<int32_t>(edge.arrivals.size());
    edge.arrivals.push_back(builder_.New(bytes_(next)));
    builder_.Append({.step = Step::kPostReceive,
                     .micro_batch = next.micro_batch,
                     .index = peer,
                     .message = number,
                     .buffer = edge.arrivals.back()});
  }
}

void MessageScheduler::Send(int peer, BufferId buffer, int micro_batch) {
  WaitSends(peer, window_.sends - 1);
  Edge& edge = edges_[static_cast<size_t>(peer)];
  const Instruction post{.step = Step::kPostSend,
                         .micro_batch = micro_batch,
                         .index = peer,
                         .message = static_cast<int32_t>(edge.sends.size()),
                         .buffer = buffer};
  builder_.Append(post);
  edge.sends.push_back(post);
}

void MessageScheduler::WaitSends(int peer, int left) {
  Edge& edge = edges_[static_cast<size_t>(peer)];
  while (edge.sends.size() > edge.sends_waited + static_cast<size_t>(left)) {
    Instruction wait = edge.sends[edge.sends_waited++];
    wait.step = Step::kWaitSend;
    builder_.Append(wait);
  }
}

void MessageScheduler::Close() {
  RankProgram& program = builder_.program();
  for (int peer = 0; peer < deal_.ranks(); ++peer) {
    WaitSends(peer, 0);
    program.sends.push_back(static_cast<int>(edges_[static_cast<size_t>(peer)].sends.size()));
    program.receives.push_back(edges_[static_cast<size_t>(peer)].waited);
  }
}

}  // namespace sluice
