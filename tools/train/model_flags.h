#ifndef SLUICE_TOOLS_TRAIN_MODEL_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_MODEL_FLAGS_H_

#include "tools/train/model_choice.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// Adds kShapeFlags and --head-rows.
void AddShapeFlags(CLI::App& command, ModelChoice* choice);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_MODEL_FLAGS_H_
