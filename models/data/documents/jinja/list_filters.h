#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_LIST_FILTERS_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_LIST_FILTERS_H_

#include <string>

#include "absl/status/statusor.h"
#include "models/data/documents/jinja/builtins.h"

namespace sluice::jinja {

// What the filter gives of a list; where Jinja2 gives a generator, the list of its elements.
absl::StatusOr<Value> ListFilter(const std::string& name, const Value& list,
                                 const Values& arguments);
// The filter `dictsort` of a dictionary: its pairs in the order of their keys, or values.
absl::StatusOr<Value> SortPairs(const Value& pairs, const Values& arguments);

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_LIST_FILTERS_H_
