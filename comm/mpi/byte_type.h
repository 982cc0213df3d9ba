#ifndef SLUICE_COMM_MPI_BYTE_TYPE_H_
#define SLUICE_COMM_MPI_BYTE_TYPE_H_

#include <mpi.h>

#include <climits>
#include <cstddef>

namespace sluice {

// So many bytes as MPI wants them: a count, which is an int, of elements of a type. More than an int
// counts are one element of a type of their own, which ends with this object; requests that were
// made with it keep it.
class ByteType {
 public:
  explicit ByteType(size_t bytes);
  ~ByteType();
  ByteType(const ByteType&) = delete;
  ByteType& operator=(const ByteType&) = delete;

  int code() const { return code_; }  // of MPI: whether there is such a type
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int code_ = MPI_SUCCESS;
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace sluice

#endif  // SLUICE_COMM_MPI_BYTE_TYPE_H_
