#ifndef SLUICE_COMM_TCP_TCP_LINK_H_
#define SLUICE_COMM_TCP_TCP_LINK_H_

#include "comm/tcp/connection.h"

namespace sluice {

// Two connections to one peer: what must not wait behind a long message has its own.
struct TcpLink {
  Connection control;
  Connection data;
};

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_TCP_LINK_H_
