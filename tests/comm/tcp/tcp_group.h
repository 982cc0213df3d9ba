#ifndef SLUICE_TESTS_COMM_TCP_TCP_GROUP_H_
#define SLUICE_TESTS_COMM_TCP_TCP_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "comm/tcp/tcp.h"

namespace sluice {

// [rank] the ends of a group that is connected over this address of the machine, as if each were a
// process; null where a rank could not join (the test has failed then).
std::vector<std::unique_ptr<Communicator>> MakeTcpGroup(int ranks, const TcpOptions& options,
                                                        const std::string& address = "127.0.0.1");

// An address of this machine over which ranks encrypt what they say; empty where it has only those of
// the loopback interface.
std::string AddressBeyondLoopback();

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_TCP_TCP_GROUP_H_
