#ifndef SLUICE_TOOLS_SCHEDULE_QUESTION_JSON_POSITION_H_
#define SLUICE_TOOLS_SCHEDULE_QUESTION_JSON_POSITION_H_

#include <cstddef>

#include "absl/strings/string_view.h"

// Where in a JSON text a value stands: the parser forgets it, and an error about a value needs it.
namespace sluice {

// The offset of the value of `field` in the object that is the whole of `text`, or, with an index
// of at least 0, of that element of its list. The closest place that there is when an element does
// not exist. Requires valid JSON.
size_t FindJsonValue(absl::string_view text, absl::string_view field, int index = -1);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_QUESTION_JSON_POSITION_H_
