#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/channels.h"
#include "schedules/check/validate_checks.h"

namespace sluice {
namespace {

// The receive that belongs to a send.
Action ReceiveOf(const Placement& placement, const Action& send) {
  Action receive = send;
  receive.op = send.op == Op::kSendForward ? Op::kRecvForward : Op::kRecvBackward;
  receive.stage = static_cast<uint16_t>(PeerStage(placement, send.op, send.stage));
  return receive;
}

}  // namespace

void CheckChannels(const Timetable& timetable, DefectList& defects) {
  // [channel] positions in the row of the rank at that end
  const Channels channels(timetable.placement);
  std::vector<std::vector<uint32_t>> sent(channels.size());
  std::vector<std::vector<uint32_t>> received(channels.size());
  for (int rank = 0; rank < static_cast<int>(timetable.rows.size()); ++rank) {
    const auto& row = timetable.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const int channel = ChannelOf(channels, timetable.placement, rank, row[i]);
      if (channel < 0) continue;
      (IsSend(row[i].op) ? sent : received)[channel].push_back(static_cast<uint32_t>(i));
    }
  }
  for (size_t channel = 0; channel < channels.size(); ++channel) {
    const auto& [from, to] = channels.ranks(channel);
    const auto& senders_row = timetable.rows[from];
    const auto& receivers_row = timetable.rows[to];
    const size_t both = std::min(sent[channel].size(), received[channel].size());
    for (size_t k = 0; k < both; ++k) {
      const uint32_t out = sent[channel][k];
      const uint32_t in = received[channel][k];
      const Action& send = senders_row[out];
      const Action& receive = receivers_row[in];
      if (ReceiveOf(timetable.placement, send) == receive) continue;
      defects.Add(to, in, receive,
                  absl::StrCat("message ", k, " from rank ", from, " to rank ", to, " is ",
                               ToString(send), " (position ", out, " there), so ",
                               ToString(ReceiveOf(timetable.placement, send)), " is due here"));
      break;  // everything after this on the channel is out of step too
    }
  }
}

}  // namespace sluice
