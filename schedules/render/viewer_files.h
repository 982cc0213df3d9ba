#ifndef SLUICE_SCHEDULES_RENDER_VIEWER_FILES_H_
#define SLUICE_SCHEDULES_RENDER_VIEWER_FILES_H_

#include "absl/strings/string_view.h"

// The files of schedules/viewer, which the build turns into strings (tools/cmake/EmbedText.cmake),
// so that none of them is needed at run time.
namespace sluice {

extern const absl::string_view kViewerHtml;
extern const absl::string_view kViewerCss;
// All scripts, one after the other.
extern const absl::string_view kViewerScript;

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_VIEWER_FILES_H_
