#ifndef SLUICE_TESTS_COMM_TCP_TCP_GROUP_H_
#define SLUICE_TESTS_COMM_TCP_TCP_GROUP_H_

#include <memory>
#include <vector>

#include "comm/tcp/tcp.h"

namespace sluice {

// [rank] the ends of a group that is connected over the loopback interface, as if each were a
// process; null where a rank could not join (the test has failed then).
std::vector<std::unique_ptr<Communicator>> MakeTcpGroup(int ranks, const TcpOptions& options);

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_TCP_TCP_GROUP_H_
