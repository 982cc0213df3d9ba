#include "tests/comm/faults/free_port.h"

#include <random>

#include "comm/tcp/tcp_socket.h"

namespace sluice {

int FreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> below_the_systems_own(10000, 32767);
  while (true) {
    const int port = below_the_systems_own(random);
    if (ListenOn(Endpoint::Loopback(port)).ok()) return port;
  }
}

}  // namespace sluice
