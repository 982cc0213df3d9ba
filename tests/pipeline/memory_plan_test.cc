#include "pipeline/compile/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "pipeline/compile/program/check_progress.h"
#include "pipeline/compile/program/compile_rank.h"
#include "pipeline/state/rank_state.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

bool Meet(const Buffer& a, const Buffer& b) { return a.first <= b.last && b.first <= a.last; }

// The naive twin: every pair of buffers that live at one time lie apart, and none ends beyond the
// arena.
void ExpectSound(const std::vector<Buffer>& buffers, const BufferLayout& layout) {
  ASSERT_EQ(layout.offsets.size(), buffers.size());
  for (size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(layout.offsets[a] % kAlignment, 0);
    EXPECT_LE(layout.offsets[a] + buffers[a].bytes, layout.bytes);
    for (size_t b = a + 1; b < buffers.size(); ++b) {
      if (!Meet(buffers[a], buffers[b]) || buffers[a].bytes == 0 || buffers[b].bytes == 0) continue;
      const bool apart = layout.offsets[a] + buffers[a].bytes <= layout.offsets[b] ||
                         layout.offsets[b] + buffers[b].bytes <= layout.offsets[a];
      ASSERT_TRUE(apart) << "buffers " << a << " and " << b;
    }
  }
}

// The most bytes alive at one instruction, counted instruction by instruction.
int64_t NaivePeak(const std::vector<Buffer>& buffers) {
  int32_t end = 0;
  for (const Buffer& buffer : buffers) end = std::max(end, buffer.last);
  int64_t peak = 0;
  for (int32_t at = 0; at <= end; ++at) {
    int64_t live = 0;
    for (const Buffer& buffer : buffers) {
      if (buffer.first <= at && at <= buffer.last) live += AlignUp(buffer.bytes);
    }
    peak = std::max(peak, live);
  }
  return peak;
}

TEST(PackBuffers, RandomBuffersNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<Buffer> buffers(random() % 60);
    for (Buffer& buffer : buffers) {
      buffer.bytes = random() % 8 == 0 ? 0 : random() % 1000;
      buffer.first = static_cast<int32_t>(random() % 50);
      buffer.last = buffer.first + static_cast<int32_t>(random() % 20);
    }
    const BufferLayout layout = PackBuffers(buffers);
    ExpectSound(buffers, layout);
    EXPECT_EQ(PeakLiveBytes(buffers), NaivePeak(buffers));
    EXPECT_GE(layout.bytes, PeakLiveBytes(buffers));
  }
}

// Best fit in the order of time, looking through everything that lives: the smallest gap, of these the
// lowest; else the end, from where the last that lives ends.
BufferLayout NaiveBestFit(const std::vector<Buffer>& buffers) {
  BufferLayout layout;
  layout.offsets.resize(buffers.size());
  std::vector<size_t> births(buffers.size());
  std::iota(births.begin(), births.end(), size_t{0});
  std::stable_sort(births.begin(), births.end(), [&](size_t a, size_t b) {
    return std::pair(buffers[a].first, -buffers[a].bytes) <
           std::pair(buffers[b].first, -buffers[b].bytes);
  });
  std::map<int64_t, size_t> lives;  // offset -> buffer
  for (const size_t b : births) {
    for (auto each = lives.begin(); each != lives.end();)
      each = buffers[each->second].last < buffers[b].first ? lives.erase(each) : std::next(each);
    const int64_t bytes = AlignUp(buffers[b].bytes);
    if (bytes == 0) continue;
    int64_t end = 0;  // of what lives below
    std::pair<int64_t, int64_t> best{std::numeric_limits<int64_t>::max(), 0};
    for (const auto& [offset, other] : lives) {
      if (offset - end >= bytes) best = std::min(best, {offset - end, end});
      end = offset + AlignUp(buffers[other].bytes);
    }
    if (layout.bytes - end >= bytes) best = std::min(best, {layout.bytes - end, end});
    if (best.first == std::numeric_limits<int64_t>::max()) best.second = end;
    layout.offsets[b] = best.second;
    layout.bytes = std::max(layout.bytes, best.second + bytes);
    lives.emplace(best.second, b);
  }
  return layout;
}

// Lowest fit in the order of size: 0, or where a buffer that lives at the same time ends.
BufferLayout NaiveSizeOrder(const std::vector<Buffer>& buffers) {
  BufferLayout layout;
  layout.offsets.resize(buffers.size());
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;
  for (const size_t b : order) {
    const int64_t bytes = AlignUp(buffers[b].bytes);
    if (bytes == 0) continue;
    const auto end = [&](size_t other) {
      return layout.offsets[other] + AlignUp(buffers[other].bytes);
    };
    const auto is_free = [&](int64_t offset) {
      return std::none_of(placed.begin(), placed.end(), [&](size_t other) {
        return Meet(buffers[b], buffers[other]) && offset < end(other) &&
               layout.offsets[other] < offset + bytes;
      });
    };
    std::set<int64_t> offsets{0};
    for (const size_t other : placed) offsets.insert(end(other));
    layout.offsets[b] = *std::find_if(offsets.begin(), offsets.end(), is_free);
    layout.bytes = std::max(layout.bytes, layout.offsets[b] + bytes);
    placed.push_back(b);
  }
  return layout;
}

TEST(PackBuffers, FewBuffersLieWhereTheBetterTwinPutsThem) {
  std::mt19937 random(3);
  int by_size = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Buffer> buffers(1 + random() % 80);
    for (Buffer& buffer : buffers) {
      buffer.bytes = random() % 8 == 0 ? 0 : 1 + random() % 4000;
      buffer.first = static_cast<int32_t>(random() % 50);
      buffer.last = buffer.first + static_cast<int32_t>(random() % 20);
    }
    const BufferLayout in_time = NaiveBestFit(buffers);
    const BufferLayout sized = NaiveSizeOrder(buffers);
    const bool is_better = sized.bytes < in_time.bytes;
    by_size += is_better;
    const BufferLayout layout = PackBuffers(buffers);
    EXPECT_EQ(layout.offsets, (is_better ? sized : in_time).offsets);
    EXPECT_EQ(layout.bytes, std::min(sized.bytes, in_time.bytes));
  }
  EXPECT_GT(by_size, 50);
}

// More buffers than are placed in the order of size, too.
TEST(PackBuffers, ManyBuffersLieWhereTheNaiveTwinPutsThem) {
  std::mt19937 random(2);
  for (int round = 0; round < 12; ++round) {
    std::vector<Buffer> buffers(4100 + random() % 900);
    const int sizes = round % 3 == 0 ? 4 : 1 << (4 * (round % 3));
    for (Buffer& buffer : buffers) {
      buffer.bytes = random() % 8 == 0 ? 0 : 64 * (1 + random() % sizes);
      buffer.first = static_cast<int32_t>(random() % 2000);
      buffer.last = buffer.first + static_cast<int32_t>(random() % (10 << (round % 4)));
    }
    const BufferLayout layout = PackBuffers(buffers);
    const BufferLayout naive = NaiveBestFit(buffers);
    EXPECT_EQ(layout.offsets, naive.offsets);
    EXPECT_EQ(layout.bytes, naive.bytes);
  }
}

TEST(PackBuffers, NestedLivesNeedNoMoreThanThePeak) {
  std::vector<Buffer> buffers;
  for (int32_t depth = 0; depth < 40; ++depth) {
    buffers.push_back(
        {.bytes = int64_t{64} * (1 + depth * 7 % 13), .first = depth, .last = 100 - depth});
  }
  EXPECT_EQ(PackBuffers(buffers).bytes, PeakLiveBytes(buffers));
}

TEST(PackBuffers, NothingNeedsNothing) { EXPECT_EQ(PackBuffers({}).bytes, 0); }

// Bytes that the ranks of a run keep, summed over them, and those of one more embedding table.
struct Kept {
  int64_t weights = 0, gradients = 0, moments = 0, table = 0;
};

Kept KeptBy(const SmallRun& run) {
  const RunPlan plan = MakePlan(run);
  Kept kept;
  for (const ArenaLayout& arena : plan.arenas) {
    kept.weights += arena.memory.parameters;
    kept.gradients += arena.memory.gradients;
    kept.moments += arena.memory.optimizer;
  }
  kept.table = AlignUp(plan.layers.front().parameters.front().bytes());
  return kept;
}

// A head that is tied to the embedding of its rank has the same weights and moments, and a gradient
// of its own; elsewhere everything of its own.
TEST(Arena, ATiedHeadOnTheRankOfItsEmbeddingSharesItsWeights) {
  const Kept apart = KeptBy({.model = "tied", .schedule = "1f1b", .ranks = 2});
  const std::vector<SmallRun> together = {
      {.model = "tied", .schedule = "1f1b", .ranks = 1},
      {.model = "tied", .schedule = "zbv", .ranks = 2, .chunks = 2},  // a V of stages
      {.model = "tied", .schedule = "zbv", .ranks = 3, .chunks = 2}};
  for (const SmallRun& run : together) {
    const Kept kept = KeptBy(run);
    EXPECT_EQ(kept.weights, apart.weights - apart.table) << run.Name();
    EXPECT_EQ(kept.moments, apart.moments - 2 * apart.table) << run.Name();
    EXPECT_EQ(kept.gradients, apart.gradients) << run.Name();
  }
}

// The embedding on a rank and the head on it may be of different copies of the model, which are
// equal only between steps.
TEST(Arena, NothingIsSharedBetweenCopiesOfTheModel) {
  const Kept one = KeptBy({.model = "tied", .schedule = "1f1b", .ranks = 2});
  const Kept two = KeptBy({.model = "tied", .schedule = "chimera", .ranks = 2, .chunks = 2});
  EXPECT_EQ(two.weights, 2 * one.weights);
  EXPECT_EQ(two.moments, 2 * one.moments);
}

// What is rebuilt ahead is there as a whole, of one micro-batch; within the backward it is there
// layer by layer.
TEST(Arena, RebuildingAheadTakesRoomForOneMicroBatch) {
  const auto most = [](Recompute recompute, bool ahead) {
    const RunPlan plan = MakePlan({.model = "wide",
                                   .schedule = "gpipe",
                                   .micro_batches = 8,
                                   .recompute = recompute,
                                   .recompute_ahead = ahead});
    return plan.arenas.front().memory.activations;
  };
  const int64_t none = most(Recompute::kNone, false);
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    EXPECT_LT(most(recompute, false), most(recompute, true));
    EXPECT_LT(most(recompute, true), none);
  }
}

// What a plan says of a rank's bytes adds up, and is what the rank then allocates.
TEST(Arena, IsTheSumOfItsParts) {
  for (const char* schedule : {"1f1b", "zb-h1", "pipedream", "pipedream-2bw"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const bool flushes = std::string(schedule).find("pipedream") == std::string::npos;
      const RunPlan plan = MakePlan({.schedule = schedule,
                                     .ranks = 3,
                                     .micro_batches = 6,
                                     .dtype = dtype,
                                     .mirror = flushes});
      for (int rank = 0; rank < plan.world_size(); ++rank) {
        const RankMemory& memory = plan.arenas[static_cast<size_t>(rank)].memory;
        EXPECT_EQ(memory.parameters + memory.gradients + memory.optimizer + memory.packed +
                      memory.stashed + memory.mirror + memory.activations,
                  memory.total);
        const absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, rank);
        ASSERT_TRUE(state.ok()) << state.status();
        EXPECT_EQ((*state)->arena().bytes(), memory.total) << schedule << ", rank " << rank;
      }
    }
  }
}

// A mirror is as large as what the mirrored rank trains: of every trained value the weight, one
// gradient and the optimizer's state; nothing else grows.
TEST(Arena, AMirrorIsAllThatTheNextRankTrains) {
  for (SmallRun run : std::vector<SmallRun>{
           {.ranks = 3},
           {.ranks = 2, .optimizer = OptimizerKind::kSgd},
           {.model = "tied",
           .schedule = "zbv",
           .chunks = 2,
           .dtype = DType::kBFloat16,
           .master_weights = MasterWeights::kSplit,
           .sum_groups = 2},
           {.model = "tied", .ranks = 3, .dtype = DType::kBFloat16, .adapted = "lora"}}) {
    const RunPlan plain = MakePlan(run);
    run.mirror = true;
    const RunPlan plan = MakePlan(run);
    const int moments = run.optimizer == OptimizerKind::kAdamW ? 2 : 1;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const auto at = static_cast<size_t>(rank);
      std::set<std::string> names;
      for (const int layer : plan.train[static_cast<size_t>(plan.MirroredRank(rank))].layers) {
        for (const ParameterDecl& decl : plan.layers[static_cast<size_t>(layer)].parameters)
          names.insert(decl.name);
      }
      int64_t bytes = 0;
      for (const LayerDecl& layer : plan.layers) {
        for (const ParameterDecl& decl : layer.parameters) {
          if (decl.frozen || !names.contains(decl.name) || names.contains(decl.tied_to)) continue;
          const int64_t floats = AlignUp(4 * ElementCount(decl.shape));
          bytes += AlignUp(decl.bytes()) + AlignUp(decl.low_half_bytes()) + (1 + moments) * floats;
        }
      }
      EXPECT_EQ(plan.arenas[at].memory.mirror, bytes) << run.Name() << " rank " << rank;
      EXPECT_EQ(plan.arenas[at].memory.total - bytes, plain.arenas[at].memory.total);
    }
  }
}

// Matrices take 2 bytes a value, tied ones once; nothing is packed but the adapters; and only these
// have gradients and moments.
TEST(Arena, WhatIsFrozenIsThereOnceInBFloat16) {
  const RunPlan plan =
      MakePlan({.model = "tied", .ranks = 1, .dtype = DType::kBFloat16, .adapted = "lora"});
  int64_t weights = 0, trained = 0;
  for (const LayerDecl& layer : plan.layers) {
    for (const ParameterDecl& parameter : layer.parameters) {
      const int64_t bytes = AlignUp(parameter.bytes());
      const bool halves = parameter.frozen && parameter.shape.size() > 1;
      EXPECT_EQ(parameter.bytes(), ElementCount(parameter.shape) * (halves ? 2 : 4));
      if (parameter.tied_to.empty()) weights += bytes;
      if (!parameter.frozen) trained += bytes;
    }
  }
  const RankMemory& memory = plan.arenas[0].memory;
  EXPECT_EQ(memory.parameters, weights);
  EXPECT_EQ(memory.gradients, trained);
  EXPECT_EQ(memory.optimizer, 2 * trained);
  // One copy in bf16 of each adapter's matrices, each rounded up to 64 bytes.
  EXPECT_GE(memory.packed, trained / 2);
  EXPECT_LT(memory.packed, trained);
}

// Real programs: how much is lost to fragmentation, and nothing overlaps.
TEST(PackBuffers, ProgramsLoseLittleToFragmentation) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    const RunPlan plan = MakePlan({.schedule = schedule, .ranks = 3, .micro_batches = 6});
    for (const RankProgram& program : plan.train) {
      const BufferLayout layout = PackBuffers(program.buffers);
      ExpectSound(program.buffers, layout);
      EXPECT_LE(static_cast<double>(layout.bytes),
                1.05 * static_cast<double>(PeakLiveBytes(program.buffers)))
          << schedule << " rank " << program.rank;
    }
  }
}

bool Equal(const RankProgram& a, const RankProgram& b) {
  const auto equal = [](const Buffer& x, const Buffer& y) {
    return x.bytes == y.bytes && x.first == y.first && x.last == y.last;
  };
  return std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(), equal);
}

// The naive twin of the choice of a window: every width is compiled and packed. What is alive with
// one is alive with every wider one, which is why the run stops at the first that is too wide.
TEST(Windows, TheWidestThatCostsNoMemoryIsTaken) {
  int wide = 0;
  for (const SmallRun& run : std::vector<SmallRun>{
           {.schedule = "gpipe", .ranks = 2, .micro_batches = 6},
           {.schedule = "1f1b", .ranks = 3, .micro_batches = 9},
           {.schedule = "zb-h1", .ranks = 3, .micro_batches = 6},
           {.schedule = "zbv", .ranks = 2, .chunks = 2, .micro_batches = 6},
           {.schedule = "interleaved", .ranks = 2, .chunks = 2, .micro_batches = 6},
           {.schedule = "chimera", .ranks = 2, .chunks = 2, .micro_batches = 4}}) {
    const RunPlan plan = MakePlan(run);
    const ProgramRequest request{.layers = &plan.layers,
                                 .timetable = &plan.lowered,
                                 .deal = &plan.deal,
                                 .partition = &plan.request.partition,
                                 .recompute = plan.request.recompute,
                                 .batch_rows = plan.request.batch.rows()};
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      SCOPED_TRACE(testing::Message() << run.Name() << " rank " << rank);
      RankProgram widest = *CompileRank(request, rank, {.receives = 2, .sends = 2});
      const int64_t least = PackBuffers(widest.buffers).bytes;
      int64_t alive = PeakLiveBytes(widest.buffers);
      for (const int width : {3, 4, 8, 16, 64}) {
        RankProgram wider = *CompileRank(request, rank, {.receives = width, .sends = width});
        EXPECT_GE(PeakLiveBytes(wider.buffers), alive) << width;
        alive = PeakLiveBytes(wider.buffers);
        if (PackBuffers(wider.buffers).bytes > least) continue;
        widest = std::move(wider);
        ++wide;
      }
      EXPECT_TRUE(Equal(plan.train[static_cast<size_t>(rank)], widest));
    }
  }
  EXPECT_GT(wide, 0);
}

TEST(CheckProgress, FindsRanksThatWaitForEachOther) {
  // Both wait for their send to be taken before they offer to receive.
  std::vector<RankProgram> programs(2);
  for (int rank = 0; rank < 2; ++rank) {
    const int peer = 1 - rank;
    programs[static_cast<size_t>(rank)].rank = rank;
    programs[static_cast<size_t>(rank)].instructions = {
        {.step = Step::kPostSend, .index = peer},
        {.step = Step::kWaitSend, .index = peer},
        {.step = Step::kPostReceive, .index = peer},
        {.step = Step::kWaitReceive, .index = peer}};
  }
  const auto [stuck, cannot_send] = CheckProgress(programs);
  EXPECT_EQ(cannot_send, (std::vector<int>{0, 1}));
  EXPECT_EQ(stuck.code(), absl::StatusCode::kInternal);
  EXPECT_NE(stuck.message().find("rank 0"), absl::string_view::npos) << stuck;
  EXPECT_NE(stuck.message().find("rank 1"), absl::string_view::npos) << stuck;
  // Offering first sets them free.
  for (RankProgram& program : programs)
    std::rotate(program.instructions.begin(), program.instructions.begin() + 2,
                program.instructions.begin() + 3);
  EXPECT_TRUE(CheckProgress(programs).status.ok());
}

}  // namespace
}  // namespace sluice
