#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "models/kernels/cuda/products/algorithms.h"

namespace sluice {
namespace {

using testing::HasSubstr;

ProductAlgorithms Two() {
  const cuda::MatmulShape forward = {.m = 16384,
                                     .k = 768,
                                     .n = 2304,
                                     .in = DType::kBFloat16,
                                     .out = DType::kBFloat16,
                                     .epilogue = cuda::Epilogue::kBias};
  const cuda::MatmulShape weights = {.m = 768,
                                     .k = 16384,
                                     .n = 2304,
                                     .in = DType::kBFloat16,
                                     .out = DType::kFloat32,
                                     .a_stride = 832,
                                     .a_transposed = true,
                                     .adds = true};
  ProductAlgorithms two;
  two.gpu = "NVIDIA H200";
  two.cublaslt = 130100;
  two.products = {
      {.shape = forward, .words = {66, 1}, .seconds = 8.1e-5, .first_seconds = 8.9e-5},
      {.shape = weights, .words = {~uint64_t{0}, 0, 7}, .seconds = 1e-4, .first_seconds = 1e-4}};
  return two;
}

TEST(AlgorithmsFile, ComesBackFromItsText) {
  const ProductAlgorithms two = Two();
  const absl::StatusOr<ProductAlgorithms> read = ParseAlgorithms(FormatAlgorithms(two), "a.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, two);
  for (const cuda::Epilogue epilogue :
       {cuda::Epilogue::kNone, cuda::Epilogue::kBias, cuda::Epilogue::kDGelu}) {
    ProductAlgorithms one = two;
    one.products.resize(1);
    one.products[0].shape.epilogue = epilogue;
    EXPECT_EQ(*ParseAlgorithms(FormatAlgorithms(one), "a.json"), one);
  }
}

// What stands at `from` of a good file becomes `to`.
std::string Refusal(const std::string& from, const std::string& to) {
  std::string text = FormatAlgorithms(Two());
  const size_t at = text.find(from);
  if (at == std::string::npos) return "the file has no " + from;
  text.replace(at, from.size(), to);
  return std::string(ParseAlgorithms(text, "a.json").status().message());
}

TEST(AlgorithmsFile, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(Refusal("{\n", "[\n"), HasSubstr("a.json: not a JSON object"));
  EXPECT_THAT(Refusal("sluice algorithms", "sluice profile"), HasSubstr("a.json: field 'format'"));
  EXPECT_THAT(Refusal("\"format\"", "\"shape\""), HasSubstr("a.json: field 'format' is missing"));
  EXPECT_THAT(Refusal("\"version\": 1", "\"version\": 2"), HasSubstr("expected 1"));
  EXPECT_THAT(Refusal("\"NVIDIA H200\"", "200"), HasSubstr("expected a string"));
  EXPECT_THAT(Refusal("\"m\": 16384", "\"m\": 0"), HasSubstr("field 'm' is 0"));
  EXPECT_THAT(Refusal("\"a_stride\": 832", "\"a_stride\": 767"), HasSubstr("'a_stride' is 767"));
  EXPECT_THAT(Refusal("\"in\": \"bf16\"", "\"in\": \"fp8\""),
              HasSubstr("expected \"fp32\" or \"bf16\""));
  EXPECT_THAT(Refusal("\"adds\": false", "\"adds\": 0"), HasSubstr("expected true or false"));
  EXPECT_THAT(Refusal("\"bias\"", "\"relu\""), HasSubstr("\"none\", \"bias\" or \"dgelu\""));
  EXPECT_THAT(Refusal("0000000000000042", "000000000000004g"), HasSubstr("128 digits"));
  EXPECT_THAT(Refusal("0000000000000042", "42"), HasSubstr("128 digits"));
  EXPECT_THAT(Refusal("\"seconds\": 8.1e-05", "\"seconds\": -1"), HasSubstr("field 'seconds'"));
  EXPECT_THAT(Refusal("\"products\"", "\"product\""), HasSubstr("field 'products' is missing"));
  // The second product gets the first one's shape.
  ProductAlgorithms twice = Two();
  twice.products[1].shape = twice.products[0].shape;
  EXPECT_THAT(std::string(ParseAlgorithms(FormatAlgorithms(twice), "a.json").status().message()),
              HasSubstr("[16384, 768] x [768, 2304] is there twice; expected each product once"));
}

}  // namespace
}  // namespace sluice
