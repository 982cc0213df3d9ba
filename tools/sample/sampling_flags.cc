#include "tools/sample/sampling_flags.h"

#include <CLI/CLI.hpp>

#include "tools/command.h"

namespace sluice {

void AddSamplingFlags(CLI::App& command, const std::string& same, SamplingOptions* options) {
  command
      .add_option("--temperature", options->temperature,
                  "0: always the most likely token; higher: more variety")
      ->check(FiniteNumber())
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--top-k", options->top_k,
                  "Choose among this number of most likely tokens; 0: among all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--top-p", options->top_p,
                  "Choose among the fewest tokens that have this much of the probability")
      ->check(FiniteNumber())
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--seed", options->seed,
                  "Seed of the choice: the same seed gives the same " + same)
      ->check(WholeSeed())
      ->capture_default_str();
}

}  // namespace sluice
