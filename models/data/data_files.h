#ifndef SLUICE_MODELS_DATA_DATA_FILES_H_
#define SLUICE_MODELS_DATA_DATA_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/data/data_request.h"

namespace sluice {

enum class DataKind : uint8_t { kText, kTokens, kJsonLines, kImages };

// The files that a path names: itself, or, of a folder, the files of one kind that are in it.
struct DataFiles {
  DataKind kind = DataKind::kText;
  std::vector<std::string> train;            // in the order of their names
  std::vector<std::string> validation = {};  // of a folder: those whose names say so
  std::vector<std::string> notes = {};       // which files of a folder are not used
};

// Decides by the name and the beginning of each file. NotFound, or InvalidArgument where a file is
// of no kind, or a folder holds files of several kinds or none; all name the file.
absl::StatusOr<DataFiles> FindDataFiles(const std::string& path, Bytes bytes);

// InvalidArgument where the beginning of the file (a byte that is 0) shows that it is not text; the
// message names the file, and --bytes.
absl::Status CheckIsText(const std::string& path);
// InvalidArgument where a file whose name ends in .json is one array of objects, whose brackets and
// names of fields would be trained on as text. The message names the file, what makes JSON lines of
// it, and --bytes.
absl::Status CheckIsNoJsonArray(const std::string& path);
// Whether the first line of the file is an object with at least one member, like {"text": "..."}.
bool BeginsLikeJsonLines(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DATA_FILES_H_
