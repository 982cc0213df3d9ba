#include "comm/mpi/byte_type.h"

namespace sluice {
namespace {

constexpr int kBlock = 1 << 20;

// Blocks, and the bytes behind them.
int MakeType(size_t bytes, MPI_Datatype* type) {
  MPI_Datatype block = MPI_DATATYPE_NULL;
  int code = MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  if (code != MPI_SUCCESS) return code;
  const size_t rest = bytes % kBlock;
  const int counts[] = {static_cast<int>(bytes / kBlock), static_cast<int>(rest)};
  const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes - rest)};
  const MPI_Datatype parts[] = {block, MPI_BYTE};
  code = MPI_Type_create_struct(2, counts, places, parts, type);
  MPI_Type_free(&block);
  return code == MPI_SUCCESS ? MPI_Type_commit(type) : code;
}

}  // namespace

ByteType::ByteType(size_t bytes) {
  if (bytes <= INT_MAX) {
    count_ = static_cast<int>(bytes);
    return;
  }
  count_ = 1;
  code_ = MakeType(bytes, &type_);
}

ByteType::~ByteType() {
  if (type_ != MPI_BYTE && code_ == MPI_SUCCESS) MPI_Type_free(&type_);
}

}  // namespace sluice
