#ifndef SLUICE_COMM_MPI_REQUESTS_H_
#define SLUICE_COMM_MPI_REQUESTS_H_

#include <mpi.h>

#include <vector>

#include "absl/strings/string_view.h"
#include "comm/message_queue.h"
#include "comm/mpi/request_cache.h"

namespace sluice {

// The messages of a group that are under way, as requests of MPI. Used by the group's thread alone.
// Program and collective messages go under the numbers of their channels as MPI's tags. What goes
// wrong is told to the queue.
class MpiRequests {
 public:
  MpiRequests(MPI_Comm comm, MessageQueue* queue);

  // Starts what has been posted since the last call; returns whether there was anything.
  bool StartPosts();
  // Completes the messages that have ended; returns whether there were any.
  bool FinishMessages();
  // Cancels all receives that are under way; FinishMessages then sees their ends.
  void CancelReceives();
  // Takes messages from the wire that no receive will ever take, so that their senders can end.
  void Drain();
  // The messages that are under way.
  const std::vector<Post>& active() const { return posts_; }
  // Frees the requests that are not in use.
  void Clear() { cache_.Clear(); }

 private:
  // MPI may end the messages of an edge out of order (a short one before a long one), while waiters
  // count them in order.
  struct EdgeOrder {
    Ticket next = 0;
    std::vector<Ticket> early;
  };

  void Start(const Post& post);
  void Finish(const Post& post, MPI_Request request, const MPI_Status& status, bool has_error);
  bool HasExpectedSize(const Post& post, const MPI_Status& status);
  void Complete(const Post& post);
  void Remove(size_t index);
  void Expect(int code, absl::string_view what);
  EdgeOrder& EdgeOf(const Post& post);

  const MPI_Comm comm_;
  MessageQueue& queue_;
  RequestCache cache_;
  // Under way: MPI wants an array of the handles, beside what each of them is for.
  std::vector<MPI_Request> requests_;
  std::vector<Post> posts_;
  std::vector<EdgeOrder> edges_;  // [direction][channel][peer]
  // Work memory of the calls above.
  std::vector<Post> taken_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<char> drained_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_REQUESTS_H_
