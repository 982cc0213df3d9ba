#ifndef SLUICE_COMM_WIRE_COMMUNICATOR_H_
#define SLUICE_COMM_WIRE_COMMUNICATOR_H_

#include <utility>

#include "comm/message_queue.h"
#include "comm/queue_communicator.h"

namespace sluice {

// The rank's end of every transport that has a thread of its own. A transport derives from it, and
// its thread takes the posts from queue().
class WireCommunicator : public QueueCommunicator {
 public:
  Communicator* background() override { return &background_; }

 protected:
  explicit WireCommunicator(MessageQueue::Options options)
      : QueueCommunicator(&queue_, {kProgramChannel, kCollectiveChannel}),
        queue_(std::move(options)),
        background_(&queue_, {kBackgroundChannel, kBackgroundCollectiveChannel}) {}
  MessageQueue& queue() { return queue_; }

 private:
  MessageQueue queue_;
  QueueCommunicator background_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_WIRE_COMMUNICATOR_H_
