// The reader of TensorBoard's files, behind `--tensorboard`.
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "fuzz_folder.h"
#include "promises.h"
#include "readers.h"
#include "tools/train/log/event_file.h"

namespace sluice {
namespace {

constexpr char kApart[] = "\n====\n";
constexpr int64_t kStep = 3;  // so that an input finds it by chance

}  // namespace

void TryEventFile(absl::string_view text) {
  static const FuzzFolder folder;
  std::string records;
  for (const absl::string_view event : absl::StrSplit(text, kApart))
    records += EventRecord(std::string(event));
  // As they are, the first of them is soon the last: its checksums are wrong.
  for (const std::string& bytes : {std::string(text), records}) {
    folder.Clear();
    folder.Write("events.out.tfevents.1.other", bytes);
    ShownAt(folder.path(), kStep);
    {
      auto file = EventFile::Create(folder.path());
      Require(file.ok() && (*file)->AddScalars(kStep, {{"loss", 1}}).ok(), "a file is written");
      const auto shown = ShownAt(folder.path(), kStep);
      Require(shown.count("loss") == 1 && shown.at("loss").empty(), "what is added is shown");
      Require((*file)->AddStart(kStep).ok(), "a start is written");
    }
    Require(ShownAt(folder.path(), kStep).empty(), "a new start hides what was there");
  }
}

}  // namespace sluice
