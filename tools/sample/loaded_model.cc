#include "tools/sample/loaded_model.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "models/device/cuda_device.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"
#include "models/tokens/encoder.h"
#include "tools/files.h"
#include "tools/flag_values.h"
#include "tools/train/bf16_note.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The field eos_token_id: a number, a list of them, or nothing.
absl::Status AddStopTokens(const fs::path& file, std::vector<int32_t>* stop) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadWholeFile(file.string(), kMostJsonBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> json =
      ParseJsonObject(*text, file.string(), "expected a file of Hugging Face");
  if (!json.ok()) return json.status();
  const nlohmann::json field = json->value("eos_token_id", nlohmann::json());
  if (field.is_null()) return absl::OkStatus();
  for (const nlohmann::json& id : field.is_array() ? field : nlohmann::json::array({field})) {
    // A negative one stands for none.
    const bool is_none = id.is_number_integer() && !id.is_number_unsigned();
    const bool is_id = id.is_number_unsigned() &&
                       id.get<uint64_t>() <= uint64_t{std::numeric_limits<int32_t>::max()};
    if (!is_id && !is_none) {
      return absl::InvalidArgumentError(absl::StrCat(file.string(), ": field 'eos_token_id' is ",
                                                     ShowJson(field),
                                                     "; expected a token id or a list of them"));
    }
    if (is_id) stop->push_back(id.get<int32_t>());
  }
  return absl::OkStatus();
}

// The GPUs that `stages` stages are dealt to; without any, opening one gives the error.
absl::StatusOr<std::vector<std::unique_ptr<Device>>> OpenGpus(int stages) {
  std::vector<std::unique_ptr<Device>> gpus;
  for (int number = 0; number < std::clamp(CudaDeviceCount(), 1, stages); ++number) {
    absl::StatusOr<std::unique_ptr<Device>> gpu = OpenCudaDevice(number);
    if (!gpu.ok()) return gpu.status();
    gpus.push_back(*std::move(gpu));
  }
  return gpus;
}

// Opens what --device asks for.
absl::StatusOr<ComputeChoice> ChooseCompute(const LoadFlags& flags, int stages,
                                            std::vector<std::unique_ptr<Device>>* devices) {
  ComputeChoice compute;
  if (!ParseDType(flags.dtype, &compute.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", flags.dtype, ": expected fp32 or bf16"));
  }
  const absl::StatusOr<KernelChoice> choice = ChoiceOf(flags.kernels);
  if (!choice.ok()) return choice.status();
  const absl::StatusOr<const Kernels*> kernels = KernelsOf(*choice);
  if (!kernels.ok()) return kernels.status();
  compute.kernels = *kernels;
  NoteSlowBFloat16(flags.kernels.device, compute.dtype);
  if (!choice->cuda) return compute;
  absl::StatusOr<std::vector<std::unique_ptr<Device>>> gpus = OpenGpus(stages);
  if (!gpus.ok()) return gpus.status();
  *devices = *std::move(gpus);
  for (const std::unique_ptr<Device>& gpu : *devices) compute.devices.push_back(gpu.get());
  return compute;
}

}  // namespace

void AddLoadFlags(CLI::App& command, LoadFlags* flags) {
  command
      .add_option("--load", flags->load,
                  "Directory that 'train --save' has written, or a Hugging Face folder")
      ->required();
  command.add_option("--adapter", flags->adapter,
                     "Adapter to be merged into the model: PEFT's folder, or what 'train --lora "
                     "--save' has written");
  command
      .add_option("--dtype", flags->dtype,
                  "Compute type: fp32, or bf16, in which matrices and tables take half the memory")
      ->capture_default_str();
  AddDeviceFlag(command, "Options", &flags->kernels);
}

absl::StatusOr<LoadedModel> LoadModel(const LoadFlags& flags, int stages) {
  LoadedModel loaded;
  const absl::StatusOr<ComputeChoice> compute = ChooseCompute(flags, stages, &loaded.devices);
  if (!compute.ok()) return compute.status();
  absl::StatusOr<std::unique_ptr<GptModel>> model =
      GptModel::Load(flags.load, flags.adapter, *compute);
  if (!model.ok()) return model.status();
  loaded.model = *std::move(model);
  const fs::path folder = loaded.model->path();
  for (const char* name : {"generation_config.json", "config.json"}) {
    absl::Status status = AddStopTokens(folder / name, &loaded.stop);
    if (!status.ok()) return status;
  }
  return loaded;
}

absl::Status LoadText(const std::string& chat_template, LoadedModel* loaded) {
  const std::string file = TokenizerOf(loaded->model->path());
  if (file.empty()) return absl::OkStatus();
  absl::StatusOr<TextModel> text = ReadTextModel(file, chat_template);
  if (!text.ok()) return text.status();
  const int64_t words = text->tokenizer->vocabulary_size(), vocab = loaded->model->config().vocab;
  if (words > vocab) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " has ", words, " words, but the model beside it knows ", vocab,
                     "; expected the tokenizer that the model was trained with"));
  }
  if (const std::optional<int32_t> end = text->tokenizer->IdOf(text->format.end)) {
    loaded->stop.push_back(*end);
  }
  loaded->text = *std::move(text);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ParseTokens(const std::string& text) {
  const absl::StatusOr<std::vector<absl::string_view>> fields =
      SplitList("--tokens", text, "464,3290,318");
  if (!fields.ok()) return fields.status();
  std::vector<int32_t> tokens;
  for (const absl::string_view field : *fields) {
    int32_t token = 0;
    if (!absl::SimpleAtoi(field, &token) || token < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--tokens ", text, ": '", field, "' is no token; expected numbers such as 464,3290,318"));
    }
    tokens.push_back(token);
  }
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> TokensOf(const LoadedModel& loaded, absl::string_view text) {
  if (loaded.text.has_value()) return Encode(*loaded.text->tokenizer, text);
  const GptModel& model = *loaded.model;
  if (!model.reads_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        model.path(), " has a vocabulary of ", model.config().vocab,
        " tokens that are not bytes, and no tokenizer.json, so it cannot read text; give --tokens "
        "464,3290,..."));
  }
  std::vector<int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

}  // namespace sluice
