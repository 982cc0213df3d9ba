#include "pipeline/train/portion.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "comm/progress.h"
#include "models/device/instant.h"
#include "schedules/counted.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

// A path as a number that fits a double; an empty one is 0.
double PathWord(const std::string& path) {
  constexpr unsigned kDropped = 11;
  return path.empty() ? 0 : static_cast<double>(XXH3_64bits(path.data(), path.size()) >> kDropped);
}

std::string DescribeSteps(double steps) {
  // What has no number is as many as there can be, which a double rounds up.
  if (steps >= static_cast<double>(std::numeric_limits<int64_t>::max()))
    return "all steps that are left";
  return Counted(static_cast<int64_t>(steps), "step");
}

// What a rank says of a portion, beside what rank 0 says.
std::string DescribePortion(const double* words, const double* rank_0) {
  if (words[0] == 0) return "the end of the run";
  const bool elsewhere = words[4] != rank_0[4] && rank_0[4] != 0;
  return absl::StrCat(DescribeSteps(words[2]), words[3] == 0 ? "" : ", an evaluation",
                      words[4] == 0 ? "" : ", a checkpoint",
                      words[4] != 0 && elsewhere ? " in another folder" : "",
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
        "rank ", rank, " was asked for another thing than rank 0 (",
        DescribePortion(theirs, all.data()), "; rank 0: ", DescribePortion(all.data(), all.data()),
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
