#ifndef SLUICE_TOOLS_SAMPLE_LOADED_MODEL_H_
#define SLUICE_TOOLS_SAMPLE_LOADED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/device/device.h"
#include "pipeline/sample/gpt_model.h"
#include "tools/tokenize/text_model.h"
#include "tools/train/kernel_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// What `sample`, `chat` and `score` load.
struct LoadedModel {
  std::vector<std::unique_ptr<Device>> devices;  // GPUs that the model is on; outlive it
  std::unique_ptr<GptModel> model;
  std::optional<TextModel> text;  // of LoadText, where the folder has a tokenizer.json
  std::vector<int32_t> stop;      // tokens that end a text, as the folder's files say
};

// What is to be loaded, as it was typed.
struct LoadFlags {
  std::string load;     // a model's folder
  std::string adapter;  // for that model; "": none
  std::string dtype = "fp32";
  KernelFlags kernels;  // of which there is --device
};
// --load, --adapter, --dtype and --device.
void AddLoadFlags(CLI::App& command, LoadFlags* flags);

// The folder's model with the adapter merged into it, and the end-of-sequence tokens of its
// generation_config.json and config.json, for `stages` stages: with --device cuda on as many GPUs,
// or on all where there are fewer. Errors as GptModel::Load, KernelsOf and OpenCudaDevice;
// InvalidArgument for another compute type than fp32 and bf16.
absl::StatusOr<LoadedModel> LoadModel(const LoadFlags& flags, int stages);

// What only a command that reads or writes text needs: the tokenizer, its end-of-sequence token, and
// the chat template (or the file `chat_template`) that the folder has. Errors as ReadTextModel;
// InvalidArgument where the tokenizer has words that the model has not.
absl::Status LoadText(const std::string& chat_template, LoadedModel* loaded);

// Numbers such as 464,3290, given by --tokens.
absl::StatusOr<std::vector<int32_t>> ParseTokens(const std::string& text);

// The tokens of a text: of the model's tokenizer, or its bytes. InvalidArgument for a model that has
// a vocabulary of other tokens and no tokenizer, and for text that is not UTF-8.
absl::StatusOr<std::vector<int32_t>> TokensOf(const LoadedModel& model, absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SAMPLE_LOADED_MODEL_H_
