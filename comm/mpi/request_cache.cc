#include "comm/mpi/request_cache.h"

#include "comm/mpi/byte_type.h"

namespace sluice {

int RequestCache::Get(const Post& post, MPI_Request* request) {
  std::vector<MPI_Request>& free = free_[KeyOf(post)];
  if (!free.empty()) {
    *request = free.back();
    free.pop_back();
    --size_;
    return MPI_SUCCESS;
  }
  const ByteType bytes(post.bytes);
  if (bytes.code() != MPI_SUCCESS) return bytes.code();
  if (post.direction == Direction::kSend) {
    return MPI_Send_init(post.data, bytes.count(), bytes.type(), post.peer, post.channel, comm_,
                         request);
  }
  return MPI_Recv_init(post.data, bytes.count(), bytes.type(), post.peer, post.channel, comm_,
                       request);
}

void RequestCache::Put(const Post& post, MPI_Request request) {
  constexpr size_t kMost = 4096;
  if (size_ >= kMost) Clear();
  free_[KeyOf(post)].push_back(request);
  ++size_;
}

void RequestCache::Clear() {
  for (auto& [key, requests] : free_) {
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
  free_.clear();
  size_ = 0;
}

}  // namespace sluice
