#ifndef SLUICE_PARTITIONER_COSTS_JSON_FIELDS_H_
#define SLUICE_PARTITIONER_COSTS_JSON_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// One JSON object read field by field. The first field that is missing or of the wrong kind is
// remembered and named in status(), with the file and the path to it; reading goes on with zeros,
// so that a reader checks once, at its end.
class JsonFields {
 public:
  // Parses a document that must be an object.
  static absl::StatusOr<nlohmann::json> ParseObject(absl::string_view text, absl::string_view file);

  // `path` is where `object` lies in the document: "" or "stages[2]". Both must outlive this.
  JsonFields(const nlohmann::json& object, std::string file, std::string path);

  bool Has(const char* field) const;
  // Fails for a field that is not among `known`.
  void RefuseOthers(std::initializer_list<const char*> known);
  std::string String(const char* field);
  // Finite, at least `least`, at most `most`.
  double Number(const char* field, double least = 0,
                double most = std::numeric_limits<double>::infinity());
  int64_t Integer(const char* field, int64_t least = 0);
  bool Bool(const char* field);
  // A non-empty array of objects; null where it is not.
  const nlohmann::json* Objects(const char* field);

  // Remembers that `field` is wrong, unless something was before.
  void Fail(const char* field, absl::string_view what);
  void Merge(const absl::Status& status);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* field);

  const nlohmann::json& object_;
  std::string file_, path_;
  absl::Status status_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_JSON_FIELDS_H_
