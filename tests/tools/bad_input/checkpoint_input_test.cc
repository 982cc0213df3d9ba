// What can be wrong with checkpoints and files of weights that `sluice train` and `sluice sample`
// read or are to write.
#include "tests/tools/bad_input/bad_input.h"

namespace sluice {
namespace {

std::vector<BadInput> CheckpointInputs() {
  return {
      {"ResumeNothing", With("--resume @/nowhere"), kExitBadInput, {"@/nowhere"}},
      {"ResumeDamaged",
       With("--resume @/damaged"),
       kExitBadInput,
       {"@/damaged/step-00000001/model.safetensors", "damaged"}},
      {"ResumeDeepFormat",
       With("--resume @/deep_format"),
       kExitBadInput,
       {"@/deep_format/step-00000001/state.json", "nested more than 32 deep"}},
      {"ResumeDeepMore",
       With("--resume @/deep_more"),
       kExitBadInput,
       {"@/deep_more/step-00000001/state.json", "nested more than 32 deep"}},
      {"ResumeDeepConfig",
       With("--resume @/deep_config"),
       kExitBadInput,
       {"@/deep_config/step-00000001/config.json", "nested more than 32 deep"}},
      {"ResumeOtherSeed", With("--resume @/good --seed 2"), kExitBadInput, {"the seed", "@/good"}},
      {"ResumeOtherBatches",
       With("--resume @/good --micro-batches 4"),
       kExitBadInput,
       {"the number of micro-batches (saved 2, given 4)"}},
      {"ResumeOtherModel", With("--resume @/good --dim 32"), kExitBadInput, {"the model's shape"}},
      {"ResumeOtherNorm",
       With("--resume @/good --norm rms"),
       kExitBadInput,
       {"the model's norms, --norm (saved layer, given rms)"}},
      {"InitOtherNorm",
       With("--norm rms --init @/good/latest"),
       kExitBadInput,
       {"@/good/latest", "layer norms", "--norm layer"}},
      {"InitMissing", With("--init @/none.safetensors"), kExitBadInput, {"@/none.safetensors"}},
      {"InitDamaged",
       With("--init @/weights.safetensors"),
       kExitBadInput,
       {"@/weights.safetensors"}},
      {"InitNoWeights", With("--init @/"), kExitBadInput, {"@/", "model.safetensors.index.json"}},
      {"InitShardMissing",
       With("--init @/shards"),
       kExitBadInput,
       {"@/shards/model-00001-of-00001.safetensors", "shard that is missing"}},
      {"InitShardElsewhere",
       With("--init @/elsewhere"),
       kExitBadInput,
       {"@/elsewhere/model.safetensors.index.json", "in the same folder"}},
      {"InitDeepIndex",
       With("--init @/deep_index"),
       kExitBadInput,
       {"@/deep_index/model.safetensors.index.json", "nested more than 32 deep"}},
      {"ModelFolderWithoutConfig",
       "train --data @/text --model @/shards",
       kExitBadInput,
       {"@/shards/config.json"}},
      {"InitOtherShape", With("--dim 32 --init @/good/latest"), kExitBadInput, {"shape"}},
      {"InitDeeperFile", With("--layers 1 --init @/good/latest"), kExitBadInput, {"deeper"}},
      {"InitShallowerFile", With("--layers 3 --init @/good/latest"), kExitBadInput, {"lacks"}},
      {"SaveToAFile", With("--save @/text"), kExitBadInput, {"@/text"}},
      {"SaveBelowAFile", With("--save @/text/out"), kExitBadInput, {"@/text/out"}},
      {"TraceToNowhere", With("--trace @/none/trace.json"), kExitBadInput, {"@/none/trace.json"}},
  };
}

std::vector<BadInput> SampleInputs() {
  return {
      {"SampleNothing", "sample", kExitBadInput, {"--load"}},
      {"SampleMissing", "sample --load @/nowhere", kExitBadInput, {"@/nowhere"}},
      {"SampleDamaged", "sample --load @/damaged", kExitBadInput, {"model.safetensors", "damaged"}},
      {"SampleDeepFormat",
       "sample --load @/deep_format",
       kExitBadInput,
       {"@/deep_format/step-00000001/state.json", "nested more than 32 deep"}},
      {"SampleDeepMore",
       "sample --load @/deep_more",
       kExitBadInput,
       {"@/deep_more/step-00000001/state.json", "nested more than 32 deep"}},
      {"SampleDeepConfig",
       "sample --load @/deep_config",
       kExitBadInput,
       {"@/deep_config/step-00000001/config.json", "nested more than 32 deep"}},
      {"SampleMlp", "sample --load @/mlp", kExitBadInput, {"@/mlp", "only a GPT"}},
      {"SampleAFile", "sample --load @/text", kExitBadInput, {"@/text"}},
      {"SampleNegative",
       "sample --load @/good -n -1",
       kExitBadInput,
       {"--count", "-1 is too small"}},
      {"SampleColder", "sample --load @/good --temperature -1", kExitBadInput, {"--temperature"}},
      {"SampleWords", "sample --load @/good --tokens 1,two", kExitBadInput, {"--tokens", "two"}},
      {"SampleUnknownToken", "sample --load @/good --tokens 1,256", kExitBadInput, {"256"}},
      {"SampleLogitsOfTooMuch",
       "sample --load @/good -n 0 --logits @/l.json --prompt 0123456789abcdefg",
       kExitBadInput,
       {"17 tokens", "16"}},
      {"SampleLogitsToNowhere",
       "sample --load @/good -n 0 --logits @/none/l.json",
       kExitBadInput,
       {"@/none/l.json"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, BadInputTest, ::testing::ValuesIn(CheckpointInputs()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Sample, BadInputTest, ::testing::ValuesIn(SampleInputs()), NameOf);

}  // namespace
}  // namespace sluice
