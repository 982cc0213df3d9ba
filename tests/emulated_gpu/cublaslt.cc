// cuBLASLt's functions as models/kernels/cuda uses them: products by columns, added in fp32 in the
// order of k, or against it.
#include "models/kernels/cuda/products/cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

#include "tests/emulated_gpu/state.h"
#include "tests/models/kernels/cuda_emulation/bfloat16.h"
#include "tests/models/kernels/cuda_emulation/on_stream.h"

namespace sluice::cuda {
namespace {

struct Description {
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  const void* aux = nullptr;
  int64_t aux_stride = 0;
};

struct Layout {
  cudaDataType type;
  int64_t rows, columns, stride;  // by columns
};

template <class To, class From>
To* As(From* opaque) {
  return reinterpret_cast<To*>(opaque);
}

float Load(cudaDataType type, const void* from, int64_t index) {
  if (type == CUDA_R_32F) return static_cast<const float*>(from)[index];
  return emulation::FromBFloat16(static_cast<const uint16_t*>(from)[index]);
}

void Store(cudaDataType type, void* to, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(to)[index] = value;
  } else {
    static_cast<uint16_t*>(to)[index] = emulation::ToBFloat16(value);
  }
}

// Of the tanh form.
float GeluSlope(float x) {
  const float scale = 0.7978845608f, cube = 0.044715f;  // sqrt(2 / pi)
  const float tanh = std::tanh(scale * (x + cube * x * x * x));
  return 0.5f * (1 + tanh) + 0.5f * x * (1 - tanh * tanh) * scale * (1 + 3 * cube * x * x);
}

struct Product {
  Description d;
  Layout a, b, c;
  const void *a_data, *b_data, *c_data;
  void* result;
  float alpha, beta;
  bool backwards;  // adds from the last k to the first

  void Run() const {
    const bool a_plain = d.first == CUBLAS_OP_N, b_plain = d.second == CUBLAS_OP_N;
    const int64_t depth = a_plain ? a.columns : a.rows;
    // In the order in which they are added: all rows of a with each k, so that the compiler takes
    // vectors.
    const auto at = [this, depth](int64_t i) { return backwards ? depth - 1 - i : i; };
    std::vector<float> left(static_cast<size_t>(depth * c.rows));
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t k = at(i);
      for (int64_t row = 0; row < c.rows; ++row) {
        left[static_cast<size_t>(i * c.rows + row)] =
            Load(a.type, a_data, a_plain ? row + k * a.stride : k + row * a.stride);
      }
    }
    std::vector<float> sums(static_cast<size_t>(c.rows));
    for (int64_t column = 0; column < c.columns; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      const float* factors = left.data();
      for (int64_t i = 0; i < depth; ++i, factors += c.rows) {
        const int64_t k = at(i);
        const float right =
            Load(b.type, b_data, b_plain ? k + column * b.stride : column + k * b.stride);
        AddMultiple(factors, right, sums);
      }
      for (int64_t row = 0; row < c.rows; ++row)
        Finish(row, column, sums[static_cast<size_t>(row)]);
    }
  }

  static void AddMultiple(const float* factors, float by, std::vector<float>& sums) {
    float* const to = sums.data();
    const size_t count = sums.size();
    for (size_t i = 0; i < count; ++i) to[i] += factors[i] * by;
  }

  void Finish(int64_t row, int64_t column, float sum) const {
    const int64_t to = row + column * c.stride;
    float value = alpha * sum;
    if (beta != 0) value += beta * Load(c.type, c_data, to);
    if (d.epilogue == CUBLASLT_EPILOGUE_BIAS) value += Load(c.type, d.bias, row);
    if (d.epilogue == CUBLASLT_EPILOGUE_DGELU) {
      value *= GeluSlope(Load(c.type, d.aux, row + column * d.aux_stride));
    }
    Store(c.type, result, to, value);
  }
};

// Whether the shapes fit, as the library checks them.
bool Fits(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
  const bool a_plain = d.first == CUBLAS_OP_N, b_plain = d.second == CUBLAS_OP_N;
  return (a_plain ? a.rows : a.columns) == c.rows && (b_plain ? b.columns : b.rows) == c.columns &&
         (a_plain ? a.columns : a.rows) == (b_plain ? b.rows : b.columns) && a.stride >= a.rows &&
         b.stride >= b.rows && c.stride >= c.rows && a.type == b.type;
}

cublasStatus_t SetDescription(cublasLtMatmulDesc_t opaque, cublasLtMatmulDescAttributes_t name,
                              const void* value, size_t bytes) {
  auto& d = *As<Description>(opaque);
  const auto take = [value, bytes](auto* to) {
    if (bytes != sizeof(*to)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(&d.first);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(&d.second);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(&d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(&d.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(&d.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(&d.aux_stride);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

// An algorithm's first word. The first adds in the order of k; the others in the other order, the
// last of them by atomics, which it is only asked for where a file says so.
enum Algorithm : uint64_t { kForwards = 1, kBackwards = 2, kByAtomics = 3 };
constexpr int kOffered = 2;

cublasStatus_t Choose(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                      cublasLtMatmulPreference_t, int most, cublasLtMatmulHeuristicResult_t* best,
                      int* count) {
  if (!Fits(*As<Description>(d), *As<Layout>(a), *As<Layout>(b), *As<Layout>(c))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *count = std::min(most, kOffered);
  for (int i = 0; i < *count; ++i) {
    best[i].state = CUBLAS_STATUS_SUCCESS;
    best[i].algo.data[0] = kForwards + static_cast<uint64_t>(i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Check(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                     const cublasLtMatmulAlgo_t* algorithm,
                     cublasLtMatmulHeuristicResult_t* found) {
  const uint64_t known = algorithm->data[0];
  const bool fits = Fits(*As<Description>(d), *As<Layout>(a), *As<Layout>(b), *As<Layout>(c));
  if (!fits || known < kForwards || known > kByAtomics) return CUBLAS_STATUS_NOT_SUPPORTED;
  found->workspaceSize = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Get(const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t name,
                   void* value, size_t bytes, size_t* written) {
  const uint32_t scheme = algorithm->data[0] == kByAtomics ? CUBLASLT_REDUCTION_SCHEME_INPLACE
                                                           : CUBLASLT_REDUCTION_SCHEME_NONE;
  if (name != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || bytes != sizeof(scheme)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(value, &scheme, sizeof(scheme));
  *written = sizeof(scheme);
  return CUBLAS_STATUS_SUCCESS;
}

// A kernel is loaded when it first runs, once everything that the GPU runs is done: a message that
// is awaited there must not depend on it. The kernel depends on more than the algorithm, for
// example on whether the result is added where it lies (seen with cuBLASLt 13.0 on an H200).
void LoadKernel(const Product& product) {
  using Key = std::tuple<bool, int, int, int, int, int, int64_t, int64_t, int64_t, bool, bool>;
  static std::mutex mutex;
  static auto* const loaded = new std::set<Key>;
  const Key key(product.backwards, int{product.d.first}, int{product.d.second},
                int{product.d.epilogue}, int{product.a.type}, int{product.c.type}, product.c.rows,
                product.c.columns,
                product.d.first == CUBLAS_OP_N ? product.a.columns : product.a.rows,
                product.beta != 0, product.c_data == product.result);
  {
    const std::lock_guard lock(mutex);
    if (!loaded->insert(key).second) return;
  }
  emulation::AwaitAll(emulation::CurrentGpu());
}

cublasStatus_t Multiply(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha,
                        const void* a_data, cublasLtMatrixLayout_t a, const void* b_data,
                        cublasLtMatrixLayout_t b, const void* beta, const void* c_data,
                        cublasLtMatrixLayout_t c, void* result, cublasLtMatrixLayout_t,
                        const cublasLtMatmulAlgo_t* algorithm, void*, size_t, cudaStream_t stream) {
  const Product product = {.d = *As<Description>(d),
                           .a = *As<Layout>(a),
                           .b = *As<Layout>(b),
                           .c = *As<Layout>(c),
                           .a_data = a_data,
                           .b_data = b_data,
                           .c_data = c_data,
                           .result = result,
                           .alpha = *static_cast<const float*>(alpha),
                           .beta = *static_cast<const float*>(beta),
                           .backwards = algorithm->data[0] != kForwards};
  if (!Fits(product.d, product.a, product.b, product.c)) return CUBLAS_STATUS_INVALID_VALUE;
  LoadKernel(product);
  emulation::OnStream(stream, [product] { product.Run(); });
  return CUBLAS_STATUS_SUCCESS;
}

CublasLt Emulated() {
  CublasLt library;
  library.status_string = [](cublasStatus_t) { return "as emulated"; };
  library.matmul = Multiply;
  library.version = [] { return size_t{130000}; };
  library.heuristic = Choose;
  library.algo_check = Check;
  library.algo_get = Get;
  library.desc_create = [](cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
    *made = As<cublasLtMatmulDescOpaque_t>(new Description);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.desc_destroy = [](cublasLtMatmulDesc_t gone) {
    delete As<Description>(gone);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.desc_set = SetDescription;
  library.layout_create = [](cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                             uint64_t columns, int64_t stride) {
    *made = As<cublasLtMatrixLayoutOpaque_t>(
        new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride});
    return CUBLAS_STATUS_SUCCESS;
  };
  library.layout_destroy = [](cublasLtMatrixLayout_t gone) {
    delete As<Layout>(gone);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.preference_create = [](cublasLtMatmulPreference_t* made) {
    *made = As<cublasLtMatmulPreferenceOpaque_t>(new char);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.preference_destroy = [](cublasLtMatmulPreference_t gone) {
    delete As<char>(gone);
    return CUBLAS_STATUS_SUCCESS;
  };
  library.preference_set = [](cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                              const void*, size_t) { return CUBLAS_STATUS_SUCCESS; };
  library.path = "an emulated cuBLASLt";
  return library;
}

}  // namespace

absl::Status CublasLt::ToStatus(cublasStatus_t status, absl::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(std::string(what) + ": status " + std::to_string(int{status}));
}

const absl::StatusOr<CublasLt>& LoadCublasLt() {
  static const auto* const library = new absl::StatusOr<CublasLt>(Emulated());
  return *library;
}

absl::StatusOr<cublasLtHandle_t> CublasLtHandle(const CublasLt&) {
  static char handle;
  return As<cublasLtContext>(&handle);
}

}  // namespace sluice::cuda
