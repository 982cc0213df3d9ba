#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_MESSAGES_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "pipeline/compile/program/program_builder.h"
#include "schedules/stage_deal.h"
#include "schedules/timetable.h"

namespace sluice {

// Places a rank's posts and waits: receives as early as the window allows, in the order in which
// the peer sends; waits for sends as late as it allows.
class MessageScheduler {
 public:
  // `bytes` of the message that a RECV_F or RECV_B stands for.
  MessageScheduler(const Timetable& lowered, const StageDeal& deal, int rank,
                   const MessageWindow& window, std::function<int64_t(const Action&)> bytes,
                   ProgramBuilder* builder);

  // Posts the first receives of every edge: before anything is computed.
  void Open();
  // Waits for the message of `receive` and returns its buffer.
  BufferId Receive(const Action& receive);
  void Send(int peer, BufferId buffer, int micro_batch);
  // Waits for every send that is still under way.
  void Close();

 private:
  struct Edge {
    std::vector<Action> expected;    // receives from the peer, in order
    std::vector<BufferId> arrivals;  // posted so far
    int waited = 0;
    // A rank has an edge to each other one, most of them without a message: nothing here takes memory
    // until there is one.
    std::vector<Instruction> sends;  // posted so far
    size_t sends_waited = 0;         // of the first ones
  };

  // The rows of the timetable that compute what this rank receives.
  std::set<int> NeighbourRows(int rank) const;
  // Notes that `consumer`, here, will receive what `producer` makes.
  void Expect(const Action& producer, int consumer);
  size_t Key(const Action& receive) const;
  int PeerOf(const Action& receive) const;
  void PostUpTo(int peer, int count);
  void WaitSends(int peer, int left);

  const Placement placement_;
  const StageDeal deal_;
  const size_t micro_batches_;
  const MessageWindow window_;
  const std::function<int64_t(const Action&)> bytes_;
  ProgramBuilder& builder_;
  std::vector<Edge> edges_;   // [peer]
  std::vector<int> numbers_;  // [Key]: position among the receives from its peer
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_MESSAGES_H_
