// Adapters: fitted to a model, and merged into it.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/files/safetensors_header.h"
#include "models/files/shards.h"
#include "models/layers/decoder_names.h"
#include "models/layers/layer.h"
#include "models/spec/bfloat16.h"
#include "models/spec/float16.h"
#include "models/spec/model_config.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "pipeline/checkpoint/adapters/merge_adapter.h"
#include "pipeline/checkpoint/adapters/merged_model.h"
#include "pipeline/checkpoint/files/peft_config.h"
#include "tests/models/data/files.h"
#include "tests/models/layers/test_models.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Tensors by name, in their order in a file.
class Tensors {
 public:
  explicit Tensors(uint64_t seed) : random_(seed) {}

  void Add(const std::string& name, const Shape& shape) {
    std::vector<float>& values = values_[name];
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < ElementCount(shape); ++i) values.push_back(normal(random_));
    shapes_.push_back({name, shape});
  }
  void Remove(const std::string& name) {
    std::erase_if(shapes_, [&](const TensorShape& shape) { return shape.name == name; });
    values_.erase(name);
  }
  std::vector<float>& operator[](const std::string& name) { return values_.at(name); }

  // Each in the type `dtype`, rounded to it.
  void Write(const std::string& path, const std::string& dtype = "F32") {
    std::vector<TensorShape> shapes = shapes_;
    for (TensorShape& shape : shapes) shape.dtype = dtype;
    std::string bytes = *FormatSafetensorsHead(shapes, {});
    for (const TensorShape& shape : shapes) {
      for (float& value : values_.at(shape.name)) {
        const uint16_t half = dtype == "BF16" ? ToBFloat16(value) : ToFloat16(value);
        if (dtype != "F32") value = dtype == "BF16" ? FromBFloat16(half) : FromFloat16(half);
        const char* const from = dtype == "F32" ? reinterpret_cast<const char*>(&value)
                                                : reinterpret_cast<const char*>(&half);
        bytes.append(from, dtype == "F32" ? sizeof(value) : sizeof(half));
      }
    }
    WriteBytes(path, bytes);
  }

 private:
  std::mt19937_64 random_;
  std::map<std::string, std::vector<float>> values_;
  std::vector<TensorShape> shapes_;
};

class AdaptersTest : public ::testing::Test {
 protected:
  void SetUp() override { UseModel({"qwen3", TinyQwen3()}, {.rank = 3, .alpha = 5}); }

  // A base model's folder and an adapter's, both with random values.
  void UseModel(const ModelSpec& spec, const Lora& lora) {
    spec_ = spec;
    lora_ = lora;
    base_ = Tensors(1);
    adapter_ = Tensors(2);
    for (int index = 0; index < spec.layer_count(); ++index) {
      const auto layer =
          MakeLayer(spec, index, {1, 1}, DType::kFloat32, CpuKernels(), {.lora = lora});
      ASSERT_TRUE(layer.ok()) << layer.status();
      for (const ParameterDecl& decl : (*layer)->decl().parameters) {
        if (decl.tied_to.empty())
          (IsAdapter(decl.name) ? adapter_ : base_).Add(decl.name, decl.shape);
        if (IsAdapter(decl.name)) names_.push_back(decl.name);
      }
    }
  }
  const DecoderConfig& config() const { return *spec_.decoder(); }

  void WriteBase(const std::string& dtype = "F32") {
    std::filesystem::create_directories(folder_ / "base");
    base_.Write(folder_ / "base/model.safetensors", dtype);
    WriteBytes(folder_ / "base/config.json", FormatModelConfig(spec_));
    WriteBytes(folder_ / "base/tokenizer.json", "{\"not\": \"looked at\"}");
  }
  void WriteAdapter() {
    std::filesystem::create_directories(folder_ / "adapter");
    adapter_.Write(folder_ / "adapter/adapter_model.safetensors");
    WriteBytes(folder_ / "adapter/adapter_config.json",
               PeftConfig(lora_, names_, HasGpt2Parameters(config())));
  }
  absl::Status Fit() {
    WriteAdapter();
    const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(folder_ / "adapter");
    return adapter.ok() ? AdaptedMaps(*adapter, config()).status() : adapter.status();
  }
  absl::StatusOr<MergedModel> Merge(int64_t shard_bytes = kShardBytes) {
    return MergeModel({.base = folder_ / "base",
                       .adapter = folder_ / "adapter",
                       .output = folder_ / "merged",
                       .shard_bytes = shard_bytes});
  }
  // What element (out, in) of a map's weight becomes.
  double Merged(const LinearMap& map, int64_t out, int64_t in) {
    const bool transposed = HasGpt2Parameters(config());
    const auto at = static_cast<size_t>(transposed ? in * map.out + out : out * map.in + in);
    double sum = base_[absl::StrCat(map.name, ".weight")][at];
    for (int64_t r = 0; r < lora_.rank; ++r) {
      sum += lora_.scale() *
             adapter_[AdapterB(map.name)][static_cast<size_t>(out * lora_.rank + r)] *
             adapter_[AdapterA(map.name)][static_cast<size_t>(r * map.in + in)];
    }
    return sum;
  }

  const TempFolder folder_;
  ModelSpec spec_;
  Lora lora_;
  std::vector<std::string> names_;
  Tensors base_ = Tensors(0), adapter_ = Tensors(0);
};

TEST_F(AdaptersTest, FitTheMapsThatTheirConfigNames) {
  WriteAdapter();
  const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(folder_ / "adapter");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const auto maps = AdaptedMaps(*adapter, config());
  ASSERT_TRUE(maps.ok()) << maps.status();
  EXPECT_EQ(2 * maps->size(), names_.size());
}

TEST_F(AdaptersTest, OfSomeBlocksKeepWholeNames) {
  const std::string map = LinearMapsOf(config(), 1).back().name;
  names_.clear();
  UseModel(spec_, {.rank = 2, .targets = {map}});
  EXPECT_TRUE(Fit().ok()) << Fit();
  const std::string text = ReadBytes(folder_ / "adapter/adapter_config.json");
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\"", map, "\"")));
}

TEST_F(AdaptersTest, OfAnotherModelAreRefusedByTensor) {
  const std::string a = names_.front();
  adapter_.Remove(a);
  EXPECT_THAT(std::string(Fit().message()), HasSubstr(a));
  adapter_.Add(a, {3, 1});
  EXPECT_THAT(std::string(Fit().message()), HasSubstr("has shape [3, 1], expected"));
  UseModel(spec_, lora_);
  const std::string extra = AdapterA("model.layers.7.self_attn.q_proj");
  adapter_.Add(extra, {3, 4});
  EXPECT_THAT(std::string(Fit().message()), HasSubstr(extra));
}

TEST_F(AdaptersTest, WhatIsNoFolderOfOneIsRefusedWithWhatIsExpected) {
  EXPECT_TRUE(absl::IsNotFound(OpenAdapter(folder_ / "none").status()));
  WriteBase();
  const absl::Status status = OpenAdapter(folder_ / "base").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected adapter_config.json and"));
  WriteAdapter();
  WriteBytes(folder_ / "adapter/adapter_model.safetensors", "short");
  EXPECT_THAT(std::string(OpenAdapter(folder_ / "adapter").status().message()),
              HasSubstr("adapter_model.safetensors"));
}

TEST_F(AdaptersTest, MergeIsTheSumOfProducts) {
  for (const bool gpt : {false, true}) {
    for (const bool stable : {false, true}) {
      names_.clear();
      UseModel(gpt ? ModelSpec{"gpt", TinyGpt(true)} : ModelSpec{"qwen3", TinyQwen3()},
               {.rank = 5, .alpha = 3, .rank_stabilised = stable});
      WriteAdapter();
      const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(folder_ / "adapter");
      ASSERT_TRUE(adapter.ok()) << adapter.status();
      const auto maps = AdaptedMaps(*adapter, config());
      ASSERT_TRUE(maps.ok()) << maps.status();
      for (const LinearMap& map : *maps) {
        std::vector<float> weight = base_[absl::StrCat(map.name, ".weight")];
        ASSERT_TRUE(MergeAdapter(*adapter, map, gpt, weight.data()).ok());
        for (int64_t out = 0; out < map.out; ++out) {
          for (int64_t in = 0; in < map.in; ++in) {
            const auto at = static_cast<size_t>(gpt ? in * map.out + out : out * map.in + in);
            ASSERT_NEAR(weight[at], Merged(map, out, in), 1e-5) << map.name;
          }
        }
      }
    }
  }
}

// What is not adapted stays to the bit, and everything keeps its type.
TEST_F(AdaptersTest, MergedFoldersHaveTheTypesAndFilesOfTheBase) {
  for (const std::string dtype : {"F32", "BF16", "F16"}) {
    SCOPED_TRACE(dtype);
    std::filesystem::remove_all(folder_ / "merged");
    WriteBase(dtype);
    const std::string tools = "additional_chat_templates/tool_use.jinja";
    std::filesystem::create_directories(folder_ / "base/additional_chat_templates");
    WriteBytes(folder_ / absl::StrCat("base/", tools), "{{ tools }}");
    WriteAdapter();
    const absl::StatusOr<MergedModel> merged = Merge();
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(2 * merged->maps, static_cast<int64_t>(names_.size()));
    EXPECT_EQ(merged->bytes, std::filesystem::file_size(folder_ / "merged/model.safetensors"));
    for (const char* file : {"config.json", "tokenizer.json", tools.c_str()}) {
      EXPECT_EQ(ReadBytes(folder_ / absl::StrCat("merged/", file)),
                ReadBytes(folder_ / absl::StrCat("base/", file)));
    }
    const auto written = OpenModelWeights(folder_ / "merged");
    ASSERT_TRUE(written.ok()) << written.status();
    std::map<std::string, LinearMap> maps;
    for (int64_t block = 0; block < config().layers; ++block) {
      for (const LinearMap& map : LinearMapsOf(config(), block)) maps[map.name + ".weight"] = map;
    }
    const double epsilon = dtype == "F32" ? 1e-6 : dtype == "BF16" ? 0x1p-8 : 0x1p-11;
    for (const TensorEntry& entry : (*written)->entries()) {
      EXPECT_EQ(entry.dtype, dtype);
      std::vector<float> values(static_cast<size_t>(ElementCount(entry.shape)));
      ASSERT_TRUE((*written)->Read(entry.name, entry.shape, values.data()).ok());
      const auto map = maps.find(entry.name);
      if (map == maps.end()) {
        EXPECT_EQ(values, base_[entry.name]) << entry.name;
        continue;
      }
      for (size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const double want = Merged(map->second, at / map->second.in, at % map->second.in);
        ASSERT_NEAR(values[i], want, epsilon * std::abs(want) + 1e-5) << entry.name;
      }
    }
  }
}

TEST_F(AdaptersTest, ShardsHaveTheSameTensors) {
  WriteBase();
  WriteAdapter();
  ASSERT_TRUE(Merge().ok());
  std::filesystem::rename(folder_ / "merged", folder_ / "whole");
  const absl::StatusOr<MergedModel> merged = Merge(4000);
  ASSERT_TRUE(merged.ok()) << merged.status();
  const auto whole = OpenModelWeights(folder_ / "whole");
  const auto shards = OpenModelWeights(folder_ / "merged");
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_THAT((*shards)->path(), HasSubstr("index.json"));
  ASSERT_EQ((*shards)->entries().size(), (*whole)->entries().size());
  for (const TensorEntry& entry : (*whole)->entries()) {
    std::vector<float> one(static_cast<size_t>(ElementCount(entry.shape))), two(one.size());
    ASSERT_TRUE((*whole)->Read(entry.name, entry.shape, one.data()).ok());
    ASSERT_TRUE((*shards)->Read(entry.name, entry.shape, two.data()).ok());
    EXPECT_EQ(one, two);
  }
}

TEST_F(AdaptersTest, AFailedMergeLeavesNothing) {
  WriteBase("F16");
  adapter_[names_.front()][0] = std::numeric_limits<float>::quiet_NaN();
  WriteAdapter();
  EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("no finite F16"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "merged"));
  adapter_[names_.front()][0] = 1e9f;  // beyond what a half can be
  WriteAdapter();
  EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("no finite F16"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "merged"));
}

// Only the embedding is written, which a head of its own would be lost with.
TEST_F(AdaptersTest, AHeadOfItsOwnIsNotForATiedModel) {
  DecoderConfig tied = TinyQwen3();
  tied.tied_head = true;
  UseModel({"qwen3", tied}, {.rank = 3, .alpha = 5});
  const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";
  base_.Add(head, {tied.vocab, tied.dim});
  WriteBase();
  WriteAdapter();
  EXPECT_THAT(std::string(Merge().status().message()),
              HasSubstr("holds a 'lm_head.weight' of its own"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "merged"));

  base_[head] = base_[embedding];  // a copy, as older files have it
  WriteBase();
  const absl::StatusOr<MergedModel> merged = Merge();
  ASSERT_TRUE(merged.ok()) << merged.status();
  std::filesystem::rename(folder_ / "merged", folder_ / "from both");

  base_.Remove(embedding);  // its copy stands for it
  WriteBase();
  ASSERT_TRUE(Merge().ok());
  EXPECT_EQ(ReadBytes(folder_ / "merged/model.safetensors"),
            ReadBytes(folder_ / "from both/model.safetensors"));
}

TEST_F(AdaptersTest, AFolderWithFilesIsLeftAlone) {
  WriteBase();
  WriteAdapter();
  std::filesystem::create_directories(folder_ / "merged");
  WriteBytes(folder_ / "merged/mine", "text");
  EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("it has files"));
  EXPECT_EQ(ReadBytes(folder_ / "merged/mine"), "text");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "merged/config.json"));
}

// A number that no process has.
constexpr char kNobody[] = "999999999";

TEST_F(AdaptersTest, WhatAKilledMergeLeftIsReplaced) {
  WriteBase();
  WriteAdapter();
  std::filesystem::create_directories(folder_ / "merged");
  const std::string left = folder_ / "merged/model.safetensors.tmp-";
  for (const std::string& writer : {std::string(kNobody), absl::StrCat(getpid())})
    WriteBytes(absl::StrCat(left, writer, "-0"), "half");
  const absl::StatusOr<MergedModel> merged = Merge();
  ASSERT_TRUE(merged.ok()) << merged.status();
  for (const auto& file : std::filesystem::directory_iterator(folder_ / "merged"))
    EXPECT_THAT(file.path().string(), Not(HasSubstr(".tmp-")));
}

// Of several files some are whole by then.
TEST_F(AdaptersTest, WholeFilesOfAKilledMergeAreReplaced) {
  WriteBase();
  WriteAdapter();
  WriteBytes(folder_ / "base/tokenizer.json", "{}");
  std::filesystem::create_directories(folder_ / "base/additional_chat_templates");
  WriteBytes(folder_ / "base/additional_chat_templates/tool.jinja", "text");
  const std::filesystem::path merged = folder_ / "merged";
  const std::string sign = merged / absl::StrCat(".sluice-merge.tmp-", kNobody, "-0");
  ASSERT_TRUE(Merge().ok());
  const std::string weights = ReadBytes(merged / "model.safetensors");
  const auto leave = [&] {  // all but config.json, which comes last
    std::filesystem::remove(merged / "config.json");
    WriteBytes(sign, "");
    WriteBytes(merged / "model.safetensors", "whole");
  };
  leave();
  const absl::StatusOr<MergedModel> again = Merge();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ReadBytes(merged / "model.safetensors"), weights);
  EXPECT_EQ(ReadBytes(merged / "additional_chat_templates/tool.jinja"), "text");
  EXPECT_TRUE(std::filesystem::exists(merged / "config.json"));
  EXPECT_FALSE(std::filesystem::exists(sign));
  // Nothing goes where there is something else, or where that merge goes on.
  for (const char* other : {"mine", "additional_chat_templates/mine", "folder/tokenizer.json"}) {
    leave();
    std::filesystem::create_directories((merged / other).parent_path());
    WriteBytes(merged / other, "text");
    EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("it has files")) << other;
    EXPECT_EQ(ReadBytes(merged / "model.safetensors"), "whole");
    std::filesystem::remove(merged / other);
  }
  std::filesystem::remove(merged / "folder");
  std::filesystem::rename(sign, merged / absl::StrCat(".sluice-merge.tmp-", getppid(), "-0"));
  EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("it has files"));
  std::filesystem::remove(merged / absl::StrCat(".sluice-merge.tmp-", getppid(), "-0"));
  EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("it has files"));
  EXPECT_EQ(ReadBytes(merged / "model.safetensors"), "whole");
}

// What another process still writes, or is not sluice's.
TEST_F(AdaptersTest, OtherTemporaryFilesAreLeftAlone) {
  WriteBase();
  WriteAdapter();
  for (const std::string& ending :
       {absl::StrCat(getppid(), "-0"), absl::StrCat(kNobody, "-"), absl::StrCat(kNobody, "-0~")}) {
    std::filesystem::remove_all(folder_ / "merged");
    std::filesystem::create_directories(folder_ / "merged");
    const std::string left = folder_ / absl::StrCat("merged/model.safetensors.tmp-", ending);
    const std::string killed = absl::StrCat(folder_ / "merged/config.json.tmp-", kNobody, "-0");
    WriteBytes(left, "half");
    WriteBytes(killed, "half");
    EXPECT_THAT(std::string(Merge().status().message()), HasSubstr("it has files")) << left;
    EXPECT_EQ(ReadBytes(left), "half");
    EXPECT_EQ(ReadBytes(killed), "half");
  }
}

// Every half, and the values in the middle between two.
TEST(Float16Test, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    for (const uint32_t sign : {0U, 0x8000U}) {
      const auto half = static_cast<uint16_t>(bits | sign);
      const float value = FromFloat16(half);
      ASSERT_EQ(ToFloat16(value), half);
      if (bits == 0x7bff) continue;
      const float next = FromFloat16(static_cast<uint16_t>(half + 1));
      const float middle = value + (next - value) / 2;  // exact
      ASSERT_EQ(ToFloat16(middle), bits % 2 == 0 ? half : half + 1);
      ASSERT_EQ(ToFloat16(std::nextafter(middle, value)), half);
      ASSERT_EQ(ToFloat16(std::nextafter(middle, next)), half + 1);
    }
  }
  EXPECT_EQ(ToFloat16(65519.996f), 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(ToFloat16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_EQ(ToFloat16(1e-30f), 0);
}

}  // namespace
}  // namespace sluice
