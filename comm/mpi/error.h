#ifndef SLUICE_COMM_MPI_ERROR_H_
#define SLUICE_COMM_MPI_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// OK for MPI_SUCCESS; otherwise Unavailable, with MPI's own words. `what`: what was tried.
absl::Status FromMpi(int code, absl::string_view what);

// The error of a rank that got SIGTERM while it needed the others.
absl::Status ToldToStop(int rank);

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_ERROR_H_
