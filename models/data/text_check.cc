#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/data/data_files.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

// Bytes that are checked, from the beginning; files of tokens are recognised within them.
constexpr int64_t kLookedAt = 64 << 10;

absl::Status NoText(const std::string& path, absl::string_view why, absl::string_view instead) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is no text: ", why, "; expected text, whose bytes are what is trained on, or IDX ",
      "images; give ", instead, ", or --bytes to train on the bytes of this file as they are"));
}

enum class Side : uint8_t { kBeginning, kEnd };

// At most `most` bytes of one side of the file.
absl::StatusOr<std::string> PartOf(const std::string& path, Side side, int64_t most = kLookedAt) {
  const absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  std::vector<uint8_t> bytes(static_cast<size_t>(std::min(file->size(), most)));
  const int64_t first =
      side == Side::kBeginning ? 0 : file->size() - static_cast<int64_t>(bytes.size());
  if (absl::Status status = file->ReadAt(first, absl::MakeSpan(bytes)); !status.ok()) return status;
  return std::string(bytes.begin(), bytes.end());
}

absl::StatusOr<std::string> Beginning(const std::string& path, int64_t most = kLookedAt) {
  return PartOf(path, Side::kBeginning, most);
}

// "[{", with or without white space.
bool BeginsLikeJsonArray(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&text, "[")) return false;
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
}

}  // namespace

bool BeginsLikeJsonLines(const std::string& path) {
  absl::StatusOr<std::string> beginning = Beginning(path);
  // Of a document that is longer the end must be seen as well.
  const bool is_cut =
      beginning.ok() && absl::StartsWith(*beginning, "{") && !absl::StrContains(*beginning, '\n');
  if (is_cut) beginning = Beginning(path, static_cast<int64_t>(JsonLimits().bytes));
  if (!beginning.ok()) return false;
  const absl::string_view text = *beginning;
  const absl::StatusOr<nlohmann::json> line = ParseJson(text.substr(0, text.find('\n')));
  return line.ok() && line->is_object() && !line->empty();
}

absl::Status CheckIsNoJsonArray(const std::string& path) {
  constexpr absl::string_view kEnding = ".json";
  if (!absl::EndsWithIgnoreCase(path, kEnding)) return absl::OkStatus();
  const absl::StatusOr<std::string> beginning = Beginning(path);
  if (!beginning.ok()) return beginning.status();
  if (!BeginsLikeJsonArray(*beginning)) return absl::OkStatus();
  const absl::StatusOr<std::string> end = PartOf(path, Side::kEnd);
  if (!end.ok()) return end.status();
  if (!absl::EndsWith(absl::StripTrailingAsciiWhitespace(*end), "]")) return absl::OkStatus();
  const std::string lines =
      absl::StrCat(absl::string_view(path).substr(0, path.size() - kEnding.size()), ".jsonl");
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is one JSON array of objects; expected one object on each line, in a file whose ",
      "name ends in .jsonl: jq -c '.[]' ", path, " > ", lines, " writes such lines, as a ",
      "json.dumps(record) for each does in Python; or train with --bytes on the bytes of this ",
      "file as they are"));
}

absl::Status CheckIsText(const std::string& path) {
  const absl::StatusOr<std::string> beginning = Beginning(path);
  if (!beginning.ok()) return beginning.status();
  if (const size_t zero = beginning->find('\0'); zero != std::string::npos) {
    return NoText(path, absl::StrCat("byte ", zero, " is 0, as in tokens of 16 or 32 bits"),
                  "tokens in a file whose name ends in .bin");
  }
  return absl::OkStatus();
}

}  // namespace sluice
