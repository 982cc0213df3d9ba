#include "models/data/corpora/text_tokens.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "models/data/corpora/token_store.h"
#include "models/files/positioned_file.h"
#include "models/tokens/encoder.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

constexpr size_t kMostUtf8Bytes = 4;  // of a code point

// Where the last code point begins of a text that may be cut off or broken and is not empty.
size_t StartOfLast(absl::string_view text) {
  const size_t least = text.size() - std::min(text.size(), kMostUtf8Bytes);
  size_t at = text.size() - 1;
  while (at > least && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool EndsInLetterOrNumber(absl::string_view text) {
  if (text.empty()) return false;
  size_t at = StartOfLast(text);
  if (FindInvalidUtf8(text.substr(at)) != absl::string_view::npos) return false;
  const char32_t last = NextCodePoint(text, &at);
  return IsLetter(last) || IsNumber(last);
}

// All bytes but those of a last character that is not whole.
size_t WholeCharacters(absl::string_view text) {
  const size_t at = StartOfLast(text);
  const bool whole = FindInvalidUtf8(text.substr(at)) == absl::string_view::npos;
  return whole || at == 0 ? text.size() : at;
}

// How many bytes of `text`, which is not empty, make a piece; at least one. Pre-tokenizers look at
// what stands around a place, so a cut can change tokens:
// - In front of the end of a line that ends in a letter or number there is a border between words
//   for all that split words as GPT-2, Llama 3 and Qwen do. The last such place is taken.
// - Without one, it is cut behind the last end of a line. There, such words end, too, unless other
//   blanks stand around it: their row is then split as two rows.
// - Without a line, it is cut between two characters, and so perhaps in a word, whose parts then
//   become tokens each for itself. They still spell the text.
size_t PieceOf(absl::string_view text) {
  for (size_t at = text.size();
       at > 0 && (at = text.rfind('\n', at - 1)) != absl::string_view::npos;) {
    absl::string_view line = text.substr(0, at);
    absl::ConsumeSuffix(&line, "\r");
    if (EndsInLetterOrNumber(line)) return line.size();
  }
  const size_t newline = text.rfind('\n');
  return newline == absl::string_view::npos ? WholeCharacters(text) : newline + 1;
}

absl::Status AddFile(const std::string& path, int64_t largest, Encoder& encoder,
                     TokenStore& store) {
  const absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  const bool whole = file->size() <= largest;
  std::string text;
  for (int64_t at = 0; at < file->size();) {
    text.resize(static_cast<size_t>(std::min(largest, file->size() - at)));
    absl::Status status =
        file->ReadAt(at, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size()));
    if (!status.ok()) return status;
    const bool is_last = at + static_cast<int64_t>(text.size()) == file->size();
    if (!is_last) text.resize(PieceOf(text));
    std::vector<int32_t> tokens;
    status = encoder.Append(text, whole ? SpecialTokens::kAdd : SpecialTokens::kLeaveOut, &tokens);
    if (!status.ok()) {
      const std::string from = at == 0 ? "" : absl::StrCat(" from byte ", at, " on");
      return absl::Status(status.code(), absl::StrCat(path, from, ": ", status.message()));
    }
    if (status = store.Append(tokens); !status.ok()) return status;
    at += static_cast<int64_t>(text.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> EncodeTextFiles(const std::vector<std::string>& paths,
                                                             const Tokenizer& tokenizer,
                                                             int64_t largest) {
  Encoder encoder(tokenizer);
  TokenStore store;
  for (const std::string& path : paths) {
    if (absl::Status status = AddFile(path, largest, encoder, store); !status.ok()) return status;
  }
  return store.Finish();
}

}  // namespace sluice
