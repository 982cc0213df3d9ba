#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/device/host_limits.h"
#include "models/device/out_of_memory.h"
#include "models/kernels/kernel_threads.h"
#include "models/spec/json_text.h"
#include "models/spec/units.h"
#include "pipeline/checkpoint/adapters/merged_model.h"
#include "tools/command.h"
#include "tools/files.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Each weight keeps the type that it has in the model's folder; what the adapter\n"
    "adds is computed in fp32 and rounded once.\n"
    "Example:\n"
    "  sluice merge --load llama --adapter out -o merged";

struct MergeFlags {
  MergeRequest request;
  bool json = false;
};

int RunMerge(const MergeFlags& flags) {
  // OpenMP ends the process where it cannot start a thread.
  const KernelThreads threads(1 + StartableThreads(CoresToUse() - 1));
  const absl::StatusOr<MergedModel> merged = MergeModel(flags.request);
  if (!merged.ok()) return Fail(merged.status());
  const nlohmann::ordered_json json = {{"output", flags.request.output},
                                       {"maps", merged->maps},
                                       {"tensors", merged->tensors},
                                       {"bytes", merged->bytes}};
  const std::string text =
      flags.json ? absl::StrCat(JsonText(json), "\n")
                 : absl::StrCat("saved     ", flags.request.output, ": ", merged->tensors,
                                " tensors, ", FormatBytes(static_cast<double>(merged->bytes)),
                                "; the adapter changed ", merged->maps, " of them\n");
  const absl::Status status = WriteOutput("", text);
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace

void AddMergeCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("merge", "Write a model with an adapter merged into it");
  command->footer(kExample);
  auto flags = std::make_shared<MergeFlags>();
  command
      ->add_option(
          "--load", flags->request.base,
          "The model that the adapter is for: a Hugging Face folder, or what 'train --save' "
          "has written")
      ->required();
  command
      ->add_option("--adapter", flags->request.adapter,
                   "The adapter: PEFT's folder, or what 'train --lora --save' has written")
      ->required();
  command
      ->add_option("-o,--output", flags->request.output,
                   "The folder to write, new or empty; transformers loads it")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON object instead of text");
  command->callback([flags, exit_code] { *exit_code = RunMerge(*flags); });
}

}  // namespace sluice
