#include "tools/svg_to_png.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "partitioner/planning/profiling/machine.h"
#include "tools/run_program.h"

namespace sluice {
namespace {

constexpr char kProgram[] = "rsvg-convert";
constexpr absl::Duration kMostPatience = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::string> SvgToPng(const std::string& svg, absl::Duration patience) {
  const char* const path = std::getenv("PATH");
  const std::string program = FindProgram(kProgram, path == nullptr ? "" : path);
  if (program.empty()) {
    return absl::NotFoundError(absl::StrCat("pictures in pixels are made by ", kProgram,
                                            ", which is not on the PATH: apt install ",
                                            "librsvg2-bin"));
  }
  absl::StatusOr<EndedProgram> ended = RunProgram({.program = program,
                                                   .arguments = {"--format", "png"},
                                                   .input = svg,
                                                   .patience = std::min(patience, kMostPatience)});
  if (!ended.ok()) return ended.status();
  constexpr absl::string_view kSignature = "\x89PNG\r\n\x1a\n";
  if (ended->exit_code == 0 && absl::StartsWith(ended->output, kSignature))
    return std::move(ended->output);
  return absl::InternalError(absl::StrCat(
      program, " ended with exit code ", ended->exit_code, " and ", ended->output.size(),
      " bytes, which are no PNG file: ", absl::StripAsciiWhitespace(ended->errors)));
}

}  // namespace sluice
