#ifndef SLUICE_TOOLS_OUTPUT_FRAMES_H_
#define SLUICE_TOOLS_OUTPUT_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

// How a process that `sluice launch` has started hands over what it prints: in frames, each of
// which arrives as a whole or not at all, so that whoever prints them knows what has been printed
// when the process is lost.
namespace sluice {

// What is known of a text beside its words.
struct OutputMark {
  int64_t step = -1;          // the newest step that has been shown with it; -1: none
  bool unless_shown = false;  // it shows that step once more, in case that it was not shown
  bool rewinds = false;       // the steps after it are shown again, whatever was shown of them
  std::optional<float> loss = std::nullopt;  // of that step
  // It is the summary, after which a run shows and writes nothing more: what the run ends with.
  std::optional<int> exit_code = std::nullopt;
};

struct OutputFrame {
  OutputMark mark;
  std::string text;
};

// The bytes of a frame; of one program on one machine.
std::string FormatFrame(const OutputMark& mark, absl::string_view text);

// Finds the frames in bytes that come in pieces.
class FrameReader {
 public:
  void Add(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  // The next frame that is whole.
  std::optional<OutputFrame> Next();

 private:
  std::string bytes_;
};

// What of the frames of one process after the other is to be printed.
class ShownSteps {
 public:
  // Whether a frame with this mark is to be printed; the caller then prints it.
  bool Take(const OutputMark& mark);

 private:
  int64_t last_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_OUTPUT_FRAMES_H_
