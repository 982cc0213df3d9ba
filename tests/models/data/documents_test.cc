#include "models/data/documents/documents.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/corpora/token_store.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

constexpr int64_t kSeq = 8;
constexpr int32_t kVocabulary = 1000;

using Texts = std::vector<std::vector<int32_t>>;

Documents Make(const Texts& texts) {
  TokenStore store;
  Documents documents;
  documents.begins = {0};
  for (const std::vector<int32_t>& text : texts) {
    EXPECT_TRUE(store.Append(text).ok());
    documents.begins.push_back(store.size());
    documents.counted.push_back(
        text.empty() ? 0
                     : static_cast<int32_t>(std::count_if(text.begin() + 1, text.end(),
                                                          [](int32_t t) { return t >= 0; })));
  }
  documents.tokens = *store.Finish();
  return documents;
}

DataRequest Request(uint64_t seed = 1) {
  return {.path = "d.jsonl",
          .seq = kSeq,
          .seed = seed,
          .vocabulary = kVocabulary,
          .validation = {.share = 0}};
}

std::unique_ptr<Dataset> Open(const Texts& texts, bool packed = true, uint64_t seed = 1) {
  auto data = MakeDocumentDataset(Make(texts), nullptr, packed, {}, Request(seed));
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : nullptr;
}

struct Window {
  std::vector<int32_t> input = std::vector<int32_t>(kSeq, -7);
  std::vector<int32_t> targets = std::vector<int32_t>(kSeq, -7);
  std::vector<int32_t> starts = std::vector<int32_t>(kSeq, -7);
  bool operator==(const Window&) const = default;
  bool operator<(const Window& other) const {
    return std::tie(input, targets, starts) < std::tie(other.input, other.targets, other.starts);
  }
};

Window Get(const Dataset& data, Split split, int64_t number) {
  Window window;
  data.Fill(split, number, 1, DType::kInt32,
            {.input = window.input.data(),
             .targets = window.targets.data(),
             .starts = window.starts.data()});
  return window;
}

// A naive twin: the windows of all documents in their order.
std::vector<Window> Packed(const Texts& texts, bool packed) {
  std::vector<Window> windows;
  size_t used = kSeq;
  const auto close = [&] {
    if (windows.empty()) return;
    for (size_t i = used; i < kSeq; ++i) {
      windows.back().input[i] = 0;
      windows.back().targets[i] = kNoTarget;
      windows.back().starts[i] = static_cast<int32_t>(used);
    }
  };
  for (const std::vector<int32_t>& text : texts) {
    if (std::none_of(text.begin() + (text.empty() ? 0 : 1), text.end(),
                     [](int32_t token) { return token >= 0; })) {
      continue;
    }
    for (size_t begin = 0; begin + 1 < text.size(); begin += kSeq) {
      const size_t size = std::min<size_t>(kSeq, text.size() - begin);
      if (!packed || used + size > kSeq) {
        close();
        windows.emplace_back();
        used = 0;
      }
      for (size_t i = 0; i < size; ++i) {
        const bool has_next = begin + i + 1 < text.size();
        const int32_t token = text[begin + i];
        windows.back().input[used + i] = token < 0 ? ~token : token;
        windows.back().targets[used + i] =
            has_next && text[begin + i + 1] >= 0 ? text[begin + i + 1] : kNoTarget;
        windows.back().starts[used + i] = static_cast<int32_t>(used);
      }
      used += size;
    }
  }
  close();
  return windows;
}

// Documents of any length; those with tokens that do not count are at most kSeq long.
Texts RandomTexts(std::mt19937& random, size_t count) {
  Texts texts(count);
  int32_t next = 1;
  for (std::vector<int32_t>& text : texts) {
    const bool masked = random() % 2 == 0;
    text.resize(random() % (masked ? kSeq + 1 : 3 * kSeq));
    for (int32_t& token : text) {
      token = next++ % kVocabulary;
      if (masked && random() % 3 == 0) token = WithoutCounting(token);
    }
  }
  texts.push_back({1, 2});
  return texts;
}

TEST(Documents, EveryEpochHasEachWindowOfTheTwinOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Texts texts = RandomTexts(random, random() % 40);
    const bool packed = round % 3 != 0;
    const auto data = Open(texts, packed);
    ASSERT_NE(data, nullptr);
    std::vector<Window> expected = Packed(texts, packed);
    ASSERT_EQ(data->samples(Split::kTrain), static_cast<int64_t>(expected.size()));
    std::sort(expected.begin(), expected.end());
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<Window> got;
      for (size_t i = 0; i < expected.size(); ++i) {
        const int64_t number =
            epoch * static_cast<int64_t>(expected.size()) + static_cast<int64_t>(i);
        got.push_back(Get(*data, Split::kTrain, number));
        EXPECT_EQ(
            data->counted_targets(Split::kTrain, number, 1),
            kSeq - std::count(got.back().targets.begin(), got.back().targets.end(), kNoTarget));
      }
      std::sort(got.begin(), got.end());
      ASSERT_EQ(got, expected);
    }
    EXPECT_EQ(data->status(), absl::OkStatus());
  }
}

TEST(Documents, EpochsHaveOrdersOfTheirOwn) {
  Texts texts;
  for (int32_t i = 1; i < 100; ++i) texts.push_back({i, i, i, i, i});
  const auto data = Open(texts);
  std::set<std::vector<int32_t>> orders;
  for (const uint64_t seed : {1, 2}) {
    const auto seeded = Open(texts, true, seed);
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
      std::vector<int32_t> order;
      for (int64_t i = 0; i < 99; ++i) {
        order.push_back(Get(*seeded, Split::kTrain, epoch * 99 + i).input[0]);
      }
      orders.insert(order);
    }
  }
  EXPECT_EQ(orders.size(), 10U);
}

TEST(Documents, MicroBatchesCutOneSequence) {
  std::mt19937 random(3);
  const auto data = Open(RandomTexts(random, 60));
  for (const int64_t size : {2, 3, 7}) {
    std::vector<int32_t> input(size * kSeq), targets(size * kSeq), starts(size * kSeq);
    data->Fill(Split::kTrain, 11, size, DType::kInt32,
               {.input = input.data(), .targets = targets.data(), .starts = starts.data()});
    int64_t counted = 0;
    for (int64_t i = 0; i < size; ++i) {
      const Window one = Get(*data, Split::kTrain, 11 * size + i);
      EXPECT_TRUE(std::equal(one.input.begin(), one.input.end(), input.begin() + i * kSeq));
      EXPECT_TRUE(std::equal(one.targets.begin(), one.targets.end(), targets.begin() + i * kSeq));
      EXPECT_TRUE(std::equal(one.starts.begin(), one.starts.end(), starts.begin() + i * kSeq));
      counted += data->counted_targets(Split::kTrain, 11 * size + i, 1);
    }
    EXPECT_EQ(data->counted_targets(Split::kTrain, 11, size), counted);
  }
}

// As many documents and windows, and the same tokens one after another.
TEST(Documents, AFingerprintSaysWhereDocumentsEnd) {
  const auto first = Open({{1, 2, 3, 4}, {5, 6}});
  const auto other = Open({{1, 2, 3}, {4, 5, 6}});
  EXPECT_NE(first->fingerprint(), other->fingerprint());
  EXPECT_EQ(first->fingerprint(), Open({{1, 2, 3, 4}, {5, 6}})->fingerprint());
  EXPECT_NE(first->fingerprint(), Open({{1, 2, ~3, 4}, {5, 6}})->fingerprint());
  const auto beside = [](const Texts& validation) {
    return *MakeDocumentDataset(Make({{1, 2, 3}}), std::make_unique<Documents>(Make(validation)),
                                true, {}, Request());
  };
  EXPECT_NE(beside({{1, 2, 3, 4}, {5, 6}})->fingerprint(),
            beside({{1, 2, 3}, {4, 5, 6}})->fingerprint());
}

TEST(Documents, TheLastOnesAreHeldOut) {
  Texts texts;
  for (int32_t i = 0; i < 25; ++i) texts.push_back({i, i, i, i, i, i});
  DataRequest request = Request();
  request.validation.share = 0.1;
  const auto data = *MakeDocumentDataset(Make(texts), nullptr, true, {}, request);
  EXPECT_EQ(data->samples(Split::kTrain), 23);
  ASSERT_EQ(data->samples(Split::kValidation), 2);
  EXPECT_EQ(Get(*data, Split::kValidation, 0).input[0], 23);
  EXPECT_EQ(Get(*data, Split::kValidation, 3).input[0], 24);
  const auto other = *MakeDocumentDataset(
      Make(texts), std::make_unique<Documents>(Make({{7, 8, 9}})), true, {}, request);
  EXPECT_EQ(other->samples(Split::kTrain), 25);
  EXPECT_EQ(Get(*other, Split::kValidation, 0).input[1], 8);
  EXPECT_NE(other->fingerprint(), data->fingerprint());
}

TEST(Documents, NothingToTrainOnIsAnError) {
  for (const Texts& texts : {Texts{}, Texts{{1}}, Texts{{1, WithoutCounting(2)}}}) {
    const auto data = MakeDocumentDataset(Make(texts), nullptr, true, {}, Request());
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(data.status().message()), ::testing::HasSubstr("d.jsonl"));
  }
}

// Without a document, its last one is not asked for.
TEST(Documents, NothingCanBeHeldOutOfNothing) {
  DataRequest request = Request();
  request.validation.share = 0.1;
  for (const Texts& texts : {Texts{}, Texts{{1, 2, 3}}}) {
    const auto data = MakeDocumentDataset(Make(texts), nullptr, true, {}, request);
    EXPECT_THAT(std::string(data.status().message()),
                ::testing::HasSubstr("d.jsonl leaves no document to train on: documents: 0 of 0"));
  }
}

TEST(TokenStore, ReadsTheSameFromMemoryAndFromAFile) {
  std::vector<int32_t> all;
  TokenStore held;
  TokenStore spilled(/*in_memory=*/100);
  for (int32_t i = 0; i < 70; ++i) {
    const std::vector<int32_t> some(static_cast<size_t>(i % 17), i % 2 == 0 ? i : ~i);
    ASSERT_TRUE(held.Append(some).ok());
    ASSERT_TRUE(spilled.Append(some).ok());
    all.insert(all.end(), some.begin(), some.end());
  }
  for (TokenStore* store : {&held, &spilled}) {
    const auto source = *store->Finish();
    ASSERT_EQ(source->size(), static_cast<int64_t>(all.size()));
    for (size_t begin = 0; begin < all.size(); begin += 7) {
      std::vector<int32_t> some(std::min<size_t>(31, all.size() - begin));
      ASSERT_TRUE(source->Read(static_cast<int64_t>(begin), absl::MakeSpan(some)).ok());
      EXPECT_TRUE(
          std::equal(some.begin(), some.end(), all.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
}

}  // namespace
}  // namespace sluice
