#include "comm/mpi/requests.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "comm/mpi/byte_type.h"
#include "comm/mpi/error.h"

namespace sluice {

MpiRequests::MpiRequests(MPI_Comm comm, MessageQueue* queue)
    : comm_(comm),
      queue_(*queue),
      cache_(comm),
      edges_(size_t{2} * kChannels * static_cast<size_t>(queue->size())) {}

void MpiRequests::Expect(int code, absl::string_view what) {
  if (code != MPI_SUCCESS) queue_.Fail(FromMpi(code, what));
}

bool MpiRequests::StartPosts() {
  taken_.clear();
  queue_.Take(&taken_);
  for (const Post& post : taken_) Start(post);
  return !taken_.empty();
}

void MpiRequests::Start(const Post& post) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = cache_.Get(post, &request);
  if (code == MPI_SUCCESS) code = MPI_Start(&request);
  if (code != MPI_SUCCESS) {
    Expect(code, absl::StrCat("message with rank ", post.peer));
    return;
  }
  requests_.push_back(request);
  posts_.push_back(post);
}

bool MpiRequests::FinishMessages() {
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int done = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done,
                                indices_.data(), statuses_.data());
  if (done == MPI_UNDEFINED || done == 0) {
    Expect(code, "progress");
    return false;
  }
  for (int i = 0; i < done; ++i) {
    const auto index = static_cast<size_t>(indices_[static_cast<size_t>(i)]);
    Finish(posts_[index], requests_[index], statuses_[static_cast<size_t>(i)],
           code == MPI_ERR_IN_STATUS);
  }
  std::sort(indices_.begin(), indices_.begin() + done, std::greater<>());
  for (int i = 0; i < done; ++i) Remove(static_cast<size_t>(indices_[static_cast<size_t>(i)]));
  return true;
}

void MpiRequests::Remove(size_t index) {
  requests_[index] = requests_.back();
  posts_[index] = posts_.back();
  requests_.pop_back();
  posts_.pop_back();
}

void MpiRequests::Finish(const Post& post, MPI_Request request, const MPI_Status& status,
                         bool has_error) {
  cache_.Put(post, request);
  int cancelled = 0;
  MPI_Test_cancelled(&status, &cancelled);
  if (cancelled != 0 || !HasExpectedSize(post, status)) return;
  if (has_error && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
    Expect(status.MPI_ERROR, absl::StrCat("message ", post.ticket, " with rank ", post.peer));
    return;
  }
  Complete(post);
}

bool MpiRequests::HasExpectedSize(const Post& post, const MPI_Status& status) {
  if (post.direction == Direction::kSend) return true;
  MPI_Count bytes = 0;
  MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  if (static_cast<size_t>(bytes) == post.bytes) return true;
  queue_.Fail(DifferentSizes(post.ticket, post.peer, queue_.rank(), static_cast<size_t>(bytes),
                             post.bytes));
  return false;
}

MpiRequests::EdgeOrder& MpiRequests::EdgeOf(const Post& post) {
  const size_t queue =
      static_cast<size_t>(post.direction) * kChannels + static_cast<size_t>(post.channel);
  return edges_[queue * static_cast<size_t>(queue_.size()) + static_cast<size_t>(post.peer)];
}

void MpiRequests::Complete(const Post& post) {
  EdgeOrder& edge = EdgeOf(post);
  edge.early.push_back(post.ticket);
  for (auto found = edge.early.begin(); found != edge.early.end();
       found = std::find(edge.early.begin(), edge.early.end(), edge.next)) {
    if (*found != edge.next) continue;
    edge.early.erase(found);
    ++edge.next;
    queue_.Complete(post.direction, post.channel, post.peer);
  }
}

void MpiRequests::CancelReceives() {
  for (size_t i = 0; i < posts_.size(); ++i) {
    if (posts_[i].direction == Direction::kReceive) MPI_Cancel(&requests_[i]);
  }
}

void MpiRequests::Drain() {
  for (int channel = 0; channel < kChannels; ++channel) {
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    while (MPI_Improbe(MPI_ANY_SOURCE, channel, comm_, &there, &message, &status) == MPI_SUCCESS &&
           there != 0) {
      MPI_Count count = 0;
      MPI_Get_elements_x(&status, MPI_BYTE, &count);
      drained_.resize(static_cast<size_t>(count));
      const ByteType bytes(drained_.size());
      MPI_Mrecv(drained_.data(), bytes.count(), bytes.type(), &message, MPI_STATUS_IGNORE);
    }
  }
}

}  // namespace sluice
