#ifndef SLUICE_MODELS_DATA_DATA_REQUEST_H_
#define SLUICE_MODELS_DATA_DATA_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>

#include "models/data/documents/document_encoder.h"

namespace sluice {

// What a file that is read byte by byte may contain: only text, or any bytes.
enum class Bytes : uint8_t { kOfText, kAny };

// What is held out of training to evaluate with.
struct Validation {
  double share = 0.1;     // of the data, its end; 0 to 0.5
  std::string path = {};  // or other data; empty: `share`
};

// Which data are trained on, and how.
struct DataRequest {
  std::string path;
  int64_t seq = 0;  // tokens per sample
  uint64_t seed = 1;
  Bytes bytes = Bytes::kOfText;
  // Of the model: the tokens of a file lie below it. 0: none, and no file of tokens can be read.
  int32_t vocabulary = 0;
  Validation validation = {};
  // How the model reads text, while the data are opened; null: a token a byte, and no JSON lines.
  const TextFormat* text = nullptr;
  // Whether windows are filled with whole documents (documents.h). Not said: of JSON lines, yes.
  // Without it, each line begins a window; tokens and text are cut into windows of one document.
  std::optional<bool> pack = {};
  LossOn loss_on = LossOn::kAssistant;
  int threads = 1;  // that turn text into tokens
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DATA_REQUEST_H_
