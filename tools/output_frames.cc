#include "tools/output_frames.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

struct Header {
  int64_t step = 0;
  uint64_t bytes = 0;
  uint64_t unless_shown = 0;
};

}  // namespace

std::string FormatFrame(const OutputMark& mark, absl::string_view text) {
  const Header header = {
      .step = mark.step, .bytes = text.size(), .unless_shown = mark.unless_shown ? 1U : 0U};
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header)),
                      text);
}

std::optional<OutputFrame> FrameReader::Next() {
  Header header;
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (bytes_.size() - sizeof(header) < header.bytes) return std::nullopt;
  OutputFrame frame = {.mark = {.step = header.step, .unless_shown = header.unless_shown != 0},
                       .text = bytes_.substr(sizeof(header), header.bytes)};
  bytes_.erase(0, sizeof(header) + header.bytes);
  return frame;
}

bool ShownSteps::Take(const OutputMark& mark) {
  if (mark.unless_shown && mark.step <= last_) return false;
  last_ = std::max(last_, mark.step);
  return true;
}

}  // namespace sluice
