#include "comm/mpi/error.h"

#include <mpi.h>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status FromMpi(int code, absl::string_view what) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat("MPI: ", what, ": ", text));
}

absl::Status ToldToStop(int rank) {
  return absl::UnavailableError(
      absl::StrCat("rank ", rank, " was told to stop (SIGTERM); another rank of the job was ",
                   "probably lost, or the job was ended"));
}

}  // namespace sluice
