#include "models/kernels/cuda/products/algorithm_choice.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/kernels/cuda/products/algorithm_race.h"
#include "models/kernels/cuda/products/algorithms.h"
#include "models/kernels/cuda/products/cublaslt.h"

namespace sluice::cuda {
namespace {

// Sums in a fixed order: a product that is split along k adds its parts, which are stored in the work
// area, in a separate step; or it is not split.
constexpr uint32_t kSchemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
constexpr int kMostOffered = 16;

// Of this process.
struct Choices {
  std::mutex mutex;
  using Key = std::pair<cublasLtHandle_t, MatmulShape>;  // there is one handle per device
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> chosen;
  std::map<MatmulShape, ProductAlgorithm::Words> given;
  std::map<MatmulShape, ProductAlgorithm> measured;
  bool measures = false;
};

Choices& TheChoices() {
  static auto* const choices = new Choices;
  return *choices;
}

ProductAlgorithm::Words WordsOf(const cublasLtMatmulAlgo_t& algorithm) {
  ProductAlgorithm::Words words = {};
  static_assert(sizeof(algorithm.data) == sizeof(words));
  std::copy(std::begin(algorithm.data), std::end(algorithm.data), words.begin());
  return words;
}

// At most `most` algorithms, in the library's order; none where it has none.
absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> Offered(const MatmulPlan& plan, int most) {
  const CublasLt& library = *plan.library;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasStatus_t status = library.preference_create(&preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = library.preference_set(preference, attribute, &value, sizeof(value));
    }
  };
  constexpr uint32_t kAlignment = 16;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMatmulScratch);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kSchemes);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
  cublasLtMatmulHeuristicResult_t found[kMostOffered] = {};
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status =
        library.heuristic(plan.handle, plan.description.get(), plan.first.get(), plan.second.get(),
                          plan.result.get(), plan.result.get(), preference, most, found, &count);
  }
  if (preference != nullptr) library.preference_destroy(preference);
  std::vector<cublasLtMatmulAlgo_t> offered;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    return offered;
  if (status != CUBLAS_STATUS_SUCCESS) return library.ToStatus(status, "choosing an algorithm");
  for (const cublasLtMatmulHeuristicResult_t& one : absl::MakeSpan(found, count)) {
    if (one.state == CUBLAS_STATUS_SUCCESS) offered.push_back(one.algo);
  }
  return offered;
}

// The algorithm that was given for this shape, if it can be trusted.
absl::StatusOr<cublasLtMatmulAlgo_t> Given(const MatmulShape& shape, const MatmulPlan& plan,
                                           const ProductAlgorithm::Words& words) {
  const CublasLt& library = *plan.library;
  cublasLtMatmulAlgo_t algorithm = {};
  std::copy(words.begin(), words.end(), std::begin(algorithm.data));
  cublasLtMatmulHeuristicResult_t checked = {};
  const cublasStatus_t status =
      library.algo_check(plan.handle, plan.description.get(), plan.first.get(), plan.second.get(),
                         plan.result.get(), plan.result.get(), &algorithm, &checked);
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
  size_t written = 0;
  const bool fits = status == CUBLAS_STATUS_SUCCESS && checked.workspaceSize <= kMatmulScratch &&
                    library.algo_get(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                     sizeof(scheme), &written) == CUBLAS_STATUS_SUCCESS &&
                    (scheme & ~kSchemes) == 0;
  if (fits) return algorithm;
  return absl::InvalidArgumentError(absl::StrFormat(
      "cuBLASLt (%s) does not multiply [%d, %d] by [%d, %d] in one order by the algorithm that was "
      "given; measure the algorithms again",
      library.path, shape.m, shape.k, shape.k, shape.n));
}

absl::StatusOr<std::optional<cublasLtMatmulAlgo_t>> Choose(const MatmulShape& shape,
                                                           const MatmulPlan& plan,
                                                           Choices* choices) {
  if (const auto found = choices->given.find(shape); found != choices->given.end()) {
    return Given(shape, plan, found->second);
  }
  const absl::StatusOr<std::vector<cublasLtMatmulAlgo_t>> offered =
      Offered(plan, choices->measures ? kMostOffered : 1);
  if (!offered.ok()) return offered.status();
  if (offered->empty()) return std::nullopt;
  if (!choices->measures) return offered->front();
  const absl::StatusOr<RaceResult> best = FastestOf(*offered, shape, plan);
  if (!best.ok()) return best.status();
  choices->measured[shape] = {.shape = shape,
                              .words = WordsOf(best->algorithm),
                              .seconds = best->seconds,
                              .first_seconds = best->first_seconds};
  return best->algorithm;
}

}  // namespace

absl::StatusOr<std::optional<cublasLtMatmulAlgo_t>> ChooseAlgorithm(const MatmulShape& shape,
                                                                    const MatmulPlan& plan) {
  Choices& choices = TheChoices();
  const std::lock_guard lock(choices.mutex);
  const Choices::Key key(plan.handle, shape);
  if (const auto found = choices.chosen.find(key); found != choices.chosen.end()) {
    return found->second;
  }
  auto algorithm = Choose(shape, plan, &choices);
  if (algorithm.ok()) choices.chosen.emplace(key, *algorithm);
  return algorithm;
}

}  // namespace sluice::cuda

namespace sluice {

absl::Status UseAlgorithms(const ProductAlgorithms& algorithms, absl::string_view gpu) {
  const absl::StatusOr<cuda::CublasLt>& library = cuda::LoadCublasLt();
  if (!library.ok()) return library.status();
  const auto version = static_cast<int64_t>(library->version());
  if (algorithms.gpu != gpu || algorithms.cublaslt != version) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the algorithms were measured on ", algorithms.gpu, " with cuBLASLt ", algorithms.cublaslt,
        "; here is ", gpu, " with cuBLASLt ", version, " (", library->path,
        "); measure them here: sluice profile --device cuda --tune FILE"));
  }
  cuda::Choices& choices = cuda::TheChoices();
  const std::lock_guard lock(choices.mutex);
  for (const ProductAlgorithm& product : algorithms.products)
    choices.given[product.shape] = product.words;
  return absl::OkStatus();
}

void MeasureAlgorithms() {
  cuda::Choices& choices = cuda::TheChoices();
  const std::lock_guard lock(choices.mutex);
  choices.measures = true;
}

absl::StatusOr<ProductAlgorithms> MeasuredAlgorithms(absl::string_view gpu) {
  const absl::StatusOr<cuda::CublasLt>& library = cuda::LoadCublasLt();
  if (!library.ok()) return library.status();
  ProductAlgorithms algorithms;
  algorithms.gpu = std::string(gpu);
  algorithms.cublaslt = static_cast<int64_t>(library->version());
  cuda::Choices& choices = cuda::TheChoices();
  const std::lock_guard lock(choices.mutex);
  for (const auto& [shape, product] : choices.measured) algorithms.products.push_back(product);
  return algorithms;
}

}  // namespace sluice
