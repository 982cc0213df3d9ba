#include "comm/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment Of(Variables variables) {
  return [variables = std::move(variables)](absl::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Variables With(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

Variables Without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables& Torchrun() {
  static const auto& variables = *new Variables{{"RANK", "5"},
                                                {"WORLD_SIZE", "8"},
                                                {"LOCAL_RANK", "1"},
                                                {"MASTER_ADDR", "node7"},
                                                {"MASTER_PORT", "29400"}};
  return variables;
}
const Variables& OpenMpi() {
  static const auto& variables = *new Variables{{"OMPI_COMM_WORLD_RANK", "2"},
                                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  return variables;
}
const Variables& Slurm() {
  static const auto& variables = *new Variables{{"SLURM_PROCID", "3"},
                                                {"SLURM_NTASKS", "6"},
                                                {"SLURM_LOCALID", "1"},
                                                {"SLURM_JOB_ID", "1234"},
                                                {"SLURM_STEP_ID", "2"},
                                                {"SLURM_STEP_NODELIST", "gpu[07-09,12],login1"},
                                                {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}};
  return variables;
}

LaunchFlags Flags(int rank, int size, const std::string& address) {
  LaunchFlags flags;
  flags.rank = rank;
  flags.world_size = size;
  flags.master_addr = address;
  return flags;
}

TEST(Launch, NobodySaysAnything) {
  const auto launch = FindLaunch({}, Of({}));
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->source, LaunchSource::kAlone);
  EXPECT_EQ(launch->rank, 0);
  EXPECT_EQ(launch->size, 1);
}

TEST(Launch, TorchrunSaysAll) {
  const auto launch = FindLaunch({}, Of(Torchrun()));
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->source, LaunchSource::kTorchrun);
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->address, "node7");
  EXPECT_EQ(launch->port, 29400);
}

TEST(Launch, TorchrunsAgentKeepsItsOwnPort) {
  const Variables agent = With(Torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(FindLaunch({}, Of(agent))->port, 29401);
  EXPECT_EQ(FindLaunch({}, Of(With(agent, {{"MASTER_PORT", "65535"}})))->port, 65534);
  EXPECT_EQ(FindLaunch({}, Of(With(agent, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})))->port,
            29400);
}

TEST(Launch, OpenMpiKnowsAnAddressOnlyOnOneMachine) {
  const auto two_machines = FindLaunch({}, Of(OpenMpi()));
  ASSERT_TRUE(two_machines.ok()) << two_machines.status();
  EXPECT_EQ(two_machines->source, LaunchSource::kOpenMpi);
  EXPECT_EQ(two_machines->rank, 2);
  EXPECT_EQ(two_machines->size, 4);
  EXPECT_EQ(two_machines->local_rank, 0);
  EXPECT_EQ(two_machines->address, "");
  const auto one_machine =
      FindLaunch({}, Of(With(OpenMpi(), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})));
  EXPECT_EQ(one_machine->address, "127.0.0.1");
  EXPECT_EQ(one_machine->port, kDefaultMasterPort);
}

TEST(Launch, SlurmNamesTheFirstMachineOfItsList) {
  const auto launch = FindLaunch({}, Of(Slurm()));
  ASSERT_TRUE(launch.ok()) << launch.status();
  EXPECT_EQ(launch->source, LaunchSource::kSlurm);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 6);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->address, "gpu07");
  for (const auto& [list, first] :
       Variables{{"a1,a2", "a1"}, {"alone", "alone"}, {"x[3,5]", "x3"}, {"h[8]", "h8"}}) {
    EXPECT_EQ(FindLaunch({}, Of(With(Slurm(), {{"SLURM_STEP_NODELIST", list}})))->address, first);
  }
  EXPECT_EQ(FindLaunch({}, Of(Without(Slurm(), "SLURM_STEP_NODELIST")))->address, "10.0.0.1");
  EXPECT_EQ(FindLaunch({}, Of(With(Slurm(), {{"SLURM_STEP_NUM_TASKS", "4"}})))->size, 4);
}

TEST(Launch, TwoStepsOfSlurmMeetAtTwoPorts) {
  const int port = FindLaunch({}, Of(Slurm()))->port;
  EXPECT_GT(port, 1024);
  EXPECT_LT(port, 32768);
  EXPECT_NE(FindLaunch({}, Of(With(Slurm(), {{"SLURM_STEP_ID", "3"}})))->port, port);
  EXPECT_NE(FindLaunch({}, Of(With(Slurm(), {{"SLURM_JOB_ID", "1235"}})))->port, port);
}

TEST(Launch, ABatchScriptOfSlurmIsAlone) {
  const Variables batch =
      Without(Without(Slurm(), "SLURM_STEP_NODELIST"), "SLURM_LAUNCH_NODE_IPADDR");
  EXPECT_EQ(FindLaunch({}, Of(batch))->source, LaunchSource::kAlone);
}

TEST(Launch, FlagsComeBeforeTorchrunBeforeOpenMpiBeforeSlurm) {
  Variables all = With(With(Slurm(), OpenMpi()), Torchrun());
  EXPECT_EQ(FindLaunch(Flags(1, 3, "host"), Of(all))->source, LaunchSource::kFlags);
  EXPECT_EQ(FindLaunch({}, Of(all))->source, LaunchSource::kTorchrun);
  EXPECT_EQ(FindLaunch({}, Of(With(Slurm(), OpenMpi())))->source, LaunchSource::kOpenMpi);
}

TEST(Launch, FlagsSayAll) {
  LaunchFlags flags = Flags(1, 3, "host");
  EXPECT_EQ(FindLaunch(flags, Of({}))->port, kDefaultMasterPort);
  flags.master_port = 4000;
  const auto launch = FindLaunch(flags, Of({}));
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->size, 3);
  EXPECT_EQ(launch->address, "host");
  EXPECT_EQ(launch->port, 4000);
  EXPECT_EQ(launch->local_rank, -1);
}

TEST(Launch, AnAddressByFlagTakesThePlaceOfTheLaunchers) {
  LaunchFlags flags;
  flags.master_addr = "10.1.1.1";
  flags.master_port = 7000;
  const auto launch = FindLaunch(flags, Of(OpenMpi()));
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->source, LaunchSource::kOpenMpi);
  EXPECT_EQ(launch->address, "10.1.1.1");
  EXPECT_EQ(launch->port, 7000);
}

void ExpectRefused(const LaunchFlags& flags, const Variables& variables, const std::string& name,
                   const std::string& value) {
  const auto launch = FindLaunch(flags, Of(variables));
  ASSERT_FALSE(launch.ok()) << name;
  EXPECT_EQ(launch.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(launch.status().message()), AllOf(HasSubstr(name), HasSubstr(value)));
}

TEST(Launch, WhatIsMissingIsNamed) {
  for (const auto& [name, unused] : Torchrun()) {
    ExpectRefused({}, Without(Torchrun(), name), name, "is not set");
    ExpectRefused({}, With(Torchrun(), {{name, ""}}), name, "is empty");
  }
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    ExpectRefused({}, Without(OpenMpi(), name), name, "is not set");
  }
  for (const char* name : {"SLURM_NTASKS", "SLURM_LOCALID"}) {
    ExpectRefused({}, Without(Slurm(), name), name, "is not set");
  }
}

TEST(Launch, WhatMakesNoSenseIsNamedWithItsValue) {
  for (const char* value : {"two", "-1", "1e3", "5 6", "99999999999", "0x1"}) {
    ExpectRefused({}, With(Torchrun(), {{"RANK", value}}), "RANK", value);
    ExpectRefused({}, With(Torchrun(), {{"WORLD_SIZE", value}}), "WORLD_SIZE", value);
    ExpectRefused({}, With(Torchrun(), {{"MASTER_PORT", value}}), "MASTER_PORT", value);
    ExpectRefused({}, With(OpenMpi(), {{"OMPI_COMM_WORLD_LOCAL_RANK", value}}),
                  "OMPI_COMM_WORLD_LOCAL_RANK", value);
    ExpectRefused({}, With(Slurm(), {{"SLURM_PROCID", value}}), "SLURM_PROCID", value);
  }
  ExpectRefused({}, With(Torchrun(), {{"RANK", "8"}}), "RANK=8", "WORLD_SIZE=8");
  ExpectRefused({}, With(Torchrun(), {{"WORLD_SIZE", "0"}}), "WORLD_SIZE", "0");
  ExpectRefused({}, With(Torchrun(), {{"MASTER_PORT", "65536"}}), "MASTER_PORT", "65536");
  ExpectRefused({}, With(Slurm(), {{"SLURM_PROCID", "6"}}), "SLURM_PROCID=6", "SLURM_NTASKS=6");
}

TEST(Launch, FlagsThatDoNotFitAreNamed) {
  ExpectRefused(Flags(3, 3, "h"), {}, "--rank=3", "--world-size=3");
  ExpectRefused(Flags(-1, 3, "h"), {}, "--rank=-1", "0..2");
  ExpectRefused(Flags(0, 0, "h"), {}, "--world-size=0", "positive");
  ExpectRefused(Flags(0, 2, ""), {}, "--rank", "--master-addr");
  LaunchFlags half;
  half.rank = 1;
  ExpectRefused(half, {}, "--rank", "--world-size");
  half = {};
  half.world_size = 2;
  ExpectRefused(half, {}, "--world-size", "--rank");
  half = {};
  half.master_port = 70000;
  ExpectRefused(half, Torchrun(), "--master-port", "70000");
  half.master_port = 7000;
  ExpectRefused(half, {}, "--master-port", "--rank");
}

}  // namespace
}  // namespace sluice
