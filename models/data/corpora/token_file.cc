#include "models/data/corpora/token_file.h"

#include <sys/stat.h>

#include <array>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/data/corpora/megatron_index.h"

namespace sluice {
namespace {

// The header of llm.c.
constexpr size_t kHeaderInts = 256;
constexpr int64_t kHeaderBytes = kHeaderInts * sizeof(int32_t);
struct LlmcFormat {
  int32_t magic;
  int32_t version;
  TokenWidth width;
};
constexpr LlmcFormat kLlmcFormats[] = {{20240520, 1, TokenWidth::kUint16},
                                       {20240801, 7, TokenWidth::kUint32}};

absl::StatusOr<TokenLayout> ReadLlmcHeader(const PositionedFile& file, const LlmcFormat& format) {
  if (file.size() < kHeaderBytes) {
    return absl::DataLossError(absl::StrCat(file.path(), " has ", file.size(),
                                            " bytes; expected at least the ", kHeaderBytes,
                                            " of llm.c's header, whose magic it begins with"));
  }
  std::array<int32_t, kHeaderInts> header = {};
  absl::Status status =
      file.ReadAt(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(header.data()), sizeof(header)));
  if (!status.ok()) return status;
  if (header[1] != format.version) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": the version in llm.c's header is ", header[1], "; expected ",
                     format.version, " after the magic ", format.magic));
  }
  TokenLayout layout = {.width = format.width, .offset = kHeaderBytes, .tokens = header[2]};
  const int64_t holds = (file.size() - kHeaderBytes) / BytesOf(format.width);
  const int64_t bytes = kHeaderBytes + layout.tokens * BytesOf(format.width);
  if (layout.tokens < 0 || bytes != file.size()) {
    return absl::DataLossError(absl::StrCat(file.path(), ": llm.c's header says ", header[2],
                                            " tokens; the ", file.size() - kHeaderBytes,
                                            " bytes after it hold ", holds, " of ",
                                            BytesOf(format.width), " bytes each"));
  }
  return layout;
}

absl::StatusOr<TokenLayout> ReadLayout(const PositionedFile& file, int32_t vocabulary) {
  std::array<int32_t, 2> begin = {};
  if (file.size() >= static_cast<int64_t>(sizeof(begin))) {
    absl::Status status =
        file.ReadAt(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(begin.data()), sizeof(begin)));
    if (!status.ok()) return status;
  }
  for (const LlmcFormat& format : kLlmcFormats) {
    if (begin[0] == format.magic) return ReadLlmcHeader(file, format);
  }
  const TokenWidth width = RawTokenWidth(vocabulary);
  if (file.size() % BytesOf(width) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), " has ", file.size(), " bytes, which is no whole number of tokens of ",
        BytesOf(width), " bytes, as a vocabulary of ", vocabulary,
        " words has in a file without a header"));
  }
  return TokenLayout{.width = width, .tokens = file.size() / BytesOf(width)};
}

bool IsFile(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

TokenWidth RawTokenWidth(int32_t vocabulary) {
  constexpr int32_t kMostOf16Bits = 65'536;
  return vocabulary <= kMostOf16Bits ? TokenWidth::kUint16 : TokenWidth::kUint32;
}

absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, int32_t vocabulary) {
  absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is empty; expected tokens"));
  }
  TokenFile result;
  absl::StatusOr<TokenLayout> layout = TokenLayout();
  const std::string index = absl::StrCat(path.substr(0, path.rfind('.')), ".idx");
  if (absl::EndsWithIgnoreCase(path, ".bin") && IsFile(index)) {
    absl::StatusOr<MegatronIndex> megatron = ReadMegatronIndex(index);
    if (!megatron.ok()) return megatron.status();
    layout = TokenLayout{.width = megatron->width, .tokens = megatron->tokens};
    const int64_t bytes = layout->tokens * BytesOf(layout->width);
    if (bytes != file->size()) {
      return absl::DataLossError(absl::StrCat(path, " has ", file->size(), " bytes; ", index,
                                              " says ", layout->tokens, " tokens, ", bytes,
                                              " bytes"));
    }
    result.documents = std::move(megatron->documents);
  } else {
    layout = ReadLayout(*file, vocabulary);
  }
  if (!layout.ok()) return layout.status();
  result.tokens = MakeFileSource(*std::move(file), *layout, vocabulary);
  return result;
}

}  // namespace sluice
