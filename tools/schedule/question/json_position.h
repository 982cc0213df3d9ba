#ifndef SLUICE_TOOLS_SCHEDULE_QUESTION_JSON_POSITION_H_
#define SLUICE_TOOLS_SCHEDULE_QUESTION_JSON_POSITION_H_

#include <cstddef>

#include "absl/strings/string_view.h"

// Where in a JSON text a value is: the parser does not keep that, and an error about a value needs
// it.
namespace sluice {

// The offset of the value of `field` in the object that is the whole of `text`, or, with an index
// of at least 0, of that element of its list. If there is no such element, the closest existing
// place. Requires valid JSON.
size_t FindJsonValue(absl::string_view text, absl::string_view field, int index = -1);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_QUESTION_JSON_POSITION_H_
