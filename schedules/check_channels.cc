#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schedules/channels.h"
#include "schedules/validate_checks.h"

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
  struct Message {
    int rank;
    size_t position;
  };
  const Channels channels(timetable.placement);
  std::vector<std::vector<Message>> sent(channels.size());
  std::vector<std::vector<Message>> received(channels.size());
  for (int rank = 0; rank < static_cast<int>(timetable.rows.size()); ++rank) {
    const auto& row = timetable.rows[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const int channel = ChannelOf(channels, timetable.placement, rank, row[i]);
      if (channel >= 0) (IsSend(row[i].op) ? sent : received)[channel].push_back({rank, i});
    }
  }
  for (size_t channel = 0; channel < channels.size(); ++channel) {
    const auto& [from, to] = channels.ranks(channel);
    const size_t both = std::min(sent[channel].size(), received[channel].size());
    for (size_t k = 0; k < both; ++k) {
      const Message& out = sent[channel][k];
      const Message& in = received[channel][k];
      const Action& send = timetable.rows[out.rank][out.position];
      const Action& receive = timetable.rows[in.rank][in.position];
      if (ReceiveOf(timetable.placement, send) == receive) continue;
      defects.Add(in.rank, in.position, receive,
                  absl::StrCat("message ", k, " from rank ", from, " to rank ", to, " is ",
                               ToString(send), " (position ", out.position, " there), so ",
                               ToString(ReceiveOf(timetable.placement, send)), " is due here"));
      break;  // what follows on this channel is out of step too
    }
  }
}

}  // namespace sluice
