#include "models/data/open_dataset.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/data/data_files.h"
#include "models/data/sources.h"
#include "models/data/token_file.h"
#include "models/files/positioned_file.h"

namespace sluice {
namespace {

constexpr int32_t kByteValues = 256;
// Far above any context length, and far below the value at which seq / 0.1 would overflow.
constexpr int64_t kMaxSeq = int64_t{1} << 40;
constexpr double kMostHeldOut = 0.5;

absl::StatusOr<std::unique_ptr<TokenSource>> OpenBytes(const std::string& path) {
  absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  const TokenLayout layout = {.width = TokenWidth::kUint8, .tokens = file->size()};
  return MakeFileSource(*std::move(file), layout, kByteValues);
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenTokens(const std::string& path,
                                                        int32_t vocabulary) {
  absl::StatusOr<TokenFile> file = OpenTokenFile(path, vocabulary);
  if (!file.ok()) return file.status();
  return std::move(file->tokens);
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenAll(DataKind kind,
                                                     const std::vector<std::string>& paths,
                                                     int32_t vocabulary) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<TokenSource>> part =
        kind == DataKind::kTokens ? OpenTokens(path, vocabulary) : OpenBytes(path);
    if (!part.ok()) return part.status();
    parts.push_back(*std::move(part));
  }
  return Concatenate(std::move(parts));
}

// The files to train on, and those to evaluate with where they are other files.
absl::StatusOr<DataFiles> FindFiles(const DataRequest& request) {
  absl::StatusOr<DataFiles> files = FindDataFiles(request.path, request.bytes);
  const std::string& other = request.validation.path;
  if (!files.ok() || other.empty()) return files;
  const absl::StatusOr<DataFiles> validation = FindDataFiles(other, request.bytes);
  if (!validation.ok()) return validation.status();
  if (validation->kind != files->kind || files->kind == DataKind::kImages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--validation ", other, " is no data of the same kind as --data ", request.path,
        "; expected text, tokens or JSON lines for both, or a share such as 0.1"));
  }
  files->validation = validation->train;
  return files;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenWindows(DataFiles files, const DataRequest& request) {
  WindowSources sources;
  if (files.kind == DataKind::kTokens) {
    if (request.vocabulary <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(files.train.front(), " holds tokens, which need a model with a vocabulary"));
    }
    sources = {.kind = "tokens",
               .unit = "tokens",
               .unit_of_one = "token",
               .vocabulary = request.vocabulary};
  } else {
    sources = {.kind = "text", .unit = "bytes", .unit_of_one = "byte", .vocabulary = kByteValues};
  }
  absl::StatusOr<std::unique_ptr<TokenSource>> train =
      OpenAll(files.kind, files.train, request.vocabulary);
  if (!train.ok()) return train.status();
  sources.train = *std::move(train);
  if (!files.validation.empty()) {
    absl::StatusOr<std::unique_ptr<TokenSource>> validation =
        OpenAll(files.kind, files.validation, request.vocabulary);
    if (!validation.ok()) return validation.status();
    sources.validation = *std::move(validation);
  }
  sources.notes = std::move(files.notes);
  return MakeWindowDataset(std::move(sources), request);
}

absl::Status CheckRequest(const DataRequest& request) {
  if (request.seq < 1 || request.seq > kMaxSeq) {
    return absl::InvalidArgumentError(absl::StrCat("sequence length ", request.seq, " for ",
                                                   request.path, "; expected 1 to ", kMaxSeq));
  }
  const double share = request.validation.share;
  if (share >= 0 && share <= kMostHeldOut) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--validation ", share, "; expected 0 to ",
                                                 kMostHeldOut, ", or the path of other data"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataRequest& request) {
  absl::StatusOr<DataFiles> files = FindFiles(request);
  if (!files.ok()) return files.status();
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  switch (files->kind) {
    case DataKind::kImages:
      return OpenImageDataset(files->train.front(), request.validation.share, request.seed);
    case DataKind::kJsonLines:
      return absl::UnimplementedError("JSON lines");
    case DataKind::kTokens:
    case DataKind::kText:
      break;
  }
  return OpenWindows(*std::move(files), request);
}

}  // namespace sluice
