#include "tools/train/adaptation_flags.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "tools/flag_values.h"

namespace sluice {
namespace {

absl::Status TakeLora(const AdaptationFlags& flags, Adaptation* adaptation) {
  if (!flags.lora.empty() && !flags.adapter.empty()) {
    return absl::InvalidArgumentError(
        "--lora describes a new adapter, and --adapter names one to go on from; give one of them");
  }
  if (!flags.lora.empty()) {
    absl::Status list = SplitList("--lora", flags.lora, "r=16,alpha=32").status();
    if (!list.ok()) return list;
    absl::StatusOr<Lora> lora = ParseLora(flags.lora);
    if (!lora.ok()) return lora.status();
    adaptation->lora = *std::move(lora);
  }
  if (!flags.adapter.empty()) {
    const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(flags.adapter);
    if (!adapter.ok()) return adapter.status();
    adaptation->lora = adapter->lora;
  }
  return absl::OkStatus();
}

absl::Status TakeFrozen(const AdaptationFlags& flags, Adaptation* adaptation) {
  for (const std::string& list : flags.freeze) {
    const absl::StatusOr<std::vector<absl::string_view>> patterns =
        SplitList("--freeze", list, "'model.embed_tokens*,*.layers.0.*'");
    if (!patterns.ok()) return patterns.status();
    for (const absl::string_view pattern : *patterns) adaptation->freeze.emplace_back(pattern);
  }
  return absl::OkStatus();
}

absl::Status TakeBaseType(const std::string& text, DType dtype, Adaptation* adaptation) {
  const bool freezes = adaptation->lora.has_value() || !adaptation->freeze.empty();
  if (text.empty()) {
    if (freezes) adaptation->base_dtype = dtype;
    return absl::OkStatus();
  }
  if (!freezes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--base-dtype ", text,
                     ": nothing is frozen; give --lora, --adapter or --freeze, or leave it out"));
  }
  if (!ParseDType(text, &adaptation->base_dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--base-dtype ", text, ": expected bf16 or fp32"));
  }
  if (adaptation->base_dtype == DType::kFloat32 || dtype == DType::kBFloat16)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--base-dtype bf16 with --dtype fp32: products of fp32 read fp32 weights; give --dtype bf16, "
      "or --base-dtype fp32");
}

absl::Status CheckMasterWeights(const AdaptationFlags& flags, DType dtype) {
  if (MasterWeightsOf(flags) != MasterWeights::kSplit || dtype == DType::kBFloat16)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--master-weights split with --dtype fp32: products of fp32 read whole weights; give --dtype "
      "bf16, or leave it out");
}

}  // namespace

void AddAdaptationFlags(CLI::App& command, const std::string& group, AdaptationFlags* flags) {
  command
      .add_option("--lora", flags->lora,
                  "Train adapters of low rank beside linear maps, and nothing else: "
                  "r=16,alpha=32,targets=all-linear, or targets=q_proj,v_proj; dropout=0.05 drops "
                  "a share of their inputs; rslora=1 scales by alpha / sqrt(r)")
      ->group(group);
  command
      .add_option("--adapter", flags->adapter,
                  "Train the adapter in this folder further, instead of a new one: PEFT's, or what "
                  "'train --lora --save' has written")
      ->group(group);
  command
      .add_option("--freeze", flags->freeze,
                  "Patterns of parameters' names, with * and ?, that are not trained: "
                  "'model.embed_tokens*,*.layers.0.*'")
      ->group(group);
  command
      .add_option("--base-dtype", flags->base_dtype,
                  "What frozen weights are kept in: bf16 or fp32 (default: --dtype); products of "
                  "bf16 read bf16 weights as they are")
      ->group(group);
  command
      .add_option(
          "--master-weights", flags->master_weights,
          "What --dtype bf16 keeps the weights in that it trains. whole: fp32, and on a "
          "processor bf16 copies laid out for products, 8 bytes per weight. split: the bf16 "
          "that products read and the 16 bits that it lacks, 4 bytes per weight and as "
          "precise, but products are a few per cent slower there. Default: whole on a processor, "
          "and in plans of what sluice does not run (clusters, shared stages); GPUs always split")
      ->check(CLI::IsMember(
          {MasterWeightsName(MasterWeights::kWhole), MasterWeightsName(MasterWeights::kSplit)}))
      ->group(group);
}

absl::StatusOr<Adaptation> AdaptationOf(const AdaptationFlags& flags, DType dtype) {
  Adaptation adaptation;
  absl::Status status = TakeFrozen(flags, &adaptation);
  if (status.ok()) status = TakeLora(flags, &adaptation);
  if (status.ok()) status = TakeBaseType(flags.base_dtype, dtype, &adaptation);
  if (status.ok()) status = CheckMasterWeights(flags, dtype);
  if (!status.ok()) return status;
  return adaptation;
}

std::optional<MasterWeights> MasterWeightsOf(const AdaptationFlags& flags) {
  MasterWeights kept = MasterWeights::kWhole;
  if (!ParseMasterWeights(flags.master_weights, &kept)) return std::nullopt;
  return kept;
}

}  // namespace sluice
