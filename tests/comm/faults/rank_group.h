#ifndef SLUICE_TESTS_COMM_FAULTS_RANK_GROUP_H_
#define SLUICE_TESTS_COMM_FAULTS_RANK_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/comm/faults/child.h"

namespace sluice {

// Ranks that are processes of this machine, running comm_rank: [rank].
using RankGroup = std::vector<std::unique_ptr<Child>>;

// The environment that torchrun gives a worker.
std::vector<std::string> TorchrunEnvironment(int rank, int size, const std::string& address,
                                             int port);

// `arguments`: those of comm_rank after the transport, which is TCP. `environment`: NAME=VALUE.
RankGroup StartGroup(int size, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment = {});
void AwaitReady(const RankGroup& group);
// Waits for a round of messages that has begun after this call.
void AwaitRound(const RankGroup& group);
// Expects that the rank ends with exit code 5 and has printed `what`.
void ExpectLost(Child& child, const std::string& what);

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_FAULTS_RANK_GROUP_H_
