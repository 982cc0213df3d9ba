#include "schedules/render/pack_actions.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr int kTickBits = 32;
constexpr double kMostTicks = 4294967295.0;

bool IsDrawn(const TimedAction& timed) {
  const Op op = timed.action.op;
  return TakesTime(op) || (!RunsNothing(op) && !IsCommunication(op) && timed.end > timed.start);
}

double LastEnd(const std::vector<std::vector<TimedAction>>& rows) {
  double last = 0;
  for (const auto& row : rows) {
    for (const TimedAction& timed : row) last = std::max(last, timed.end);
  }
  return last;
}

// The least power of two of which at most 2^32 - 1 are needed to reach `last`.
double TickFor(double last) {
  if (!(last > 0)) return 1;
  int exponent = 0;
  std::frexp(last, &exponent);
  const double tick = std::ldexp(1, exponent - kTickBits);
  return last / tick > kMostTicks ? 2 * tick : tick;
}

// Appends the low bytes of a number, the least significant byte first.
template <typename Number>
void Append(Number number, std::string* bytes) {
  using Unsigned = std::make_unsigned_t<Number>;
  for (size_t i = 0; i < sizeof(Number); ++i)
    bytes->push_back(static_cast<char>(static_cast<Unsigned>(number) >> (8 * i) & 0xff));
}

struct Drawn {
  TimedAction timed;
  uint8_t kind;
};

uint8_t KindOf(const Action& action, bool second_half, bool critical) {
  uint8_t kind = static_cast<uint8_t>(action.op);
  if (action.overlaps_next) kind |= kFirstHalfBit;
  if (second_half) kind |= kSecondHalfBit;
  if (critical) kind |= kCriticalBit;
  return kind;
}

}  // namespace

CriticalSet::CriticalSet(const std::vector<TimedAction>& path) {
  for (const TimedAction& timed : path) keys_.insert(Key(timed.action));
}

uint64_t CriticalSet::Key(const Action& action) {
  constexpr int kOpBits = 8, kStageBits = 16;
  return static_cast<uint64_t>(static_cast<uint32_t>(action.micro_batch))
             << (kOpBits + kStageBits) |
         static_cast<uint64_t>(action.stage) << kOpBits | static_cast<uint64_t>(action.op);
}

PackedActions PackActions(const std::vector<std::vector<TimedAction>>& rows,
                          const CriticalSet& critical) {
  PackedActions packed;
  packed.tick = TickFor(LastEnd(rows));
  std::vector<Drawn> all;
  for (const auto& row : rows) {
    const size_t before = all.size();
    for (size_t i = 0; i < row.size(); ++i) {
      if (!IsDrawn(row[i])) continue;
      const bool second_half = i > 0 && row[i - 1].action.overlaps_next;
      all.push_back({row[i], KindOf(row[i].action, second_half, critical.Holds(row[i].action))});
    }
    packed.counts.push_back(all.size() - before);
  }
  const auto ticks = [&](double time) {
    return static_cast<uint32_t>(std::clamp(std::round(time / packed.tick), 0.0, kMostTicks));
  };
  constexpr size_t kBytesPerAction = 15;
  packed.bytes.reserve(all.size() * kBytesPerAction);
  for (const Drawn& drawn : all) Append(ticks(drawn.timed.start), &packed.bytes);
  for (const Drawn& drawn : all) Append(ticks(drawn.timed.end), &packed.bytes);
  for (const Drawn& drawn : all) Append(drawn.timed.action.micro_batch, &packed.bytes);
  for (const Drawn& drawn : all) Append(drawn.timed.action.stage, &packed.bytes);
  for (const Drawn& drawn : all) packed.bytes.push_back(static_cast<char>(drawn.kind));
  return packed;
}

}  // namespace sluice
