#ifndef SLUICE_TOOLS_SAMPLE_SAMPLING_FLAGS_H_
#define SLUICE_TOOLS_SAMPLE_SAMPLING_FLAGS_H_

#include <string>

#include "pipeline/sample/generate.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// How `sample` and `chat` choose a token: --temperature, --top-k, --top-p and --seed, of which
// `same` says what is the same with the same seed ("text").
void AddSamplingFlags(CLI::App& command, const std::string& same, SamplingOptions* options);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SAMPLE_SAMPLING_FLAGS_H_
