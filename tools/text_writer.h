#ifndef SLUICE_TOOLS_TEXT_WRITER_H_
#define SLUICE_TOOLS_TEXT_WRITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/output_frames.h"

namespace sluice {

// Writes text to file descriptors on a thread of its own, in the order in which it is given, so
// that a reader which pauses (Ctrl-S, `| less`, a connection that hangs) does not stop the program.
class TextWriter {
 public:
  // More unread text than this makes Write wait for the reader.
  static constexpr size_t kMostWaiting = size_t{64} << 20;

  // `on_failure` is called once, on the writer's thread, with the first error of `out`: EPIPE where
  // its reader is gone (SIGPIPE must be ignored), otherwise what the system says. What is written to
  // `out` afterwards is dropped. Errors of other descriptors are ignored. `relay`: a pipe to who
  // prints to `out` in place of this process, and takes frames (output_frames.h); where nobody
  // reads it any more, this process prints itself. -1: none.
  explicit TextWriter(int out, std::function<void(int error)> on_failure = {}, int relay = -1);
  // Waits for what has been given, as Finish does, but not for a reader for which Finish has waited in
  // vain.
  ~TextWriter();
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  // To `out`. May be called from any thread.
  void Write(std::string text);
  // Of what is given to Write from now on: for whoever relays it.
  void SetMark(const OutputMark& mark);
  // For whoever relays it, and nobody else: more of what it knows of the text before, without text.
  void Tell(const OutputMark& mark);
  // What has been given and not been written, in bytes.
  size_t waiting_bytes() const;
  // To another descriptor. Text that may be replaced is left out where newer text of this kind
  // follows it before it is written: for a progress bar.
  void WriteTo(int fd, std::string text, bool replaceable = false);
  // Waits until all has been written, but no longer than `most`; then an error of `out`, if there was
  // one: InvalidArgument. What a reader has not taken by then is lost.
  absl::Status Finish(absl::Duration most = absl::InfiniteDuration());

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);

  // Also the thread's, which may hang in a write for longer than this object lives.
  const std::shared_ptr<Shared> shared_;
  const bool relayed_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TEXT_WRITER_H_
