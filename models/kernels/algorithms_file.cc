#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/kernels/cuda/products/algorithms.h"
#include "models/spec/fields.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "sluice algorithms";
constexpr int64_t kVersion = 1;
constexpr int64_t kMostRows = (int64_t{1} << 31) - 1;  // or columns of a matrix
constexpr int64_t kMostCublasLt = int64_t{1} << 30;
constexpr double kMostSeconds = 1e6;
constexpr size_t kDigits = 16;  // of a word

struct EpilogueName {
  cuda::Epilogue epilogue;
  const char* name;
};
constexpr EpilogueName kEpilogues[] = {{cuda::Epilogue::kNone, "none"},
                                       {cuda::Epilogue::kBias, "bias"},
                                       {cuda::Epilogue::kDGelu, "dgelu"}};

const char* NameOf(cuda::Epilogue epilogue) {
  for (const EpilogueName& known : kEpilogues) {
    if (known.epilogue == epilogue) return known.name;
  }
  return "";
}

std::string FormatWords(const ProductAlgorithm::Words& words) {
  std::string text;
  for (const uint64_t word : words) absl::StrAppend(&text, absl::Hex(word, absl::kZeroPad16));
  return text;
}

bool ParseWords(absl::string_view text, ProductAlgorithm::Words* words) {
  if (text.size() != words->size() * kDigits) return false;
  for (size_t i = 0; i < words->size(); ++i) {
    const absl::string_view digits = text.substr(i * kDigits, kDigits);
    const bool plain = std::all_of(digits.begin(), digits.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
    if (!plain || !absl::SimpleHexAtoi(digits, &(*words)[i])) return false;
  }
  return true;
}

Json ProductJson(const ProductAlgorithm& product) {
  const cuda::MatmulShape& shape = product.shape;
  Json json = {{"m", shape.m},
               {"k", shape.k},
               {"n", shape.n},
               {"in", DTypeName(shape.in)},
               {"out", DTypeName(shape.out)},
               {"a_transposed", shape.a_transposed},
               {"b_transposed", shape.b_transposed},
               {"adds", shape.adds},
               {"epilogue", NameOf(shape.epilogue)},
               {"algorithm", FormatWords(product.words)},
               {"seconds", product.seconds},
               {"first_seconds", product.first_seconds}};
  if (shape.a_stride != 0) json["a_stride"] = shape.a_stride;
  return json;
}

// Fields that must be there, of types that FieldReader only has as optional ones.
void ReadText(const char* field, FieldReader* reader, std::string* text) {
  if (reader->Require(field)) reader->OptionalString(field, text);
}
void ReadFlag(const char* field, FieldReader* reader, bool* flag) {
  if (reader->Require(field)) reader->OptionalBool(field, flag);
}

void ReadDType(const char* field, FieldReader* reader, DType* dtype) {
  std::string name;
  ReadText(field, reader, &name);
  const bool known = ParseDType(name, dtype) && *dtype != DType::kInt32;
  if (!known) reader->Fail(field, "\"fp32\" or \"bf16\"");
}

void ReadEpilogue(FieldReader* reader, cuda::Epilogue* epilogue) {
  std::string name;
  ReadText("epilogue", reader, &name);
  const auto* const known =
      std::find_if(std::begin(kEpilogues), std::end(kEpilogues),
                   [&name](const EpilogueName& one) { return name == one.name; });
  if (known == std::end(kEpilogues)) {
    return reader->Fail("epilogue", "\"none\", \"bias\" or \"dgelu\"");
  }
  *epilogue = known->epilogue;
}

absl::StatusOr<ProductAlgorithm> ReadProduct(const nlohmann::json& json, absl::string_view file) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": products: has ", ShowJson(json), "; expected a list of objects"));
  }
  FieldReader reader(json, file, "");
  ProductAlgorithm product;
  cuda::MatmulShape& shape = product.shape;
  reader.Count("m", 1, kMostRows, &shape.m);
  reader.Count("k", 1, kMostRows, &shape.k);
  reader.Count("n", 1, kMostRows, &shape.n);
  ReadDType("in", &reader, &shape.in);
  ReadDType("out", &reader, &shape.out);
  ReadFlag("a_transposed", &reader, &shape.a_transposed);
  const int64_t a_row = shape.a_transposed ? shape.m : shape.k;
  if (json.contains("a_stride")) reader.Count("a_stride", a_row + 1, kMostRows, &shape.a_stride);
  ReadFlag("b_transposed", &reader, &shape.b_transposed);
  ReadFlag("adds", &reader, &shape.adds);
  ReadEpilogue(&reader, &shape.epilogue);
  std::string words;
  ReadText("algorithm", &reader, &words);
  if (!ParseWords(words, &product.words)) reader.Fail("algorithm", "128 digits of 0-9 and a-f");
  reader.Number("seconds", 0, kMostSeconds, &product.seconds);
  reader.Number("first_seconds", 0, kMostSeconds, &product.first_seconds);
  if (!reader.status().ok()) return reader.status();
  return product;
}

}  // namespace

std::string FormatAlgorithms(const ProductAlgorithms& algorithms) {
  Json products = Json::array();
  for (const ProductAlgorithm& product : algorithms.products)
    products.push_back(ProductJson(product));
  const Json document = {{"format", kFormat},
                         {"version", kVersion},
                         {"gpu", algorithms.gpu},
                         {"cublaslt", algorithms.cublaslt},
                         {"products", std::move(products)}};
  return JsonText(document, 1) + "\n";
}

absl::StatusOr<ProductAlgorithms> ParseAlgorithms(absl::string_view text, absl::string_view file) {
  const absl::StatusOr<nlohmann::json> json =
      ParseJsonObject(text, file, "expected what `sluice profile --tune` writes");
  if (!json.ok()) return json.status();
  FieldReader reader(*json, file, "");
  if (reader.Require("format")) reader.OneOf("format", {kFormat});
  if (reader.Require("version")) reader.OneOf("version", {kVersion});
  ProductAlgorithms algorithms;
  ReadText("gpu", &reader, &algorithms.gpu);
  reader.Count("cublaslt", 1, kMostCublasLt, &algorithms.cublaslt);
  if (reader.Require("products") && !(*json)["products"].is_array()) {
    reader.Fail("products", "a list of objects");
  }
  if (!reader.status().ok()) return reader.status();
  std::set<cuda::MatmulShape> seen;
  for (const nlohmann::json& product : (*json)["products"]) {
    absl::StatusOr<ProductAlgorithm> read = ReadProduct(product, file);
    if (!read.ok()) return read.status();
    if (!seen.insert(read->shape).second) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: products: [%d, %d] x [%d, %d] is there twice; expected each product once", file,
          read->shape.m, read->shape.k, read->shape.k, read->shape.n));
    }
    algorithms.products.push_back(*std::move(read));
  }
  return algorithms;
}

}  // namespace sluice
