#ifndef SLUICE_MODELS_TOKENS_DECODE_H_
#define SLUICE_MODELS_TOKENS_DECODE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "models/tokens/definition/definition.h"

namespace sluice {

// One step of decoding. A word comes whole or in parts, from left to right; its last part says so.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  virtual void Take(absl::string_view part, bool is_first, bool is_last) = 0;
  // No more words follow.
  virtual void Finish() {}
};

// Words of a vocabulary in, text out, as soon as it is certain: what has come out never changes,
// whatever words follow. So the bytes of a character that is not whole yet wait, and words of single
// bytes (<0xE5>) until a word of another kind shows that their row is whole.
class DecoderChain {
 public:
  // Without a decoder, spaces stand between the words.
  DecoderChain(const std::vector<DecoderStep>& steps, bool has_decoder);
  // The last stage writes to a member.
  DecoderChain(const DecoderChain&) = delete;
  DecoderChain& operator=(const DecoderChain&) = delete;

  void Take(absl::string_view word);
  void Finish();  // once, last
  // What has come out since the last call. Valid UTF-8.
  std::string TakeText();

 private:
  std::string text_;
  std::vector<std::unique_ptr<DecoderStage>> stages_;  // the last first
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DECODE_H_
