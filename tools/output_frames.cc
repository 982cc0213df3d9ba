#include "tools/output_frames.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

struct Header {
  int64_t step = 0;
  uint64_t bytes = 0;
  float loss = 0;
  int32_t exit_code = 0;
  uint16_t unless_shown = 0;
  uint16_t rewinds = 0;
  uint16_t has_loss = 0;
  uint16_t has_exit_code = 0;
};

}  // namespace

std::string FormatFrame(const OutputMark& mark, absl::string_view text) {
  const Header header = {.step = mark.step,
                         .bytes = text.size(),
                         .loss = mark.loss.value_or(0),
                         .exit_code = mark.exit_code.value_or(0),
                         .unless_shown = static_cast<uint16_t>(mark.unless_shown),
                         .rewinds = static_cast<uint16_t>(mark.rewinds),
                         .has_loss = static_cast<uint16_t>(mark.loss.has_value()),
                         .has_exit_code = static_cast<uint16_t>(mark.exit_code.has_value())};
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header)),
                      text);
}

std::optional<OutputFrame> FrameReader::Next() {
  Header header;
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (bytes_.size() - sizeof(header) < header.bytes) return std::nullopt;
  OutputMark mark = {.step = header.step,
                     .unless_shown = header.unless_shown != 0,
                     .rewinds = header.rewinds != 0};
  if (header.has_loss != 0) mark.loss = header.loss;
  if (header.has_exit_code != 0) mark.exit_code = header.exit_code;
  OutputFrame frame = {.mark = mark, .text = bytes_.substr(sizeof(header), header.bytes)};
  bytes_.erase(0, sizeof(header) + header.bytes);
  return frame;
}

bool ShownSteps::Take(const OutputMark& mark) {
  if (mark.unless_shown && mark.step <= last_) return false;
  last_ = mark.rewinds ? std::min(last_, mark.step) : std::max(last_, mark.step);
  return true;
}

}  // namespace sluice
