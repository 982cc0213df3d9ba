// Where to cut GPT-2 XL for four A100: for each of three schedules the best of all partitions, with
// a proof. `sluice plan` asks the same engine; it also chooses schedule, replicas and shards.
#include <sluice/models/spec/presets.h>
#include <sluice/partitioner/candidate.h>
#include <sluice/partitioner/costs/decoder_cost.h>
#include <sluice/partitioner/costs/device.h>
#include <sluice/partitioner/search/exact_partition.h>
#include <sluice/schedules/generators/catalogue.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace {

absl::Status Plan() {
  const auto model = sluice::PresetModel("gpt2-xl");
  if (!model.ok()) return model.status();
  const auto device = sluice::BuiltInDevice("a100");
  if (!device.ok()) return device.status();

  // What each layer costs for one micro-batch of 4 samples: seconds and bytes.
  const sluice::BatchShape batch = {.size = 4, .seq = 1024};
  const auto costs = sluice::CostTable::CreateShared(sluice::DecoderCosts(
      *model->decoder(), batch, sluice::DType::kBFloat16, /*state_copies=*/2, *device));
  if (!costs.ok()) return costs.status();
  sluice::Workload workload;
  workload.machines.costs = *costs;
  workload.machines.link = device->link;
  workload.machines.memory_limit = device->memory_bytes;
  workload.devices = 4;
  workload.micro_batches = 16;

  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    auto table = sluice::GenerateSchedule(name, {.ranks = workload.devices, .micro_batches = 16});
    if (!table.ok()) return table.status();
    const sluice::Candidate candidate = {name, /*chunks=*/1, *table, nullptr};
    const auto answer = sluice::FindExactPartition(sluice::ProblemOf(workload, candidate));
    if (!answer.ok()) {
      std::printf("%-6s %s\n", name, std::string(answer.status().message()).c_str());
      continue;
    }
    std::printf("%-6s layers %s: %.1f ms per step, none is below %.1f ms\n", name,
                sluice::FormatPartition(answer->assignment.partition).c_str(),
                1e3 * answer->seconds, 1e3 * answer->lower_bound);
  }
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Plan();
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 2;
}
