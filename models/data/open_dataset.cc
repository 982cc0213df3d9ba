#include "models/data/open_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/data/corpora/text_tokens.h"
#include "models/data/corpora/token_file.h"
#include "models/data/data_files.h"
#include "models/data/documents/documents.h"
#include "models/data/documents/json_lines.h"
#include "models/data/sources.h"
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

// Whether text is read as words of a vocabulary, not as bytes.
bool HasWords(const DataRequest& request) {
  return request.text != nullptr && request.bytes == Bytes::kOfText;
}

// The model's words, or those of a tokenizer that has more, which the caller refuses.
int32_t VocabularyOf(const DataRequest& request) {
  return std::max(request.vocabulary, request.text->tokenizer->vocabulary_size());
}

absl::StatusOr<std::unique_ptr<TokenSource>> OpenAll(DataKind kind,
                                                     const std::vector<std::string>& paths,
                                                     const DataRequest& request) {
  if (kind == DataKind::kText && HasWords(request)) {
    return EncodeTextFiles(paths, *request.text->tokenizer);
  }
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const std::string& path : paths) {
    absl::StatusOr<std::unique_ptr<TokenSource>> part =
        kind == DataKind::kTokens ? OpenTokens(path, request.vocabulary) : OpenBytes(path);
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
  } else if (HasWords(request)) {
    sources = {.kind = "text",
               .unit = "tokens",
               .unit_of_one = "token",
               .vocabulary = VocabularyOf(request)};
  } else {
    sources = {.kind = "text", .unit = "bytes", .unit_of_one = "byte", .vocabulary = kByteValues};
  }
  absl::StatusOr<std::unique_ptr<TokenSource>> train = OpenAll(files.kind, files.train, request);
  if (!train.ok()) return train.status();
  sources.train = *std::move(train);
  if (!files.validation.empty()) {
    absl::StatusOr<std::unique_ptr<TokenSource>> validation =
        OpenAll(files.kind, files.validation, request);
    if (!validation.ok()) return validation.status();
    sources.validation = *std::move(validation);
  }
  sources.notes = std::move(files.notes);
  return MakeWindowDataset(std::move(sources), request);
}

// The documents of JSON lines, or of Megatron's files; what became of them is added to `*notes`.
absl::StatusOr<Documents> ReadDocuments(DataKind kind, const std::vector<std::string>& paths,
                                        const DataRequest& request,
                                        std::vector<std::string>* notes) {
  if (kind == DataKind::kJsonLines) {
    absl::StatusOr<JsonLines> lines =
        ReadJsonLines(paths, *request.text,
                      {.loss_on = request.loss_on, .seq = request.seq, .threads = request.threads});
    if (!lines.ok()) return lines.status();
    if (lines->cut > 0 && lines->documents.count() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          paths.front(), ": no line has a target that counts within its first ", request.seq,
          " tokens, which are all that a window takes of it; give a longer --seq, or --loss-on all",
          " to count every token"));
    }
    for (std::string& note : lines->Notes(paths.front(), request.seq)) {
      notes->push_back(std::move(note));
    }
    return std::move(lines->documents);
  }
  Documents documents = {.begins = {0}};
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const std::string& path : paths) {
    absl::StatusOr<TokenFile> file = OpenTokenFile(path, request.vocabulary);
    if (!file.ok()) return file.status();
    if (file->documents.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          " does not say where its documents end, so --pack cannot keep them whole; expected "
          "JSON lines, or Megatron's .bin with its .idx beside it"));
    }
    const int64_t before = documents.begins.back();
    for (size_t i = 1; i < file->documents.size(); ++i) {
      documents.begins.push_back(before + file->documents[i]);
    }
    parts.push_back(std::move(file->tokens));
  }
  documents.tokens = Concatenate(std::move(parts));
  return documents;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDocuments(DataFiles files,
                                                       const DataRequest& request) {
  if (files.kind == DataKind::kJsonLines && !HasWords(request)) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.train.front(),
                     " holds JSON lines, whose texts need a model with a tokenizer; give "
                     "the folder of a model that has a tokenizer.json, or train with --tokenizer"));
  }
  absl::StatusOr<Documents> train = ReadDocuments(files.kind, files.train, request, &files.notes);
  if (!train.ok()) return train.status();
  std::unique_ptr<Documents> validation;
  if (!files.validation.empty()) {
    absl::StatusOr<Documents> held_out =
        ReadDocuments(files.kind, files.validation, request, &files.notes);
    if (!held_out.ok()) return held_out.status();
    validation = std::make_unique<Documents>(*std::move(held_out));
  }
  DataRequest with_words = request;
  if (files.kind == DataKind::kJsonLines) with_words.vocabulary = VocabularyOf(request);
  absl::StatusOr<std::unique_ptr<Dataset>> data =
      MakeDocumentDataset(*std::move(train), std::move(validation), request.pack.value_or(true),
                          std::move(files.notes), with_words);
  if (data.ok() && !files.validation.empty() && (*data)->samples(Split::kValidation) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.validation.front(),
                     " leaves no document to evaluate with; expected at least one "
                     "with two tokens, and a target that counts"));
  }
  return data;
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
      return OpenDocuments(*std::move(files), request);
    case DataKind::kTokens:
      if (request.pack.value_or(false)) return OpenDocuments(*std::move(files), request);
      break;
    case DataKind::kText:
      if (!request.pack.value_or(false)) break;
      return absl::InvalidArgumentError(
          absl::StrCat(request.path,
                       " is text, of which --pack knows no documents; expected JSON lines, or "
                       "Megatron's .bin with its .idx beside it"));
  }
  return OpenWindows(*std::move(files), request);
}

}  // namespace sluice
