#include "tools/train/model_flags.h"

#include <CLI/CLI.hpp>
#include <string>

namespace sluice {

void AddShapeFlags(CLI::App& command, ModelChoice* choice) {
  command.add_option("--layers", choice->layers, "Transformer blocks (presets)")
      ->check(CLI::PositiveNumber);
  command.add_option("--dim", choice->dim, "Model width (presets)")->check(CLI::PositiveNumber);
  command.add_option("--heads", choice->heads, "Attention heads; --dim is a multiple (presets)")
      ->check(CLI::PositiveNumber);
  command.add_option("--vocab", choice->vocab, "Vocabulary size (presets)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--tied", choice->tied,
                   "Head and token embedding share their weights (presets)");
  command
      .add_option_function<std::string>(
          "--norm", [choice](const std::string& norm) { choice->norm = ParseNorm(norm); },
          "layer, or rms: without mean and bias (presets)")
      ->check(CLI::IsMember({NormName(NormKind::kLayer), NormName(NormKind::kRms)}));
}

}  // namespace sluice
