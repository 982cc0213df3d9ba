#ifndef SLUICE_COMM_MPI_REQUEST_CACHE_H_
#define SLUICE_COMM_MPI_REQUEST_CACHE_H_

#include <mpi.h>

#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "comm/message_queue.h"

namespace sluice {

// Persistent requests that are not in use. A message with the same memory, peer and size as an
// earlier one, as every training step posts it again, takes that one's request.
class RequestCache {
 public:
  explicit RequestCache(MPI_Comm comm) : comm_(comm) {}

  // Stores a request for `post`, not started yet, in `*request`. Returns a code of MPI.
  int Get(const Post& post, MPI_Request* request);
  // Takes back the request of a message that has ended.
  void Put(const Post& post, MPI_Request request);
  // Frees all requests.
  void Clear();

 private:
  using Key = std::tuple<Direction, int, int, const char*, size_t>;
  static Key KeyOf(const Post& post) {
    return {post.direction, post.channel, post.peer, post.data, post.bytes};
  }

  const MPI_Comm comm_;
  size_t size_ = 0;
  absl::flat_hash_map<Key, std::vector<MPI_Request>> free_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_REQUEST_CACHE_H_
