// train FILE [STAGES]: trains a small GPT on the bytes of a text, with one thread for each stage. The
// losses and the hash are the same for any number of stages.
#include <sluice/models/data/open_dataset.h>
#include <sluice/pipeline/compile/compile_run.h>
#include <sluice/pipeline/train/trainer.h>
#include <sluice/schedules/generators/catalogue.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

namespace {

absl::Status Train(const std::string& path, int stages) {
  const auto data = sluice::OpenDataset({.path = path, .seq = 64});
  if (!data.ok()) return data.status();
  const auto table = sluice::GenerateSchedule("1f1b", {.ranks = stages, .micro_batches = 8});
  if (!table.ok()) return table.status();

  sluice::RunRequest request;
  request.spec = {
      .name = "small GPT",
      .config = sluice::DecoderConfig{.layers = 4, .dim = 64, .heads = 4, .max_seq = 64}};
  request.batch = {.size = 4, .seq = 64};
  request.timetable = *table;
  const auto partition = sluice::EvenPartition(request.spec.layer_count(), stages);
  if (!partition.ok()) return partition.status();
  request.partition = *partition;
  request.recompute.assign(stages, sluice::Recompute::kNone);
  // The program of every rank, with a place in memory for every tensor.
  const auto plan = sluice::CompileRun(request);
  if (!plan.ok()) return plan.status();

  sluice::TrainOptions options;
  options.training.steps = 5;
  options.watching.eval_micro_batches = 4;
  sluice::TrainEvents events;
  events.on_step = [](const sluice::StepMetrics& step) {
    std::printf("step %d  loss %.6f\n", static_cast<int>(step.step), step.loss);
  };
  const auto result = sluice::TrainInProcess(*plan, **data, options, events, /*stop=*/nullptr);
  if (!result.ok()) return result.status();
  std::printf("weights %016llx\n", static_cast<unsigned long long>(result->summary.weights_hash));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = argc < 2 ? absl::InvalidArgumentError("usage: train FILE [STAGES]")
                                       : Train(argv[1], argc > 2 ? std::atoi(argv[2]) : 2);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 2;
}
