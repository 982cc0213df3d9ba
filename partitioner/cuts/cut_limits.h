#ifndef SLUICE_PARTITIONER_CUTS_CUT_LIMITS_H_
#define SLUICE_PARTITIONER_CUTS_CUT_LIMITS_H_

#include <cstdint>

namespace sluice {

// How many cuts of a graph are listed: all of them up to the first number, and of graphs that have
// more, some, up to the second. Tests lower them.
struct CutLimits {
  int64_t all = 4'000'000;
  int64_t some = 100'000;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_CUT_LIMITS_H_
