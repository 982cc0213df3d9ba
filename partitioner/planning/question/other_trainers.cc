#include "partitioner/planning/question/other_trainers.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::Status MegatronHas(const AskedOfTrainer& asked) {
  if (asked.graph) {
    return absl::InvalidArgumentError(
        "Megatron-LM runs transformers, not graphs of operations; give a model");
  }
  if (asked.zero > 1) {
    return absl::InvalidArgumentError(
        "Megatron-LM's distributed optimizer is --zero 1; give that, or --zero 0");
  }
  if (asked.zero == 1 && asked.optimizer == OptimizerKind::kSgd) {
    return absl::InvalidArgumentError(
        "Megatron-LM's distributed optimizer has no SGD; give --optimizer adamw, or --zero 0");
  }
  if (asked.mirror) {
    return absl::InvalidArgumentError("Megatron-LM has no --mirror; leave it out");
  }
  if (asked.audit_every > 0) {
    return absl::InvalidArgumentError("Megatron-LM has no --audit; leave it out");
  }
  return absl::OkStatus();
}

absl::Status TorchTitanHas(const AskedOfTrainer& asked) {
  if (asked.graph) {
    return absl::InvalidArgumentError(
        "torchtitan trains transformers, not graphs of operations; give a model");
  }
  if (asked.zero > 0 || asked.mirror) {
    return absl::InvalidArgumentError(
        absl::StrCat("torchtitan's replicas keep everything or also share out weights (FSDP); ",
                     asked.mirror ? "leave --mirror out" : "give --zero 0"));
  }
  if (asked.audit_every > 0) {
    return absl::InvalidArgumentError("torchtitan's ranks have no --audit; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckForTrainer(Trainer trainer, const AskedOfTrainer& asked) {
  switch (trainer) {
    case Trainer::kMegatron:
      return MegatronHas(asked);
    case Trainer::kTorchTitan:
      return TorchTitanHas(asked);
    case Trainer::kSluice:
      break;
  }
  return absl::OkStatus();
}

absl::Status CheckForMegatron(const std::string& schedule, int ranks, int micro_batches) {
  if (schedule == "1f1b") return absl::OkStatus();
  if (schedule != "interleaved") {
    return absl::InvalidArgumentError(
        absl::StrCat("Megatron-LM has no schedule ", schedule, "; it has 1f1b and interleaved"));
  }
  if (ranks < 2) {
    return absl::InvalidArgumentError(
        "Megatron-LM interleaves stages on 2 ranks at least, not on 1; give --schedule 1f1b");
  }
  if (micro_batches % ranks != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Megatron-LM interleaves micro-batches in groups of ", ranks,
                     ", the number of ranks, and ", micro_batches, " are no multiple of that"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
