#include "models/data/corpora/text_tokens.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "models/data/corpora/token_store.h"
#include "models/files/positioned_file.h"
#include "models/tokens/encoder.h"

namespace sluice {
namespace {

// How many bytes of `text` make a piece: up to the last end of a line behind a letter or digit; all
// of them where there is none.
size_t PieceOf(absl::string_view text) {
  for (size_t end = text.size(); (end = text.rfind('\n', end - 1)) != absl::string_view::npos;) {
    if (end == 0) break;
    if (absl::ascii_isalnum(static_cast<unsigned char>(text[end - 1]))) return end;
  }
  return text.size();
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
