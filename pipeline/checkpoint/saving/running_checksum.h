#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_RUNNING_CHECKSUM_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_RUNNING_CHECKSUM_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/types/span.h"

namespace sluice {

// The checksum of a file (Checksum of models/files/file_writer.h) whose bytes several processes
// have: each adds its own and hands the state on. All must run the same program.
class RunningChecksum {
 public:
  // Of no bytes yet.
  RunningChecksum();
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;

  void Add(const void* data, size_t size);
  std::string Hex() const;

  // What goes from one process to the next; so many bytes each time.
  std::string Export() const;
  static size_t ExportBytes();
  // `state`: what Export gave elsewhere.
  void Import(absl::Span<const char> state);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_RUNNING_CHECKSUM_H_
