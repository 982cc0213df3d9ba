// How ranks meet over NCCL: who has which GPU, where the ends of each edge meet, and a message on
// every edge, so that nothing is left to be set up in a step.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/where.h"

namespace sluice {
namespace {

constexpr absl::Duration kGlance = absl::Milliseconds(50);
constexpr absl::Duration kSayFirst = absl::Milliseconds(500);

// The same in every process, as absl::Hash is not (FNV-1a). 32 bits are exact in a double.
uint32_t Fingerprint(absl::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  return hash;
}

// What an edge's first message says.
struct Greeting {
  int32_t from = -1;
  int32_t to = -1;
  std::array<char, 248> rest = {};
};

// One rank's part in the meeting; each function needs all ranks to call it.
class Meeting {
 public:
  Meeting(const NcclOptions& options, Communicator* host, Device* device, Stream compute)
      : options_(options),
        host_(*host),
        device_(*device),
        compute_(compute),
        rank_(host->rank()),
        deadline_(Instant::Now() + options.timeout) {}

  absl::Status Run();
  NcclEdges TakeEdges() { return std::move(edges_); }

 private:
  absl::Status MakeEdges();
  absl::Status CompareGpus();
  absl::Status ShareIds();
  absl::Status Connect();
  absl::Status Greet();
  absl::Status AwaitStream(const NcclEdge& edge);

  const NcclOptions& options_;
  Communicator& host_;
  Device& device_;
  const Stream compute_;
  const int rank_;
  const Instant deadline_;
  std::string all_edges_;
  NcclEdges edges_;
  std::vector<NcclId> ids_;  // [edge]
};

absl::Status Meeting::MakeEdges() {
  std::vector<std::pair<int, int>> all = options_.edges;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const auto& [from, to] : all) {
    absl::StrAppend(&all_edges_, from, ">", to, " ");
    if (std::min(from, to) < 0 || std::max(from, to) >= host_.size())
      return absl::InvalidArgumentError(absl::StrCat("there is no edge from rank ", from,
                                                     " to rank ", to, " among ", host_.size()));
    if (from == to || (from != rank_ && to != rank_)) continue;
    const NcclEdge::Where where{
        .from = from, .to = to, .end = from == rank_ ? NcclEdge::kSender : NcclEdge::kReceiver};
    edges_.push_back(
        std::make_unique<NcclEdge>(options_.nccl, &device_, compute_, where, options_.capacity));
  }
  return absl::OkStatus();
}

// Before NCCL sees it: its own error comes late, on some ranks, and says less.
absl::Status Meeting::CompareGpus() {
  const std::string host = options_.host.empty() ? ThisHost() : options_.host;
  const std::string gpu = options_.nccl->GpuName(options_.ordinal);
  constexpr size_t kFields = 4;
  const std::array<double, kFields> mine = {
      static_cast<double>(Fingerprint(host)), static_cast<double>(Fingerprint(gpu)),
      static_cast<double>(options_.ordinal), static_cast<double>(Fingerprint(all_edges_))};
  std::vector<double> all(kFields * static_cast<size_t>(host_.size()));
  absl::Status status = host_.AllGather(mine, absl::MakeSpan(all), deadline_);
  if (!status.ok()) return status;
  for (size_t b = 0; b < all.size(); b += kFields) {
    if (all[b + 3] != all[3])
      return absl::InternalError(absl::StrCat("ranks 0 and ", b / kFields,
                                              " do not agree on the edges that they will use"));
    for (size_t a = 0; a < b; a += kFields) {
      if (all[a] != all[b] || all[a + 1] != all[b + 1]) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "ranks ", a / kFields, " and ", b / kFields, " are both on GPU ", all[a + 2],
          " of one machine, and NCCL joins only ranks that each have their own: use --transport "
          "inprocess, or start each rank as a process with its own NCCL_HOSTID"));
    }
  }
  return absl::OkStatus();
}

absl::Status Meeting::ShareIds() {
  if (std::getenv("NCCL_COMM_ID") != nullptr)
    return absl::FailedPreconditionError(
        "NCCL_COMM_ID is set: it is one meeting place, and every edge needs its own; unset it, "
        "the ranks tell each other where to meet");
  ids_.resize(edges_.size());
  std::vector<Ticket> tickets(edges_.size());
  absl::Status status;
  for (size_t i = 0; status.ok() && i < edges_.size(); ++i) {
    const NcclEdge::Where& where = edges_[i]->where();
    if (where.end == NcclEdge::kReceiver) {
      status = host_.PostReceive(where.from, &ids_[i], sizeof(NcclId), &tickets[i]);
      continue;
    }
    status = NcclStatus(options_.nccl->NewId(&ids_[i]),
                        absl::StrCat("finding a meeting place ", edges_[i]->Name()),
                        options_.nccl->LastError({}));
    if (status.ok()) status = host_.PostSend(where.to, &ids_[i], sizeof(NcclId), &tickets[i]);
  }
  for (size_t i = 0; status.ok() && i < edges_.size(); ++i) {
    const NcclEdge::Where& where = edges_[i]->where();
    status = where.end == NcclEdge::kReceiver ? host_.WaitReceive(where.from, tickets[i], deadline_)
                                              : host_.WaitSend(where.to, tickets[i], deadline_);
  }
  return status;
}

// All are begun before any is waited for, so no order among the ranks' edges can block.
absl::Status Meeting::Connect() {
  for (size_t i = 0; i < edges_.size(); ++i) {
    absl::Status status = edges_[i]->Connect(options_.ordinal, ids_[i], options_.max_ctas);
    if (!status.ok()) return status;
  }
  absl::Status status = AwaitReady(edges_, host_, deadline_);
  // Together from here on: who is late names the edge first, before those that wait for it.
  return status.ok() ? host_.Barrier(deadline_ + kSayFirst) : status;
}

absl::Status Meeting::AwaitStream(const NcclEdge& edge) {
  while (true) {
    const Instant until = std::min(deadline_, Instant::Now() + kGlance);
    absl::Status status = device_.Synchronize(edge.stream(), until);
    if (!absl::IsDeadlineExceeded(status)) return status;
    if (absl::Status failure = host_.failure(); !failure.ok()) return failure;
    if (Instant::Now() >= deadline_)
      return absl::DeadlineExceededError(
          absl::StrCat("NCCL: the first message ", edge.Name(), " did not arrive in time"));
  }
}

absl::Status Meeting::Greet() {
  absl::StatusOr<DeviceMemory> memory =
      device_.Allocate(static_cast<int64_t>(edges_.size() * sizeof(Greeting)));
  if (!memory.ok()) return memory.status();
  const auto slot = [&](size_t i) { return memory->data() + i * sizeof(Greeting); };
  absl::Status status;
  for (size_t i = 0; status.ok() && i < edges_.size(); ++i) {
    NcclEdge& edge = *edges_[i];
    const Greeting greeting{.from = edge.where().from, .to = edge.where().to};
    if (edge.where().end == NcclEdge::kSender)
      device_.Copy(edge.stream(), slot(i), &greeting, sizeof(Greeting));
    status = edge.Transfer(slot(i), sizeof(Greeting));
  }
  if (status.ok()) status = AwaitReady(edges_, host_, deadline_);
  for (size_t i = 0; status.ok() && i < edges_.size(); ++i) {
    const NcclEdge& edge = *edges_[i];
    status = AwaitStream(edge);
    if (!status.ok()) break;
    Greeting greeting;
    device_.Copy(edge.stream(), &greeting, slot(i), sizeof(Greeting));
    status = AwaitStream(edge);  // a GPU that is lost by now has copied nothing
    if (!status.ok()) break;
    if (greeting.from != edge.where().from || greeting.to != edge.where().to)
      status = WithPeer(absl::UnavailableError(absl::StrCat("NCCL: what was sent ", edge.Name(),
                                                            " is not what arrived")),
                        edge.peer());
  }
  if (!status.ok()) AbortAll(edges_);  // before the memory goes: that waits for all that is queued
  return status;
}

absl::Status Meeting::Run() {
  absl::Status status = MakeEdges();
  if (status.ok()) status = CompareGpus();
  if (status.ok()) status = ShareIds();
  if (status.ok()) status = Connect();
  if (status.ok()) status = Greet();
  if (!status.ok()) AbortAll(edges_);
  return status;
}

}  // namespace

std::string ThisHost() {
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr && *id != '\0') return id;
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return absl::StrCat(name.data(), " ", boot);
}

void PrepareEnvironmentForNccl() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // Over what the environment says, which is often LAZY because PyTorch has put it there: loading a
  // kernel may wait for all that run, and a receive runs until its message comes (CUDA Programming
  // Guide, "Lazy Loading", potential hazards).
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> ConnectNccl(const NcclOptions& options,
                                                              Communicator* host, Device* device,
                                                              Stream compute) {
  Meeting meeting(options, host, device, compute);
  if (absl::Status status = meeting.Run(); !status.ok()) {
    host->Abort(status);
    absl::Status first = host->failure();
    return first.ok() ? status : first;
  }
  return std::make_unique<NcclEnd>(options, host, device, compute, meeting.TakeEdges());
}

}  // namespace sluice
