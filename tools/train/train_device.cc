#include "tools/train/train_device.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "models/kernels/kernels.h"
#include "models/spec/units.h"
#include "partitioner/planning/answer/head_advice.h"
#include "pipeline/compile/replicas/tensor_edges.h"
#include "tools/command.h"

namespace sluice {
namespace {

// The device `number` of `count` for a rank of this process: neighbours share one.
int DeviceOf(int rank, int ranks, int count) {
  // Without any device, opening one gives the error.
  return rank * std::clamp(count, 1, ranks) / ranks;
}

}  // namespace

absl::Status CheckDeviceMemory(const RunPlan& plan, const std::vector<int>& ranks,
                               const Device& device, int64_t freed) {
  const int64_t free = device.AvailableBytes();
  int64_t bytes = 0;
  std::string each;
  for (int rank : ranks) {
    const RankMemory& memory = plan.arenas[static_cast<size_t>(rank)].memory;
    bytes += memory.total;
    absl::StrAppend(&each, each.empty() ? "" : "; ", "rank ", rank, ": ", DescribeArena(memory));
  }
  if (free < 0 || bytes <= free + freed) return absl::OkStatus();
  const RunRequest& run = plan.request;
  const int head = RankOfLayers(plan).back();
  const bool has_head =
      absl::c_any_of(ranks, [&](int rank) { return plan.pipeline_rank(rank) == head; });
  const std::string advice =
      has_head ? HeadAdvice(run.spec, run.batch, run.dtype, run.kernels->head_limits, free + freed)
               : "";
  return WithExitCode(
      absl::ResourceExhaustedError(
          absl::StrCat(device.name(), " has ", DescribeMemory(free + freed),
                       " free and the run needs ", DescribeMemory(bytes), " there (", each,
                       "); take more devices or stages, smaller micro-batches, or --recompute full",
                       advice.empty() ? "" : ". ", advice)),
      kExitNoPlan);
}

absl::Status RunDevices::Open(const RunPlan& plan, const std::vector<int>& ranks,
                              const std::vector<int>& numbers, const OpenDevice& open,
                              NcclApi* nccl) {
  std::map<int, std::vector<size_t>> sharing;  // [number]: positions among the ranks
  for (size_t i = 0; i < ranks.size(); ++i) sharing[numbers[i]].push_back(i);
  ranks_.resize(ranks.size());
  for (const auto& [number, positions] : sharing) {
    DeviceAllocator allocator;
    if (nccl != nullptr) {
      memory_[number] = std::make_unique<NcclMemory>(nccl);
      allocator = memory_[number]->Allocator();
    }
    absl::StatusOr<std::unique_ptr<Device>> device = open(number, allocator);
    if (!device.ok()) return device.status();
    devices_.push_back(*std::move(device));
    std::vector<int> of_device;
    for (size_t position : positions) {
      ranks_[position].device = devices_.back().get();
      of_device.push_back(ranks[position]);
    }
    absl::Status status = CheckDeviceMemory(plan, of_device, *devices_.back());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RunDevices>> RunDevices::ForThreads(const RunPlan& plan, int count,
                                                                   const OpenDevice& open) {
  std::unique_ptr<RunDevices> run(new RunDevices);
  std::vector<int> ranks, numbers;
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    ranks.push_back(rank);
    numbers.push_back(DeviceOf(rank, plan.world_size(), count));
  }
  if (absl::Status status = run->Open(plan, ranks, numbers, open, nullptr); !status.ok()) {
    return status;
  }
  run->group_ = std::make_unique<DeviceGroup>(plan.world_size(), EdgeCapacity(plan));
  for (int rank : ranks) {
    RankDevice& of_rank = run->ranks_[static_cast<size_t>(rank)];
    of_rank.connect = [group = run->group_.get(), rank, device = of_rank.device](
                          Stream stream, Communicator* world) {
      return absl::StatusOr<std::unique_ptr<Communicator>>(
          group->Join(rank, device, stream, world));
    };
  }
  return run;
}

absl::StatusOr<std::unique_ptr<RunDevices>> RunDevices::OverNccl(const RunPlan& plan,
                                                                 const std::vector<int>& ranks,
                                                                 int first, int count,
                                                                 const OpenDevice& open,
                                                                 const NcclOptions& options) {
  std::unique_ptr<RunDevices> run(new RunDevices);
  std::vector<int> numbers;
  for (size_t i = 0; i < ranks.size(); ++i)
    numbers.push_back((first + static_cast<int>(i)) % std::max(count, 1));
  if (absl::Status status = run->Open(plan, ranks, numbers, open, options.nccl); !status.ok()) {
    return status;
  }
  run->nccl_ = options;
  run->numbers_ = std::move(numbers);
  run->Reconnect(plan);
  return run;
}

void RunDevices::Reconnect(const RunPlan& plan) {
  NcclOptions options = nccl_;
  options.edges = TensorEdges(plan);
  options.capacity = EdgeCapacity(plan);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    options.ordinal = numbers_[i];
    ranks_[i].connect = [options, device = ranks_[i].device, memory = memory_[numbers_[i]].get()](
                            Stream stream,
                            Communicator* world) -> absl::StatusOr<std::unique_ptr<Communicator>> {
      absl::StatusOr<std::unique_ptr<NcclCommunicator>> end =
          ConnectNccl(options, world, device, stream);
      if (!end.ok()) return end.status();
      // The rank's arena, which is everything that it has allocated on the device.
      if (absl::Status status = memory->RegisterWith(end->get()); !status.ok()) {
        (*end)->Abort(status);
        return status;
      }
      return *std::move(end);
    };
  }
}

}  // namespace sluice
