#ifndef SLUICE_TOOLS_SCHEDULE_JSON_POSITION_H_
#define SLUICE_TOOLS_SCHEDULE_JSON_POSITION_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

// Where in a JSON text a value stands: the parser forgets it, and an error about a value needs it.
namespace sluice {

// "line 3, column 14", both counted from 1, of the byte at `offset`.
std::string LineAndColumn(absl::string_view text, size_t offset);

// The offset of the value of `field` in the object that is the whole of `text`, or, with an index
// of at least 0, of that element of its list. The closest place that there is when an element does
// not exist. Requires valid JSON.
size_t FindJsonValue(absl::string_view text, absl::string_view field, int index = -1);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_JSON_POSITION_H_
