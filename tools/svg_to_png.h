#ifndef SLUICE_TOOLS_SVG_TO_PNG_H_
#define SLUICE_TOOLS_SVG_TO_PNG_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sluice {

// The picture `svg` in pixels, as many as it says: the bytes of a PNG file. rsvg-convert makes it,
// as it makes PDF. NotFound: there is no such program. DeadlineExceeded: it took longer than
// `patience`, or than ten seconds, which is many times what a large picture takes, and was killed.
// Otherwise the status says what it did.
absl::StatusOr<std::string> SvgToPng(const std::string& svg, absl::Duration patience);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SVG_TO_PNG_H_
