#include "pipeline/train/portion.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "comm/progress.h"
#include "models/device/instant.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

// A path as a number that fits a double; an empty one is 0.
double PathWord(const std::string& path) {
  constexpr unsigned kDropped = 11;
  return path.empty() ? 0 : static_cast<double>(XXH3_64bits(path.data(), path.size()) >> kDropped);
}

// What a rank says of a portion.
std::string DescribePortion(const double* words) {
  if (words[0] == 0) return "the end of the run";
  return absl::StrCat(words[2], words[2] == 1 ? " step" : " steps",
                      words[3] == 0 ? "" : ", an evaluation", words[4] == 0 ? "" : ", a checkpoint",
                      words[5] == 0 ? "" : ", a hash");
}

}  // namespace

absl::StatusOr<std::optional<Portion>> AgreeOnPortion(Portions* portions, int64_t number,
                                                      Communicator* world) {
  std::optional<Portion> mine;
  {
    // However long the program takes that decides; the same holds for those of other processes.
    const Progress::Waiting waiting(world->progress(), Instant::InfiniteFuture());
    mine = portions->Await(number);
  }
  constexpr size_t kWords = 6;
  double words[kWords] = {};  // whether it goes on, and is refused; else what it is
  if (mine.has_value()) {
    words[0] = 1;
    words[1] = mine->refused.ok() ? 0 : 1;
  }
  if (mine.has_value() && mine->refused.ok()) {
    words[2] = static_cast<double>(mine->steps);
    words[3] = mine->evaluates ? 1 : 0;
    words[4] = PathWord(mine->saves_to);
    words[5] = mine->hashes ? 1 : 0;
  }
  std::vector<double> all(kWords * static_cast<size_t>(world->size()));
  absl::Status status = world->AllGather(words, absl::MakeSpan(all), Instant::InfiniteFuture());
  if (!status.ok()) return status;
  for (int rank = 1; rank < world->size(); ++rank) {
    const double* const theirs = all.data() + kWords * static_cast<size_t>(rank);
    const bool refused = theirs[1] != 0 || all[1] != 0;
    const bool alike =
        theirs[0] == all[0] && (refused || std::equal(theirs + 2, theirs + kWords, &all[2]));
    if (alike) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " was asked for another thing than rank 0 (", DescribePortion(theirs),
        ", rank 0 ", DescribePortion(all.data()),
        "); the programs of all ranks must ask for the same things in the same order"));
  }
  for (int rank = 0; mine.has_value() && mine->refused.ok() && rank < world->size(); ++rank) {
    if (all[kWords * static_cast<size_t>(rank) + 1] == 0) continue;
    mine->refused = absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " could not do what was asked for, and says why"));
  }
  return mine;
}

}  // namespace sluice
