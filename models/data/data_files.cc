#include "models/data/data_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "models/data/images/idx.h"
#include "models/data/images/image_files.h"

namespace sluice {
namespace {

absl::string_view NameOf(DataKind kind) {
  switch (kind) {
    case DataKind::kText:
      return "text";
    case DataKind::kTokens:
      return "tokens";
    case DataKind::kJsonLines:
      return "JSON lines";
    case DataKind::kImages:
      return "images";
  }
  return "";
}

absl::StatusOr<DataKind> KindOfFile(const std::string& path, Bytes bytes) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (absl::StrContains(name, "idx3-ubyte")) return DataKind::kImages;
  // Tokens may begin with any bytes, those of an image file too.
  const bool tokens = absl::EndsWithIgnoreCase(name, ".bin");
  if (!tokens && LooksLikeIdx(path)) return DataKind::kImages;
  if (bytes == Bytes::kAny) return DataKind::kText;
  if (tokens) return DataKind::kTokens;
  if (absl::EndsWithIgnoreCase(path, ".jsonl") || BeginsLikeJsonLines(path)) {
    return DataKind::kJsonLines;
  }
  if (absl::Status status = CheckIsNoJsonArray(path); !status.ok()) return status;
  if (absl::Status status = CheckIsText(path); !status.ok()) return status;
  return DataKind::kText;
}

// What the name of a file in a folder says it is for.
enum class Purpose : uint8_t { kTrain, kValidation, kTest };

Purpose PurposeOf(absl::string_view name) {
  for (const absl::string_view word : absl::StrSplit(name, absl::ByAnyChar("_-."))) {
    const std::string lower = absl::AsciiStrToLower(word);
    if (lower == "val" || lower == "valid" || lower == "validation") return Purpose::kValidation;
    if (lower == "test") return Purpose::kTest;
  }
  return Purpose::kTrain;
}

bool IsDataName(absl::string_view name) {
  if (absl::StartsWith(name, ".")) return false;
  for (const absl::string_view ending : {".txt", ".text", ".bin", ".jsonl"}) {
    if (absl::EndsWithIgnoreCase(name, ending)) return true;
  }
  return false;
}

// The names of the regular files of a folder, sorted.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) names.push_back(entry->path().filename().string());
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot list the folder ", folder, ": ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Of a file of a folder that is not used. Where JSON lines of the same name lie beside it they were
// made of it.
absl::Status CheckIsNotMissed(const std::string& folder, const std::string& name,
                              const std::vector<std::string>& names) {
  if (std::binary_search(names.begin(), names.end(), absl::StrCat(name, "l"))) {
    return absl::OkStatus();
  }
  return CheckIsNoJsonArray(absl::StrCat(folder, "/", name));
}

absl::StatusOr<DataFiles> FilesOfFolder(const std::string& folder, Bytes bytes) {
  const absl::StatusOr<std::vector<std::string>> names = FilesOf(folder);
  if (!names.ok()) return names.status();
  DataFiles files;
  std::vector<std::string> unused;
  std::optional<std::string> first;
  for (const std::string& name : *names) {
    const Purpose purpose = PurposeOf(name);
    if (bytes == Bytes::kOfText && purpose != Purpose::kTest && !absl::StartsWith(name, ".")) {
      if (absl::Status status = CheckIsNotMissed(folder, name, *names); !status.ok()) {
        return status;
      }
    }
    if (!IsDataName(name) || purpose == Purpose::kTest) {
      if (!absl::EndsWith(name, ".idx")) unused.push_back(name);
      continue;
    }
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<DataKind> kind = KindOfFile(path, bytes);
    if (!kind.ok()) return kind.status();
    if (!first) files.kind = *kind;
    if (*kind != files.kind) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder, " holds files of several kinds: ", *first, " has ", NameOf(files.kind), ", ",
          name, " has ", NameOf(*kind), "; give a folder with files of one kind"));
    }
    if (!first) first = name;
    (purpose == Purpose::kValidation ? files.validation : files.train).push_back(path);
  }
  if (files.train.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no data to train on in the directory ", folder,
        "; expected files named *.txt, *.bin or *.jsonl, or train-images-idx3-ubyte or "
        "t10k-images-idx3-ubyte, plain or with .gz"));
  }
  if (!unused.empty()) {
    files.notes.push_back(absl::StrCat("not used of ", folder, ": ", absl::StrJoin(unused, ", ")));
  }
  return files;
}

}  // namespace

absl::StatusOr<DataFiles> FindDataFiles(const std::string& path, Bytes bytes) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the data '", path, "'"));
  }
  if (S_ISDIR(info.st_mode)) {
    if (FindImageFiles(path).ok()) return DataFiles{.kind = DataKind::kImages, .train = {path}};
    return FilesOfFolder(path, bytes);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is neither a file nor a directory; expected text, tokens, JSON lines or IDX images"));
  }
  const absl::StatusOr<DataKind> kind = KindOfFile(path, bytes);
  if (!kind.ok()) return kind.status();
  return DataFiles{.kind = *kind, .train = {path}};
}

}  // namespace sluice
