#ifndef SLUICE_TESTS_FUZZ_READERS_H_
#define SLUICE_TESTS_FUZZ_READERS_H_

#include "absl/strings/string_view.h"

// What the fuzzers feed with any bytes. Each reads them as `sluice schedule`, `plan`,
// `calibrate` or a rank would, takes what it got through every step that takes it, and aborts when
// a promise is broken.
namespace sluice {

// Any text is refused with a place in it, or is a table that comes back from its own CSV; a sound
// one can be lowered, and takes the same time lowered and not.
void TryTimetableCsv(absl::string_view text);

// Any text is refused with a place in it, or is costs that a table can be simulated with.
void TryCostsJson(absl::string_view text);

// A file of flags, as TOML and as YAML: refused with a place in it, or every flag comes back from its
// own line.
void TrySettings(absl::string_view text);

// The others refuse a text with the name of its file, the partition apart, which has none.

// A config.json, as the GPT that sluice trains and as a decoder that it plans for: nothing that is
// counted of it overflows, and a GPT comes back from its own config.json.
void TryModelConfig(absl::string_view text);
// PipeDream's graph.txt: sources come first, and a small graph can be partitioned.
void TryProfileGraph(absl::string_view text);
// A profile.json comes back from its own text, and its layers can be priced.
void TryProfile(absl::string_view text);
// The algorithms of a GPU's products come back from their own text, each product once.
void TryAlgorithms(absl::string_view text);
// A device's rates are positive and finite.
void TryDevice(absl::string_view text);
// A cluster comes back from its own text, and every rank of it has a link.
void TryCluster(absl::string_view text);
// A table of measured steps: what a row asks for is whole, and no byte of it overflows.
void TryMeasuredSteps(absl::string_view text);
// A plan.json's stages are a partition.
void TryPlan(absl::string_view text);
// "0-3,4-7" comes back from its own text.
void TryPartition(absl::string_view text);

// The files of a checkpoint's folder, apart by lines of "====": state.json, config.json,
// model.safetensors and optimizer.safetensors, read as `train --resume` and `sample --load` do. In
// the text of state.json, "@config.json" stands for what it should say of that file, and its
// checksum is always made right; a header of tensors gets its length in front. Refused with the
// name of a file, or state and model come back from their own text, and every tensor can be read.
void TryCheckpoint(absl::string_view text);

// A model.safetensors.index.json, beside two small shards: refused with its name or a shard's, or
// every tensor can be read, from the folder itself.
void TryShardIndex(absl::string_view text);

// A tokenizer.json: a text's tokens are of its vocabulary, and their text is UTF-8.
void TryTokenizer(absl::string_view text);

// Lines of a .jsonl file, with a small tokenizer: refused with file and line, or every line is a
// document or is counted as one without a target.
void TryJsonLines(absl::string_view text);
// A .bin, of llm.c or without a header: every token can be read, or is refused with its file.
void TryTokenFile(absl::string_view text);
// Megatron's .idx beside a few tokens: documents are in order, and are all of the tokens.
void TryMegatronIndex(absl::string_view text);
// A chat template and conversations: pieces of text, or a refusal, in bounded time and memory.
void TryChatTemplate(absl::string_view text);

// Records of TensorBoard's files, apart by lines of "====", which get their lengths and checksums,
// and the text as a whole file: what is added to such a directory is shown.
void TryEventFile(absl::string_view text);

// Bytes of a stranger at the port where ranks meet: refused as soon as they are wrong, or a
// greeting that comes back from its own bytes.
void TryGreeting(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_TESTS_FUZZ_READERS_H_
