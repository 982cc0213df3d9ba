#include "tools/train/model_flags.h"

#include <CLI/CLI.hpp>
#include <string>

namespace sluice {

void AddShapeFlags(CLI::App& command, ModelChoice* choice) {
  command.add_option("--layers", choice->layers, "Number of transformer blocks (presets only)")
      ->check(CLI::PositiveNumber);
  command.add_option("--dim", choice->dim, "Width of the model (presets only)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--heads", choice->heads,
                  "Number of attention heads, which divides --dim (presets only)")
      ->check(CLI::PositiveNumber);
  command.add_option("--vocab", choice->vocab, "Size of the vocabulary (presets only)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--tied", choice->tied,
                   "The head and the token embedding share their weights (presets only)");
  command
      .add_option_function<std::string>(
          "--norm", [choice](const std::string& norm) { choice->norm = ParseNorm(norm); },
          "Kind of norm: layer, or rms, which has no mean and no bias (presets only)")
      ->check(CLI::IsMember({NormName(NormKind::kLayer), NormName(NormKind::kRms)}));
  command
      .add_option("--head-rows", choice->head_rows,
                  "Compute the logits of so many tokens at a time: less memory, one more product "
                  "(usual: of all, up to 5 GiB on a GPU and 320 MiB on a processor)")
      ->check(CLI::Range(1, 1 << 24));
}

}  // namespace sluice
